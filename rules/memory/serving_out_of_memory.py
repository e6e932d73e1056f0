"""MEM101."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.estimate.result import GIB, Estimate
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Where, place
from cfglint.lint.rule import Rule, example

from ..serving.server import statement
from .wording import accelerator_words, in_own_keys

LABELLED_SHARE = 0.05
"""A part below this share of the whole is not worth a label."""
MARGIN = 0.02
"""An expected need this much above the device's memory is within what the estimate cannot tell."""


class ServingOutOfMemory(Rule):
    """The server's weights and working memory leave no room for a KV cache, or do not fit at all.

    While weights load CUDA runs out of memory; or the profiling run leaves nothing of ``gpu_memory_utilization`` and the
    engine ends with "No available memory for the cache blocks".

    How sure: weights come from the model's tensors split as the engine splits them, activations and CUDA graphs from its own
    profiling run. It is an error where even the low end does not fit, a warning where the expected value does not. With an
    unknown model or accelerator nothing is said. `cfglint estimate` shows every part.
    """

    code = "MEM101"
    name = "serving-out-of-memory"
    family = "memory"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/worker/gpu_worker.py",
        "https://docs.vllm.ai/en/latest/configuration/conserving_memory/",
    )
    catalogue = ("mem-weights-dont-fit", "mem-cudagraph-oom")
    good = (
        example(
            "serve.sh", "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192", gpu="A100-80GB", gpus=1
        ),
        example(
            "serve.sh",
            "vllm serve meta-llama/Llama-3.3-70B-Instruct --tensor-parallel-size 4 --max-model-len 8192",
            gpu="H100-80GB",
            gpus=4,
        ),
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --mem-fraction-static 1.2",
            gpu="A100-80GB",
            gpus=1,
            note="no share at all: another finding",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "vllm serve meta-llama/Llama-3.3-70B-Instruct --max-model-len 8192",
            gpu="A100-80GB",
            gpus=1,
            at="model",
            count=1,
        ),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-14B-Instruct --dtype half --max-model-len 4096", gpu="T4", gpus=1),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not job.hardware.candidates:
            return
        made = context.estimate(job)
        memory, serving = made.memory, made.serving
        asked = job.gpu_memory_utilization or statement(job, "mem_fraction_static")
        if asked is not None and isinstance(asked.value, (int, float)) and asked.value > 1:
            return  # no share at all: MEM104 and MEM107 tell of it
        if memory.verdict not in ("oom", "likely-oom") or memory.capacity is None or serving is None:
            return
        certain = memory.verdict == "oom"
        gpu = accelerator_words(job)
        capacity = memory.capacity / GIB
        weights = (serving.weights or 0.0) / GIB
        cache = serving.kv_cache.expected if serving.kv_cache is not None else 0.0
        if cache > 0 and not certain:
            if memory.used is None or memory.used.expected <= memory.capacity * (1 + MARGIN):
                return  # the length of a request is what does not fit, or it is a matter of a few MiB
            share = job.gpu_memory_utilization
            message = (
                f"probably takes {memory.used.expected / GIB:.1f} GiB per GPU with CUDA graphs and what lies outside the "
                f"engine's share, {gpu} has {capacity:.1f}"
            )
            yield self.finding(
                message,
                share or job.model_id,
                help="a lower gpu_memory_utilization",
                severity="warning",
                confidence="medium",
                notes=tuple(made.assumptions[:3]),
                job=job,
            )
            return
        if weights > capacity and not job.value("cpu_offload_gb"):
            message = f"weights take {weights:.1f} GiB per GPU, {gpu} has {capacity:.1f}"
        elif cache > 0:
            load = max(memory.phases.get("load", 0.0) / GIB, weights)
            used = memory.used.expected / GIB if memory.used is not None else load
            what, taken = ("loading takes", load) if load > capacity else ("the server takes", used)
            message = f"{what} {taken:.1f} GiB per GPU, {gpu} has {capacity:.1f}"
        else:
            parts = f"weights {weights:.1f} GiB"
            if serving.activation_peak:
                parts += f", profiling run {serving.activation_peak / GIB:.1f}"
            if serving.non_torch:
                parts += f", libraries {serving.non_torch / GIB:.1f}"
            if serving.graph:
                parts += f", CUDA graphs {serving.graph / GIB:.1f}"
            verb = "leave" if certain else "probably leave"
            message = f"{parts} {verb} no room for a KV cache on {gpu} ({capacity:.1f} GiB)"
        yield self.finding(
            message,
            *self._where(job, made),
            help=self._help(job, gpu),
            severity="error" if certain else "warning",
            confidence="high" if certain else "medium",
            notes=tuple(made.assumptions[:3]),
            data={"weights_gib": round(weights, 2), "capacity_gib": round(capacity, 2), "verdict": memory.verdict},
            job=job,
        )

    def _where(self, job: ServingJob, made: Estimate) -> list[Where | tuple[Where, str]]:
        labels: dict[str, list[str]] = {}
        whole = sum(part.bytes for part in made.memory.components) or 1.0
        for part in sorted(made.memory.components, key=lambda c: -c.bytes):
            if part.bytes < LABELLED_SHARE * whole:
                break
            for name in part.fact_names:
                if place(job.fact(name)) is not None:
                    labels.setdefault(name, []).append(f"{part.name} {part.bytes / GIB:.1f} GiB")
                    break
        places: list[Where | tuple[Where, str]] = [(job.model_id, ", ".join(labels.pop("model_id", ())))]
        places += [(job.fact(name), ", ".join(words)) for name, words in labels.items()]
        return places

    def _help(self, job: ServingJob, gpu: str) -> str:
        from cfglint.estimate.serving.levers import smallest_tensor_parallel

        lever = smallest_tensor_parallel(job)
        if lever is not None:
            return f"{in_own_keys(job, {lever[0]: lever[1]})} is the smallest that fits on {gpu}"
        return "a quantized checkpoint, or a larger accelerator"
