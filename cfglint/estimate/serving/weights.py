"""Weights on one rank as vLLM's log prints them ("Model loading took"), from the architecture's tensors.

Embedding and head are split by vocabulary rows (padded to 64); query, gate, up and experts by output rows; output and
down projections by input columns; key and value heads are repeated where tensor parallelism exceeds their number;
norms, routers and the down-projections of MLA stand on every rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cfglint.catalog.architecture import Architecture, Tensor
from cfglint.estimate.serving.parallel import Sharding
from cfglint.estimate.serving.quantized import Scheme
from cfglint.estimate.serving.versions import rotary_data
from cfglint.formulas import MIB

VOCABULARY_PADDING = 64
"""``DEFAULT_VOCAB_PADDING_SIZE`` of vLLM's vocab_parallel_embedding.py."""
LARGE_ALLOCATION = 10 * MIB
LARGE_ROUNDING = 2 * MIB
LARGEST_UNSPLIT = MIB
"""torch's caching allocator: requests from 10 MiB are rounded up to 2 MiB; a remainder of up to 1 MiB is not split off
(CUDACachingAllocator.cpp: kMinLargeAlloc, kRoundLarge, should_split)."""
INEXACT_LOW, INEXACT_HIGH = 0.93, 1.10
"""Where only a parameter count is known: what sharding and tied heads leave open."""

_FUSED = {
    "q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "gate_proj": "gate_up", "up_proj": "gate_up",
    "w1": "gate_up", "w3": "gate_up",
}  # fmt: skip
_REPLICATED_MODULES = frozenset(
    {"kv_a_proj_with_mqa", "q_a_proj", "fused_qkv_a_proj", "kv_a_proj", "indexer", "wq_b", "wk", "weights_proj"}
)
_REPLICATED_ROLES = frozenset({"norm", "router", "position_embedding", "projector", "other"})
_COMPRESSORS = frozenset({"kv_proj", "gate_proj"})
"""DeepSeek-V4's shared key-value projection and its compressors stand on every rank, as its indexers' queries do (vLLM
models/deepseek_v4/attention.py and compressor.py, SGLang layers/attention/dsv4)."""
_KEY_VALUE = frozenset({"k_proj", "v_proj", "key", "value", "k", "v"})
_FUSED_QKV = frozenset({"qkv_proj", "c_attn", "query_key_value", "Wqkv", "qkv", "W_pack", "wqkv", "att_proj"})


@dataclass
class RankWeights:
    """Bytes of one rank's weights. ``parts`` by role; ``low`` and ``high`` where the tensors are not known exactly."""

    bytes: float
    low: float
    high: float
    parts: dict[str, float] = field(default_factory=dict)
    unquantized_bytes: float = 0.0
    """What the same weights take in the activation dtype, before a quantization at load."""


