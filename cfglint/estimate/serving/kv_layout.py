"""How an engine lays the KV cache out: blocks, groups of layers, bytes of a token, what one request takes.

vLLM's hybrid manager deals layers into groups of one kind and equal size; every group draws blocks from one pool, and
a block id means the same place in ``group_size`` layers. Verified in 0.19 logs of gemma-3, gpt-oss and Llama-4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from cfglint.catalog.architecture import Architecture, Layer

FP8_DS_MLA_BYTES = 656
"""``fp8_ds_mla``: 512 of FP8, 4 fp32 scales, 64 of bf16 rope, per token and layer (vLLM FlashMLA sparse backend)."""
KERNEL_BLOCK, LATENT_KERNEL_BLOCK = 16, 64
"""Multiples that an attention page is raised by until it holds a recurrent state; the second with MLA's kernels (vLLM
HybridAttentionMambaModelConfig)."""

_DTYPE_BYTES = {
    "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e4m3fn": 1.0, "fp8_e5m2": 1.0, "fp8_inc": 1.0, "int8": 1.0, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32,
    "q4_1": 20 / 32, "q4_0": 18 / 32, "iq4_nl": 18 / 32, "int4": 0.5, "nvfp4": 0.5625, "fp4": 0.5625, "fp4_e2m1": 0.5625,
    "bf16": 2.0, "bfloat16": 2.0, "fp16": 2.0, "f16": 2.0, "float16": 2.0, "half": 2.0, "fp32": 4.0, "f32": 4.0, "float32": 4.0, "float": 4.0,
}  # fmt: skip


SCALED_HEAD, SCALE_BYTES = "_per_token_head", 4
"""Types with an fp32 scale for each token and head of keys and of values (vLLM 0.22, v1/kv_cache_interface.py)."""


def cache_dtype_bytes(name: str | None, model_bytes: float, head_dim: int = 0) -> float | None:
    """Bytes of a cache element; ``auto`` is the model's dtype; None for a type not known here."""
    if name is None or name.lower() in ("auto", "default", ""):
        return model_bytes
    if name.lower().endswith(SCALED_HEAD) and head_dim:
        size = _DTYPE_BYTES.get(name.lower().removesuffix(SCALED_HEAD))
        return None if size is None else size + SCALE_BYTES / head_dim
    return _DTYPE_BYTES.get(name.lower())


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Layers that share a block table. ``window`` in tokens; a ``state`` group takes ``blocks`` blocks a sequence."""

    kind: str
    window: int | None = None
    blocks: int = 1
    block_size: int | None = None
    """Tokens of this group's blocks where they differ from the pool's: narrower layers fill a page with more."""


@dataclass(frozen=True)
class KvLayout:
    """Cache of one rank (one pipeline stage).

    ``token_bytes``: what a token adds over all layers while no window is full. ``page_bytes``: one block of one layer.
    """

    block_size: int
    page_bytes: float
    group_size: int
    groups: tuple[CacheGroup, ...]
    token_bytes: float
    state_bytes: float = 0.0
    """Recurrent state of one sequence over all layers."""
    token_factor: int = 1
    """Decode context parallelism spreads a request's tokens over this many ranks."""
    text: str = ""

    def blocks(self, size: float) -> int:
        """Blocks in a pool of ``size`` bytes."""
        if size <= 0 or self.page_bytes <= 0:
            return 0
        return int(size // (self.page_bytes * max(1, self.group_size)))

    def blocks_per_request(self, tokens: int, batched_tokens: int) -> int:
        """Blocks one request of ``tokens`` tokens takes over all groups."""
        tokens = -(-tokens // self.token_factor)
        total = 0
        for group in self.groups:
            size = group.block_size or self.block_size
            full = -(-tokens // size)
            if group.kind == "state":
                total += group.blocks
            elif group.window is not None and group.kind == "sliding":
                total += min(full, -(-min(group.window - 1 + batched_tokens, tokens) // size) + 1)
            elif group.window is not None:
                total += min(full, -(-min(group.window + batched_tokens, tokens) // size))
            else:
                total += full
        return total

    def pool_tokens(self, blocks: int) -> int:
        """Tokens as the log prints them: blocks shared out to the groups."""
        return blocks // max(1, len(self.groups)) * self.block_size * self.token_factor

    def concurrency(self, blocks: int, tokens: int, batched_tokens: int) -> float:
        """Requests of ``tokens`` tokens that the pool holds at once."""
        return blocks / max(1, self.blocks_per_request(tokens, batched_tokens))

    def largest_request(self, blocks: int, batched_tokens: int, limit: int) -> int:
        """Longest request, up to ``limit`` tokens, that the pool holds."""
        if self.blocks_per_request(limit, batched_tokens) <= blocks:
            return limit
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if self.blocks_per_request(middle, batched_tokens) <= blocks:
                low = middle
            else:
                high = middle - 1
        return low


COMPRESSED_BLOCK, WINDOW_BLOCK = 256, 64
"""Tokens of a block of compressed keys and of one of the window beside them (DeepSeek-V4 in vLLM)."""
COMPRESSED_KEY_BYTES = 584
"""A key of DeepSeek-V4 in ``fp8_ds_mla``: 448 of FP8, 64 of bf16 rope, 8 scales."""
PAGE_ALIGNMENT = 576
COMPRESSOR_BLOCKS = {4: 4, 128: 8}
"""Tokens of a block of a compressor's state by its ratio: as many as make a page of the keys' size."""
OVERLAPPING_RATIO = 4
"""The compression ratio whose windows overlap: its compressor keeps twice the states."""


def _aligned(size: float) -> float:
    return -(-size // PAGE_ALIGNMENT) * PAGE_ALIGNMENT


def compresses_keys(arch: Architecture) -> bool:
    """Whether layers keep one key for several tokens (DeepSeek-V4)."""
    return any(layer.kv_compression > 1 for layer in arch.layers)


def compressed_layout(arch: Architecture, layers: range, *, draft_layers: int = 0, packed: bool = False) -> KvLayout:
    """vLLM's layout of layers that compress keys: DeepSeek-V4's, from ``models/deepseek_v4`` and ``kv_cache_utils.py``.

    A block holds 256 tokens of every compressed layer. Each layer's window of uncompressed keys, and the fp32 states
    of its compressors, take blocks of the same size from the same pool for 64, 4 and 8 tokens, so most of what a
    request takes does not grow with its length: 6.66 GiB for 30,000 tokens in batches of 16,384 (vllm#44376).
    ``packed``: 0.27 and later lay each group out densely; earlier releases give every group whole tuples of layers.
    """
    chosen = arch.layers[layers.start : layers.stop]
    compressed = [layer for layer in chosen if layer.kv_compression > 1]
    narrow = [layer for layer in compressed if layer.kv_compression == OVERLAPPING_RATIO]
    wide = [layer for layer in compressed if layer.kv_compression != OVERLAPPING_RATIO]
    window = next((layer.window for layer in chosen if layer.window), arch.config.get("sliding_window"))
    keys = {
        ratio: _aligned(COMPRESSED_BLOCK // ratio * COMPRESSED_KEY_BYTES)
        for ratio in {layer.kv_compression for layer in compressed}
    }
    indexed = sum(
        _aligned(COMPRESSED_BLOCK // layer.kv_compression * _index_bytes(layer)) for layer in compressed if layer.index_elements
    )  # fmt: skip
    main = sum(keys[layer.kv_compression] for layer in compressed) + indexed
    windows = len(chosen) + draft_layers
    counts = [max(len(narrow), len(wide)), windows, len(narrow), len(wide)]
    tuples = min(
        range(max(1, counts[0]), max(counts) + 1), key=lambda size: (sum(-count % size for count in counts), -size)
    )
    index = next((layer for layer in narrow if layer.index_elements), None)
    index_page = _aligned(COMPRESSED_BLOCK // OVERLAPPING_RATIO * _index_bytes(index)) if index else 0.0
    page = main if packed else tuples * (sum(keys.values()) + index_page)
    groups = [CacheGroup("full")]
    groups += [CacheGroup("sliding", window, block_size=WINDOW_BLOCK)] * -(-windows // tuples)
    for ratio, members in ((OVERLAPPING_RATIO, narrow), (128, wide)):
        if members:
            # The overlapping compressor looks two windows back.
            span = ratio * 2 if ratio == OVERLAPPING_RATIO else ratio
            state = CacheGroup("sliding", span, block_size=COMPRESSOR_BLOCKS[ratio])
            groups += [state] * -(-len(members) // tuples)
    return KvLayout(
        COMPRESSED_BLOCK, page, 1, tuple(groups), main / COMPRESSED_BLOCK, 0.0, 1,
        f"{len(groups)} groups, blocks of {page:.0f} bytes for {COMPRESSED_BLOCK} tokens of {len(compressed)} compressed layers",
    )  # fmt: skip


RECURRENT = frozenset({"mamba", "mamba2", "linear_attention", "conv"})


def attention_bytes(layer: Layer, arch: Architecture, tp: int, element: float, *, latent: bool = True) -> float:
    """Bytes one token takes in one layer of one rank; 0 where the layer caches nothing per token."""
    if layer.mixer == "mla" and arch.mla is not None and not latent:
        heads = max(1, arch.num_attention_heads // tp)
        return 2 * heads * (arch.mla.qk_nope_head_dim + arch.mla.qk_rope_head_dim) * element
    elements = float(layer.kv_cache_elements)
    if layer.mixer != "mla" and layer.kv_heads > 1:
        elements *= max(1, layer.kv_heads // tp) / layer.kv_heads
    return (elements * element + _index_bytes(layer)) / layer.kv_compression


def _index_bytes(layer: Layer) -> float:
    """FP8 index keys with an fp32 scale for each 128 (SGLang: 132 bytes a token and layer in a GLM-5 log)."""
    return layer.index_elements + 4 * -(-layer.index_elements // 128)


def is_recurrent(layer: Layer) -> bool:
    return layer.recurrent or layer.mixer in RECURRENT


FP32_STATE_FAMILIES = ("qwen3_5",)
"""Families whose config class keeps ``mamba_ssm_dtype`` float32 where a config does not state it."""
CONV_KERNEL = 4
"""Convolution width of Mamba and gated delta rule mixers where the config does not state it."""


def state_bytes_per_layer(
    arch: Architecture, tp: int, element: float, speculative_tokens: int = 0, *, state_element: float | None = None
) -> float:
    """Recurrent state of one sequence in one layer: convolution window, longer by the draft tokens, and state.

    ``state_element``: bytes of the state's elements where neither config nor family says; else the model's dtype.
    """
    if arch.ssm is None:
        return 0.0
    named = str(arch.config.get("mamba_ssm_dtype") or "")
    wide = "32" in named or (not named and arch.model_type.startswith(FP32_STATE_FAMILIES))
    kernel = arch.config.get("linear_conv_kernel_dim", arch.config.get("conv_kernel", CONV_KERNEL))
    width = kernel if isinstance(kernel, int) and kernel > 1 else CONV_KERNEL
    convolution = arch.ssm.conv_state_elements * (1 + speculative_tokens / (width - 1))
    state = 4.0 if wide else element if named or state_element is None else state_element
    return (convolution * element + arch.ssm.recurrent_state_elements * state) / tp


def vllm_layout(
    arch: Architecture,
    layers: range,
    *,
    tp: int,
    element: float,
    model_element: float,
    block_size: int,
    hybrid: bool,
    latent: bool,
    decode_context: int = 1,
    explicit_page: float | None = None,
    draft_layers: int = 0,
    draft_token_bytes: float = 0.0,
    speculative_tokens: int = 0,
    state_blocks: int = 1,
    group_tolerance: float = 1.5,
    unified_pages: bool = True,
) -> KvLayout:
    """vLLM's layout of the layers of one pipeline stage.

    ``group_tolerance``: groups take the larger count where it is less than this times the smaller. ``unified_pages``:
    layers of several sizes and kinds are grouped, the smaller ones in blocks of more tokens.

    ``draft_layers``: attention layers of a draft head, which join the full-attention group; ``draft_token_bytes``: what
    a token takes in a whole draft model. ``state_blocks``: blocks
    that a sequence's recurrent state takes in each group (2 where prefix caching keeps the last block boundary, and one
    more for each draft token). Checked on Qwen3.5 and Qwen3.6 logs of 0.18 to 0.24.
    """
    chosen = arch.layers if len(layers) == len(arch.layers) else arch.layers[layers.start : layers.stop]
    recurrent = 0
    kinds: Counter[tuple[str, int | None]] = Counter()
    sizes: Counter[float] = Counter()
    pages: Counter[tuple[str, int | None, float]] = Counter()
    alike: dict[tuple[object, ...], list[Layer]] = {}
    for layer in chosen:
        key = (
            layer.mixer,
            layer.kv_heads,
            layer.head_dim,
            layer.window,
            layer.kv_elements,
            layer.kv_compression,
            layer.recurrent,
        )
        alike.setdefault(key, []).append(layer)
    for layers_alike in alike.values():
        layer, count = layers_alike[0], len(layers_alike)
        if is_recurrent(layer):
            recurrent += count
        size = attention_bytes(layer, arch, tp, element, latent=latent)
        if size:
            if explicit_page is not None:
                size = explicit_page + _index_bytes(layer)
            sizes[size] += count
            kind = _kind(layer.mixer, layer.window) if hybrid else ("full", None)
            kinds[kind] += count
            pages[kind[0], kind[1], size] += count
    if draft_layers and sizes:
        sizes[max(sizes)] += draft_layers
        joined = ("full", None) if ("full", None) in kinds else next(iter(kinds))
        kinds[joined] += draft_layers
        widest_joined = max(size for name, window, size in pages if (name, window) == joined)
        pages[joined[0], joined[1], widest_joined] += draft_layers
    attention = sum(kinds.values())
    token_bytes = sum(size * count for size, count in sizes.items())
    state = state_bytes_per_layer(arch, tp, model_element, speculative_tokens)
    widest = max(sizes, default=0.0)
    even = unified_pages and len(sizes) > 1 and len(kinds) > 1 and all(widest % size == 0 for size in sizes)
    if even and not recurrent:
        return _unified(pages, block_size, group_tolerance, token_bytes + draft_token_bytes, decode_context)
    if not recurrent and (len(kinds) <= 1 or len(sizes) > 1):
        kind = next(iter(kinds), ("full", None)) if len(sizes) <= 1 else ("full", None)
        token_bytes += draft_token_bytes
        per_layer = token_bytes / max(1, attention)
        return KvLayout(
            block_size, per_layer * block_size, attention, (CacheGroup(*kind),), token_bytes, 0.0, decode_context,
            f"{attention} layers × {per_layer:.0f} bytes a token",
        )  # fmt: skip
    if not attention:
        return KvLayout(
            1, state, recurrent, (CacheGroup("state", None, state_blocks),), 0.0, state * recurrent, 1,
            f"{recurrent} layers × {state / 2**20:.2f} MiB a sequence",
        )  # fmt: skip
    counts = dict(kinds)
    if recurrent:
        # The attention page is raised until it holds the state.
        needed = -(-int(state) // int(widest))
        step = LATENT_KERNEL_BLOCK if any(layer.mixer == "mla" for layer in chosen) else KERNEL_BLOCK
        block_size = max(block_size, -(-needed // step) * step)
        counts[("state", None)] = recurrent
    group_size = _group_size(counts.values(), group_tolerance)
    groups: list[CacheGroup] = []
    for (name, window), count in counts.items():
        groups += [CacheGroup(name, window, state_blocks)] * -(-count // group_size)
    return KvLayout(
        block_size, widest * block_size, group_size, tuple(groups), token_bytes, state * recurrent, decode_context,
        f"{len(groups)} groups of {group_size} layers, blocks of {block_size} × {widest:.0f} bytes",
    )  # fmt: skip


def _group_size(counts: Collection[int], tolerance: float) -> int:
    smallest, largest = min(counts), max(counts)
    return largest if largest < smallest * tolerance else smallest


def _unified(
    pages: Counter[tuple[str, int | None, float]], block_size: int, tolerance: float, token_bytes: float, factor: int
) -> KvLayout:
    """Groups of layers whose pages were made equal by blocks of more tokens."""
    widest = max(size for _, _, size in pages)
    group_size = _group_size(pages.values(), tolerance)
    groups: list[CacheGroup] = []
    for (name, window, size), count in pages.items():
        block = None if size == widest else block_size * int(widest // size)
        groups += [CacheGroup(name, window, block_size=block)] * -(-count // group_size)
    return KvLayout(
        block_size, widest * block_size, group_size, tuple(groups), token_bytes, 0.0, factor,
        f"{len(groups)} groups of {group_size} layers, pages of {widest * block_size:.0f} bytes",
    )  # fmt: skip


def _kind(mixer: str, window: int | None) -> tuple[str, int | None]:
    if mixer == "sliding_attention" and window:
        return ("sliding", window)
    if mixer == "chunked_attention" and window:
        return ("chunked", window)
    return ("full", None)
