"""Accelerators: memory as the driver reports it, compute capability, dense TFLOPS, what each can run."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cfglint.catalog import data
from cfglint.formulas import GIB

# Share of the label that torch reports as total memory, where no measurement is at hand. Each constant is fitted to the
# measured cards of its class in data/accelerators.json; usable_measured is False for what is computed with them.
HBM_SHARE = 0.989
"""A100, A30, H100, H200: 39.49/40, 79.15/80, 23.60/24, 79.18/80, 93.02/94, 139.70/141."""
HBM_WITH_FREE_ECC_LOSS_GIB = 0.25
"""P100 and V100: 15.89/16, 15.77/16, 31.73/32."""
BLACKWELL_HBM_SHARE = 0.929
"""B100 and GB300, sold in decimal GB of the stacks: B300 267.69/288, B200 178.35/192."""
GDDR_ECC_SHARE = 1 - 1 / 16
GDDR_ECC_LOSS_GIB = 0.3
"""Data-centre cards with GDDR and ECC on (T4, A10, L4, L40S): ECC takes a sixteenth, the driver about 0.3 GiB."""
GDDR_LOSS_GIB = 0.5
"""GeForce and workstation cards on Linux lose 0.3 to 0.7 GiB."""
AMD_LOSS_GIB = 0.3
"""Instinct and Radeon: 0.02 to 0.31 GiB."""
UNIFIED_SHARE = 0.935
"""GB10 119.7/128, Jetson Orin 29.98/32, 15.16/16, 7.37/8: the operating system lives in the same memory."""
APPLE_SHARE = 0.75
"""Metal's recommended working set on larger Macs (recalled; smaller Macs get about two thirds)."""

GDDR_ECC = frozenset({"P40", "P4", "T4", "A10", "A10G", "A16", "A2", "A40", "L4", "L40", "L40S", "L20"})
UNIFIED = ("Jetson", "GB10", "Ryzen")


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
    """bf16, tf32, fp8, fp4, int8, flash_attn2, flash_attn3. A key that is absent is not known."""
    aliases: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    note: str = ""
    usable_range: tuple[float, float] | None = None
    """Lowest and highest total that was seen (GiB), across drivers and ECC settings."""
    devices: int = 1
    """Devices that torch sees in one board (MI250: 2); usable memory is of one of them, memory as sold of the board."""
    nvlink_gb_s: float | None = None
    interconnect: str = ""
    checked: str = ""
    """Day the row was taken from its sources; the user's own rows have none."""

    @property
    def usable_bytes(self) -> int:
        return int(self.usable_gib * GIB)


class BadAccelerator(ValueError):
    """A user's own row lacks a value or has an impossible one."""


def accelerators() -> tuple[Accelerator, ...]:
    """The whole catalogue, in its own order: by vendor and age."""
    return tuple(_made(index) for index in range(len(_rows())))


def find_accelerators(name: str) -> tuple[Accelerator, ...]:
    """Every accelerator that ``name`` can mean, as people and drivers write it; empty where the name is unknown.

    A driver's own name (``NVIDIA A100-SXM4-80GB``) means one card. A shorter name means every card it fits: ``A100-80GB``
    the SXM and the PCIe card, ``A100`` all four. A stated memory that no card of the family has makes the name unknown.
    """
    exact = _exact(_squeezed(name))
    if exact:
        return tuple(_made(index) for index in exact)
    asked = _read_name(name)
    if not asked.family:
        return ()
    return tuple(_made(index) for index in _families().get(asked.family, ()) if _fits(asked, index))


def similar_accelerators(name: str, n: int = 3) -> tuple[str, ...]:
    """Ids of the nearest known accelerators, for "did you mean"."""
    import difflib  # only where something was not found

    family = _read_name(name).family
    near: list[str] = [_rows()[index]["id"] for index in _families().get(family, ())] if family else []
    squeezed = _squeezed(name)
    if squeezed:
        candidates = {_squeezed(row["id"]): row["id"] for row in _rows()}
        for match in difflib.get_close_matches(squeezed, candidates, n=n, cutoff=0.6):
            if candidates[match] not in near:
                near.append(candidates[match])
        for match in difflib.get_close_matches(family, _families(), n=n, cutoff=0.6):
            near += [row for row in (_rows()[i]["id"] for i in _families()[match]) if row not in near]
    return tuple(near[:n])


