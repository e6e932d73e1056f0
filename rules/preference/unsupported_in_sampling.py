"""RLH011."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean, number
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .sampling_batch import sampling_reading, setting


class UnsupportedInSampling(Rule):
    """Settings that GRPO refuses: batch-size search, sequence parallelism, crossed clipping bounds.

    ``auto_find_batch_size`` would cut groups of completions; context and sequence parallelism shard inputs that GRPO only
    makes later; ``vllm_importance_sampling_clip_min`` must lie below ``…_clip_max``. TRL raises for each.

    How sure: read in TRL 1.16 (batch search since 1.13, parallelism since 1.8). Before, batch search breaks the groups
    without a word, which is a warning.
    """

    code = "RLH011"
    name = "unsupported-in-sampling"
    family = "preference"
    severity = "error"
    evidence = ("https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/grpo_config.py",)
    catalogue = ("rl.grpo-auto-batch", "rl.grpo-cp-sp", "rl.importance-sampling-bounds")
    good = (
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 8
            num_generations: 8
            learning_rate: 1.0e-6
            auto_find_batch_size: false
            """,
        ),
    )
    bad = (
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 8
            num_generations: 8
            learning_rate: 1.0e-6
            auto_find_batch_size: true
            """,
            at="auto_find_batch_size",
            count=1,
        ),
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 8
            num_generations: 8
            learning_rate: 1.0e-6
            vllm_importance_sampling_clip_min: 2.0
            vllm_importance_sampling_clip_max: 2.0
            """,
            at="vllm_importance_sampling_clip_min",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        reading = sampling_reading(job)
        if reading is None or reading.dialect != "trl":
            return
        stated = context.version(job, "trl")
        search = setting(job, "auto_find_batch_size")
        if search is not None and boolean(search.value) is True:
            refused = always_at_least(stated, "1.13") is True
            yield self.finding(
                "auto_find_batch_size halves the batch when memory runs out, and cuts groups of completions",
                search,
                help="switch it off and lower per_device_train_batch_size",
                severity="error" if refused else "warning",
                job=job,
            )
        for key in ("cp_size", "sp_size"):
            size = number(reading.value("parallelism_config", key))
            if size is not None and size > 1:
                refused = always_at_least(stated, "1.8") is True
                yield self.finding(
                    f"{key} {size:g}: GRPO does not support context or sequence parallelism",
                    reading.origin("parallelism_config", key),
                    help=f"{key}: 1",
                    severity="error" if refused else "warning",
                    job=job,
                )
        low, high = setting(job, "vllm_importance_sampling_clip_min"), setting(job, "vllm_importance_sampling_clip_max")
        if low is not None and high is not None:
            floor, ceiling = number(low.value), number(high.value)
            if floor is not None and ceiling is not None and floor >= ceiling:
                yield self.finding(
                    f"vllm_importance_sampling_clip_min {floor:g} is not below vllm_importance_sampling_clip_max {ceiling:g}",
                    low,
                    (high, "upper bound"),
                    help="the lower bound must be the smaller",
                    job=job,
                )
