"""Number formats as data: the precision table, and what a parameter takes up in memory in each storage format.

Sources are named once in :data:`SOURCES` and referred to by key.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

SOURCES: Final = {
    "ieee754": "IEEE 754-2019, table 3.5",
    "bf16": "Kalamkar et al. 2019, A Study of BFLOAT16 for Deep Learning Training, table 1",
    "tf32": "NVIDIA A100 Tensor Core GPU Architecture whitepaper, TensorFloat-32",
    "fp8": "Micikevicius et al. 2022, FP8 Formats for Deep Learning, table 1; OCP 8-bit Floating Point Specification 1.0",
    "mx": "OCP Microscaling Formats (MX) Specification 1.0, sections 5.2 and 5.3",
    "nvfp4": "Triton documentation, Blocked-Scaled Matrix Multiplication (nvfp4: 16 elements per E4M3 scale)",
    "int": "two's complement, symmetric quantization",
    "qlora": "Dettmers et al. 2023, QLoRA, section 3; bitsandbytes functional.py, quantize_4bit (blocksize 64, "
    "second level quantize_blockwise with blocksize 256)",
    "llm_int8": "Dettmers et al. 2022, LLM.int8(), section 3",
    "te": "Transformer Engine documentation, datatype and hardware support matrix",
    "clang": "matrix instructions of Clang's BuiltinsNVPTX.def by SM version",
    "triton": "Triton documentation, Blocked-Scaled Matrix Multiplication (tcgen05_mma_scaled)",
    "reference": "../shared/reference, precision table",
}
"""Where the rows come from. Hardware support changes with driver and framework: verify against current documentation."""

CHECKS: Final = (
    "Largest values and smallest normals: `finfo` of NumPy (FP32, FP16) and ml_dtypes 0.6.0 (BF16, FP8 E4M3 and E5M2,"
    " FP4 E2M1), 2026-11; TF32 computed from its bits.",
    "Hardware: Clang's BuiltinsNVPTX.def (FP16, INT8, INT4, BF16, TF32), Transformer Engine's support matrix (BF16, FP8,"
    " NVFP4), Triton's documentation (MXFP4), 2026-11.",
    "Block sizes and scales: bitsandbytes functional.py (NF4), Triton's documentation (MXFP4, NVFP4), 2026-11.",
)
"""What the rows were compared with, and when."""


@dataclass(frozen=True, slots=True)
class Precision:
    """One number format. ``maximum`` and ``smallest_normal`` are of one element, before any block scale."""

    name: str
    bits: int
    exponent_bits: int | None
    """None for integers."""
    mantissa_bits: int
    """Stored fraction bits; for integers the bits of the magnitude."""
    maximum: float
    smallest_normal: float
    training: str
    inference: str
    compute_capability: tuple[int, int] | None
    """First NVIDIA compute capability whose tensor cores take it; None where every GPU computes in it."""
    hardware: str
    sources: tuple[str, ...]
    """Keys of :data:`SOURCES`."""


PRECISIONS: Final = (
    Precision(
        "FP32", 32, 8, 23, (2 - 2**-23) * 2.0**127, 2.0**-126,
        "master weights, optimizer states, accumulation, reductions", "rarely", None,
        "every GPU, without tensor cores", ("ieee754", "reference"),
    ),
    Precision(
        "TF32", 19, 8, 10, (2 - 2**-10) * 2.0**127, 2.0**-126,
        "matrix multiplications of FP32 tensors; stored as FP32, in 32 bits", "-", (8, 0),
        "Ampere and later", ("tf32", "clang", "reference"),
    ),
    Precision(
        "BF16", 16, 8, 7, (2 - 2**-7) * 2.0**127, 2.0**-126,
        "preferred: the range of FP32, no loss scaling", "common", (8, 0),
        "Ampere and later; older GPUs emulate it, slowly or not at all", ("bf16", "clang", "te", "reference"),
    ),
    Precision(
        "FP16", 16, 5, 10, 65504.0, 2.0**-14,
        "with care: loss scaling; models trained in BF16 can overflow", "common", (7, 0),
        "Volta and later; stored and computed without tensor cores from 5.3", ("ieee754", "clang", "reference"),
    ),
    Precision(
        "FP8 E4M3", 8, 4, 3, 448.0, 2.0**-6,
        "experimental: weights and activations, with scales", "Hopper and later, Ada too", (8, 9),
        "Ada, Hopper and later", ("fp8", "te", "reference"),
    ),
    Precision(
        "FP8 E5M2", 8, 5, 2, 57344.0, 2.0**-14,
        "experimental: gradients, with scales", "rarely; KV cache where range matters", (8, 9),
        "Ada, Hopper and later", ("fp8", "te"),
    ),
    Precision(
        "INT8", 8, None, 7, 127.0, 1.0,
        "-", "widespread", (7, 2),
        "Xavier, Turing and later; dot products without tensor cores from 6.1", ("int", "clang", "reference"),
    ),
    Precision(
        "INT4", 4, None, 3, 7.0, 1.0,
        "-", "aggressive quantization; weights only, computed in 16 bits", (7, 5),
        "Turing and later; weight-only kernels (GPTQ, AWQ) set their own limits", ("int", "clang", "reference"),
    ),
    Precision(
        "FP4 E2M1", 4, 2, 1, 6.0, 1.0,
        "research, with block scales", "Blackwell, as MXFP4 or NVFP4", (10, 0),
        "Blackwell", ("mx", "triton"),
    ),
    Precision(
        "MXFP4", 4, 2, 1, 6.0, 1.0,
        "research", "weights; a power-of-two scale (E8M0) per 32 elements", (10, 0),
        "Blackwell; older GPUs with weight-only kernels", ("mx", "triton"),
    ),
    Precision(
        "NVFP4", 4, 2, 1, 6.0, 1.0,
        "research", "weights and activations; an E4M3 scale per 16 elements and one FP32 scale per tensor", (10, 0),
        "Blackwell; only in part on 12.0", ("nvfp4", "te"),
    ),
)  # fmt: skip
"""The precision table, widest first. Uses are those of ``../shared/reference`` and what has changed since."""


@dataclass(frozen=True, slots=True)
class StorageFormat:
    """How a parameter is stored. Blocks of ``block_size`` elements share a scale of ``scale_bits``.

    Where the scales are quantized again (double quantization) ``scale_block_size`` of them share ``second_scale_bits``.
    Per-tensor scales and code tables are a few bytes a tensor and left out.
    """

    name: str
    element_bits: int
    source: str
    """Key of :data:`SOURCES`."""
    block_size: int = 0
    scale_bits: int = 0
    scale_block_size: int = 0
    second_scale_bits: int = 0
    aliases: tuple[str, ...] = ()

    @property
    def bits_per_parameter(self) -> float:
        """Mean bits of a parameter, scales included."""
        bits = float(self.element_bits)
        if self.block_size:
            bits += self.scale_bits / self.block_size
        if self.scale_block_size:
            bits += self.second_scale_bits / (self.block_size * self.scale_block_size)
        return bits

    @property
    def bytes_per_parameter(self) -> float:
        return self.bits_per_parameter / 8

    def size(self, elements: int) -> int:
        """Bytes of one tensor of so many elements; a block that is not full has a whole scale."""
        if elements < 0:
            raise ValueError(f"elements is {elements}, must be 0 or more")
        total = -(-elements * self.element_bits // 8)
        if self.block_size:
            blocks = -(-elements // self.block_size)
            total += -(-blocks * self.scale_bits // 8)
            if self.scale_block_size:
                total += -(-blocks // self.scale_block_size) * self.second_scale_bits // 8
        return total


STORAGE_FORMATS: Final = (
    StorageFormat("fp32", 32, "ieee754", aliases=("float32", "float")),
    StorageFormat("tf32", 32, "tf32"),
    StorageFormat("bf16", 16, "bf16", aliases=("bfloat16",)),
    StorageFormat("fp16", 16, "ieee754", aliases=("float16", "half")),
    StorageFormat("fp8", 8, "fp8", aliases=("fp8_e4m3", "fp8_e5m2", "float8_e4m3fn", "float8_e5m2")),
    StorageFormat("int8", 8, "llm_int8"),
    StorageFormat("int4", 4, "int"),
    StorageFormat("nf4", 4, "qlora", block_size=64, scale_bits=32),
    StorageFormat("nf4-double", 4, "qlora", block_size=64, scale_bits=8, scale_block_size=256, second_scale_bits=32),
    StorageFormat("mxfp4", 4, "mx", block_size=32, scale_bits=8),
    StorageFormat("nvfp4", 4, "nvfp4", block_size=16, scale_bits=8),
)
"""``int4`` and ``int8`` are the bare elements: groups and scales differ by method (AWQ, GPTQ: usually 128 per 16-bit scale)."""


@cache
def storage_format(name: str) -> StorageFormat:
    """Look a storage format up by name or alias, ``torch.`` prefix and case ignored.

    Raises:
        ValueError: the name is not known; the message lists those that are.
    """
    wanted = name.lower().removeprefix("torch.")
    for entry in STORAGE_FORMATS:
        if wanted == entry.name or wanted in entry.aliases:
            return entry
    raise ValueError(f"dtype {name!r} is not one of {', '.join(entry.name for entry in STORAGE_FORMATS)}")


def bytes_per_parameter(name: str) -> float:
    """Mean bytes of a parameter in a storage format, block scales included."""
    return storage_format(name).bytes_per_parameter