_COUNT_FIRST = re.compile(r"^\s*(\d{1,4})\s*[x×*]\s*(?=[A-Za-z])", re.IGNORECASE)
_COUNT_LAST = re.compile(r"(?:\s*[:×*]\s*|\s+x\s*|\s*x(?=\d+\s*$))(\d{1,4})\s*$", re.IGNORECASE)


def parse_gpu(text: str) -> tuple[str, int | None]:
    """Split ``8xH100``, ``8 x A100-80GB``, ``H100:8``, ``A100 x4`` into the name and the count; no count where none is stated."""
    first = _COUNT_FIRST.match(text)
    if first and int(first[1]) > 0:
        return text[first.end() :].strip(), int(first[1])
    last = _COUNT_LAST.search(text)
    if last and int(last[1]) > 0 and text[: last.start()].strip() and not _exact(_squeezed(text)):
        return text[: last.start()].strip(), int(last[1])
    return text.strip(), None


def accelerator_from_mapping(row: Mapping[str, Any]) -> Accelerator:
    """A user's own row: ``name`` and ``memory_gib`` (usable) or ``memory_gb`` (as sold); optional ``vendor``, ``arch``,
    ``compute_capability`` (``"9.0"``), ``bandwidth_gb_s``, ``tflops_dense``, ``supports``, ``aliases``, ``note``, ``source``.

    Raises:
        BadAccelerator: a value is missing, of the wrong type, or not known here.
    """
    known = {
        "name", "id", "memory_gib", "memory_gb", "vendor", "arch", "compute_capability", "bandwidth_gb_s", "tflops_dense",
        "supports", "aliases", "note", "source",
    }  # fmt: skip
    for key in row:
        if key not in known:
            import difflib

            near = difflib.get_close_matches(str(key), known, n=1)
            raise BadAccelerator(f"unknown key {key!r}" + (f", did you mean {near[0]!r}?" if near else ""))
    name = row.get("name") or row.get("id")
    if not isinstance(name, str) or not name:
        raise BadAccelerator("an accelerator needs a name")
    usable, sold = _number(row, "memory_gib"), _number(row, "memory_gb")
    capability = row.get("compute_capability")
    capability = str(capability) if isinstance(capability, (int, float)) else capability
    if capability is not None and not (isinstance(capability, str) and re.fullmatch(r"\d+\.\d", capability)):
        raise BadAccelerator(f"compute_capability is {capability!r}, expected text like '9.0'")
    aliases = row.get("aliases", ())
    tflops, supports = row.get("tflops_dense", {}), row.get("supports", {})
    if not isinstance(aliases, (list, tuple)) or not isinstance(tflops, Mapping) or not isinstance(supports, Mapping):
        raise BadAccelerator("aliases must be a list, tflops_dense and supports mappings")
    if usable is None and sold is None:
        raise BadAccelerator(f"{name}: state memory_gib (usable) or memory_gb (as sold)")
    return Accelerator(
        id=name,
        vendor=str(row.get("vendor", "")),
        arch=str(row.get("arch", "")),
        compute_capability=_capability(capability),
        memory_gb=sold if sold is not None else float(usable or 0),
        usable_gib=usable if usable is not None else round(float(sold or 0) * HBM_SHARE, 2),
        usable_measured=usable is not None,
        bandwidth_gb_s=_number(row, "bandwidth_gb_s"),
        tflops_dense={str(key): float(value) for key, value in tflops.items() if isinstance(value, (int, float))},
        supports={str(key): bool(value) for key, value in supports.items()},
        aliases=tuple(str(alias) for alias in aliases),
        sources=(str(row.get("source", "settings")),),
        note=str(row.get("note", "")),
    )


def _number(row: Mapping[str, Any], key: str) -> float | None:
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e6:
        raise BadAccelerator(f"{key} is {value!r}, expected a number above zero")
    return float(value)


@functools.lru_cache(maxsize=1)
def _rows() -> list[dict[str, Any]]:
    text = data.read("accelerators.json")
    rows: list[dict[str, Any]] = json.loads(text)
    return rows


