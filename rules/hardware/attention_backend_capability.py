"""HWF104."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import attention_backend, before, dtype, runs_vllm, version

Capability = tuple[int, int]
RANGES: dict[str, tuple[Capability, Capability]] = {
    "FLASH_ATTN": ((8, 0), (99, 9)),
    "FLASHINFER": ((8, 0), (12, 1)),
    "HPC_ATTN": ((9, 0), (9, 0)),
    "B12X": ((12, 0), (12, 1)),
    "CUTLASS_MLA": ((10, 0), (10, 9)),
    "FLASHINFER_MLA": ((10, 0), (10, 9)),
    "TOKENSPEED_MLA": ((10, 0), (10, 9)),
    "FLASHMLA": ((9, 0), (10, 9)),
    "FLASHMLA_SPARSE": ((9, 0), (10, 9)),
    "FLASH_ATTN_MLA": ((9, 0), (9, 9)),
}
"""Lowest and highest compute capability, vllm/v1/attention/backends of 0.33.0 (``supports_compute_capability``)."""
ON_TURING_UNTIL = "0.26"
"""FlashInfer's floor was 7.5 up to 0.25.1 and is 8.0 in 0.33.0."""
NO_FLOAT32 = frozenset({"FLASH_ATTN", "FLASHINFER", "HPC_ATTN"})


class AttentionBackendCapability(Rule):
    """The attention backend that is chosen by name cannot run on this GPU, or not with this dtype.

    vLLM checks the choice and ends with "Selected backend … is not valid for this configuration. Reason: ['compute capability
    not supported']". Left alone it takes one that can.

    How sure: the ranges were read from 0.33.0; FlashInfer on Turing, which older releases had, is left alone unless the
    release is stated. Every accelerator that the name can mean must be outside the range.
    """

    code = "HWF104"
    name = "attention-backend-capability"
    family = "hardware"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/attention/backends/flash_attn.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/attention/backends/flashinfer.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/platforms/cuda.py",
    )
    catalogue = ("attn-backend-capability", "attn-backend-dtype")
    good = (
        example(
            "serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --attention-backend FLASH_ATTN", gpu="A100-80GB", gpus=1
        ),
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --dtype half --attention-backend TRITON_ATTN",
            gpu="T4",
            gpus=1,
        ),
    )
    bad = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --dtype half --attention-backend FLASH_ATTN",
            gpu="T4",
            gpus=1,
            at="attention_backend",
            count=1,
        ),
        example(
            "serve.sh",
            "vllm serve google/gemma-3-4b-it --dtype float32 --attention-backend FLASH_ATTN",
            gpu="A100-80GB",
            gpus=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        backend = attention_backend(job)
        if backend is None or not runs_vllm(job):
            return
        name = backend.value
        kind = dtype(job)
        if kind is not None and kind.value == "float32" and name in NO_FLOAT32:
            yield self.finding(
                f"{name} has no float32",
                backend,
                (kind, "dtype float32"),
                help="leave the backend to vLLM, or dtype: bfloat16",
                job=job,
            )
            return
        bounds = RANGES.get(name)
        found = [a.compute_capability for a in job.hardware.candidates]
        if bounds is None or not found or any(c is None or bounds[0] <= c <= bounds[1] for c in found):
            return
        turing = name == "FLASHINFER" and all(c is not None and c >= (7, 5) for c in found)
        if turing and (version(job) is None or before(job, ON_TURING_UNTIL)):
            return
        has = next(c for c in found if c is not None)
        low, high = bounds
        shown = f"{low[0]}.{low[1]}" + ("" if high[0] == 99 else f" to {high[0]}.{high[1]}")
        yield self.finding(
            f"{name} runs on compute capability {shown}{' and above' if high[0] == 99 else ''}, {job.hardware.name} has {has[0]}.{has[1]}",
            backend,
            (job.gpu, job.hardware.name),
            help="leave --attention-backend out: vLLM takes one that can",
            job=job,
        )
