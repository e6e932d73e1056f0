"""Optimizers as memory: states per parameter and what ``step()`` makes on top. Data, with where it was read.

torch 2.x ``torch/optim``, bitsandbytes ``optim/optimizer.py``, torchao ``optim``, transformers ``optimization.py`` and
``trainer.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cfglint.estimate.training.plan import Plan


@dataclass(frozen=True, slots=True)
class OptimizerKind:
    """``factors``: states of the parameter's own dtype; ``block_bytes``: states of fixed width, bytes per parameter.

    ``workspace``: what ``step()`` makes on top: ``foreach`` (a copy of every parameter), ``largest`` (multiples of the
    largest tensor in its own dtype plus fp32 temporaries), ``none``.
    """

    factors: float = 0.0
    block_bytes: float = 0.0
    workspace: str = "none"
    largest_factor: float = 0.0
    factored: bool = False
    paged: bool = False
    embeddings_fp32: bool = False
    """transformers registers 32-bit states for embeddings with bitsandbytes' 8-bit optimizers."""


_BNB8 = OptimizerKind(block_bytes=2 * (1 + 4 / 256), embeddings_fp32=True)
_LION8 = OptimizerKind(block_bytes=1 + 4 / 256, embeddings_fp32=True)

OPTIMIZERS: Final[dict[str, OptimizerKind]] = {
    "adamw_torch": OptimizerKind(2, workspace="foreach"),
    "adamw_torch_fused": OptimizerKind(2),
    "adamw_loop": OptimizerKind(2, workspace="largest", largest_factor=2),
    "adamw_apex_fused": OptimizerKind(2),
    "adamw_8bit": _BNB8,
    "adamw_bnb_8bit": _BNB8,
    "paged_adamw_8bit": OptimizerKind(block_bytes=2 * (1 + 4 / 256), paged=True, embeddings_fp32=True),
    "paged_adamw": OptimizerKind(block_bytes=8, paged=True),
    "paged_adamw_32bit": OptimizerKind(block_bytes=8, paged=True),
    "adamw_torch_8bit": OptimizerKind(block_bytes=2 * (1 + 4 / 256), workspace="largest", largest_factor=6),
    "adamw_torch_4bit": OptimizerKind(block_bytes=2 * (0.5 + 4 / 128), workspace="largest", largest_factor=6),
    "ademamix": OptimizerKind(3, workspace="foreach"),
    "ademamix_8bit": OptimizerKind(block_bytes=3 * (1 + 4 / 256)),
    "adafactor": OptimizerKind(workspace="largest", largest_factor=0, factored=True),
    "sgd": OptimizerKind(),
    "sgd_momentum": OptimizerKind(1),
    "rmsprop": OptimizerKind(1, workspace="foreach"),
    "lion": OptimizerKind(1, workspace="largest", largest_factor=1),
    "lion_32bit": OptimizerKind(1, workspace="largest", largest_factor=1),
    "lion_8bit": _LION8,
    "paged_lion_8bit": OptimizerKind(block_bytes=1 + 4 / 256, paged=True),
    "paged_lion_32bit": OptimizerKind(block_bytes=4, paged=True),
    "muon": OptimizerKind(1, workspace="largest", largest_factor=4),
    "galore_adamw": OptimizerKind(0.5, workspace="largest", largest_factor=2),
    "galore_adamw_8bit": OptimizerKind(block_bytes=0.5, workspace="largest", largest_factor=2),
    "apollo_adamw": OptimizerKind(0.25, workspace="largest", largest_factor=2),
    "apollo": OptimizerKind(0.25, workspace="largest", largest_factor=2),
    "schedule_free_adamw": OptimizerKind(2, workspace="foreach"),
    "adalomo": OptimizerKind(factored=True),
    "lomo": OptimizerKind(),
}

_ALIASES: Final[dict[str, str]] = {
    "adamw": "adamw_torch",
    "adamw_hf": "adamw_torch",
    "adam": "adamw_torch",
    "adamw_torch_xla": "adamw_torch",
    "adamw_fused": "adamw_torch_fused",
    "fused_adam": "adamw_torch_fused",
    "fusedadam": "adamw_torch_fused",
    "cpuadam": "adamw_torch_fused",
    "deepspeedcpuadam": "adamw_torch_fused",
    "pagedadamw8bit": "paged_adamw_8bit",
    "pagedadamw": "paged_adamw",
    "adamw_anyprecision": "adamw_torch",
    "dist_muon": "muon",
    "lion_bnb_8bit": "lion_8bit",
    "paged_adamw_32": "paged_adamw_32bit",
    "adamw8bit": "adamw_8bit",
    "distributed_fused_adam": "adamw_torch_fused",
    "apollo_adamw_layerwise": "apollo_adamw",
    "galore_adamw_layerwise": "galore_adamw",
    "optimi_adamw": "adamw_torch",
}


def optimizer_kind(plan: Plan) -> tuple[OptimizerKind, bool]:
    """The optimizer's memory, and whether its name is known."""
    name = _ALIASES.get(plan.optimizer.replace("-", "_"), plan.optimizer)
    kind = OPTIMIZERS.get(name)
    if kind is None:
        return OPTIMIZERS["adamw_torch"], False
    if plan.profile.fused_adam and kind.workspace == "foreach":
        return OptimizerKind(kind.factors), True
    loops = plan.foreach is False or (plan.foreach is None and plan.profile.loops_adam)
    if kind.workspace == "foreach" and (loops or plan.in_backward):
        return OptimizerKind(kind.factors, workspace="largest", largest_factor=2), True
    if plan.foreach and kind.workspace == "largest":
        return OptimizerKind(kind.factors, workspace="foreach"), True
    return kind, True
