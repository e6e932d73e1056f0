"""Precision that follows from other facts: what DeepSpeed's engine keeps, and what a checkpoint is loaded in."""

from __future__ import annotations

from cfglint.jobs.facts import UNKNOWN, CatalogueOrigin, DerivedOrigin, Origin
from cfglint.jobs.job import TrainingJob

HALF = ("bf16", "fp16")


def settle_precision(job: TrainingJob) -> None:
    """State ``weight_dtype`` and ``master_weights`` where they follow from other facts.

    DeepSpeed's engine casts the module to the enabled 16-bit type and keeps fp32 masters for what is trained
    (deepspeed/runtime/engine.py, ``_configure_distributed_model``), whatever the model was loaded in. A model loaded with
    dtype ``auto``, the default from transformers 5 on, has its checkpoint's own dtype.
    """
    sharded = job.reading("deepspeed") is not None or any("deepspeed" in r.context for r in job.readings)
    compute = job.compute_dtype
    if sharded and compute is not None and compute.value in HALF:
        origin = DerivedOrigin(f"DeepSpeed casts the module to {compute.value}", (compute.origin,))
        job.state_first("weight_dtype", compute.value, origin, certain=compute.certain)
        if not job.stated("master_weights"):
            job.state("master_weights", True, DerivedOrigin("DeepSpeed keeps fp32 masters", (compute.origin,)))
        return
    statements = job.statements("weight_dtype")
    if not statements or statements[0].value is not UNKNOWN:
        return
    architecture = job.architecture
    native = architecture.native_dtype if architecture else None
    if native is not None and job.model is not None:
        where: Origin = job.model.origin if job.model.source != "catalogue" else CatalogueOrigin(job.model.source)
        name = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(native, native)
        job.state_first("weight_dtype", name, DerivedOrigin("the checkpoint's own dtype", (where,)))
