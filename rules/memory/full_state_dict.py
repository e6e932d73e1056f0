"""MEM013."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.estimate.result import GIB
from cfglint.jobs.facts import DefaultOrigin, Fact
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Parameter, Rule, example

from ..consistency.mismatch import complete
from ..trainer import sections, trains_adapters

KEYS = ("fsdp_state_dict_type", "state_dict_type")


class FullStateDict(Rule):
    """FSDP gathers the whole model and optimizer on one rank for every checkpoint.

    With `FULL_STATE_DICT` rank 0 collects all shards in its host memory before it writes, first of the weights, then of the
    optimizer's states (8 bytes per trained parameter in fp32), while the other ranks wait. Large models die at the first save, or run into the NCCL
    timeout. `SHARDED_STATE_DICT` lets every rank write its own part; `accelerate merge-weights` makes one file of them.

    How sure: in Accelerate's source; the size is arithmetic. Said for stated `FULL_STATE_DICT` and full training only: a
    warning where the machine's stated memory is smaller, else information from a size that is a parameter.
    """

    code = "MEM013"
    name = "full-state-dict"
    family = "memory"
    severity = "warning"
    confidence = "medium"
    catalogue = ("mem.fsdp-full-state-dict",)
    evidence = (
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/dataclasses.py",
        "https://github.com/intelligent-machine-learning/dlrover/issues/840",
        "https://huggingface.co/docs/accelerate/usage_guides/fsdp",
    )
    parameters = {"from": Parameter(40, "GiB gathered on one rank from which it is reported")}
    good = (
        example(
            "full.yml",
            """
            base_model: meta-llama/Llama-3.1-70B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 1
            num_epochs: 1
            bf16: true
            fsdp_version: 2
            fsdp_config:
              state_dict_type: SHARDED_STATE_DICT
              transformer_layer_cls_to_wrap: LlamaDecoderLayer
            """,
        ),
    )
    bad = (
        example(
            "full.yml",
            """
            base_model: meta-llama/Llama-3.1-70B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 1
            num_epochs: 1
            bf16: true
            fsdp_version: 2
            fsdp_config:
              state_dict_type: FULL_STATE_DICT
              transformer_layer_cls_to_wrap: LlamaDecoderLayer
            """,
            at="state_dict_type",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        total = job.architecture.total_parameters if job.architecture is not None else None
        stated = self._stated(job)
        if stated is None or trains_adapters(job) is not False or not isinstance(total, int):
            return
        method = job.fact("method")
        own_script = not complete(job) and (method is None or isinstance(method.origin, DefaultOrigin))
        size, least = context.estimate(job).memory.saving, self.options["from"]
        host = job.hardware.host_memory_bytes
        if not size:
            return
        over = host is not None and size > host and not own_script  # a script may bring adapters of its own
        if not over and (not isinstance(least, (int, float)) or size < least * GIB):
            return
        severity: Severity = "warning" if over else "info"
        yield self.finding(
            f"FULL_STATE_DICT gathers {size / GIB:.0f} GiB of weights or optimizer states on one rank at every save"
            + (f", its machine has {host / GIB:.0f}" if over and host is not None else ""),
            stated,
            (job.model_id, f"{total / 1e9:.1f} B parameters"),
            help="use SHARDED_STATE_DICT and merge the weights afterwards",
            severity=severity,
            job=job,
        )

    def _stated(self, job: TrainingJob) -> Fact[object] | None:
        for settings in sections(job, "fsdp_config"):
            if settings.reading.dialect == "accelerate" and settings.reading.context.get("distributed_type") != "FSDP":
                continue
            for key in KEYS:
                value = settings.value(key)
                if isinstance(value, str):
                    return settings.fact(key) if value.strip().upper() == "FULL_STATE_DICT" else None
        return None
