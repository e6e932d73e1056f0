"""RLH005."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean, number
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Parameter, Rule, example

from .sampling_batch import sampling_reading, setting

GIB = 2**30


class ColocatedMemory(Rule):
    """vLLM beside the trainer on the same GPUs is given more memory than training leaves.

    In mode ``colocate`` vLLM takes ``vllm_gpu_memory_utilization`` of each GPU for its weights and cache, while parameters,
    gradients and optimizer states of the trainer lie there too. TRL's default is 0.3.

    How sure: with a known accelerator the trainer's estimated need is added to vLLM's share, and a finding means that the
    low end of the sum is too much. Without one, a share above the parameter ``share`` is reported where all parameters are
    trained and sleep mode is off.
    """

    code = "RLH005"
    name = "colocated-memory"
    family = "preference"
    severity = "warning"
    confidence = "medium"
    evidence = (
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/grpo_config.py",
        "https://github.com/huggingface/trl/pull/3968",
        "https://github.com/huggingface/trl/issues/2688",
    )
    catalogue = ("mem.vllm-colocate-util",)
    parameters = {
        "share": Parameter(0.5, "vLLM's share of a GPU above which full-parameter training beside it is reported"),
    }
    good = (
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 8
            num_generations: 8
            learning_rate: 1.0e-6
            use_vllm: true
            vllm_mode: colocate
            vllm_gpu_memory_utilization: 0.3
            """,
        ),
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 8
            num_generations: 8
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
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 8
            num_generations: 8
            learning_rate: 1.0e-6
            use_vllm: true
            vllm_mode: colocate
            vllm_gpu_memory_utilization: 0.7
            """,
            at="vllm_gpu_memory_utilization",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        reading, vllm = sampling_reading(job), setting(job, "use_vllm")
        if reading is None or vllm is None or boolean(vllm.value) is not True:
            return
        mode, share = setting(job, "vllm_mode"), setting(job, "vllm_gpu_memory_utilization")
        colocated = mode.value == "colocate" if mode else always_at_least(context.version(job, "trl"), "1.0") is True
        taken = number(share.value) if share is not None else None
        sleep = setting(job, "vllm_enable_sleep_mode")
        if not colocated or share is None or taken is None or not 0 < taken <= 1:
            return
        if sleep is not None and boolean(sleep.value) is not False:
            return
        accelerator = job.hardware.accelerator
        memory = context.estimate(job).memory if accelerator is not None else None
        if accelerator is not None and memory is not None and memory.used is not None and not memory.missing:
            capacity = memory.capacity or accelerator.usable_bytes
            need = memory.used.low + taken * capacity
            if need > capacity:
                yield self.finding(
                    f"vLLM takes {taken * capacity / GIB:.1f} GiB of each GPU and training needs at least "
                    f"{memory.used.low / GIB:.1f}: together more than {capacity / GIB:.1f}",
                    share,
                    (mode, "on the trainer's GPUs"),
                    help="lower vllm_gpu_memory_utilization, or vllm_enable_sleep_mode: true",
                    job=job,
                )
            return
        method = job.value("method")
        if taken > float(self.options["share"]) and method == "grpo":
            yield self.finding(
                f"vLLM takes {taken:g} of each GPU, beside parameters, gradients and optimizer states of the trainer",
                share,
                (mode, "on the trainer's GPUs"),
                help="TRL's default is 0.3; vllm_enable_sleep_mode: true gives the memory back between generations",
                job=job,
            )
