"""MEM014."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import DefaultOrigin, Fact
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Parameter, Rule, example

from ..trainer import adapters, argument, argument_number, argument_on, trainer_readings, word

DEFAULT_SHARE_FROM = "0.20"
"""First TRL release read whose ``vllm_gpu_memory_utilization`` is 0.3; 0.9 before."""


class ColocatedVllmShare(Rule):
    """vLLM on the training GPUs claims so much memory that training has too little left.

    In `colocate` mode vLLM reserves its share of each GPU for the whole run; weights, gradients and optimizer of the trained
    model must fit into the rest. A share copied from a serving setup (0.7 to 0.9) leaves too little, and the run ends in
    CUDA out of memory at the first optimizer step. `vllm_enable_sleep_mode` frees the share during the step.

    How sure: reported; TRL lowered its own default from 0.9 to 0.3. A warning for full training above 0.5, information for
    adapters; the share is a parameter. `server` mode and sleep mode are left out.
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
    )
    parameters = {"share": Parameter(0.5, "share of the GPU above which it is reported")}
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
        if not any(r.dialect == "trl" for r in trainer_readings(job)):
            return
        on, sleeps = argument_on(job, "use_vllm"), argument_on(job, "vllm_enable_sleep_mode")
        version = job.versions.get("trl")
        if on is None or not on.value or (sleeps is not None and sleeps.value):
            return
        mode = word(argument(job, "vllm_mode"))
        if mode != "colocate" and not (mode is None and always_at_least(version, "1.0")):
            return
        share = argument_number(job, "vllm_gpu_memory_utilization")
        if (
            share is None
            and argument(job, "vllm_gpu_memory_utilization") is None
            and always_below(version, DEFAULT_SHARE_FROM)
        ):
            share = Fact(0.9, DefaultOrigin("trl", f"<{DEFAULT_SHARE_FROM}"))
        most = self.options["share"]
        if share is None or not isinstance(most, (int, float)) or share.value <= most:
            return
        severity: Severity = "info" if adapters(job) else "warning"
        yield self.finding(
            f"vLLM keeps {share.value:.0%} of each GPU, {1 - share.value:.0%} is left for training on it",
            share if not isinstance(share.origin, DefaultOrigin) else on,
            (argument(job, "vllm_mode"), "on the training GPUs"),
            help="lower vllm_gpu_memory_utilization (TRL's default is 0.3), or set vllm_enable_sleep_mode: true",
            severity=severity,
            job=job,
        )
