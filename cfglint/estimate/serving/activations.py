"""vLLM's profiled activation peak: the larger of the sampler's dummy run and the forward pass.

Both were checked term by term against 0.19 logs (llm-d-planner PR 205, H100): what is alive beside the logits is known
by its size, so the terms are the buffers themselves and not a fit, but for one workspace constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cfglint.catalog.architecture import Architecture, Layer
from cfglint.estimate.serving.kv_layout import is_recurrent
from cfglint.estimate.serving.parallel import Sharding
from cfglint.estimate.serving.quantized import Scheme
from cfglint.estimate.serving.versions import vision_data
from cfglint.formulas import GIB

V1_RESIDUALS = 4
"""Hidden-size buffers alive while the MLP runs: attention output, old and new residual, normed input (torch.compile)."""
V0_RESIDUALS = 3
"""The same without torch.compile: 110,592 bytes a token for Llama-3.1-8B, as vllm#10517 measures."""
PIXEL_CHANNELS = 3
PLAIN_ATTENTION, FUSED_ROTARY, ROTARY_ATTENTION = 7, 10, 14
"""Hidden-size buffers of an encoder's attention: fused and separate query, key and value, and output; with fused rotary kernels the
fused ones, query and key made contiguous and rotated, the value's copy, the output and the normed input (Qwen2_5_VisionAttention of
0.19; 15.3 GiB for a video of 114,688 tokens through Qwen2.5-VL-7B in 0.23); with eager rotary embeddings query and key also in fp32,
before and after (17.2 GiB for six full-size images of a 7B Qwen2-VL in V0)."""
STATE_CHUNK = 64
"""Tokens per chunk of the gated delta rule's prefill kernel, which keeps one state a chunk (fla chunk_gated_delta_rule)."""


@dataclass(frozen=True, slots=True)
class ProfiledPeak:
    """Bytes. ``low`` and ``high`` hold the alternatives of a version (a sampler kernel that may not be installed)."""

    bytes: float
    low: float
    high: float
    text: str
    driver: str
    """``sampler``, ``forward``, ``encoder`` or ``compile``."""
    sampler_bytes: float = 0.0
    """What the sampler adds to the forward pass."""
    kept_bytes: float = 0.0
    """What of the peak stays allocated after the profiling run."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What the profiling run is made with."""

    tokens: int
    sequences: int
    element: float
    runner: str
    sampler: Mapping[str, Any]
    workspace_kept: bool
    workspace_bytes: float
    multiprocessors: int
    last_stage: bool = True
    pipelined: bool = False
    images: bool = True
    eager_rotary: bool = False
    """Vision rotary embeddings in eager fp32, before vLLM fused them."""
    image_tokens: Mapping[str, int] = field(default_factory=dict)
    """Embeddings of the largest image by ``model_type``, where the engine's version bounds them itself."""
    vision_tokens: int = 0
    """Tokens of the encoder's pass, where the engine fixes them whatever the batch."""
    pixel_bytes: float = 0.0
    """Pixels that stay on the device beside the forward pass."""
    expert_chunk: int = 0
    """Tokens that the experts' kernels take at once; 0 for all."""
    encoder_budget: int = 0
    """Embeddings that the encoder's cache is profiled with, where they are more than the pass makes."""
    compiles_tables: str = "no"
    """Whether compiling benchmarks the kernel that reads the embedding with a table of the same size: ``yes``,
    ``perhaps`` or ``no``."""


def mlp_width(arch: Architecture, layer: Layer, tp: int) -> float:
    """Elements a token takes in a dense MLP: gate and up, and their product."""
    return (3 if arch.gated_mlp else 2) * layer.intermediate_size / tp


def attention_width(arch: Architecture, layer: Layer, tp: int) -> float:
    """Elements a token takes in attention: query, key, value and output of this rank's heads."""
    heads = (layer.heads or arch.num_attention_heads) / tp
    if layer.mixer == "mla" and arch.mla is not None:
        query_key = arch.mla.qk_nope_head_dim + arch.mla.qk_rope_head_dim
        return heads * (2 * query_key + (arch.mla.qk_nope_head_dim + arch.mla.v_head_dim) + 2 * arch.mla.v_head_dim)
    kv_heads = max(1.0, (layer.kv_heads or arch.num_key_value_heads) / tp)
    return (layer.head_dim or arch.head_dim) * (2 * heads + 2 * kv_heads)


def recurrent_width(arch: Architecture, tp: int) -> float:
    """Elements a token takes in a recurrent mixer: projections in and out, and the states kept for each chunk."""
    if arch.ssm is None:
        return 0.0
    return (6 * arch.ssm.inner_size + arch.ssm.recurrent_state_elements / STATE_CHUNK * 2) / tp


