"""MEM107."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Fact
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Parameter, Rule, example

from ..serving.server import runs, served, statement, text


class PoolFraction(Rule):
    """The share of memory for weights and cache is outside its range, or leaves nothing beside it.

    SGLang's ``mem_fraction_static``, TGI's ``cuda_memory_fraction`` and LMDeploy's ``cache_max_entry_count`` are shares: 90 instead of
    0.9 asks for ninety times the memory. SGLang takes what is left of its share for activations, CUDA graphs and, in models
    that see, the image encoder: from about 0.88 on a model with vision runs out of memory at the first large image.

    How sure: TGI and TensorRT-LLM multiply the memory by the number; a share above 1 cannot be given. LMDeploy's TurboMind takes whole
    numbers above 1 as blocks, so they are left alone there. What is left for images is a matter of their size: a warning.
    """

    code = "MEM107"
    name = "pool-fraction"
    family = "memory"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://docs.sglang.io/advanced_features/server_arguments.html",
        "https://github.com/huggingface/text-generation-inference/blob/db931fcf42da018a3657580c64bf2720f167f9ab/launcher/src/main.rs",
    )
    catalogue = ("mem-util-range", "sgl-memfrac-vlm")
    parameters = {"vision": Parameter(0.88, "SGLang's share from which on an image encoder has no room")}
    good = (
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --mem-fraction-static 0.9",
        ),
        example("serve.sh", "lmdeploy serve api_server internlm/internlm3-8b-instruct --cache-max-entry-count 0.5"),
    )
    bad = (
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --mem-fraction-static 90",
            at="mem_fraction_static",
            count=1,
        ),
        example(
            "serve.sh",
            "text-generation-launcher --model-id Qwen/Qwen2.5-7B-Instruct --cuda-memory-fraction 1.2",
            count=1,
        ),
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-VL-7B-Instruct --mem-fraction-static 0.95",
            count=1,
            note="a model that sees",
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        for engine, name in SHARES:
            if not runs(job, engine):
                continue
            fact = statement(job, name)
            if fact is None or isinstance(fact.value, bool) or not isinstance(fact.value, (int, float)):
                continue
            yield from self._one(job, engine, name, fact)

    def _one(self, job: ServingJob, engine: str, name: str, fact: Fact[float]) -> Iterator[Finding]:
        share = float(fact.value)
        open_end = engine == "sglang"
        if engine == "lmdeploy":
            backend = text(job, "backend")
            if share >= 1 and (backend is None or backend.value != "pytorch"):
                return
        if share <= 0 or share > 1 or (open_end and share == 1):
            yield self.finding(
                f"{name} is a share above 0 and {'below' if open_end else 'up to'} 1, here {share:g}",
                fact,
                help=f"{name}: {share / 100:g}" if PERCENT <= share <= 100 else f"{name}: 0.9",
                job=job,
            )
        elif engine == "sglang" and share >= self.options["vision"]:
            arch, sure = served(job)
            if arch is not None and sure and arch.config.get("vision_config"):
                yield self.finding(
                    f"{name} {share:g} leaves {1 - share:.0%} of the device for activations, CUDA graphs and the image encoder",
                    fact,
                    (job.model_id, "sees images"),
                    help="leave it out: SGLang lowers its own for models with vision",
                    severity="warning",
                    confidence="medium",
                    job=job,
                )


PERCENT = 10
"""From here on a share is taken for a percentage."""
SHARES = (
    ("sglang", "mem_fraction_static"),
    ("tgi", "cuda_memory_fraction"),
    ("lmdeploy", "cache_max_entry_count"),
    ("trtllm", "kv_cache_free_gpu_memory_fraction"),
    ("trtllm", "free_gpu_memory_fraction"),
)
"""Engine and what it calls its share."""
