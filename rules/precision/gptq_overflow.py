"""PRC104."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import all_below, checkpoint_method, runs_vllm, served, since, text

QWEN = frozenset({"qwen2", "qwen2_moe"})
MARLIN_FROM = (7, 5)
"""From 0.18 on Marlin kernels run on Turing; Volta and Pascal keep the plain one (get_min_capability by release)."""
MARLIN_BEFORE_018 = (8, 0)
MERGED = "0.25"
"""From here on ``--quantization gptq`` no longer chooses the plain kernel (auto_gptq)."""


class GptqOverflow(Rule):
    """4-bit GPTQ checkpoint of Qwen 1.5, 2 or 2.5 on the plain GPTQ kernel: answers of nothing but "!!!!".

    The plain kernel adds up in fp16, and these models' activations leave its range: NaN logits, and token 0 for ever. Short
    prompts suffer most. The Marlin kernels are sound; vLLM takes them by itself on Ampere and later, unless
    ``quantization: gptq`` asks for the plain one.

    How sure: reported by many and reproduced by Qwen's maintainers for 0.4 to 0.6, "gptq_marlin works, gptq fails for short
    prompts". Not every checkpoint and prompt is hit: a warning.
    """

    code = "PRC104"
    name = "gptq-overflow"
    family = "precision"
    severity = "warning"
    confidence = "medium"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/issues/10656",
        "https://github.com/QwenLM/Qwen3/issues/315",
        "https://github.com/QwenLM/Qwen3/issues/1103",
        "https://github.com/vllm-project/vllm/issues/9618",
    )
    catalogue = ("quant-gptq-fp16-overflow",)
    good = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-32B-Instruct-GPTQ-Int4", gpu="A100-80GB", gpus=1, note="Marlin"),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-32B-Instruct-AWQ --dtype half", gpu="T4", gpus=4),
    )
    bad = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-32B-Instruct-GPTQ-Int4 --quantization gptq",
            gpu="A100-80GB",
            gpus=1,
            at="quantization",
            count=1,
        ),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-32B-Instruct-GPTQ-Int4 --dtype half", gpu="V100-32GB", gpus=2),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs_vllm(job):
            return
        method, _ = checkpoint_method(job)
        arch, _ = served(job)
        if method != "gptq" or arch is None or arch.model_type not in QWEN:
            return
        config = arch.quantization or {}
        name = str(job.value("model_id") or "").lower()
        if config.get("bits") not in (None, 4) or "int8" in name:
            return
        asked = text(job, "quantization")
        plain = asked is not None and asked.value.lower() == "gptq" and not since(job, MERGED)
        old = all_below(job, MARLIN_FROM if since(job, "0.18.1") else MARLIN_BEFORE_018)
        if not plain and not old:
            return
        why = "quantization: gptq asks for the plain kernel" if plain else f"{job.hardware.name} has no Marlin kernel"
        yield self.finding(
            f"4-bit GPTQ of {arch.model_type} overflows in the plain GPTQ kernel, and {why}",
            asked if plain else job.model_id,
            (job.gpu, job.hardware.name),
            help="leave quantization out: vLLM takes gptq_marlin" if plain and not old else "an AWQ checkpoint",
            job=job,
        )
