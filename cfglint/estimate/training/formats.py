"""Storage of quantized weights: bytes per parameter, block constants included. Data, with where it was read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cfglint.estimate.training.plan import Plan


@dataclass(frozen=True, slots=True)
class Format:
    """Storage of a quantized linear weight: bytes per parameter, block constants included."""

    bytes_per_parameter: float
    source: str


NF4_BLOCK = 64
"""Weights per absmax constant in bitsandbytes 4-bit (``functional.quantize_4bit`` blocksize)."""

FORMATS: Final[dict[str, Format]] = {
    "nf4": Format(0.5 + 4 / NF4_BLOCK, "bitsandbytes: 4 bits, an fp32 absmax per 64"),
    "fp4": Format(0.5 + 4 / NF4_BLOCK, "bitsandbytes: 4 bits, an fp32 absmax per 64"),
    "nf4-double": Format(0.5 + 1 / NF4_BLOCK + 4 / (NF4_BLOCK * 256), "bitsandbytes: absmax in 8 bits, fp32 per 256"),
    "fp4-double": Format(0.5 + 1 / NF4_BLOCK + 4 / (NF4_BLOCK * 256), "bitsandbytes: absmax in 8 bits, fp32 per 256"),
    "int8": Format(1.0, "LLM.int8: a byte, an fp32 scale per row"),
    "gptq-int4": Format(0.5 + (2 + 0.5) / 128, "GPTQ: 4 bits, fp16 scale and 4-bit zero per group of 128"),
    "gptq-int8": Format(1.0 + (2 + 1.0) / 128, "GPTQ: a byte, fp16 scale and zero per group of 128"),
    "awq-int4": Format(0.5 + (2 + 0.5) / 128, "AWQ: 4 bits, fp16 scale and 4-bit zero per group of 128"),
    "hqq-int4": Format(0.5 + 4 / 64, "HQQ: 4 bits, fp16 scale and zero per group of 64"),
    "fp8": Format(1.0, "a byte per weight"),
    "mxfp4": Format(0.5 + 1 / 32, "MXFP4: 4 bits, a byte of scale per 32"),
    "nvfp4": Format(0.5 + 1 / 16, "NVFP4: 4 bits, a byte of scale per 16"),
    "int4": Format(0.5 + (2 + 0.5) / 128, "4 bits, scale and zero per group of 128"),
}

BITSANDBYTES: Final = frozenset({"nf4", "fp4", "nf4-double", "fp4-double", "int8"})


def format_of(plan: Plan) -> Format:
    """The storage of the plan's quantized weights; an unknown name counts as NF4."""
    return FORMATS.get(plan.quantization or "", FORMATS["nf4"])
