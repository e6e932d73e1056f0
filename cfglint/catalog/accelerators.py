"""Accelerators: memory as the driver reports it, compute capability, dense TFLOPS, what each can run."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Accelerator:
    """One accelerator of the catalogue. Memory as sold is in GB of the label; usable memory in GiB as torch reports it."""

    id: str
    vendor: str
    arch: str
    compute_capability: tuple[int, int] | None
    """CUDA compute capability; None for other vendors."""
    memory_gb: float
    usable_gib: float
    """What ``torch.cuda.get_device_properties().total_memory`` reports; estimated from the label where not measured."""
    usable_measured: bool
    bandwidth_gb_s: float | None
    tflops_dense: dict[str, float | None] = field(default_factory=dict)
    """Dense tensor TFLOPS by type: fp32, tf32, fp16, bf16, fp8, int8, fp4."""
    supports: dict[str, bool] = field(default_factory=dict)
    """bf16, tf32, fp8, fp4, int8, flash_attn2, flash_attn3."""
    aliases: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    note: str = ""

    @property
    def usable_bytes(self) -> int:
        return int(self.usable_gib * 2**30)


def find_accelerators(name: str) -> tuple[Accelerator, ...]:
    """Every accelerator that ``name`` can mean, as people and drivers write it; empty where the name is unknown."""
    raise NotImplementedError
