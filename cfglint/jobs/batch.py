"""Accumulation that follows from a stated global batch: many trainers are told the batch of a step, not its micro-steps."""

from __future__ import annotations

from cfglint.jobs.facts import DerivedOrigin, Origin
from cfglint.jobs.job import TrainingJob


def settle_accumulation(job: TrainingJob) -> None:
    """State ``gradient_accumulation_steps`` where global batch, micro-batch and data parallelism are known and it is not.

    global batch = micro-batch × accumulation × data-parallel ranks, in sequences. Nothing is stated where it does not come
    out even: that the batch cannot be split is for a rule to say.
    """
    if job.gradient_accumulation_steps is not None:
        return
    total, micro, data = job.global_batch_size, job.micro_batch_size, _data_parallel(job)
    if total is None or micro is None or data is None:
        return
    if not _whole(total.value) or not _whole(micro.value):
        return
    step = micro.value * data
    if step < 1 or total.value < step or total.value % step:
        return
    how = f"global batch {total.value} / (micro-batch {micro.value} × {data} data parallel)"
    origins: tuple[Origin, ...] = (total.origin, micro.origin)
    certain = total.certain and micro.certain
    job.state_first("gradient_accumulation_steps", total.value // step, DerivedOrigin(how, origins), certain=certain)


def _whole(value: object) -> bool:
    """A job file's values are as its author wrote them."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _data_parallel(job: TrainingJob) -> int | None:
    """Data-parallel ranks as stated, else the world over the ranks that share one model."""
    stated = job.data_parallel_size
    if stated is not None:
        return stated.value if _whole(stated.value) else None
    world = job.hardware.world_size
    ranks = 1
    for fact in (job.tensor_parallel_size, job.pipeline_parallel_size, job.context_parallel_size):
        if fact is not None and not _whole(fact.value):
            return None
        ranks *= fact.value if fact is not None else 1
    return world // ranks if world is not None and world % ranks == 0 else None
