"""Write ``docs/reference.md`` from the code's own data: formulas, precision table, commands to verify with.

``python docs/build_reference.py`` writes the page; with ``--check`` it writes nothing and exits 1 when the page is stale.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference.md"
sys.path.insert(0, str(ROOT))

from cfglint import formulas, precision  # noqa: E402

SECTIONS = (
    ("Memory", "weight_bytes"),
    ("Batch and schedule", "data_parallel_size"),
    ("Compute", "forward_flops_per_token"),
    ("Evaluation", "perplexity"),
)
"""Headings, each with the first formula that stands below it."""


@dataclass(frozen=True, slots=True)
class Command:
    """Something to run on the machine. ``figure`` names the cfglint figure that it checks, empty where there is none."""

    text: str
    language: str
    shows: str
    figure: str = ""


COMMANDS = (
    Command(
        "nvidia-smi",
        "shell",
        "Memory in use and in total per device (MiB, 2^20 bytes), driver and CUDA version, processes. Memory counts"
        " everything on the device: tensors, the allocator's cache, CUDA context, libraries, NCCL buffers.",
        "`used_gib`, and `capacity_gib` against the total",
    ),
    Command(
        "nvidia-smi --query-gpu=name,memory.used,memory.total,compute_cap,driver_version --format=csv -l 1",
        "shell",
        "The same once a second as CSV, to catch a peak from outside; short peaks fall between two samples.",
        "`used_gib`",
    ),
    Command(
        "nvidia-smi dmon -s um",
        "shell",
        "Utilization and memory per device, a line a second. The `sm` column says that a kernel was running, not how"
        " well it used the device: 100 % there and an MFU of 20 % go together.",
        "`used_gib`; MFU only from throughput, with `cfglint calc mfu`",
    ),
    Command(
        "nvidia-smi pmon -s um",
        "shell",
        "Utilization and memory per process: whether something else lives on the device.",
        "`used_gib` of one process",
    ),
    Command(
        "torchrun --nproc_per_node=4 train.py",
        "shell",
        "Starts one process per GPU on this machine.",
        "`data_parallel` × other parallel sizes = 4",
    ),
    Command(
        "torchrun --nnodes=2 --nproc_per_node=8 --node_rank=$RANK \\\n"
        "  --master_addr=$ADDR --master_port=29500 train.py",
        "shell",
        "The same on two machines, run on each with its own `$RANK` (0 and 1) and the address of rank 0. World size 16.",
        "`data_parallel` × other parallel sizes = 16",
    ),
    Command(
        "import torch\n\n"
        "GIB = 2**30\n"
        'print(f"allocated now  {torch.cuda.memory_allocated() / GIB:.2f} GiB")\n'
        'print(f"reserved now   {torch.cuda.memory_reserved() / GIB:.2f} GiB")\n'
        'print(f"allocated peak {torch.cuda.max_memory_allocated() / GIB:.2f} GiB")\n'
        'print(f"reserved peak  {torch.cuda.max_memory_reserved() / GIB:.2f} GiB")',
        "python",
        "Live tensors and what the caching allocator holds, now and at their peak since the start or since"
        " `torch.cuda.reset_peak_memory_stats()`. Run it on every rank after two or three optimizer steps: the states"
        " are made in the first `step()`. Code that divides by `1e9` prints GB, 7.4 % more than GiB.",
        "`allocated_gib` is `max_memory_allocated`, `reserved_gib` is `max_memory_reserved`",
    ),
    Command(
        "free, total = torch.cuda.mem_get_info()\n"
        'print(f"used {(total - free) / 2**30:.2f} of {total / 2**30:.2f} GiB")',
        "python",
        "What the driver counts as used on the device, by all processes.",
        "`used_gib`, and `capacity_gib` against the total",
    ),
    Command(
        "from torch.profiler import ProfilerActivity, profile\n\n"
        "activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]\n"
        "with profile(activities=activities, profile_memory=True, with_flops=True) as prof:\n"
        "    train_step()\n"
        'print(prof.key_averages().table(sort_by="cuda_time_total", row_limit=20))',
        "python",
        "Time, memory and FLOPs by operator for one step. FLOPs are counted for matrix multiplications and"
        " 2D convolutions only.",
        "`flops_per_step`, roughly; `phases`",
    ),
    Command(
        "nccl-tests/build/all_reduce_perf -b 8 -e 8G -f 2 -g 8",
        "shell",
        "Bus bandwidth of an all-reduce over 8 GPUs of one machine, from 8 bytes to 8 GiB, doubling. A low plateau means a"
        " slow link, and an MFU below the usual range. (github.com/NVIDIA/nccl-tests)",
        "none: `seconds_per_step` knows nothing of the network",
    ),
)


def number(value: float) -> str:
    """A format's limit for people: ``65,504``, ``3.4028e+38``."""
    return f"{value:,.0f}" if value == int(value) and value < 1e6 else f"{value:.5g}"