def _share(tensor: Tensor, arch: Architecture, tp: int) -> float:
    """Fraction of one tensor that one tensor-parallel rank holds."""
    if tp == 1:
        return 1.0
    if tensor.role in _REPLICATED_ROLES or tensor.module in _REPLICATED_MODULES:
        return 1.0
    if tensor.role == "mla" and arch.model_type.startswith("deepseek_v4"):
        queries = tensor.module == "q_b_proj" and tensor.shape[0] < arch.num_attention_heads * arch.head_dim
        if queries or tensor.module in _COMPRESSORS:
            return 1.0
    if len(tensor.shape) == 1 and not tensor.bias and tensor.role not in ("ssm", "linear_attention"):
        return 1.0
    if tensor.role == "attention":
        heads = max(1, arch.num_key_value_heads)
        repeated = max(1, heads // tp) / heads
        if tensor.module in _KEY_VALUE:
            return repeated
        if tensor.module in _FUSED_QKV and arch.num_attention_heads:
            query, key = arch.num_attention_heads, 2 * heads
            return (query / tp + key * repeated) / (query + key)
    return 1.0 / tp


def _vocabulary_rows(rows: int, tp: int) -> float:
    padded = -(-rows // VOCABULARY_PADDING) * VOCABULARY_PADDING
    return padded / tp


def allocated(size: float) -> float:
    """Bytes that torch counts as allocated for a request of ``size`` bytes."""
    if size < LARGE_ALLOCATION:
        return size
    remainder = -size % LARGE_ROUNDING
    return size + (remainder if remainder <= LARGEST_UNSPLIT else 0)


def _on_stage(tensor: Tensor, stage: range, first: bool, last: bool) -> int:
    """How many of the tensor's layers stand on this pipeline stage (1 for those outside the stacks)."""
    if tensor.stack == "decoder":
        if first and last:
            return len(tensor.layers)
        return sum(1 for layer in tensor.layers if stage.start <= layer < stage.stop)
    if tensor.stack:
        return len(tensor.layers) if first else 0
    if tensor.role in ("embedding", "position_embedding", "vision", "audio", "projector"):
        return 1 if first else 0
    return 1 if last else 0


def rank_weights(
    arch: Architecture,
    sharding: Sharding,
    *,
    stage: int = 0,
    parameter_bytes: float = 2.0,
    scheme: Scheme | None = None,
    mxfp4_padding: tuple[int, int] = (1, 1),
    latent: str = "kept",
    rotary_tables: bool = True,
) -> RankWeights:
    """Weights of one rank of pipeline stage ``stage``.

    ``parameter_bytes``: of an unquantized parameter. ``mxfp4_padding``: multiples that an MXFP4 kernel pads the
    experts' intermediate and hidden size to. ``latent``: what stands beside MLA's own projections (``none``, ``kept``
    or ``absorbed``). ``rotary_tables``: False where the engine computes rotary embeddings as it goes.
    """
    layers = sharding.stages[stage]
    first, last = stage == 0, stage == sharding.pipeline - 1
    if not arch.tensors:
        return _from_count(arch, sharding, len(layers), parameter_bytes, scheme)
    parts: dict[str, float] = {}
    unquantized = 0.0
    fused: dict[tuple[str, str, tuple[int, ...]], list[float]] = {}
    for tensor in arch.tensors:
        present = _on_stage(tensor, layers, first, last)
        if tensor.role == "embedding" and not present and last and arch.tie_word_embeddings:
            present = 1
        if not present:
            continue
        if tensor.role in ("embedding", "lm_head"):
            rows, width = tensor.shape[0], (tensor.shape[1] if len(tensor.shape) > 1 else 1)
            elements = _vocabulary_rows(rows, sharding.tensor) * width
        elif tensor.role == "expert" and sharding.expert_ranks > 1:
            elements = tensor.elements / sharding.expert_ranks
        else:
            ranks = (sharding.encoder or sharding.tensor) if tensor.role == "vision" else sharding.tensor
            elements = tensor.elements * _share(tensor, arch, ranks)
        elements *= tensor.count
        quantized = scheme is not None and scheme.covers(tensor)
        size = elements * parameter_bytes
        unquantized += size * present
        if scheme is not None and quantized:
            size = elements * scheme.bits_of(tensor) / 8
            if scheme.name == "mxfp4":
                size *= _mxfp4_growth(arch, sharding, mxfp4_padding)
            kept = len(scheme.keep.kept(tensor)) * present / max(1, len(tensor.layers))
            whole = elements * parameter_bytes
            parts[tensor.role] = parts.get(tensor.role, 0.0) + size * (present - kept) + whole * kept
            continue
        name = _FUSED.get(tensor.module, tensor.module) if tensor.role != "vision" else tensor.module
        bucket = fused.setdefault((tensor.role, name, tensor.layers), [0.0, float(present)])
        if tensor.bias:
            parts[tensor.role] = parts.get(tensor.role, 0.0) + size * present
        else:
            bucket[0] += size
    for (role, _, _), (size, present_count) in fused.items():
        parts[role] = parts.get(role, 0.0) + allocated(size) * present_count
    eight = scheme is not None and scheme.name == "fp8" and scheme.bits < 9
    extra = _latent_projection(arch, sharding, len(layers), parameter_bytes, latent, 1.0 if eight else parameter_bytes)
    if extra:
        parts["mla"] = parts.get("mla", 0.0) + extra
    besides = _undescribed(arch) * parameter_bytes if first else 0.0
    if besides:
        parts["undescribed"] = besides
    rope = rope_cache_bytes(arch, parameter_bytes) if rotary_tables else 0.0
    if rope:
        parts["rotary_cache"] = rope
    total = sum(parts.values())
    spread = 0.005 if arch.exact else 0.03
    split = besides * (1 - 1 / sharding.tensor)
    doubt = scheme.doubt if scheme is not None else 0.0
    return RankWeights(total, total * (1 - spread) - split, total * (1 + spread + doubt), parts, unquantized + besides)


def _undescribed(arch: Architecture) -> int:
    """Parameters of parts that are known by their number alone (an encoder): taken to stand whole on every rank."""
    if arch.exact or not arch.missing or arch.total_parameters is None:
        return 0
    return max(0, arch.total_parameters - sum(tensor.parameters for tensor in arch.tensors))


def _mxfp4_growth(arch: Architecture, sharding: Sharding, padding: tuple[int, int]) -> float:
    if arch.moe is None:
        return 1.0
    split = 1 if sharding.expert_ranks > 1 else sharding.tensor
    width = arch.moe.intermediate_size / split
    padded = -(-width // padding[0]) * padding[0]
    hidden = -(-arch.hidden_size // padding[1]) * padding[1]
    return float(padded / width * hidden / arch.hidden_size)


def _latent_projection(
    arch: Architecture, sharding: Sharding, layers: int, parameter_bytes: float, latent: str, absorbed_bytes: float
) -> float:
    """What stands beside MLA's own projections: ``W_UK`` and ``W_UV``, or their products with ``W_Q`` and ``W_O``.

    The products are in the weights' own 8 bits where those are FP8, ``W_QR`` is not (vLLM attention/backends/mla).
    """
    if latent == "none" or arch.mla is None or not any(layer.mixer == "mla" for layer in arch.layers):
        return 0.0
    mla = arch.mla
    heads = arch.num_attention_heads / sharding.tensor
    if latent == "absorbed":
        queries = mla.q_lora_rank or arch.hidden_size
        products = mla.kv_lora_rank * heads * (queries + arch.hidden_size) * absorbed_bytes
        return layers * (products + queries * heads * mla.qk_rope_head_dim * parameter_bytes)
    return layers * mla.kv_lora_rank * heads * (mla.qk_nope_head_dim + mla.v_head_dim) * parameter_bytes


def rope_cache_bytes(arch: Architecture, parameter_bytes: float) -> float:
    """Cosines and sines for every position, one table for each kind of rotary embedding (vLLM rotary_embedding).

    Linear and dynamic scaling hold ``max_position_embeddings`` × factor positions; YaRN holds what the config names.
    """
    if any(tensor.role == "position_embedding" for tensor in arch.tensors) or arch.max_position_embeddings is None:
        return 0.0
    if arch.mla is not None:
        dimension: float = arch.mla.qk_rope_head_dim
    else:
        dimension = arch.head_dim * _rotated_share(arch)
    positions = arch.max_position_embeddings * _scaled_positions(arch)
    if arch.model_type.startswith("gemma3") or arch.config.get("rope_local_base_freq"):
        positions += arch.max_position_embeddings  # the local layers' own table
    return positions * dimension * parameter_bytes


def _rotated_share(arch: Architecture) -> float:
    nested = arch.config.get("rope_parameters")
    for source in (arch.config, nested if isinstance(nested, Mapping) else {}):
        for key in ("partial_rotary_factor", "rotary_pct"):
            stated = source.get(key)
            if isinstance(stated, (int, float)) and not isinstance(stated, bool) and 0 < stated <= 1:
                return float(stated)
    return float(rotary_data()["partial"].get(arch.model_type, 1.0))


def _scaled_positions(arch: Architecture) -> float:
    data = rotary_data()
    if arch.model_type in data["sections"]:
        return float(data["section_positions"])
    rope = arch.config.get("rope_scaling") or arch.config.get("rope_parameters")
    if isinstance(rope, Mapping) and isinstance(rope.get("full_attention"), Mapping):
        rope = rope["full_attention"]
    if isinstance(rope, Mapping):
        kind, factor = rope.get("rope_type", rope.get("type")), rope.get("factor")
        scaled = kind in ("linear", "dynamic") and isinstance(factor, (int, float)) and not isinstance(factor, bool)
        return float(factor) if scaled and factor else 1.0
    return 1.0


def _from_count(
    arch: Architecture, sharding: Sharding, layers: int, parameter_bytes: float, scheme: Scheme | None
) -> RankWeights:
    """From a parameter count and the dimensions alone, where the family's tensors are not known."""
    total = float(arch.total_parameters or 0)
    outside = arch.vocab_size * arch.hidden_size * (1 if arch.tie_word_embeddings else 2)
    outside = min(outside, int(total))
    depth = layers / arch.num_hidden_layers if arch.num_hidden_layers else 1.0
    split = max(1, sharding.tensor)
    inside = (total - outside) * depth / split
    outer = outside * (1.0 if sharding.pipeline == 1 else 0.5) / split
    bits = scheme.bits if scheme is not None else parameter_bytes * 8
    size = inside * bits / 8 + outer * parameter_bytes
    unquantized = (inside + outer) * parameter_bytes
    return RankWeights(size, size * INEXACT_LOW, size * INEXACT_HIGH, {"all": size}, unquantized)


def draft_head_bytes(arch: Architecture, sharding: Sharding, scheme: Scheme | None, element: float) -> float:
    """A draft head on one rank: one more decoder layer and a projection from two hidden states (MTP, EAGLE)."""
    last, layer = arch.num_hidden_layers - 1, 0.0
    if scheme is not None and not scheme.drafts:
        scheme = None
    for tensor in arch.tensors:
        if tensor.stack != "decoder" or last not in tensor.layers:
            continue
        bits = scheme.bits_of(tensor) / 8 if scheme is not None and scheme.covers(tensor) else element
        split = sharding.expert_ranks if tensor.role == "expert" else 1
        share = 1 / split if split > 1 else _share(tensor, arch, sharding.tensor)
        layer += tensor.elements * tensor.count * bits * share
    return layer + 2 * arch.hidden_size**2 * element


def lora_slot_bytes(
    arch: Architecture, sharding: Sharding, stage: int, slots: int, rank: int, width: float, *, embeds: bool = False
) -> float:
    """Buffers that hold ``slots`` adapters of up to ``rank`` on every linear layer of one rank.

    vLLM keeps A whole and B split for column-parallel layers, A split and B whole for row-parallel ones. Models that
    take adapters on their embeddings (``embeds``) hold the input's A and the output's B for the whole vocabulary.
    """
    total = 2.0 * (arch.vocab_size + arch.hidden_size) if embeds else 0.0
    layers = sharding.stages[stage]
    for tensor in arch.tensors:
        if not tensor.linear or tensor.bias or tensor.stack != "decoder" or len(tensor.shape) != 2:
            continue
        if tensor.role in ("router", "norm"):
            continue
        out, inner = tensor.shape
        share = _share(tensor, arch, sharding.tensor)
        row_parallel = tensor.module in ("o_proj", "down_proj", "out_proj", "dense", "w2")
        sides = inner * share + out if row_parallel else inner + out * share
        total += sides * tensor.count * _on_stage(tensor, layers, True, True)
    return slots * rank * total * width
