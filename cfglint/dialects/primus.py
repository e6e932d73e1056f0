"""Primus' experiment files, which wrap the settings of Megatron, torchtitan and MaxText alike.

``modules.<name>`` names a ``framework``, a base ``config``, a ``model`` preset and ``overrides`` in that framework's words. The
files that ``config`` and ``model`` name are Primus' own and are not read; presets of well-known models are a table here.

Names: Primus main of 2026-08 (``primus/core/config``, ``primus/configs/models``).
"""

from __future__ import annotations

from cfglint.catalog.presets import preset
from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import text
from cfglint.jobs.facts import UNKNOWN, Reading, Reference
from cfglint.source.node import Mapping, Scalar, Sequence


def refer_to_bases(reading: Reading, root: Mapping) -> None:
    """``extends``: a file, or several, that the experiment is merged over; their paths start from its own folder."""
    node = root.get("extends")
    for item in node.items if isinstance(node, Sequence) else [node]:
        if isinstance(item, Scalar) and isinstance(item.value, str) and not is_unknown(item.value):
            reading.references.append(Reference("extends", item.value, reading.origin("extends"), base="file"))


def module_of(root: Mapping, *frameworks: str) -> str | None:
    """The key below ``modules`` whose ``framework`` is one of ``frameworks``; None where ``root`` is no Primus file of theirs."""
    modules = root.get("modules")
    if not isinstance(modules, Mapping):
        return None
    for name, entry in modules.index.items():
        if not isinstance(entry.value, Mapping):
            continue
        stated = entry.value.get("framework")
        if (
            isinstance(stated, Scalar)
            and stated.value in frameworks
            and ("overrides" in entry.value or "config" in entry.value)
        ):
            return name
    return None


def state_preset(module: ResolvingReader) -> None:
    """``model: llama3.1_8B.yaml`` as the model it describes; the preset's own name where it is not in the table."""
    value = text(module.value("model"))
    if value is None:
        return
    if is_unknown(value):
        module.state("model_id", UNKNOWN, "model")
        return
    name = value.removesuffix(".yaml")
    known = preset("primus", name.lower()) or preset("primus", name.lower().partition("-")[0])
    module.state("model_id", known or name, "model")
