"""BAT011."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.estimate.batch import estimate_batch
from cfglint.jobs.facts import DefaultOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Parameter, Rule, example


class UnusualGlobalBatch(Rule):
    """The global batch of a fine-tuning run is far from what recipes use.

    Micro-batch, accumulation and GPUs multiply: eight nodes with the accumulation of one GPU make a batch in which a small
    data set is a handful of steps; one sequence per step makes gradients that are mostly noise. The learning rate of a
    recipe belongs to its batch.

    How sure: a habit, not a law, so it is information for strict readers, only for fine-tuning, and only where all three
    numbers are known. Packed sequences hold several examples, so the lower bound is not applied to them. The bounds are
    parameters.
    """

    code = "BAT011"
    name = "unusual-global-batch"
    family = "batch"
    severity = "info"
    confidence = "low"
    persona = "strict"
    evidence = (
        "https://arxiv.org/abs/1812.06162",
        "https://arxiv.org/abs/2410.21676",
    )
    parameters = {
        "least": Parameter(4, "fewer sequences per optimizer step than this are reported"),
        "most": Parameter(2048, "more sequences per optimizer step than this are reported"),
    }
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 2
            gradient_accumulation_steps: 8
            num_train_epochs: 1
            """,
            gpu="A100-80GB",
            gpus=8,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 16
            gradient_accumulation_steps: 32
            num_train_epochs: 1
            """,
            gpu="A100-80GB",
            gpus=8,
            at="per_device_train_batch_size",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        method = job.value("method")
        if job.partial or not isinstance(method, str) or method.split("+")[0] not in ("full", "lora", "qlora", "dora"):
            return
        micro = job.micro_batch_size
        if micro is None or isinstance(micro.origin, DefaultOrigin):
            return
        batch = estimate_batch(job)
        if batch.sequences is None or batch.data_parallel is None:
            return
        least, most = self.options["least"], self.options["most"]
        few = isinstance(least, int) and batch.sequences < least and job.value("packing") is not True
        many = isinstance(most, int) and batch.sequences > most
        if not few and not many:
            return
        yield self.finding(
            f"{batch.sequences} sequences per optimizer step: {batch.micro_batch} × {batch.gradient_accumulation} "
            f"accumulated × {batch.data_parallel} GPUs; fine-tuning recipes use 8 to 512",
            micro,
            job.gradient_accumulation_steps,
            help="accumulate more" if few else "accumulate less, or scale the learning rate with the batch",
            data={"sequences": batch.sequences},
            job=job,
        )
