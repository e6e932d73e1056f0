"""SRV028."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import dtype, launch_of, runs_vllm, served, since, stated, statement, switch, text

CHECKED_FROM = {"dtype": "0.33.0", "allocator": "0.25.1"}
"""First sampled releases with the checks."""
ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


class CacheDtypeAndTransfer(Rule):
    """A KV cache in another 16-bit type than the model, or transferred out of memory that PyTorch may move.

    `kv_cache_dtype: float16` beside a bfloat16 model (or the other way round) is refused: "kv_cache_dtype=… is incompatible
    with dtype=…". A KV connector pins the cache, and `expandable_segments:True` lets the allocator map it elsewhere: vLLM
    refuses the pair unless its own allocator is on; before it did, transfers failed or read stale memory.

    How sure: the checks of vLLM 0.33.0 (config/vllm.py); the second is in 0.25.1 as well. Errors where the stated release has
    the check, else warnings. The model's dtype is what is stated, or the checkpoint's.
    """

    code = "SRV028"
    name = "cache-dtype-and-transfer"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = ("https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/vllm.py",)
    catalogue = ("dtype-kv-float-mismatch", "kv-connector-expandable")
    good = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --dtype bfloat16 --kv-cache-dtype bfloat16"),
        example("serve.sh", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True vllm serve Qwen/Qwen2.5-7B-Instruct"),
    )
    bad = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --dtype bfloat16 --kv-cache-dtype float16",
            at="kv_cache_dtype",
            count=1,
        ),
        example(
            "serve.sh",
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True vllm serve Qwen/Qwen2.5-7B-Instruct "
            """--kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'""",
            at="kv_transfer_config",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs_vllm(job):
            return
        yield from self._dtype(job)
        transfer, launch = statement(job, "kv_transfer_config"), launch_of(job)
        if transfer is None or launch is None or switch(job, "enable_cumem_allocator") is True:
            return
        if switch(job, "enable_sleep_mode") is True:
            return  # sleep mode brings vLLM's own allocator
        for name in ALLOCATOR:
            word = launch.environment.get(name)
            if word is None or "expandable_segments:true" not in word.text.lower().replace(" ", ""):
                continue
            sure = since(job, CHECKED_FROM["allocator"])
            yield self.finding(
                f"a KV connector with {name}=expandable_segments:True: the cache it pins may be mapped elsewhere",
                transfer,
                (FileOrigin(launch.document, (name,), word.span, word.span), "expandable segments"),
                help="leave expandable_segments out, or add --enable-cumem-allocator",
                severity="error" if sure else "warning",
                confidence="high" if sure else "medium",
                job=job,
            )
            return

    def _dtype(self, job: ServingJob) -> Iterator[Finding]:
        cache = text(job, "kv_cache_dtype")
        if cache is None or cache.value not in ("float16", "bfloat16"):
            return
        asked = dtype(job)
        arch, sure = served(job)
        if asked is not None:
            model = asked.value
        elif not stated(job, "dtype") and sure and arch is not None and arch.native_dtype in ("bf16", "fp16"):
            model = {"bf16": "bfloat16", "fp16": "float16"}[arch.native_dtype]
        else:
            return
        if model == cache.value:
            return
        certain = since(job, CHECKED_FROM["dtype"]) and asked is not None
        yield self.finding(
            f"kv_cache_dtype is {cache.value}, the model computes in {model}",
            cache,
            (asked or job.model_id, model),
            help="kv_cache_dtype: auto takes the model's",
            severity="error" if certain else "warning",
            confidence="high" if certain else "medium",
            job=job,
        )
