"""HWF103."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Fact
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import (
    all_below,
    attention_backend,
    before,
    runs_vllm,
    served,
    since,
    statement,
    switch,
    text,
    version,
)
from .capability import ADA, AMPERE

NAMED = {"TRITON_ATTN": (8, 9), "FLASH_ATTN": (9, 0)}
"""Backends chosen by name and the compute capability their FP8 cache needs: Triton's conversion, FlashAttention 3."""
PREFIX_KERNEL = ("enable_chunked_prefill", "enable_prefix_caching")
FLASHINFER_SINCE = "0.11.1"
"""From here on vLLM asks its backends in turn, and FlashInfer's takes the cache (platforms/cuda.py of 0.11.0 and 0.11.1)."""
V1_ALONE = "0.11"
"""From here on the V0 engine, whose xFormers kernels took FP8 caches on older GPUs, is gone."""


class Fp8CacheCapability(Rule):
    """FP8 KV cache on a GPU whose attention kernels cannot have it.

    Below compute capability 8.0 only Triton's kernel is left, and that needs 8.9: "FP8 KV cache is not supported by the
    Triton attention backend … requires SM89+", in older releases "type fp8e4nv not supported in this architecture". On
    8.0 to 8.6 FlashInfer can have it, Triton's and FlashAttention's kernels cannot; FlashAttention's needs 9.0, and e4m3.

    How sure: read in vllm/v1/attention/backends and platforms/cuda.py of 0.33.0. Below 8.0 it is an error for releases from
    0.11 on and a warning without a stated release; above it is said only where the backend is chosen by name, for 0.11.0, which
    takes Triton's by itself, or for chunked prefill and prefix caching in releases before 0.11 (vllm#7714).
    """

    code = "HWF103"
    name = "fp8-cache-capability"
    family = "hardware"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/attention/backends/triton_attn.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/platforms/cuda.py",
        "https://github.com/vllm-project/vllm/issues/7714",
        "https://github.com/vllm-project/vllm/issues/26431",
    )
    catalogue = ("kv-fp8-triton-pre-ada", "kv-fp8-flashattn-fa3", "kv-fp8e5m2-flashattn")
    good = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --kv-cache-dtype fp8",
            gpu="A100-80GB",
            gpus=1,
            note="FlashInfer has it",
        ),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --kv-cache-dtype fp8", gpu="L4", gpus=1),
    )
    bad = (
        example(
            {
                "serve.sh": "vllm serve Qwen/Qwen3-8B --kv-cache-dtype fp8",
                "requirements.txt": "vllm==0.11.0",
            },
            gpu="RTX-3090",
            gpus=1,
            count=1,
        ),
        example(
            {
                "serve.sh": "vllm serve Qwen/Qwen2.5-7B-Instruct --dtype half --kv-cache-dtype fp8",
                "requirements.txt": "vllm==0.12.0",
            },
            gpu="T4",
            gpus=1,
            at="kv_cache_dtype",
            count=1,
        ),
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --kv-cache-dtype fp8 --attention-backend TRITON_ATTN",
            gpu="A100-80GB",
            gpus=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        cache = text(job, "kv_cache_dtype")
        if cache is None or not cache.value.lower().startswith("fp8") or not runs_vllm(job):
            return
        gpu = job.hardware.name
        if all_below(job, AMPERE):
            certain = since(job, V1_ALONE)
            yield self.finding(
                f"kv_cache_dtype is {cache.value}, and no attention kernel for {gpu} (compute capability below 8.0) has FP8",
                cache,
                (job.gpu, gpu),
                help="kv_cache_dtype: auto",
                severity="error" if certain else "warning",
                confidence="high" if certain else "medium",
                job=job,
            )
            return
        backend = attention_backend(job)
        name = backend.value if backend is not None else ""
        if name == "FLASH_ATTN" and cache.value.lower() == "fp8_e5m2":
            yield self.finding(
                "FLASH_ATTN takes FP8 caches as e4m3 alone",
                backend,
                (cache, "fp8_e5m2"),
                help="kv_cache_dtype: fp8",
                job=job,
            )
            return
        needed = NAMED.get(name)
        if needed is not None and all_below(job, needed):
            yield self.finding(
                f"{name} has no FP8 KV cache on {gpu} (compute capability below {needed[0]}.{needed[1]})",
                backend,
                (cache, f"kv_cache_dtype {cache.value}"),
                (job.gpu, gpu),
                help="leave the backend to vLLM (FlashInfer can), or kv_cache_dtype: auto",
                job=job,
            )
            return
        if needed is None and not name:
            yield from self._triton_by_itself(job, cache)
            yield from self._prefix_kernel(job, cache)

    def _triton_by_itself(self, job: ServingJob, cache: Fact[str]) -> Iterator[Finding]:
        """0.11.0 takes Triton's kernel for every FP8 cache but Hopper's, whether the device can have it or not."""
        if not since(job, V1_ALONE) or not before(job, FLASHINFER_SINCE) or not all_below(job, ADA):
            return
        arch, certain = served(job)
        if arch is not None and arch.mla is not None:
            return
        sure = arch is not None and certain
        yield self.finding(
            f"vLLM 0.11.0 takes the Triton backend for an FP8 KV cache, which has none on {job.hardware.name} (compute capability below 8.9)",
            cache,
            (job.gpu, job.hardware.name),
            help="VLLM_ATTENTION_BACKEND=FLASHINFER, vLLM 0.11.1 or later, or kv_cache_dtype: auto",
            severity="error" if sure else "warning",
            confidence="high" if sure else "medium",
            job=job,
        )

    def _prefix_kernel(self, job: ServingJob, cache: Fact[str]) -> Iterator[Finding]:
        """Chunked prefill and prefix caching in the V0 engine: a Triton kernel, whatever the backend of the rest."""
        if cache.value.lower() == "fp8_e5m2" or since(job, V1_ALONE) or not all_below(job, ADA):
            return
        asked = next((n for n in PREFIX_KERNEL if switch(job, n) is True), None)
        if asked is None:
            return
        stated = version(job) is not None
        yield self.finding(
            f"{asked} reads the cache with Triton's kernel in releases before {V1_ALONE}, which has no FP8 on {job.hardware.name}"
            + ("" if stated else "; the version is not stated here"),
            cache,
            (statement(job, asked), asked),
            (job.gpu, job.hardware.name),
            help="kv_cache_dtype: fp8_e5m2, or auto",
            severity="warning" if stated else "info",
            confidence="medium" if stated else "low",
            job=job,
        )
