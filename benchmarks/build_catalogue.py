"""Write the data files of ``cfglint/catalog/data`` from ``../shared/catalog``. Run by hand: ``python benchmarks/build_catalogue.py``.

Only facts are taken over, each row with its source and the day it was taken (``checked``). ``config_defaults.json`` is made by
``build_config_defaults.py``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from row_configs import config_of

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


# --- models ---------------------------------------------------------------------------------------------------------


def models() -> None:
    """One JSON object, one row a line, so that a single row is found by its key and parsed alone.

    ``"@texts"`` holds the long texts that many rows share; rows name them by number.
    """
    rows = load("models.json")
    configs = with_siblings(rows)
    texts: list[str] = []
    table: dict[str, str] = {}
    aliases: dict[str, str] = {}
    for row in rows:
        aliases.update({alias.lower(): row["id"] for alias in row["aliases"]})
        table[row["id"].lower()] = compact(model_row(row, configs[row["id"]], texts))
    lines_out = [f'"@texts":{compact(texts)}', f'"@checked":{compact(CHECKED)}']
    lines_out += [f"{compact(key)}:{table[key]}" for key in sorted(table)]
    lines_out += [
        f"{compact(alias)}:{compact(target)}" for alias, target in sorted(aliases.items()) if alias not in table
    ]
    write("models.json", "{\n" + ",\n".join(lines_out) + "\n}")


def with_siblings(rows: list[Any]) -> dict[str, Any]:
    """Configs by id. A row known by its total alone takes the config of a counted row that it equals in sizes and total."""
    counted: dict[Any, Any] = {}
    for row in rows:
        if row["params_source"] == "computed":
            counted.setdefault(likeness(row), row)
    configs = {}
    for row in rows:
        sibling = counted.get(likeness(row)) if row["params_source"] != "computed" else None
        config = config_of(sibling or row)
        if sibling is not None:
            own = config_of(row)
            config = {key: value for key, value in config.items() if key not in ("dtype", "quantization_config")}
            config.update({key: own[key] for key in ("dtype", "quantization_config") if key in own})
            config["@like"] = sibling["id"]
        configs[row["id"]] = config
    return configs


def likeness(row: Any) -> Any:
    return tuple(
        row.get(key) for key in ("model_type", "hidden_size", "num_hidden_layers", "vocab_size", "params_total")
    )


def model_row(row: Any, config: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    def text(value: str | None) -> int | None:
        if not value:
            return None
        if value not in texts:
            texts.append(value)
        return texts.index(value)

    like = config.pop("@like", None)
    source = row.get("native_dtype_source") or ""
    kept = {
        "id": row["id"],
        "aliases": row["aliases"],
        "config": config,
        "like": like,
        "params": row["params_total"],
        "active": row.get("params_active"),
        "counted": row["params_source"] == "computed",
        "extra": row.get("params_extra_in_checkpoint"),
        "dtype_source": text(source),
        "dtype_sourced": bool(source) and "recalled" not in source,
        "trained_in": row["trained_in"],
        "trained_in_evidence": text(row.get("trained_in_evidence")),
        "fp16_safe": row["fp16_safe"] if row["fp16_safe"] != "unknown" else None,
        "fp16_evidence": text(row.get("fp16_safe_evidence")),
        "license": row["license"],
        "gated": row.get("gated"),
        "exact_check": row.get("published_check", {}).get("vs_hf") == "exact" or None,
        "note": text(row.get("note")),
        "source": text(row["source"]),
    }
    return {key: value for key, value in kept.items() if value not in (None, [], False)}


if __name__ == "__main__":
    accelerators()
    models()
    sys.exit(0)
