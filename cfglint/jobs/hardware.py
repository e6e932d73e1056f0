"""A job's accelerators and counts, from whatever stated them first."""

from __future__ import annotations

from collections.abc import Sequence

from cfglint.catalog.accelerators import Accelerator, find_accelerators, parse_gpu
from cfglint.jobs.job import Hardware, Job


def resolve_hardware(job: Job, own: Sequence[Accelerator] = ()) -> Hardware:
    """Look the stated accelerator up (``own`` rows first) and put it together with the counts. Nothing is guessed."""
    gpu = job.gpu
    count = job.gpus_per_node
    nodes = job.nodes
    gpus_per_node = _positive(count.value) if count else None
    count_origin = count.origin if count else None
    name = ""
    candidates: tuple[Accelerator, ...] = ()
    if gpu is not None and isinstance(gpu.value, str):
        name, stated_count = parse_gpu(gpu.value)
        mine = tuple(a for a in own if name.lower() in {n.lower() for n in (a.id, *a.aliases)})
        candidates = mine or find_accelerators(name)
        if gpus_per_node is None and stated_count is not None:
            gpus_per_node, count_origin = stated_count, gpu.origin
    host = job.value("host_memory_bytes")
    return Hardware(
        candidates=candidates,
        name=name,
        gpus_per_node=gpus_per_node,
        nodes=_positive(nodes.value) if nodes else None,
        origin=gpu.origin if gpu else None,
        count_origin=count_origin,
        host_memory_bytes=host if isinstance(host, int) else None,
        nodes_open=job.undecided("nodes"),
    )


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
