"""What a quantization leaves of each weight: bits of a quantized weight with its scales, and what stays in 16 bits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from cfglint.catalog.architecture import Tensor
from cfglint.estimate.serving.versions import quantization_data

SCALE_BITS = 16
"""GPTQ, AWQ and compressed-tensors keep group scales in the model's 16-bit type."""
BLOCK_SCALE_BITS = 32
"""Block-quantized FP8 keeps an fp32 scale for each block (DeepSeek-V3 report, section 3.3)."""

NVFP4_GROUP = 16
"""NVFP4 shares an 8-bit scale among 16 weights."""

LAYER_ROLES = frozenset({"attention", "mla", "mlp", "expert", "shared_expert", "ssm", "linear_attention"})
"""Roles whose matrices a whole-model method quantizes; embeddings, heads, norms and routers stay."""


_PARENTS = {
    "attention": "self_attn", "mla": "self_attn", "mlp": "mlp", "expert": "mlp.experts.0",
    "shared_expert": "mlp.shared_experts", "linear_attention": "linear_attn", "ssm": "mixer",
}  # fmt: skip
"""Where the usual modeling code keeps a role's modules inside a layer."""


@dataclass(frozen=True)
class Exceptions:
    """Modules a checkpoint leaves in 16 bits."""

    paths: frozenset[str] = frozenset()
    patterns: tuple[re.Pattern[str], ...] = ()

    def kept(self, tensor: Tensor) -> frozenset[int]:
        """Layers in which this tensor is not quantized."""
        if not self.paths and not self.patterns:
            return frozenset()
        parts = (*_PARENTS.get(tensor.role, "").split("."), tensor.module)
        if any(part in self.paths for part in parts):
            return frozenset(tensor.layers)
        inside = ".".join(parts)
        return frozenset(layer for layer in tensor.layers if self._names(f"layers.{layer}", parts, inside))

    def _names(self, layer: str, parts: tuple[str, ...], inside: str) -> bool:
        path = layer
        if path in self.paths:
            return True
        for part in parts:
            path = f"{path}.{part}"
            if path in self.paths:
                return True
        full = f"model.{layer}.{inside}"
        return any(pattern.match(full) or pattern.match(full[6:]) for pattern in self.patterns)


@dataclass(frozen=True)
class Scheme:
    """``bits``: of one quantized weight with scales and zero points; ``text`` shows them."""

    name: str
    bits: float
    text: str
    experts_only: bool = False
    keep: Exceptions = Exceptions()
    keep_vision: bool = True
    expert_bits: float | None = None
    """Bits of the experts' weights where they differ (DeepSeek-V4: FP4 experts in an FP8 checkpoint)."""
    doubt: float = 0.0
    """Share by which the weights may be more, where a name alone says the format and not what it leaves in 16 bits."""
    drafts: bool = True
    """Whether a draft head is quantized with the rest."""
    runtime: bool = False
    """Quantized by the engine while loading, from a 16-bit checkpoint."""

    def covers(self, tensor: Tensor) -> bool:
        """Whether this tensor's matrices are quantized."""
        if tensor.bias or len(tensor.shape) < 2 or tensor.elements < 4096:
            return False
        if self.experts_only:
            return tensor.role == "expert"
        if tensor.role in ("vision", "audio", "projector"):
            return not self.keep_vision and len(tensor.shape) == 2
        if tensor.role == "embedding" and tensor.stack:  # tables of n-grams (DeepSeek-V4.1, Qwen3.8-Flash-Next-FP8)
            return self.name == "fp8"
        if tensor.role == "mla" and tensor.module == "gate_proj":
            return False  # DeepSeek-V4's compressors stay in 16 bits
        return tensor.role in LAYER_ROLES and (tensor.linear or tensor.role == "expert")

    def bits_of(self, tensor: Tensor) -> float:
        return self.expert_bits if self.expert_bits is not None and tensor.role == "expert" else self.bits


@lru_cache(maxsize=512)
def scheme_from_name(name: str, *, runtime: bool = False) -> Scheme | None:
    """Scheme of a ``quantization`` fact: ``fp8``, ``awq-int4``, ``w8a8-int8``, ``gguf-Q4_K_M``; None where unknown."""
    text = name.strip().lower()
    schemes, gguf = quantization_data()["schemes"], quantization_data()["gguf"]
    for key in sorted(gguf, key=len, reverse=True):
        if re.search(rf"(^|[^a-z0-9]){re.escape(key)}($|[^a-z0-9])", text.replace("ud-", "")):
            return Scheme(key, gguf[key], f"{gguf[key]:g} bits")
    for key in sorted(schemes, key=len, reverse=True):
        if re.search(rf"(^|[^a-z0-9]){re.escape(key)}($|[^a-z0-9])", text):
            bits = float(schemes[key]["bits"])
            return Scheme(key, bits, f"{bits:g} bits", experts_only=key == "mxfp4", runtime=runtime)
    return None


