"""MEM106."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.estimate.result import GIB
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Parameter, Rule, example

from ..serving.server import runs_vllm, served, stated


class LengthLeftToModel(Rule):
    """``max_model_len`` is not set, and the model's own length is very large.

    vLLM then reserves for requests of the model's full length: it must have a KV cache for one of them, or it does not start.
    Where the accelerator is known the memory rules say whether it fits; here it is not.

    How sure: the length is from the model's config and the size of one request's cache from its layers. It fits on many
    GPUs, so it is information.
    """

    code = "MEM106"
    name = "length-left-to-model"
    family = "memory"
    severity = "info"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/issues/2418",
        "https://github.com/deepseek-ai/DeepSeek-V2/issues/83",
    )
    catalogue = ("maxlen-unset-huge-context", "kv-too-small-for-maxlen")
    parameters = {
        "length": Parameter(131072, "model lengths below it are seldom a problem"),
        "gib": Parameter(4.0, "a request's cache below it fits nearly everywhere"),
    }
    good = (
        example("serve.sh", "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 16384"),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct", note="32,768 tokens"),
    )
    bad = (example("serve.sh", "vllm serve meta-llama/Llama-3.1-8B-Instruct", at="model", count=1),)

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if job.hardware.candidates or stated(job, "max_model_len") or not runs_vllm(job) or job.model_id is None:
            return
        arch, _ = served(job)
        length = arch.max_position_embeddings if arch is not None else None
        if length is None or length < self.options["length"]:
            return
        serving = context.estimate(job).serving
        per_token = serving.kv_bytes_per_token if serving is not None else None
        if not per_token or per_token * length < self.options["gib"] * GIB:
            return
        yield self.finding(
            f"max_model_len is not set: one request of the model's {length:,} tokens needs {per_token * length / GIB:.1f} GiB of KV cache per GPU",
            job.model_id,
            help="max_model_len: the longest request you mean to serve",
            data={"length": length, "gib": round(per_token * length / GIB, 2)},
            job=job,
        )
