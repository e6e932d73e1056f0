"""MEM010."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.estimate.result import GIB
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Confidence, Finding, Severity
from cfglint.lint.rule import Parameter, Rule, example

from ..trainer import parameter_count, trains_adapters, uses_deepspeed

STATE_BYTES = 12
"""fp32 copy and two fp32 moments of each trained parameter, which DeepSpeed's CPU Adam steps on the host."""
WITH_GRADIENTS_BYTES = 16
"""The same with fp32 gradients: what DeepSpeed's own estimate of ZeRO-2 offload counts
(deepspeed/runtime/zero/stage_1_and_2.py, ``estimate_zero2_model_states_mem_needs``)."""
BUFFER_FACTOR = 1.5
"""Factor of the same estimate for pinned buffers, fragmentation and the rest of the process."""
PARAMETER_BYTES = 2
"""16-bit parameters kept on the host with ``offload_param``."""


class OffloadHostMemory(Rule):
    """Offloading the optimizer needs more host memory than the machine has, or more than one expects.

    ZeRO-Offload moves the fp32 weights and both moments to the host: 12 bytes per trained parameter, 16 with gradients,
    and half as much again for pinned buffers. When the host runs out, the kernel kills the process: "exits with return code
    = -9", without a Python traceback, usually while the optimizer states are made.

    How sure: the bytes are DeepSpeed's own count. It is an error where 12 bytes per parameter alone exceed a host memory that
    SLURM or Kubernetes states (and the number of machines is known), a warning where the full count does. Where nothing states the host's memory it is
    information, from 64 GiB on. A model that is not known is counted as its name says, and never an error. Adapters train few
    parameters: then nothing is said.
    """

    code = "MEM010"
    name = "offload-host-memory"
    family = "memory"
    severity = "error"
    catalogue = ("mem.offload-host-ram",)
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/issues/4239",
        "https://github.com/deepspeedai/DeepSpeed/issues/3160",
        "https://github.com/hiyouga/LlamaFactory/issues/4629",
        "https://huggingface.co/docs/transformers/deepspeed",
    )
    parameters = {
        "unstated_from": Parameter(
            64, "GiB of host memory from which it is said although nothing states what the host has"
        )
    }
    good = (
        example(
            {
                "lora.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                stage: sft
                do_train: true
                finetuning_type: lora
                template: qwen
                dataset: our_data
                bf16: true
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"},
                 "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
                """,
            },
            note="adapters have few states",
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: EleutherAI/gpt-j-6b
                fp16: true
                num_train_epochs: 12
                per_device_train_batch_size: 4
                learning_rate: 5.0e-6
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "fp16": {"enabled": "auto"},
                 "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": true}}}
                """,
            },
            at="device",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        optimizer, parameters = job.offload_optimizer, job.offload_parameters
        if optimizer is None or optimizer.value != "cpu" or job.partial or trains_adapters(job) is not False:
            return
        if not job.zero_stage or not uses_deepspeed(job):
            return
        known = job.architecture.total_parameters if job.architecture is not None else None
        total = known or parameter_count(job)
        if total <= 0:
            return
        nodes = job.hardware.nodes or 1
        kept = PARAMETER_BYTES if parameters is not None and parameters.value == "cpu" else 0
        low = total * (STATE_BYTES + kept) / nodes
        high = total * (WITH_GRADIENTS_BYTES + kept) * BUFFER_FACTOR / nodes
        host = job.hardware.host_memory_bytes
        severity: Severity = "info"
        confidence: Confidence = "medium"
        if host is not None:
            if high <= host:
                return
            # one machine is an assumption where nothing says how many there are
            certain = low > host and job.hardware.nodes is not None
            severity = "error" if certain and known else "warning"
            confidence = "high" if certain and known else "medium"
            against = f"it has {host / GIB:.0f}"
        else:
            least = self.options["unstated_from"]
            if not isinstance(least, (int, float)) or high < least * GIB:
                return
            against = "no file says what it has"
        each = f" on each of {nodes} machines" if nodes > 1 else ""
        yield self.finding(
            f"the offloaded optimizer takes {low / GIB:.0f}–{high / GIB:.0f} GiB of host memory{each}, {against}",
            (optimizer, f"{STATE_BYTES}–{WITH_GRADIENTS_BYTES} bytes per trained parameter"),
            (parameters, f"{PARAMETER_BYTES} bytes per parameter") if kept else None,
            (job.model_id, f"{total / 1e9:.2f} B parameters" if known else f"{total / 1e9:g} B by its name"),
            help="offload to NVMe, train adapters, use an 8-bit optimizer on the GPU, or take a machine with more memory",
            severity=severity,
            confidence=confidence,
            data={"host_gib": {"low": round(low / GIB, 1), "high": round(high / GIB, 1)}},
            job=job,
        )