def expert_workspace(arch: Architecture, tokens: int, element: float, split: int, scheme: Scheme | None) -> float:
    """The fused-experts workspaces: ``tokens × top_k`` rows of activations and of the wider of both products.

    MXFP4's kernels bring none (gpt-oss logs of 0.19 leave no room for one).
    """
    if arch.moe is None or (scheme is not None and scheme.name == "mxfp4"):
        return 0.0
    width = arch.moe.intermediate_size / split
    first = max(width, arch.hidden_size)
    second = max(2 * width, arch.hidden_size)
    return tokens * arch.moe.top_k * (first + second) * element


def pixel_side(arch: Architecture) -> float:
    """Side, in pixels, of the square that one image token stands for; 0 where the config does not say."""
    vision = arch.config.get("vision_config")
    if not isinstance(vision, Mapping):
        return 0.0
    patch = vision.get("patch_size")
    if isinstance(patch, (list, tuple)):
        patch = patch[0] if patch else None
    if not isinstance(patch, int):
        return 0.0
    merge = vision.get("spatial_merge_size") or arch.config.get("spatial_merge_size")
    tokens, size = arch.config.get("mm_tokens_per_image"), vision.get("image_size")
    if isinstance(tokens, int) and isinstance(size, int) and tokens > 0:
        return float(size / tokens**0.5)
    ratio = vision.get("pixel_shuffle_ratio")
    if isinstance(merge, int) and merge > 0:
        return float(patch * merge)
    if isinstance(ratio, float) and 0 < ratio <= 1:
        return patch / ratio
    return float(patch * 2)


