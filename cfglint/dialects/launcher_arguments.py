"""Arguments of a launcher that a trainer's own command takes: ``trl sft --accelerate_config zero3``, ``axolotl train --num-processes 4``.

TRL brings Accelerate files under short names; Axolotl passes on what stands behind ``--``.

Names: TRL 0.12 to 1.x (``trl/accelerate_configs``, ``trl/cli``), Axolotl 0.9 to 0.19 (``axolotl/cli/args.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from cfglint.dialects.flags import read_flags
from cfglint.jobs.facts import UNKNOWN, DefaultOrigin, FileOrigin, Reading, Reference
from cfglint.source.node import Mapping, Scalar
from cfglint.source.shell import Word

_ZERO: Final = {"offload_optimizer": "none", "offload_parameters": "none"}
PRESETS: Final[dict[str, dict[str, Any]]] = {
    "zero1": {"zero_stage": 1},
    "zero2": {"zero_stage": 2, **_ZERO},
    "zero3": {"zero_stage": 3, **_ZERO},
    "fsdp1": {"fsdp": "full_shard", "fsdp_version": 1},
    "fsdp2": {"fsdp": "full_shard", "fsdp_version": 2},
    "multi_gpu": {},
    "single_gpu": {},
}
"""``trl/accelerate_configs/*.yaml``: all in bf16; all but ``single_gpu`` on 8 processes of one machine."""
PROCESSES: Final = 8


def state_processes(reading: Reading, flags: Mapping, positionals: Iterable[Word]) -> None:
    """Processes of a command that starts a launcher itself and passes on to it what stands behind ``--``."""
    behind = read_flags(list(positionals)).mapping
    _count(reading, "gpus_per_node", flags, "num_processes")
    _count(reading, "gpus_per_node", behind, "nproc_per_node", "num_processes")
    _count(reading, "nodes", behind, "nnodes", "num_machines")


def state_accelerate(reading: Reading, flags: Mapping) -> None:
    """Flags of ``accelerate launch`` among the command's own, and Accelerate's file by path or by TRL's short name."""
    nodes = _whole(flags, "num_machines")
    _count(reading, "nodes", flags, "num_machines")
    total = _whole(flags, "num_processes")
    if total is not None and nodes and total % nodes == 0:
        reading.facts.state("gpus_per_node", total // nodes, _origin(reading, flags, "num_processes"))
    else:
        _count(reading, "gpus_per_node", flags, "num_processes")
    named = flags.get("accelerate_config")
    if not isinstance(named, Scalar) or not isinstance(named.value, str):
        return
    origin = _origin(reading, flags, "accelerate_config")
    preset = PRESETS.get(named.value)
    if preset is None:
        reading.references.append(Reference("accelerate", named.value, origin, base="cwd"))
        return
    for fact, value in preset.items():
        reading.facts.state(fact, value, origin)
    reading.facts.state("compute_dtype", "bf16", origin)
    if not reading.facts.stated("gpus_per_node"):
        count = 1 if named.value == "single_gpu" else PROCESSES
        reading.facts.state("gpus_per_node", count, DefaultOrigin("trl", "", f"accelerate_config {named.value}"))


def _origin(reading: Reading, flags: Mapping, flag: str) -> FileOrigin:
    entry = flags.entry(flag)
    assert entry is not None
    return FileOrigin(reading.document, (flag,), entry.key.span, entry.value.span)


def _whole(flags: Mapping, flag: str) -> int | None:
    node = flags.get(flag)
    value = node.value if isinstance(node, Scalar) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _count(reading: Reading, fact: str, flags: Mapping, *names: str) -> None:
    for name in names:
        if name in flags.index:
            value = _whole(flags, name)
            reading.facts.state(fact, UNKNOWN if value is None else value, _origin(reading, flags, name))
            return
