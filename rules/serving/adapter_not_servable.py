"""SRV022."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import plain

from .server import runs_vllm, since, statement, switch

HEADS = frozenset({"classifier", "score"})
"""Modules that may be saved whole from some release on (vllm/lora/peft_helper.py, 0.33.0)."""


CHANGED_BASE = ("pissa", "olora", "corda", "loftq")
"""Ways of starting LoRA that take their part out of the base model (peft's ``init_lora_weights``)."""


class AdapterNotServable(Rule):
    """An adapter that vLLM cannot serve: DoRA, biases, or whole modules saved beside it.

    vLLM refuses it when it loads it: "vLLM does not yet support DoRA", "Adapter bias is not supported", "vLLM only supports
    modules_to_save being None". Merged into the model it can be served.

    How sure: read from ``PEFTHelper`` in vllm/lora/peft_helper.py (0.8.5 to 0.33.0) and the adapters' own
    ``adapter_config.json``, where ``--lora-modules`` names folders that are found. Biases are an error from 0.12 on, where no
    bias support is left, else a warning. Adapters started by PiSSA and the like are refused by 0.33 and answer wrongly before;
    one that was converted says so in its own config.
    """

    code = "SRV022"
    name = "adapter-not-servable"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = ("https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/lora/peft_helper.py",)
    catalogue = ("lora-adapter-features",)
    good = (
        example(
            {
                "serve.sh": "vllm serve Qwen/Qwen2.5-7B-Instruct --enable-lora --lora-modules sql=adapters/sql",
                "adapters/sql/adapter_config.json": '{"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 16, "bias": "none", "use_rslora": true}',
            }
        ),
    )
    bad = (
        example(
            {
                "serve.sh": "vllm serve Qwen/Qwen2.5-7B-Instruct --enable-lora --lora-modules sql=adapters/sql",
                "adapters/sql/adapter_config.json": '{"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 16, "use_dora": true}',
            },
            at="use_dora",
            count=1,
        ),
        example(
            {
                "serve.sh": "vllm serve Qwen/Qwen2.5-7B-Instruct --enable-lora --lora-modules sql=adapters/sql",
                "adapters/sql/adapter_config.json": '{"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 16, "modules_to_save": ["embed_tokens", "lm_head"]}',
            },
            at="modules_to_save",
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs_vllm(job) or switch(job, "enable_lora") is not True:
            return
        for reading in job.readings:
            if reading.dialect == "peft-adapter":
                yield from self._adapter(job, reading)

    def _adapter(self, job: ServingJob, reading: Reading) -> Iterator[Finding]:
        modules = statement(job, "lora_modules")
        merge = "merge the adapter into the model and serve that"
        if reading.value("use_dora") is True:
            yield self.finding(
                "a DoRA adapter: vLLM has no DoRA",
                reading.origin("use_dora"),
                (modules, "served from here"),
                help=merge,
                job=job,
            )
        start = reading.value("init_lora_weights")
        if isinstance(start, str) and start.lower().startswith(CHANGED_BASE):
            refused = since(job, "0.33.0")
            yield self.finding(
                f"an adapter started by {start}, which changed the base model's weights: on the plain base it is another model",
                reading.origin("init_lora_weights"),
                (modules, "served from here"),
                help="convert it with PEFT's path_initial_model_for_weight_conversion, or merge it",
                severity="error" if refused else "warning",
                confidence="high" if refused else "medium",
                job=job,
            )
        bias = reading.value("bias")
        if isinstance(bias, str) and bias != "none":
            certain = since(job, "0.12")
            yield self.finding(
                f"an adapter with trained biases (bias: {bias}), which vLLM does not take",
                reading.origin("bias"),
                (modules, "served from here"),
                help=merge,
                severity="error" if certain else "warning",
                confidence="high" if certain else "medium",
                job=job,
            )
        node = reading.at("modules_to_save")
        saved = plain(node) if node is not None else None
        other = [m for m in saved if isinstance(m, str) and m not in HEADS] if isinstance(saved, list) else []
        if other:
            yield self.finding(
                f"an adapter that saves {', '.join(other)} whole, which vLLM does not take",
                reading.origin("modules_to_save"),
                (modules, "served from here"),
                help=merge,
                job=job,
            )
