"""SRV032."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cfglint.estimate.open_arguments import hides_arguments
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import managed, runs, stated, switch


class CustomCodeNotTrusted(Rule):
    """The checkpoint brings code of its own, and the server is not allowed to run it.

    A config with ``auto_map`` names classes in the checkpoint's repository. Where the engine does not have the architecture
    itself, it ends with "… contains custom code which must be executed to correctly load the model. Please set the argument
    `trust_remote_code=True`".

    How sure: the config is at hand and names a config class of its own, and its type is none that is known here. Engines
    bring many architectures themselves, so it is a warning of low confidence.
    """

    code = "SRV032"
    name = "custom-code-not-trusted"
    family = "serving"
    severity = "warning"
    confidence = "low"
    kinds = ("serve",)
    evidence = (
        "https://huggingface.co/docs/transformers/models#custom-models",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/model_executor/models/registry.py",
    )
    catalogue = ("mc-auto-map-trust",)
    _CONFIG = '{"model_type": "our_chat", "architectures": ["OurChatForCausalLM"], "auto_map": {"AutoConfig": "configuration_our_chat.OurChatConfig"}}'
    good = (
        example(
            {
                "serve.sh": "vllm serve our/chat --trust-remote-code --revision 3f2a1b0c --code-revision 3f2a1b0c",
                ".cfglint/models/our/chat/config.json": _CONFIG,
            }
        ),
        example(
            {
                "serve.sh": "vllm serve our/llama",
                ".cfglint/models/our/llama/config.json": '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "auto_map": {"AutoConfig": "configuration_llama.LlamaConfig"}}',
            },
            note="the engine has llama itself",
        ),
    )
    bad = (
        example(
            {"serve.sh": "vllm serve our/chat --max-model-len 8192", ".cfglint/models/our/chat/config.json": _CONFIG},
            at="model",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs(job, "vllm", "sglang", "tgi") or managed(job) or switch(job, "trust_remote_code") is True:
            return
        if hides_arguments(job):
            return
        if stated(job, "trust_remote_code") and switch(job, "trust_remote_code") is None:
            return
        from cfglint.catalog.families import family

        arch, model = job.architecture, job.model
        config = model.config if model is not None and model.config is not None else arch.config if arch else None
        listed = config.get("auto_map") if isinstance(config, Mapping) else None
        if config is None or not isinstance(listed, Mapping) or "AutoConfig" not in listed:
            return
        kind = config.get("model_type")
        if not isinstance(kind, str) or family(kind) is not None or (model is not None and model.row is not None):
            return
        yield self.finding(
            f"{kind} is code of the checkpoint's own (auto_map), and trust_remote_code is not set",
            job.model_id,
            help="--trust-remote-code, once you have read the code, with --revision and --code-revision",
            job=job,
        )
