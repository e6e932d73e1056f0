"""MEM102."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.estimate.result import GIB
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .wording import accelerator_words, in_own_keys


class CacheTooSmall(Rule):
    """The KV cache cannot hold one request of ``max_model_len`` tokens.

    vLLM ends after the weights are loaded: "To serve at least one request with the models's max seq len (131072), … GiB KV
    cache is needed, which is larger than the available KV cache memory". Where ``max_model_len`` is not set, the model's own
    length is taken, which is 131,072 and more for many.

    How sure: an error where even the high end of the estimate does not hold one request, a warning where the expected value
    does not. Sliding windows, latent attention and recurrent layers are counted as the engine counts them. ``max_model_len:
    auto`` (or -1) lets newer releases choose a length that fits: then nothing is said.
    """

    code = "MEM102"
    name = "cache-too-small"
    family = "memory"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/issues/2418",
        "https://github.com/OpenRLHF/OpenRLHF/issues/336",
        "https://docs.vllm.ai/en/latest/configuration/conserving_memory/",
    )
    catalogue = ("kv-too-small-for-maxlen", "maxlen-unset-huge-context")
    good = (
        example("serve.sh", "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 16384", gpu="L4", gpus=1),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct", gpu="A100-80GB", gpus=1),
    )
    bad = (
        example(
            "serve.sh",
            "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 131072",
            gpu="L4",
            gpus=1,
            at="max_model_len",
            count=1,
        ),
        example("serve.sh", "vllm serve meta-llama/Llama-3.1-8B-Instruct", gpu="L4", gpus=1, at="model"),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not job.hardware.candidates:
            return
        made = context.estimate(job)
        serving = made.serving
        verdict = made.memory.verdict
        if serving is None or serving.kv_cache is None or verdict not in ("kv-too-small", "likely-oom"):
            return
        certain = verdict == "kv-too-small"
        stated = job.max_model_len
        wanted = stated.value if stated is not None else None
        if wanted is None and job.architecture is not None:
            wanted = job.architecture.max_position_embeddings
        cache = max(0.0, serving.kv_cache.expected) / GIB
        holds = serving.max_model_len or 0
        if not certain and (not cache or wanted is None or holds >= wanted):
            return  # another part is what does not fit
        gpu = accelerator_words(job)
        length = (
            f"max_model_len {wanted:,}" if stated is not None else f"the model's own length of {wanted or 0:,} tokens"
        )
        per_token = f" ({serving.kv_bytes_per_token / 1024:,.0f} KiB a token)" if serving.kv_bytes_per_token else ""
        yield self.finding(
            f"a KV cache of {cache:.1f} GiB on {gpu} {'holds' if certain else 'probably holds'} {holds:,} tokens{per_token}, {length} needs more",
            stated or job.model_id,
            (job.gpu_memory_utilization, f"{cache:.1f} GiB of it are left for the cache"),
            (job.tensor_parallel_size, ""),
            help=self._help(job, gpu),
            severity="error" if certain else "warning",
            confidence="high" if certain else "medium",
            notes=tuple(made.assumptions[:3]),
            data={"kv_cache_gib": round(cache, 2), "largest_max_model_len": holds, "max_model_len": wanted},
            job=job,
        )

    def _help(self, job: ServingJob, gpu: str) -> str:
        from cfglint.estimate.serving.levers import helps_for_length

        words = [f"{in_own_keys(job, found.facts)} {found.what}" for found in helps_for_length(job)]
        return "; or ".join(words) or f"a smaller model, or a larger accelerator than {gpu}"
