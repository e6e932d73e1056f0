"""Activations of a vision tower in front of the language model: one image a sequence, which no file states.

Dimensions are those of ``vision_config``; the blocks are a vision transformer's. A frozen tower saves nothing for backward, so
only one of its blocks counts. Images of any size (Qwen2-VL) are taken to fill half the sequence, up to ``USUAL_TOKENS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cfglint.catalog.architecture import Architecture
from cfglint.estimate.training.blocks import block_footprint
from cfglint.estimate.training.families import Style
from cfglint.estimate.training.plan import Plan
from cfglint.estimate.training.shapes import Numerics, Shape

USUAL_TOKENS: Final = 1280
"""Tokens that an image of any size is taken to have: ``MAX_PIXELS`` 1003520 of ms-swift's examples, 28 pixels a side each."""

_GATED: Final = frozenset({"qwen2_5_vl_vision", "qwen2_5_omni_vision_encoder", "pixtral"})
"""Towers with RMSNorm and gated MLPs; the others have LayerNorm and GELU."""


@dataclass(frozen=True, slots=True)
class Tower:
    """Bytes: ``kept`` until backward has passed the tower, ``forward`` and ``backward`` its own peaks."""

    patches: int
    kept: float = 0.0
    forward: float = 0.0
    backward: float = 0.0


def _size(config: Mapping[str, Any], *names: str) -> int:
    for name in names:
        value = config.get(name)
        value = value[0] if isinstance(value, (list, tuple)) and value else value
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return 0


def tower_of(architecture: Architecture, plan: Plan, numerics: Numerics) -> Tower | None:
    """The tower's activations on one rank, None where the model has none whose dimensions are known."""
    config = architecture.config.get("vision_config")
    if not isinstance(config, Mapping) or not plan.images:
        return None
    hidden, layers = _size(config, "embed_dim", "hidden_size"), _size(config, "depth", "num_hidden_layers")
    heads, patch = _size(config, "num_heads", "num_attention_heads"), _size(config, "patch_size")
    if not (hidden and layers and heads and patch):
        return None
    gated = config.get("model_type") in _GATED
    ratio = config.get("mlp_ratio")
    wide = _size(config, "intermediate_size") or round(hidden * (ratio if isinstance(ratio, (int, float)) else 4))
    merge, side = _size(config, "spatial_merge_size"), _size(config, "image_size")
    fixed = not merge and side
    tokens = min(max(1, (plan.sequence or 0) // 2), USUAL_TOKENS)
    patches = (side // patch) ** 2 if fixed else tokens * (merge or 1) ** 2
    shape = Shape(plan.rows, patches, hidden, heads, heads, max(1, hidden // heads), max(1, hidden // heads), wide)
    style = Style() if gated else Style(norm="layernorm", gated=False, activation="gelu", rotary=1.0 if merge else 0.0)
    trains = plan.trains_vision
    own = replace(
        numerics,
        lora_slots=frozenset(),
        expert_adapters=frozenset(),
        packed=False,
        mask=False,
        expand_kv=False,
        train_base=trains,
        input_grad=trains,
    )
    block = block_footprint(shape, style, own)
    if not trains:
        return Tower(patches, forward=block.input + block.forward_plain)
    if plan.checkpointing in ("full", "selective"):
        kept = block.input * layers
        return Tower(patches, kept, kept + block.forward_plain, kept + max(block.forward_saving, block.backward))
    each = block.saved + (block.input if block.saves_input else 0.0)
    kept = each * layers
    return Tower(patches, kept, kept - each + block.forward_saving, kept - each + block.backward)
