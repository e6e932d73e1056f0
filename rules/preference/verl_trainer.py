"""Whose trainer a verl reading starts, and whether its number of devices is written down: shared by RLH013 and RLH015."""

from __future__ import annotations

from cfglint.jobs.facts import Reading

_OTHERS = ("recipe", "experimental")
"""Parts of module names under which verl keeps trainers with checks of their own."""
_DEVICES = ("n_gpus_per_node", "nnodes")


def has_own_trainer(reading: Reading) -> bool:
    """Whether the command starts a recipe's or an experiment's trainer, which may batch and place in its own way."""
    program = str(reading.context.get("program", ""))
    return not set(_OTHERS).isdisjoint(program.replace("/", ".").split("."))


def devices_are_stated(reading: Reading) -> bool:
    """Whether a number of devices is written down: not left to verl's default, nor to a variable that a cluster may set."""
    entries = [entry for key in _DEVICES if (entry := reading.entry("trainer", key)) is not None]
    text = reading.document.file.text
    return bool(entries) and not any("$" in text[entry.value.span.start : entry.value.span.end] for entry in entries)