@functools.cache
def _made(index: int) -> Accelerator:
    row = _rows()[index]
    devices = int(row.get("devices", 1))
    measured = row.get("usable_gib")
    lowest, highest = row.get("range", (None, None))
    return Accelerator(
        id=row["id"],
        vendor=row["vendor"],
        arch=row["arch"],
        compute_capability=_capability(row.get("cc")),
        memory_gb=float(row["memory_gb"]),
        usable_gib=float(measured) if measured is not None else round(_usable_from_label(row) / devices, 2),
        usable_measured=measured is not None,
        bandwidth_gb_s=row.get("bandwidth"),
        tflops_dense=dict(row.get("tflops", {})),
        supports={**dict.fromkeys(row.get("supports", ()), True), **dict.fromkeys(row.get("unsupported", ()), False)},
        aliases=tuple(row.get("aliases", ())),
        sources=tuple(row["sources"]),
        note=row.get("note", ""),
        usable_range=(lowest, highest) if lowest is not None and highest is not None else None,
        devices=devices,
        nvlink_gb_s=row.get("nvlink"),
        interconnect=row.get("interconnect", ""),
        checked=row["checked"],
    )


def _capability(text: str | None) -> tuple[int, int] | None:
    if not text:
        return None
    major, minor = text.split(".")
    return int(major), int(minor)


def _usable_from_label(row: Mapping[str, Any]) -> float:
    """GiB of one board, by the rule of its class. Vendors without any measurement count as the label: never too little."""
    name, label = str(row["id"]), float(row["memory_gb"])
    if name.startswith(UNIFIED):
        return label * UNIFIED_SHARE
    if row["vendor"] == "Apple":
        return label * APPLE_SHARE
    if row["vendor"] == "AMD":
        return label - AMD_LOSS_GIB
    if row["vendor"] != "NVIDIA":
        return label
    if name in GDDR_ECC:
        return label * GDDR_ECC_SHARE - GDDR_ECC_LOSS_GIB
    if name.startswith(("P100", "V100", "Titan-V")):
        return label - HBM_WITH_FREE_ECC_LOSS_GIB
    if name in ("B100", "GB300"):
        return label * BLACKWELL_HBM_SHARE
    if name.startswith(("A100", "A800", "A30", "H100", "H800", "H200", "H20", "GH200")):
        return label * HBM_SHARE
    return label - GDDR_LOSS_GIB


# --- names ----------------------------------------------------------------------------------------------------------


class _Name(NamedTuple):
    family: str
    memory: tuple[int, ...]
    forms: frozenset[str]


_NOISE = frozenset(
    [
        "NVIDIA",
        "TESLA",
        "GEFORCE",
        "AMD",
        "INSTINCT",
        "INTEL",
        "GOOGLE",
        "AWS",
        "APPLE",
        "CORPORATION",
        "GENERATION",
        "EDITION",
        "GPU",
        "GRAPHICS",
        "OAM",
        "RTX",
        "GTX",
        "RADEON",
        "RX",
        "TPU",
        "CLOUD",
        "HBM2",
        "HBM2E",
        "HBM3E",
        "HBM",
        "ACCELERATOR",
        "TENSOR",
        "CORE",
        "JETSON",
        "MODULE",
        "DEVELOPER",
        "KIT",
        "UNIFIED",
        "MEMORY",
        "VRAM",
    ]
)
_FORMS = {
    "SXM": "SXM", "SXM2": "SXM", "SXM3": "SXM", "SXM4": "SXM", "SXM5": "SXM", "SXM6": "SXM", "HGX": "SXM", "DGX": "SXM",
    "HBM3": "SXM", "PCIE": "PCIE", "PCI": "PCIE", "NVL": "NVL", "ADA": "ADA", "QUADRO": "QUADRO", "BLACKWELL": "BLACKWELL",
    "WS": "WORKSTATION", "WORKSTATION": "WORKSTATION", "SERVER": "SERVER", "SE": "SERVER", "MAXQ": "MAXQ",
}  # fmt: skip
"""Words that tell cards of one family apart; a query without them means all. Only the SXM card of the H100 is "HBM3"."""


