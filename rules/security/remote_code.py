"""SEC004."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import engine, runs, served, stated, statement, switch, wrapper

NATIVE = frozenset({
    "llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen2_vl", "qwen2_5_vl", "gemma", "gemma2",
    "gemma3", "gemma3_text", "phi3", "opt", "gpt2", "gpt_neox", "falcon", "starcoder2", "olmo", "olmo2", "cohere", "cohere2",
    "deepseek_v2", "deepseek_v3", "gpt_oss", "granite", "glm4", "bloom", "stablelm", "mpt", "bert", "roberta", "llama4",
})  # fmt: skip
"""Model types that both transformers and vLLM have themselves, their tokenizers included (vllm/model_executor/models/
registry.py, transformers 4.57 and 5)."""


class RemoteCode(Rule):
    """``trust_remote_code`` runs code from a repository on the Hub that may change at any time.

    The code runs with the server's rights, in its network and with its token. Without ``revision`` and ``code_revision`` it is
    whatever the repository holds when a pod starts. For model types that vLLM and transformers have themselves it is not needed.

    How sure: the switch and the missing revision are stated. Information where the model type is native and the switch is
    merely needless; a warning where code is run from a Hub id. Local paths are left alone unless their type is native.
    """

    code = "SEC004"
    name = "remote-code"
    family = "security"
    severity = "warning"
    kinds = ("serve",)
    evidence = (
        "https://huggingface.co/docs/transformers/models#custom-models",
        "https://docs.vllm.ai/en/latest/usage/security/",
    )
    catalogue = ("sec-trust-remote-unpinned", "sec-trust-remote-needless", "sec-tgi-trust")
    good = (
        example(
            "serve.sh", "vllm serve our/custom-model --trust-remote-code --revision 3f2a1b0c --code-revision 3f2a1b0c"
        ),
        example("serve.sh", "vllm serve models/custom-model --trust-remote-code", note="a local folder"),
        example("serve.sh", "vllm serve custom-model/ --trust-remote-code", note="a local folder"),
    )
    bad = (
        example("serve.sh", "vllm serve our/custom-model --trust-remote-code", at="trust_remote_code", count=1),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --trust-remote-code", note="needless"),
        example(
            "serve.sh",
            "docker run --gpus all -e TRUST_REMOTE_CODE=true ghcr.io/huggingface/text-generation-inference:2.4.1 --model-id our/custom-model",
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if switch(job, "trust_remote_code") is not True or not runs(job, "vllm", "sglang", "tgi"):
            return
        if wrapper(job) == "vllm-recipe":
            return  # a recipe is read before a command is made of it
        where = statement(job, "trust_remote_code")
        arch, _ = served(job)
        native = arch is not None and arch.model_type in NATIVE and "auto_map" not in arch.config
        name = str(job.value("model_id") or "")
        if native and arch is not None:
            yield self.finding(
                f"trust_remote_code is not needed: transformers and the engine have {arch.model_type} themselves",
                where,
                help="leave it out",
                severity="info",
                confidence="medium",
                job=job,
            )
            return
        hub = (
            name.count("/") == 1
            and not name.endswith("/")
            and not name.startswith((".", "/", "~", "$"))
            and not name.lower().startswith(LOCAL_FOLDERS)
        )
        if not hub or stated(job, "revision") or stated(job, "code_revision"):
            return
        yield self.finding(
            f"code of {name} is run in whatever state its repository is in",
            where,
            (job.model_id, "no revision"),
            help="--revision of a commit you have read, or leave trust_remote_code out"
            if engine(job) == "tgi"
            else "--revision and --code-revision of a commit you have read, or leave trust_remote_code out",
            job=job,
        )


LOCAL_FOLDERS = ("models/", "model/", "checkpoints/", "outputs/", "output/", "data/", "mnt/")
"""First parts of relative paths that are no publisher's name."""
