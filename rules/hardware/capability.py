"""What the rules of this family ask of a job's accelerator. An answer counts only where every card the name can mean agrees."""

from __future__ import annotations

from cfglint.jobs.job import Job

AMPERE = (8, 0)
"""First NVIDIA compute capability with bf16 and TF32 tensor cores, and the first FlashAttention-2 runs on."""
ADA = (8, 9)
"""First with FP8 tensor cores."""
HOPPER = (9, 0)
BLACKWELL = (10, 0)


def below(job: Job, capability: tuple[int, int]) -> bool:
    """True where the accelerator is NVIDIA's and every candidate is older than ``capability``."""
    candidates = job.hardware.candidates
    return bool(candidates) and all(
        a.compute_capability is not None and a.compute_capability < capability for a in candidates
    )


def vendor(job: Job) -> str | None:
    """The one vendor of all candidates; None where none is known or they differ."""
    vendors = {a.vendor for a in job.hardware.candidates}
    return vendors.pop() if len(vendors) == 1 else None


def lacks(job: Job, feature: str) -> bool:
    """True where every candidate is known not to have ``bf16``, ``tf32``, ``fp8`` …"""
    candidates = job.hardware.candidates
    return bool(candidates) and all(a.supports.get(feature) is False for a in candidates)


def described(job: Job) -> str:
    """``T4 (compute capability 7.5)``; the name alone where capabilities differ."""
    capabilities = {a.compute_capability for a in job.hardware.candidates}
    name = job.hardware.name or (job.hardware.candidates[0].id if job.hardware.candidates else "")
    found = capabilities.pop() if len(capabilities) == 1 else None
    return f"{name} (compute capability {found[0]}.{found[1]})" if found else name
