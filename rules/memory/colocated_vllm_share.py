"""MEM014."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean, number
from cfglint.formulas import GIB
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Parameter, Rule, example

from ..trainer import argument, argument_number, argument_on, trainer_readings, trains_adapters, word

COLOCATES_FROM = "1.0"
"""First TRL release whose ``vllm_mode`` is ``colocate`` where it is not stated."""


class ColocatedVllmShare(Rule):
    """vLLM on the training GPUs claims so much memory that training has too little left.

    In `colocate` mode vLLM reserves its share of each GPU for the whole run; weights, gradients and optimizer of the trained
    model must fit into the rest. A share copied from a serving setup (0.7 to 0.9) leaves too little, and the run ends in
    CUDA out of memory at the first optimizer step. `vllm_enable_sleep_mode` frees the share during the step.

    How sure: with a known accelerator the low end of the training estimate is added to vLLM's share, and a finding means that
    the sum is too much. Otherwise a share above 0.5 is a warning for full training and information for adapters; TRL's own
    default is 0.3. With sleep mode (in ms-swift `sleep_level`) the share is free during the step, but on waking it must fit
    beside what training keeps: information from 0.7 on. In OpenRLHF `--colocate_all_models` shares the GPUs and
    `--vllm_enable_sleep` frees them. ms-swift's default share is 0.9. The shares are parameters; `server` mode is left out. Where neither the mode nor TRL's release is stated it is
    information: TRL shares the GPUs by default since 1.0.
    """

    code = "MEM014"
    name = "colocated-vllm-share"
    family = "memory"
    severity = "warning"
    confidence = "medium"
    catalogue = ("mem.vllm-colocate-util",)
    evidence = (
        "https://github.com/huggingface/trl/issues/2688",
        "https://github.com/huggingface/trl/issues/2927",
        "https://github.com/huggingface/trl/pull/3968",
        "https://github.com/modelscope/ms-swift/issues/7125",
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/grpo_config.py",
    )
    parameters = {
        "share": Parameter(0.5, "share of the GPU above which it is reported"),
        "sleeping_share": Parameter(0.7, "the same with sleep mode, from this share on"),
    }
    good = (
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            dataset_name: our/prompts
            reward_funcs: accuracy
            num_generations: 8
            max_completion_length: 1024
            per_device_train_batch_size: 8
            learning_rate: 1.0e-6
            use_vllm: true
            vllm_mode: colocate
            vllm_gpu_memory_utilization: 0.3
            """,
        ),
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            dataset_name: our/prompts
            reward_funcs: accuracy
            num_generations: 8
            per_device_train_batch_size: 8
            learning_rate: 1.0e-6
            use_vllm: true
            vllm_mode: server
            vllm_gpu_memory_utilization: 0.9
            """,
            note="a server has its GPU for itself",
        ),
    )
    bad = (
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            dataset_name: our/prompts
            reward_funcs: accuracy
            num_generations: 8
            max_completion_length: 1024
            per_device_train_batch_size: 8
            learning_rate: 1.0e-6
            use_vllm: true
            vllm_mode: colocate
            vllm_gpu_memory_utilization: 0.8
            """,
            at="vllm_gpu_memory_utilization",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        dialects = {r.dialect for r in trainer_readings(job)}
        if job.reading("openrlhf") is not None:
            yield from self._openrlhf(job)
            return
        if not dialects & {"trl", "ms-swift"}:
            return
        on = argument_on(job, "use_vllm")
        sleeps = self._sleeps(job)
        version = job.versions.get("trl")
        if on is None or not on.value:
            return
        mode = word(argument(job, "vllm_mode"))
        by_default = mode is None and "trl" in dialects and always_at_least(version, COLOCATES_FROM) is not False
        if mode != "colocate" and not by_default:
            return
        open_release = by_default and not always_at_least(version, COLOCATES_FROM)
        share = argument_number(job, "vllm_gpu_memory_utilization")
        by_framework = share is None and mode == "colocate" and "ms-swift" in dialects
        if by_framework:
            share = job.fact("rollout_gpu_memory_utilization")  # ms-swift's own default: 0.9
        if share is None or not isinstance(share.value, (int, float)) or not 0 < share.value <= 1:
            return
        if not sleeps and not open_release and job.hardware.accelerator is not None:
            memory = context.estimate(job).memory
            if memory.used is not None and not memory.missing:
                capacity = memory.capacity or job.hardware.accelerator.usable_bytes
                if memory.used.low + share.value * capacity > capacity:
                    yield self.finding(
                        f"vLLM takes {share.value * capacity / GIB:.1f} GiB of each GPU and training needs at least "
                        f"{memory.used.low / GIB:.1f}: together more than the {capacity / GIB:.1f} there are",
                        share,
                        (argument(job, "vllm_mode"), "on the training GPUs"),
                        help="lower vllm_gpu_memory_utilization, or let vLLM sleep (vllm_enable_sleep_mode; sleep_level in ms-swift)",
                        job=job,
                    )
                return
        most = self.options["share"]
        asleep = self.options["sleeping_share"]
        if not isinstance(most, (int, float)) or share.value <= most:
            return
        if sleeps and (not isinstance(asleep, (int, float)) or share.value < asleep):
            return
        severity: Severity = "info" if trains_adapters(job) or sleeps or open_release else "warning"
        yield self.finding(
            f"vLLM keeps {share.value:.0%} of each GPU{' while it is awake' if sleeps else ''}"
            f"{' (by default)' if by_framework else ''}, {1 - share.value:.0%} is left "
            "for training on it"
            + (
                f" (TRL {COLOCATES_FROM} and later share the GPUs unless vllm_mode says server)" if open_release else ""
            ),
            share,
            (argument(job, "vllm_mode"), "on the training GPUs"),
            help="lower vllm_gpu_memory_utilization (TRL's default is 0.3)" + ("" if sleeps else ", or let vLLM sleep"),
            severity=severity,
            job=job,
        )

    def _openrlhf(self, job: TrainingJob) -> Iterator[Finding]:
        """OpenRLHF puts vLLM on the training GPUs with ``--colocate_all_models``; ``--vllm_enable_sleep`` frees its share."""
        reading, most = job.reading("openrlhf"), self.options["share"]
        if reading is None or boolean(reading.value("colocate_all_models")) is not True:
            return
        share = number(reading.value("vllm_gpu_memory_utilization"))
        if boolean(reading.value("vllm_enable_sleep")) is True or share is None or not isinstance(most, (int, float)):
            return
        if most < share <= 1:
            yield self.finding(
                f"vLLM keeps {share:.0%} of each GPU, {1 - share:.0%} is left for training on it",
                reading.origin("vllm_gpu_memory_utilization"),
                (reading.origin("colocate_all_models"), "on the training GPUs"),
                help="add --vllm_enable_sleep, or lower vllm_gpu_memory_utilization",
                job=job,
            )

    def _sleeps(self, job: TrainingJob) -> bool:
        mode, level = argument_on(job, "vllm_enable_sleep_mode"), argument_number(job, "sleep_level")
        return bool(mode and mode.value) or (level is not None and level.value > 0)