def _grouped(name: str, bits: float, group: int | None, zero_points: bool) -> Scheme:
    if group is None or group <= 0:
        return Scheme(name, bits, f"{bits:g} bits")
    total = bits + SCALE_BITS / group + (bits / group if zero_points else 0)
    parts = f"{bits:g} + {SCALE_BITS}/{group}" + (f" + {bits:g}/{group}" if zero_points else "")
    return Scheme(name, total, f"{parts} bits")


def _integer(value: Any, default: int | None = None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _compressed(config: Mapping[str, Any]) -> Scheme | None:
    groups = config.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        weights = group.get("weights") if isinstance(group, Mapping) else None
        if not isinstance(weights, Mapping):
            continue
        bits = _integer(weights.get("num_bits"))
        if bits is None:
            continue
        size = _integer(weights.get("group_size"))
        if bits == 4 and weights.get("type") == "float":
            return Scheme("nvfp4", 4 + 8 / (size or 16), f"4 + 8/{size or 16} bits")
        return _grouped(f"w{bits}", bits, size, weights.get("symmetric") is False)
    return None


def scheme_from_config(config: Mapping[str, Any]) -> Scheme | None:
    """Scheme of a checkpoint's ``quantization_config``; None where the method is not known."""
    method = str(config.get("quant_method") or config.get("quant_algo") or "").lower()
    found: Scheme | None
    if method in ("gptq", "awq", "auto-round", "auto_round", "gptq_marlin", "awq_marlin", "hqq", "aqlm"):
        bits = _integer(config.get("bits"), _integer(config.get("w_bit"), 4)) or 4
        group = _integer(config.get("group_size"), _integer(config.get("q_group_size"), 128))
        found = _grouped(method, bits, group, True)
    elif method == "fp8":
        block = config.get("weight_block_size")
        if isinstance(block, (list, tuple)) and len(block) == 2 and all(_integer(b) for b in block):
            found = Scheme("fp8", 8 + BLOCK_SCALE_BITS / (block[0] * block[1]), f"8 + 32/({block[0]}×{block[1]}) bits")
        else:
            found = Scheme("fp8", 8, "8 bits")
        if str(config.get("quant_algo") or "").upper() == "MIXED_PRECISION" and config.get("group_size") == NVFP4_GROUP:
            found = replace(found, expert_bits=4 + 8 / NVFP4_GROUP)
    elif method in ("compressed-tensors", "compressed_tensors"):
        found = _compressed(config)
    elif method == "bitsandbytes":
        if config.get("load_in_8bit"):
            found = Scheme("int8", 8, "8 bits")
        else:
            found = scheme_from_name("nf4-double" if config.get("bnb_4bit_use_double_quant") else "nf4")
    elif method == "mxfp4":
        found = scheme_from_name("mxfp4")
    elif method in ("modelopt", "modelopt_fp4", "modelopt_mixed"):
        algorithm = str(config.get("quant_algo") or "").upper()
        found = scheme_from_name("fp8" if algorithm.startswith("FP8") else "nvfp4")
    else:
        found = scheme_from_name(method) if method else None
    return None if found is None else _with_exceptions(found, config)


def _with_exceptions(scheme: Scheme, config: Mapping[str, Any]) -> Scheme:
    """Modules the checkpoint names as not quantized: module names, paths with or without a layer, patterns."""
    paths: set[str] = set()
    patterns: list[re.Pattern[str]] = []
    for key in ("ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers"):
        named = config.get(key)
        for entry in named if isinstance(named, (list, tuple)) else ():
            if not isinstance(entry, str):
                continue
            try:
                if entry.startswith("re:"):
                    patterns.append(re.compile(entry[3:]))
                elif "*" in entry:
                    patterns.append(re.compile(".*".join(map(re.escape, entry.split("*")))))
                else:
                    paths.add(_layer_path(entry))
            except re.error:
                continue
    return replace(scheme, keep=Exceptions(frozenset(paths), tuple(patterns)))


def _layer_path(entry: str) -> str:
    """The path from ``layers`` on, whatever the model calls what stands before."""
    at = entry.find("layers.")
    return entry[at:] if at >= 0 else entry
