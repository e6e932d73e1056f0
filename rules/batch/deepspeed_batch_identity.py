"""BAT001."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity, Where
from cfglint.lint.rule import Rule, example

from ..consistency.mismatch import compared_settings
from ..trainer import Settings, data_parallel_ranks, deepspeed_settings

MICRO, ACCUMULATION, TOTAL = "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size"


class DeepspeedBatchIdentity(Rule):
    """DeepSpeed's batch sizes do not multiply to `train_batch_size`.

    DeepSpeed asserts train_batch_size = train_micro_batch_size_per_gpu × gradient_accumulation_steps × data-parallel GPUs
    when the engine is made: "Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu *
    gradient_acc_step * world_size". Of two given numbers it computes the third by whole division, so a remainder fails the
    same assertion, and a quotient of 0 stops with "Gradient accumulation steps: 0 has to be greater than 0".

    How sure: the assertion is in DeepSpeed's source (all versions read). Where no number of GPUs at all satisfies it, it is
    an error; where only the known number of GPUs does not, it is an error for a job that names the file, and a warning for
    a file alone. `auto` and files with `elasticity` are left out: the trainer or the scheduler fills them in. For
    transformers' trainer see deepspeed-batch-differs.
    """

    code = "BAT001"
    name = "deepspeed-batch-identity"
    family = "batch"
    severity = "error"
    catalogue = ("ds.batch-identity", "ds.batch-floor")
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/config.py",
        "https://github.com/OpenRLHF/OpenRLHF/issues/346",
        "https://www.deepspeed.ai/docs/config-json/",
    )
    good = (
        example(
            "ds.json",
            """
            {
              "train_batch_size": 256,
              "train_micro_batch_size_per_gpu": 2,
              "gradient_accumulation_steps": 16,
              "zero_optimization": {"stage": 2}
            }
            """,
            gpus=8,
        ),
        example(
            "ds.json",
            """
            {
              "train_batch_size": 256,
              "train_micro_batch_size_per_gpu": 2,
              "steps_per_print": 10,
              "zero_optimization": {"stage": 2}
            }
            """,
            note="the accumulation follows from the GPUs of each run",
        ),
    )
    bad = (
        example(
            "ds.json",
            """
            {
              "train_batch_size": 256,
              "train_micro_batch_size_per_gpu": 2,
              "gradient_accumulation_steps": 18,
              "zero_optimization": {"stage": 2}
            }
            """,
            at="train_batch_size",
            count=1,
        ),
        example(
            "ds.json",
            """
            {
              "train_batch_size": 8,
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2}
            }
            """,
            gpus=8,
            at="train_batch_size",
            count=1,
            note="8 // 4 // 8 GPUs is 0",
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        settings = deepspeed_settings(job)
        if settings is None or compared_settings(job) is not None or settings.on("elasticity", "enabled"):
            return
        total = settings.integer(TOTAL)
        if total is None or settings.on("autotuning", "enabled"):
            return
        factors = {key: settings.integer(key) for key in (MICRO, ACCUMULATION)}
        if any(settings.has(key) and value is None for key, value in factors.items()):
            return
        known = {key: value for key, value in factors.items() if value is not None}
        product = 1
        for value in known.values():
            product *= value
        if product < 1 or total < 1:
            return
        where: list[Where | tuple[Where, str]] = [settings.fact(TOTAL), *(settings.fact(key) for key in known)]
        words = " × ".join(str(value) for value in known.values())
        if known and total % product:
            yield self.finding(
                f"{TOTAL} is {total}, not a multiple of {' × '.join(known)} = {words}"
                f"{'' if len(known) == 1 else f' = {product}'}: no number of GPUs fits",
                *where,
                help=self._help(settings, known, total, product),
                job=job,
            )
            return
        ranks = data_parallel_ranks(job)
        if ranks is None or job.stated("sequence_parallel_size"):
            return
        fits = total == product * ranks if len(known) == 2 else total % (product * ranks) == 0
        if fits:
            return
        severity: Severity = "warning" if job.partial else "error"
        made = f"{words} × {ranks} GPUs = {product * ranks}" if known else f"{ranks} GPUs"
        relation = "not" if len(known) == 2 else "not a multiple of"
        yield self.finding(
            f"{TOTAL} is {total}, {relation} {made}",
            *where,
            (job.hardware.count_origin, f"{job.hardware.world_size} GPUs"),
            help=f"leave {TOTAL} out: DeepSpeed computes it",
            severity=severity,
            confidence="medium" if job.partial else "high",
            job=job,
        )

    def _help(self, settings: Settings, known: dict[str, int], total: int, product: int) -> str:
        if len(known) == 2 and total % known[MICRO] == 0:
            return f"leave {TOTAL} or {ACCUMULATION} out: DeepSpeed computes it"
        return f"make {TOTAL} a multiple of {product}, or leave it out: DeepSpeed computes it"
