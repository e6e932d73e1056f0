"""Write the data files of ``cfglint/catalog/data`` from ``../shared/catalog``. Run by hand: ``python benchmarks/build_catalogue.py``.

Only facts are taken over, each row with its source and the day it was taken (``checked``). ``config_defaults.json`` is made by
``build_config_defaults.py``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "catalog"
DATA = ROOT / "cfglint" / "catalog" / "data"
CHECKED = "2026-11-30"
"""The day the rows were taken from ``../shared/catalog`` and looked through."""


def load(name: str) -> Any:
    return json.loads((SHARED / name).read_text("utf-8"))


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def lines(rows: list[Any]) -> str:
    """A JSON list, one row a line: small, and a change of one row is a change of one line."""
    return "[\n" + ",\n".join(compact(row) for row in rows) + "\n]"


def write(name: str, text: str) -> None:
    json.loads(text)
    (DATA / name).write_text(text + "\n", "utf-8")
    print(f"{name}: {len(text.encode()):,} bytes")


# --- accelerators ---------------------------------------------------------------------------------------------------

DEVICES = {"MI250": 2, "MI250X": 2, "Data-Center-GPU-Max-1550": 2}
"""Boards that torch sees as several devices (OVERHEADS.md, section 1)."""

MORE_ALIASES = {
    "B200-SXM": ["B200-192GB"],  # sold as 192 GB, 180 GB in HGX and DGX
    "GB200": ["GB200-192GB"],
    # the ROCm name of a chip covers every card that carries it
    "MI250": ["gfx90a"],
    "MI250X": ["gfx90a"],
    "MI300X": ["gfx942"],
    "MI300A": ["gfx942"],
    "MI325X": ["gfx942"],
    "MI350X": ["gfx950"],
    "MI355X": ["gfx950"],
}


def accelerators() -> None:
    rows = []
    for row in load("accelerators.json"):
        kept = {
            "id": row["id"],
            "aliases": [name for name in row["aliases"] + MORE_ALIASES.get(row["id"], []) if name != row["id"]],
            "vendor": row["vendor"],
            "arch": row["arch"],
            "cc": row["compute_capability"],
            "memory_gb": row["memory_gb"],
            "usable_gib": row["memory_gib_usable"],
            "range": row.get("memory_gib_usable_range"),
            "devices": DEVICES.get(row["id"]),
            "bandwidth": row["bandwidth_gb_s"],
            "nvlink": row["nvlink_gb_s"],
            "interconnect": row["interconnect"],
            "tflops": {key: value for key, value in row["tflops_dense"].items() if value is not None},
            "supports": [key for key, value in row["supports"].items() if value],
            "unsupported": [key for key, value in row["supports"].items() if value is False],
            "note": "; ".join(row[key] for key in ("note", "memory_note", "derived") if row.get(key)),
            "sources": row["sources"] + row.get("memory_gib_usable_sources", []),
            "checked": CHECKED,
        }
        rows.append({key: value for key, value in kept.items() if value not in (None, [], "")})
    write("accelerators.json", lines(rows))


if __name__ == "__main__":
    accelerators()
    sys.exit(0)
