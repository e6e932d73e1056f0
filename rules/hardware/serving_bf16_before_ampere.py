"""HWF101."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.jobs.versions import in_words
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.fixes import replace_value
from cfglint.lint.rule import Rule, example

from ..precision.serving_fp16_refused import REFUSED
from ..serving.server import all_below, before, dtype, readings, runs_vllm, served, since, stated, version
from .capability import AMPERE

FALLS_BACK_BY = "0.9.0"
"""The first release in which ``auto`` takes another dtype where the GPU has no bf16; 0.8.5 refuses."""
REFUSES_UNTIL = "0.9"
BF16 = ("bfloat16", "bf16")


class ServingBf16BeforeAmpere(Rule):
    """bf16 on a GPU without it: compute capability below 8.0 (V100, T4, RTX 20).

    With ``dtype: bfloat16`` vLLM's worker ends with "Bfloat16 is only supported on GPUs with compute capability of at least
    8.0" after the weights were fetched. ``auto`` takes the checkpoint's bf16: up to 0.8.5 it ends the same way, from 0.9 on
    it falls back to float16, or to float32 for models that vLLM refuses in float16, which doubles the weights.

    How sure: every accelerator that the name can mean must be an NVIDIA one below 8.0. The checkpoint's dtype is from its
    config; for ``auto`` it is an error only for stated releases that refuse, a warning without a stated release, and
    information for those that fall back.
    """

    code = "HWF101"
    name = "serving-bf16-before-ampere"
    family = "hardware"
    severity = "error"
    kinds = ("serve",)
    fixable = "unsafe"
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/platforms/cuda.py",
        "https://github.com/vllm-project/vllm/issues/1157",
        "https://github.com/vllm-project/vllm/issues/946",
    )
    catalogue = ("dtype-bf16-pre-ampere", "dtype-auto-silent-fp16-fallback", "k8s-gpu-label-vs-model")
    good = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --dtype bfloat16", gpu="L4", gpus=1),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --dtype half", gpu="T4", gpus=1),
    )
    bad = (
        example(
            "serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --dtype bfloat16", gpu="T4", gpus=1, at="dtype", count=1
        ),
        example(
            {"serve.sh": "vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 4096", "requirements.txt": "vllm==0.7.3"},
            gpu="T4",
            gpus=1,
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs_vllm(job) or not all_below(job, AMPERE):
            return
        gpu = job.hardware.name
        asked = dtype(job)
        arch, sure = served(job)
        refused = arch is not None and arch.model_type in REFUSED
        instead = "float32" if refused else "half"
        if asked is not None and asked.value == "bfloat16":
            yield self.finding(
                f"dtype is bfloat16, and {gpu} has no bf16 (compute capability below 8.0)",
                asked,
                (job.gpu, gpu),
                help=f"dtype: {instead}",
                fixes=self._fix(job, instead),
                job=job,
            )
            return
        if (
            asked is not None
            or job.architecture is None
            or arch is None
            or (stated(job, "dtype") and job.value("dtype") != "auto")
        ):
            return
        if arch.native_dtype not in BF16 or arch.quantization is not None or job.quantization is not None:
            return
        falls_back = since(job, FALLS_BACK_BY)
        refuses = before(job, REFUSES_UNTIL) and sure
        what = f"the checkpoint is bf16 and {gpu} has none"
        if falls_back:
            message = f"{what}: vLLM {in_words(version(job))} falls back to {'float32' if refused else 'float16'}"
        elif refuses:
            message = f"{what}: vLLM {in_words(version(job))} refuses to start with dtype auto"
        else:
            message = f"{what}: vLLM before 0.9 refuses to start with dtype auto, later ones fall back to {'float32' if refused else 'float16'}"
        yield self.finding(
            message,
            job.model_id,
            (job.gpu, gpu),
            help=f"state dtype: {instead}",
            severity="info" if falls_back and not refused else "error" if refuses else "warning",
            confidence="high" if falls_back or refuses else "medium",
            job=job,
        )

    def _fix(self, job: ServingJob, instead: str) -> tuple[Fix, ...]:
        for reading in readings(job):
            if reading.entry("dtype") is not None:
                edit = replace_value(reading, ("dtype",), instead)
                return (Fix(f"Set dtype to {instead}", (edit,), safe=False),) if edit is not None else ()
        return ()
