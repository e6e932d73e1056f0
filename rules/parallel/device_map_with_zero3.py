"""PAR001."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Fact
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from ..trainer import argument, argument_on, placeholder, trainer_readings

LOW_MEMORY = "low_cpu_mem_usage"
LOW_MEMORY_REFUSED_BELOW = "4.51"
"""transformers 4.50.3 still refuses ``low_cpu_mem_usage`` with ZeRO-3; 4.51.3 does not."""


class DeviceMapWithZero3(Rule):
    """A `device_map` is set for a model that DeepSpeed ZeRO-3 partitions while it loads.

    Both decide where the parameters go. `from_pretrained` stops with "DeepSpeed Zero-3 is not compatible with passing a
    `device_map`" (older releases add `low_cpu_mem_usage=True`).

    How sure: the check is in transformers' source (4.26 to 5.24). What a script does with an argument of its own name
    is not known, so it is a warning for scripts. `low_cpu_mem_usage` is refused up to transformers 4.50 and has no effect
    since 4.51: a warning where the release is known to be older, information where it is not known. Axolotl and
    LLaMA-Factory take the map out themselves.
    """

    code = "PAR001"
    name = "device-map-with-zero3"
    family = "parallel"
    severity = "error"
    catalogue = ("par.device-map-zero3",)
    evidence = (
        "https://github.com/huggingface/peft/issues/306",
        "https://github.com/huggingface/accelerate/issues/2543",
        "https://github.com/QwenLM/Qwen/pull/833",
    )
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                device_map: auto
                per_device_train_batch_size: 1
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
                """,
            },
            note="stage 2 keeps whole models",
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                device_map: auto
                per_device_train_batch_size: 1
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}}
                """,
            },
            at="device_map",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        stage = job.zero_stage
        readings = trainer_readings(job)
        if stage is None or stage.value != 3 or not readings:
            return
        if any(r.dialect in ("axolotl", "llamafactory") for r in readings):
            return
        found = self._device_map(job) or self._low_memory(job)
        if found is None:
            return
        key, fact = found
        severity: Severity = "error" if key.startswith("model_init_kwargs") else "warning"
        effect = "loading stops with a ValueError"
        if key == LOW_MEMORY and not always_below(job.versions.get("transformers"), LOW_MEMORY_REFUSED_BELOW):
            severity = "info"
            effect += f" with transformers before {LOW_MEMORY_REFUSED_BELOW}, and it has no effect since"
        yield self.finding(
            f"{key} with DeepSpeed ZeRO-3, which places the parameters itself: {effect}",
            (fact, ""),
            (stage, "ZeRO-3"),
            help=f"take {key} out, or use ZeRO stage 2",
            severity=severity,
            confidence="high" if severity == "error" else "medium",
            job=job,
        )

    def _device_map(self, job: TrainingJob) -> tuple[str, Fact[object]] | None:
        for reading in trainer_readings(job):
            for route in (("model_init_kwargs", "device_map"), ("device_map",)):
                node = reading.at(*route)
                value = reading.value(*route)
                stated = isinstance(node, Mapping) or (
                    value is not None
                    and not placeholder(value)
                    and str(value).strip().lower() not in ("none", "null", "")
                )
                if stated:
                    return ".".join(route), Fact(value, reading.origin(*route))
        return None

    def _low_memory(self, job: TrainingJob) -> tuple[str, Fact[object]] | None:
        on = argument_on(job, LOW_MEMORY)
        if on is None or not on.value:
            return None
        if always_at_least(job.versions.get("transformers"), LOW_MEMORY_REFUSED_BELOW):
            return None
        fact = argument(job, LOW_MEMORY)
        return None if fact is None else (LOW_MEMORY, fact)