def image_tokens(arch: Architecture, bounds: Mapping[str, int]) -> int:
    """Embeddings of the largest single image, as an engine ``bounds`` them; 0 where neither config nor family says."""
    if arch.model_type in bounds:
        return bounds[arch.model_type]
    vision = arch.config.get("vision_config")
    known = arch.config.get("mm_tokens_per_image")
    if isinstance(known, int):
        return known
    named: dict[str, int] = vision_data()["image_tokens"]
    if arch.model_type in named:
        return named[arch.model_type]
    size, side = vision.get("image_size") if isinstance(vision, Mapping) else None, pixel_side(arch)
    return int((size // side) ** 2) if isinstance(size, int) and side else 0


def encoder_tokens(arch: Architecture, profile: Profile) -> int:
    """Image tokens the encoder is profiled with: whole images up to the batch's tokens, and at least one."""
    if profile.vision_tokens:
        return profile.vision_tokens
    one = image_tokens(arch, profile.image_tokens)
    return max(profile.tokens // one * one, one) if one else profile.tokens


def encoder_leftovers(arch: Architecture, profile: Profile) -> float:
    """What the encoder's profiling leaves alive: embeddings of a full budget of vision tokens, and their pixels."""
    side = pixel_side(arch)
    if not profile.images or not side or profile.runner != "V1":
        return profile.pixel_bytes
    vision = arch.config["vision_config"]
    frames = vision.get("temporal_patch_size", 2 if arch.model_type.startswith("qwen") else 1)
    pixels = side * side * PIXEL_CHANNELS * (frames if isinstance(frames, int) else 1)
    tokens = encoder_tokens(arch, profile)
    embeddings = arch.hidden_size * (1 + int(vision_data()["deepstack"].get(arch.model_type, 0)))
    return profile.element * (max(tokens, profile.encoder_budget) * embeddings + tokens * pixels)


def encoder_peak(arch: Architecture, profile: Profile, tp: int) -> float:
    """The encoder's own pass over a full budget: its MLP or its attention for every patch."""
    vision = arch.config.get("vision_config")
    side = pixel_side(arch)
    if not isinstance(vision, Mapping) or not profile.images or not side:
        return 0.0
    hidden, width, patch = vision.get("hidden_size"), vision.get("intermediate_size"), vision.get("patch_size")
    if isinstance(patch, (list, tuple)):
        patch = patch[0] if patch else None
    if not isinstance(hidden, int) or not isinstance(patch, int) or patch <= 0:
        return 0.0
    inner = width if isinstance(width, int) else 4 * hidden
    patches = encoder_tokens(arch, profile) * (side / patch) ** 2
    buffers = PLAIN_ATTENTION
    if profile.eager_rotary and arch.model_type in vision_data()["rotary"]:
        buffers = ROTARY_ATTENTION
    elif arch.model_type in vision_data()["fused_rotary"]:
        buffers = FUSED_ROTARY
    attention = buffers * hidden / tp
    return patches * profile.element * (2 * hidden + max(2 * inner / tp, attention)) + encoder_leftovers(arch, profile)


def embedding_bytes(arch: Architecture, profile: Profile, tp: int) -> float:
    """The rank's table of input embeddings, where the compiled graph reads it: models that see embed outside of it."""
    if isinstance(arch.config.get("vision_config"), Mapping) or isinstance(arch.config.get("audio_config"), Mapping):
        return 0.0
    return arch.vocab_size * arch.hidden_size * profile.element / tp


def profiled_peak(
    arch: Architecture, sharding: Sharding, stage: int, profile: Profile, scheme: Scheme | None
) -> ProfiledPeak:
    """The activation peak of one rank of one pipeline stage."""
    tp, hidden, element = sharding.tensor, arch.hidden_size, profile.element
    residuals = V0_RESIDUALS if profile.runner == "V0" else V1_RESIDUALS
    chosen = sharding.stages[stage]
    layers = arch.layers[chosen.start : chosen.stop]
    split = tp if sharding.expert_ranks == 1 else 1
    gathered = profile.tokens * sharding.data if arch.moe else profile.tokens
    workspace = expert_workspace(arch, min(gathered, profile.expert_chunk or gathered), element, split, scheme)
    if gathered > profile.tokens:
        # Every rank of data parallelism runs its experts on all ranks' tokens, gathered before and reduced after.
        workspace += 2 * gathered * hidden * element
    # Weights and activations in 8 bits: the kernel's quantized copy of its input stands beside it.
    copies = 1.0 if scheme is not None and scheme.name in ("w8", "int8", "w8a8") else 0.0
    widest, what = 0.0, "layer"
    for layer in {(layer.mixer, layer.feed_forward, layer.intermediate_size): layer for layer in layers}.values():
        if layer.feed_forward == "dense":
            width = mlp_width(arch, layer, tp) * element + copies * layer.intermediate_size / tp
            if width > widest:
                widest, what = width, "MLP"
        mixer = (recurrent_width(arch, tp) if is_recurrent(layer)
                 else attention_width(arch, layer, tp)) * element  # fmt: skip
        if mixer > widest:
            widest, what = mixer, "attention"
    passing = 2 * hidden * element * profile.tokens if profile.pipelined else 0.0
    left = encoder_leftovers(arch, profile) if stage == 0 else 0.0
    forward = profile.tokens * (widest + residuals * hidden * element) + profile.workspace_bytes + passing + left
    forward = max(forward, profile.tokens * residuals * hidden * element + workspace + passing + left)
    if profile.workspace_kept:
        forward = max(forward, profile.tokens * (widest + residuals * hidden * element) + workspace + passing + left)
    kept = workspace if profile.workspace_kept else 0.0
    candidates = [
        (
            forward,
            f"{profile.tokens} tokens × {what} of {widest / element + residuals * hidden:.0f} elements",
            "forward",
        )
    ]
    low = high = 0.0
    if profile.last_stage:
        entries = profile.sequences * arch.vocab_size / (tp if profile.sampler.get("split") else 1)
        beside = (
            (profile.tokens + profile.sequences) * hidden * element + profile.workspace_bytes + kept + passing + left
        )
        beside += profile.multiprocessors * arch.vocab_size * profile.sampler.get("row_buffer_per_sm", 0)
        per_entry = element + profile.sampler["bytes"]
        other = element + profile.sampler.get("or", profile.sampler["bytes"])
        candidates.append((
            entries * per_entry + beside,
            f"{profile.sequences} sequences × {arch.vocab_size} vocabulary × {per_entry:g} bytes + {beside / GIB:.2f} GiB",
            "sampler",
        ))  # fmt: skip
        low, high = entries * min(per_entry, other) + beside, entries * max(per_entry, other) + beside
    if stage == 0:
        encoder = encoder_peak(arch, profile, sharding.encoder or tp)
        if encoder:
            candidates.append((encoder, f"encoder pass over {encoder_tokens(arch, profile)} vision tokens", "encoder"))
    others = max((value for value, _, name in candidates if name != "sampler"), default=0.0)
    sampling = max(0.0, max(candidates)[0] - others)
    least = max(low, others) if low else max(candidates)[0]
    if stage == 0 and profile.compiles_tables != "no":
        table = embedding_bytes(arch, profile, tp) + profile.workspace_bytes + kept
        high = max(high, table)
        if profile.compiles_tables == "yes":
            candidates.append(
                (table, f"a table of {arch.vocab_size} embeddings, while the graph is compiled", "compile")
            )
    size, text, driver = max(candidates)
    return ProfiledPeak(size, least, max(high, size), text, driver, sampling, profile.workspace_bytes + kept)