def formula_lines(formula: formulas.Formula) -> list[str]:
    lines = [f"### {formula.title}", "", "```text", formula.expression, "```", ""]
    lines += ["| variable | meaning | unit | default |", "| --- | --- | --- | --- |"]
    for variable in formula.variables:
        default = "" if variable.default is None else formulas.format_number(variable.default)
        lines.append(f"| `{variable.name}` | {variable.meaning} | {variable.unit} | {default} |")
    unit = "" if formula.unit == "1" else f" ({formula.unit})"
    lines += ["", f"Gives: {formula.result}{unit}.", ""]
    lines += [f"{formula.caveat}", "", f"Source: {formula.source}.", ""]
    return lines


def precision_lines() -> list[str]:
    lines = [
        "| format | bits | exponent, mantissa | largest value | smallest normal | in training | in inference | hardware |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for entry in precision.PRECISIONS:
        split = f"{entry.exponent_bits}, {entry.mantissa_bits}" if entry.exponent_bits is not None else "integer"
        bits = f"{entry.bits} (internal)" if entry.name == "TF32" else str(entry.bits)
        since = "" if entry.compute_capability is None else "{}.{}: ".format(*entry.compute_capability)
        lines.append(
            f"| {entry.name} | {bits} | {split} | {number(entry.maximum)} | {number(entry.smallest_normal)}"
            f" | {entry.training} | {entry.inference} | {since}{entry.hardware} |"
        )
    lines += [
        "",
        "Largest and smallest values are those of one element, before a block scale. Hardware names the first NVIDIA"
        " compute capability whose tensor cores take the format.",
        "",
        "### What a parameter takes up",
        "",
        "| storage | bits per parameter | bytes per parameter | made of | source |",
        "| --- | --- | --- | --- | --- |",
    ]
    for stored in precision.STORAGE_FORMATS:
        made = f"{stored.element_bits} bits"
        if stored.block_size:
            made += f" + one {stored.scale_bits}-bit scale per {stored.block_size} elements"
        if stored.scale_block_size:
            made += f" + {stored.second_scale_bits} bits per {stored.scale_block_size} scales"
        lines.append(
            f"| {stored.name} | {stored.bits_per_parameter:.5g} | {stored.bytes_per_parameter:.5g} | {made}"
            f" | {precision.SOURCES[stored.source]} |"
        )
    lines += [
        "",
        "### Where each row is from, and how it was checked",
        "",
        *(f"- {text}" for text in precision.CHECKS),
        "",
    ]
    for entry in precision.PRECISIONS:
        lines.append(f"- {entry.name}: {'; '.join(precision.SOURCES[key] for key in entry.sources)}")
    return [*lines, ""]


def command_lines() -> list[str]:
    lines: list[str] = []
    for command in COMMANDS:
        lines += [f"```{command.language}", command.text, "```", "", command.shows, ""]
        if command.figure:
            lines += [f"cfglint figure: {command.figure}.", ""]
    return lines


def page() -> str:
    """The whole page as Markdown."""
    lines = [
        "# Reference",
        "",
        "<!-- Generated by docs/build_reference.py from cfglint/formulas.py and cfglint/precision.py. Do not edit. -->",
        "",
        "The formulas, number formats and commands that cfglint's figures rest on. `cfglint calc` runs each formula and"
        " shows its working.",
        "",
        f"GiB are 2^30 bytes, as drivers and PyTorch count; GB are 10^9, as boxes and code that divides by `1e9` count:"
        f" 1 GiB is {formulas.GIB / formulas.GB:.4f} GB. cfglint's memory figures are GiB.",
        "",
        "Vendor specifications change with driver and framework updates. Verify what matters against current vendor"
        " documentation: `cfglint gpus NAME` and `cfglint models ID` show where each row of the catalogue is from.",
        "",
    ]
    headings = {first: title for title, first in SECTIONS}
    for formula in formulas.all_formulas():
        if formula.name in headings:
            lines += [f"## {headings[formula.name]}", ""]
        lines += formula_lines(formula)
    lines += ["## Precision", "", *precision_lines()]
    lines += ["## Commands to verify on the machine", "", *command_lines()]
    return "\n".join(lines).rstrip("\n") + "\n"


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: python docs/build_reference.py [--check]", file=sys.stderr)
        return 2
    wanted = page()
    if arguments:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == wanted:
            return 0
        print("docs/reference.md is stale: run python docs/build_reference.py", file=sys.stderr)
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
