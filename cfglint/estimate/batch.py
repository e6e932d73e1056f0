"""Effective batch of a training job: sequences and tokens per optimizer step, steps per epoch."""

from __future__ import annotations

from cfglint import formulas
from cfglint.estimate.result import BatchEstimate
from cfglint.jobs.job import TrainingJob


def _count(job: TrainingJob, name: str, default: int | None = None) -> int | None:
    value = job.value(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or value < 1:
        return default if value is default else None
    return int(value)


def derived_accumulation(job: TrainingJob, micro: int | None, data: int | None) -> int | None:
    """Micro-steps of a stated global batch where the job states none: global / (micro-batch × data-parallel ranks).

    So NeMo, Megatron-LM and llm-foundry do it. None where accumulation is stated, something is missing, or it does not
    come out even: then the framework refuses, and that is for a rule to say.
    """
    total = _count(job, "global_batch_size")
    if total is None or micro is None or data is None or job.stated("gradient_accumulation_steps"):
        return None
    return total // (micro * data) if total % (micro * data) == 0 else None


def estimate_batch(job: TrainingJob, rows: int = 1) -> BatchEstimate:
    """What the facts say of the batch; fields stay None where a fact is missing or impossible.

    ``rows``: sequences of one example, 2 where it is a pair of answers.
    """
    micro = _count(job, "micro_batch_size")
    accumulation = _count(job, "gradient_accumulation_steps", 1)
    sequence = _count(job, "sequence_length")
    data = _count(job, "data_parallel_size")
    if data is None:
        world = job.hardware.world_size
        ranks = [_count(job, f"{kind}_parallel_size", 1) for kind in ("tensor", "pipeline", "context")]
        if world is not None and world > 0 and None not in ranks:
            try:
                data = formulas.data_parallel_size(world, *(r or 1 for r in ranks))
            except ValueError:
                data = None
    batch = BatchEstimate(
        micro_batch=micro, gradient_accumulation=accumulation, data_parallel=data, sequence_length=sequence, rows=rows
    )
    stated = _count(job, "global_batch_size")
    if stated is not None and not job.stated("gradient_accumulation_steps"):
        batch.gradient_accumulation = accumulation = derived_accumulation(job, micro, data)
    if micro is not None and accumulation is not None and data is not None:
        batch.sequences = formulas.effective_batch_sequences(micro, accumulation, data)
    elif stated is not None:
        batch.sequences = stated
    if batch.sequences is not None and sequence is not None:
        batch.tokens = batch.sequences * rows * sequence
        dataset = _count(job, "dataset_tokens")
        if dataset is not None:
            batch.steps_per_epoch = formulas.steps_per_epoch(dataset, batch.tokens)
    return batch