@functools.lru_cache(maxsize=512)
def _read_name(name: str) -> _Name:
    """The family, the stated memory and the form factor in a name.

    ``RTX4090`` and ``RTX 4090`` are one family ``4090``; ``A100 80g``, ``a100-80`` state the memory.
    """
    text = re.sub(r"\([^)]*\)", " ", name.upper())
    if not re.search(r"\d\s*G(?:I?B)?\b", text):  # a remark on memory counts where nothing else says it
        text = re.sub(r"\((?![^)]*\d\s*G)[^)]*\)", " ", name.upper())
    text = text.replace("MAX-Q", "MAXQ").replace("V5LITEPOD", "V5E")
    text = re.sub(r"DGX[ -]SPARK(?=.*\bGB10\b)", " ", text)  # the box and the chip it holds, both named
    words = [word for word in re.split(r"[^A-Z0-9+]+", text) if word]
    parts = [piece for word in words for piece in _split(word)]
    family: list[str] = []
    memory: list[int] = []
    forms: set[str] = set()
    for position, word in enumerate(parts):
        stated = re.fullmatch(r"(\d{1,3})(?:GB|G|GIB)", word)
        if stated:
            memory.append(int(stated[1]))
        elif word in _FORMS:
            forms.add(_FORMS[word])
        elif word in ("GB", "GIB") and position and parts[position - 1].isdigit():
            memory.append(int(family.pop()) if family and re.fullmatch(r"\d{1,6}", family[-1]) else 0)
        elif word not in _NOISE:
            family.append(word)
    # A bare number behind a family that is not made of numbers states the memory: a100-80, V100-32.
    if len(family) > 1 and re.fullmatch(r"\d{2,3}", family[-1]) and re.fullmatch(r"[A-Z]{1,2}\d+[A-Z]?", family[0]):
        memory.append(int(family.pop()))
    return _Name("".join(family), tuple(memory), frozenset(forms))


_GLUED = re.compile(
    r"^(?:(RTX|GTX|QUADRO|RADEON|GEFORCE|TITAN|TESLA|NVIDIA|JETSON|PRO)(?=[A-Z0-9])"  # RTX4090, QuadroRTX6000
    r"|(\d{4})(?=(?:TI|SUPER|D|ADA)$)"  # 2080Ti, 6000Ada
    r"|([A-Z]\d{2,3})(?=(?:NVL|SXM\d?|PCIE)$))"  # H100NVL
)


def _split(word: str) -> list[str]:
    """Words written as one: ``QuadroRTX6000``, ``RTX6000Ada``, ``H100NVL``."""
    glued = _GLUED.match(word)
    return [glued[0], *_split(word[glued.end() :])] if glued else [word]


def _fits(asked: _Name, index: int) -> bool:
    row = _rows()[index]
    own = _read_name(row["id"])
    if any(size != int(row["memory_gb"]) and size not in _also_sold_as(index) for size in asked.memory):
        return False
    return asked.forms <= own.forms | ({"WORKSTATION"} if "MAXQ" in own.forms and "MAXQ" in asked.forms else set())


def _also_sold_as(index: int) -> frozenset[int]:
    """Memory sizes in the other names of a card."""
    return frozenset(size for alias in _rows()[index].get("aliases", ()) for size in _read_name(alias).memory)


def _squeezed(name: str) -> str:
    return re.sub(r"[^A-Z0-9+]+", "", name.upper())


@functools.lru_cache(maxsize=1)
def _spellings() -> dict[str, list[tuple[int, str]]]:
    """Every id and alias, squeezed, with the rows that have it and how they spell it."""
    table: dict[str, list[tuple[int, str]]] = {}
    for index, row in enumerate(_rows()):
        for spelled in (row["id"], *row.get("aliases", ())):
            table.setdefault(_squeezed(spelled), []).append((index, spelled))
    return table


@functools.lru_cache(maxsize=512)
def _exact(key: str) -> tuple[int, ...]:
    """Rows of a full name: an id, or an alias that starts with the vendor or that names no family of its own (``gfx90a``,
    ``trn1``)."""
    found = _spellings().get(key)
    if not found:
        return ()
    spelled = found[0][1]
    if not spelled.upper().startswith(("NVIDIA ", "TESLA ", "AMD ", "QUADRO ")):
        family = _families().get(_read_name(spelled).family)
        if family is not None and len(family) > 1:
            return ()
    return tuple(sorted({index for index, _ in found}))


@functools.lru_cache(maxsize=1)
def _families() -> dict[str, tuple[int, ...]]:
    table: dict[str, list[int]] = {}
    for index, row in enumerate(_rows()):
        table.setdefault(_read_name(row["id"]).family, []).append(index)
    return {key: tuple(indexes) for key, indexes in table.items()}
