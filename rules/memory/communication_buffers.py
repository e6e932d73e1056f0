"""MEM019."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.estimate.result import GIB
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Parameter, Rule, example

from ..trainer import deepspeed_settings
from .wording import accelerator_words

DEFAULT_BUCKET = 500_000_000
"""Elements in ``reduce_bucket_size`` and ``allgather_bucket_size`` where they are not given (runtime/zero/config.py)."""
OVERLAP_FACTOR = 4.5
ELEMENT_BYTES = 2
"""transformers' documentation: with ``overlap_comm`` the buckets take 5e8 × 2 bytes × 2 × 4.5 = 9 GB."""


class CommunicationBuffers(Rule):
    """ZeRO's communication buffers take a large part of a small GPU.

    With `overlap_comm` DeepSpeed keeps several buckets in flight: at the default of 500 million elements transformers'
    documentation counts 9 GB per GPU. On a GPU with 24 GB or less that is often the difference between training and out of
    memory; 2e8 needs 3.6 GB and costs little.

    How sure: the count is the documentation's, an upper bound: a model with fewer parameters per rank fills no bucket. It is
    information, for ZeRO 1 and 2 with overlap stated, a known GPU, and models that are not known to be smaller than a bucket.
    """

    code = "MEM019"
    name = "communication-buffers"
    family = "memory"
    severity = "info"
    confidence = "medium"
    catalogue = ("mem.ds-bucket-9gb",)
    evidence = (
        "https://huggingface.co/docs/transformers/deepspeed",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/zero/config.py",
    )
    parameters = {"share": Parameter(0.2, "share of the GPU's memory from which the buffers are reported")}
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto",
                 "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": 2e8, "allgather_bucket_size": 2e8}}
                """,
            },
            gpu="RTX4090-24GB",
            gpus=4,
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto",
                 "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": 5e8, "allgather_bucket_size": 5e8}}
                """,
            },
            gpu="RTX4090-24GB",
            gpus=4,
            at="reduce_bucket_size",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        settings = deepspeed_settings(job)
        if settings is None or not job.hardware.candidates:
            return
        stage = settings.integer("zero_optimization", "stage")
        if stage not in (1, 2) or settings.on("zero_optimization", "overlap_comm") is not True:
            return
        size = 0.0
        where = settings.fact("zero_optimization", "overlap_comm")
        for key in ("allgather_bucket_size", "reduce_bucket_size"):
            bucket = settings.number("zero_optimization", key)
            if bucket is None and settings.has("zero_optimization", key):
                return
            if bucket is not None:
                where = settings.fact("zero_optimization", key)
            size += (DEFAULT_BUCKET if bucket is None else bucket) * ELEMENT_BYTES * OVERLAP_FACTOR
        total = job.architecture.total_parameters if job.architecture is not None else None
        capacity = max(a.usable_bytes for a in job.hardware.candidates)
        share = self.options["share"]
        if (isinstance(total, int) and total < DEFAULT_BUCKET) or not isinstance(share, (int, float)):
            return
        if size < share * capacity:
            return
        yield self.finding(
            f"communication buffers take up to {size / GIB:.1f} GiB of {capacity / GIB:.1f} on {accelerator_words(job)}",
            where,
            settings.fact("zero_optimization", "overlap_comm"),
            help="reduce_bucket_size and allgather_bucket_size of 2e8 take 3.4 GiB; overlap_comm: false takes less still",
            job=job,
        )
