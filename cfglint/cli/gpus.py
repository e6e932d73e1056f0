"""``cfglint gpus``: the catalogue of accelerators, with sources."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cfglint.catalog.accelerators import Accelerator

OK: Final = 0
USAGE: Final = 2

NOTE: Final = (
    "Vendor specifications change with product revision, driver and framework; "
    "each row says where it is from. Check the source before relying on it."
)


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "gpus",
        help="the catalogue of accelerators, with sources",
        description="List the accelerators of the catalogue, or show those a name can mean with their sources.",
    )
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="as people and drivers write it: A100-80GB, rtx4090, 8xH100"
    )
    parser.add_argument("--vendor", metavar="NAME", help="only this vendor")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from cfglint.catalog.accelerators import accelerators, find_accelerators, parse_gpu, similar_accelerators

    if args.name is None:
        rows = tuple(row for row in accelerators() if args.vendor is None or row.vendor.lower() == args.vendor.lower())
        if not rows:
            vendors = ", ".join(sorted({row.vendor for row in accelerators()}))
            print(f"cfglint gpus: no accelerator of vendor {args.vendor}; there are {vendors}", file=sys.stderr)
            return USAGE
        return as_json(rows) if args.format == "json" else table(rows)
    name, _ = parse_gpu(args.name)
    rows = find_accelerators(name)
    if not rows:
        near = similar_accelerators(name)
        hint = f"; nearest: {', '.join(near)}" if near else "; `cfglint gpus` lists those there are"
        print(f"cfglint gpus: {name} is not in the catalogue{hint}", file=sys.stderr)
        return USAGE
    return as_json(rows) if args.format == "json" else details(name, rows)


def as_json(rows: tuple[Accelerator, ...]) -> int:
    print(json.dumps({"version": 1, "note": NOTE, "accelerators": [described(row) for row in rows]}, indent=2))
    return OK


def described(row: Accelerator) -> dict[str, Any]:
    return {
        "id": row.id,
        "aliases": list(row.aliases),
        "vendor": row.vendor,
        "arch": row.arch,
        "compute_capability": capability(row) or None,
        "memory_gb": row.memory_gb,
        "usable_gib": row.usable_gib,
        "usable_measured": row.usable_measured,
        "usable_range_gib": list(row.usable_range) if row.usable_range else None,
        "devices": row.devices,
        "bandwidth_gb_s": row.bandwidth_gb_s,
        "nvlink_gb_s": row.nvlink_gb_s,
        "tflops_dense": row.tflops_dense,
        "supports": row.supports,
        "note": row.note or None,
        "sources": list(row.sources),
        "checked": row.checked or None,
    }


def capability(row: Accelerator) -> str:
    return ".".join(map(str, row.compute_capability)) if row.compute_capability else ""


def number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:g}"


def table(rows: tuple[Accelerator, ...]) -> int:
    width = max(len(row.id) for row in rows)
    arch = max(len(row.arch) for row in rows)
    print(
        f"{'accelerator':<{width}}  {'architecture':<{max(arch, 12)}}  {'cc':>4}  {'sold GB':>7}  {'usable GiB':>10}  "
        f"{'GB/s':>6}  {'bf16':>6}  {'fp8':>6}"
    )
    for row in rows:
        usable = f"{row.usable_gib:.2f}" if row.usable_measured else f"~{row.usable_gib:.1f}"
        bf16 = number(row.tflops_dense.get("bf16"))
        print(
            f"{row.id:<{width}}  {row.arch:<{max(arch, 12)}}  {capability(row):>4}  {row.memory_gb:>7g}  {usable:>10}  "
            f"{number(row.bandwidth_gb_s):>6}  {bf16:>6}  {number(row.tflops_dense.get('fp8')):>6}".rstrip()
        )
    print(
        f"\n{len(rows)} accelerators. Usable memory as torch reports it, ~ where it is estimated from the label; bf16 and fp8 in "
        "dense TFLOPS."
    )
    print(f"{NOTE} `cfglint gpus NAME` shows it.")
    return OK


def details(name: str, rows: tuple[Accelerator, ...]) -> int:
    if len(rows) > 1:
        print(f"{name} can mean {len(rows)} accelerators\n")
    for row in rows:
        print(row.id)
        for label, value in fields(row):
            print(f"  {label:<14}  {value}")
        print("  sources")
        for source in row.sources:
            print(f"    {source}")
        print()
    print(NOTE)
    return OK


def fields(row: Accelerator) -> list[tuple[str, str]]:
    usable = f"{row.usable_gib:.2f} GiB"
    if row.devices > 1:
        usable += f" in each of {row.devices} devices"
    if row.usable_measured:
        seen = row.usable_range
        usable += f" measured ({seen[0]:g} to {seen[1]:g} seen)" if seen and seen[0] != seen[1] else " measured"
    else:
        usable += ", estimated from the label"
    kind = f"{row.vendor} {row.arch}" + (f", compute capability {capability(row)}" if row.compute_capability else "")
    rates = ", ".join(f"{kind} {number(rate)}" for kind, rate in row.tflops_dense.items() if rate is not None)
    able = ", ".join(key for key, value in row.supports.items() if value)
    unable = ", ".join(key for key, value in row.supports.items() if not value)
    rows = [("kind", kind), ("memory", f"{row.memory_gb:g} GB as sold, {usable}")]
    if row.bandwidth_gb_s:
        rows.append(("bandwidth", f"{number(row.bandwidth_gb_s)} GB/s"))
    if row.interconnect:
        link = f", {number(row.nvlink_gb_s)} GB/s" if row.nvlink_gb_s else ""
        rows.append(("interconnect", row.interconnect + link))
    rows.append(("dense TFLOPS", rates or "not known"))
    rows.append(("runs", able or "none of the types asked about"))
    if unable:
        rows.append(("does not run", unable))
    if row.aliases:
        rows.append(("also written", ", ".join(row.aliases)))
    if row.note:
        rows.append(("note", row.note))
    if row.checked:
        rows.append(("checked", row.checked))
    return rows
