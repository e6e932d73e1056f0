"""HWF108."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.dimensions import dimensions
from ..serving.server import before, runs, since, text

ARGUMENTS = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")
RUNS_ON = {
    "fa3": ((8, 0), (9, 9)),
    "flashinfer": ((7, 5), (99, 9)),
    "trtllm_mha": ((9, 0), (99, 9)),
    "trtllm_mla": ((9, 0), (99, 9)),
    "flashmla": ((9, 0), (99, 9)),
    "cutlass_mla": ((10, 0), (10, 9)),
}
"""Lowest and highest compute capability in the mildest release read (0.5.3, 0.5.23: srt/arg_groups/attention_hook.py,
srt/layers/attention/attention_registry.py)."""
OTHER_VENDORS = frozenset({"aiter", "wave", "intel_amx", "intel_xpu", "ascend"})
FA3_READ = ("0.5.3", "0.6")
"""Releases between which ``fa3`` asks for 8.x or 9.x."""
CACHES = {"mxfp8": (10, 0)}
"""KV cache dtypes with a lowest capability (srt/arg_groups/kv_cache_hook.py, 0.5.23)."""


class SglangAttentionBackend(Rule):
    """SGLang's attention backend does not run on this GPU.

    FlashAttention 3 ends with "FlashAttention v3 Backend requires SM>=80 and SM<=90", TensorRT-LLM's kernels need Hopper or
    Blackwell, ``aiter`` and ``wave`` are AMD's. Left alone, SGLang takes a backend that can.

    How sure: the ranges are the mildest of 0.5.3 and 0.5.23, and every accelerator that the name can mean must lie outside.
    ``fa3`` is an error for a stated release from 0.5.3 on; all else is a warning, since ranges move between releases.
    """

    code = "HWF108"
    name = "sglang-attention-backend"
    family = "hardware"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/sgl-project/sglang/blob/v0.5.23/python/sglang/srt/layers/attention/attention_registry.py",
        "https://docs.sglang.io/advanced_features/attention_backend.html",
    )
    catalogue = ("attn-sglang-backend-arch", "attn-sglang-trtllm-mha", "kv-sglang-dtype-arch")
    good = (
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --attention-backend fa3",
            gpu="A100-80GB",
            gpus=1,
        ),
    )
    bad = (
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --attention-backend fa3",
            gpu="T4",
            gpus=1,
            at="attention_backend",
            count=1,
        ),
        example(
            {
                "serve.sh": "python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --attention-backend fa3",
                "requirements.txt": "sglang==0.5.4",
            },
            gpu="B200",
            gpus=1,
        ),
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --attention-backend aiter",
            gpu="H100-80GB",
            gpus=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        found = [a.compute_capability for a in job.hardware.candidates]
        known = [c for c in found if c is not None]
        if not runs(job, "sglang") or not known or len(known) != len(found):
            return
        for argument in ARGUMENTS:
            backend = text(job, argument)
            name = backend.value.lower() if backend is not None else ""
            low, high = RUNS_ON.get(name, ((0, 0), (99, 9)))
            sizes = dimensions(job)
            if name == "fa3" and sizes is not None and sizes.shared_latent:
                low = (9, 0)
            if name in OTHER_VENDORS:
                message = f"{name} is not for NVIDIA's GPUs, and {job.hardware.name} is one"
            elif backend is not None and all(not low <= c <= high for c in known):
                reach = f"{low[0]}.{low[1]}" + (f" to {high[0]}.x" if high[0] < 99 else " and above")
                message = (
                    f"{name} runs on compute capability {reach}, {job.hardware.name} has {known[0][0]}.{known[0][1]}"
                )
            else:
                continue
            exact = name == "fa3" and since(job, FA3_READ[0]) and before(job, FA3_READ[1])
            yield self.finding(
                message,
                backend,
                (job.gpu, job.hardware.name),
                help=f"leave {argument} out: SGLang takes one that can",
                severity="error" if exact else "warning",
                confidence="high" if exact else "medium",
                job=job,
            )
        cache = text(job, "kv_cache_dtype")
        needed = CACHES.get(cache.value.lower()) if cache is not None else None
        if needed is not None and all(c < needed for c in known):
            yield self.finding(
                f"a KV cache in {cache.value if cache else ''} needs compute capability {needed[0]}.{needed[1]}, {job.hardware.name} has {known[0][0]}.{known[0][1]}",
                cache,
                (job.gpu, job.hardware.name),
                help="kv_cache_dtype: auto",
                severity="warning",
                confidence="medium",
                job=job,
            )
