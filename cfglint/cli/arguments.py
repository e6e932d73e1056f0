"""Flags that several commands share, and what they mean."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cfglint.source.whole_number import whole_number

if TYPE_CHECKING:
    from cfglint.jobs.linker import HardwareOptions
    from cfglint.settings import SettingsResolver


def add_hardware(parser: argparse.ArgumentParser) -> None:
    """``--gpu``, ``--gpus``, ``--nodes``."""
    group = parser.add_argument_group("hardware, over what the files say")
    group.add_argument(
        "--gpu", metavar="NAME", help="accelerator, as people and drivers write it: A100-80GB, 8xH100, T4"
    )
    group.add_argument("--gpus", type=count, metavar="N", help="accelerators per node")
    group.add_argument("--nodes", type=count, metavar="N", help="number of nodes")


def add_settings(parser: argparse.ArgumentParser) -> None:
    """``--config``, ``--isolated``."""
    group = parser.add_argument_group("settings").add_mutually_exclusive_group()
    group.add_argument("--config", metavar="FILE", help="use this settings file for all files")
    group.add_argument("--isolated", action="store_true", help="use no settings file")


def hardware_options(args: argparse.Namespace) -> HardwareOptions:
    """The hardware the flags state."""
    from cfglint.jobs.linker import HardwareOptions

    return HardwareOptions(args.gpu, args.gpus, args.nodes)


def settings_resolver(args: argparse.Namespace) -> SettingsResolver:
    """Settings as the flags say. Raises SettingsError."""
    from cfglint.settings import SettingsResolver

    return SettingsResolver(Path(args.config) if args.config else None, args.isolated)


def selectors(flags: Sequence[str] | None) -> tuple[str, ...]:
    """``--select A,B --select C`` as one tuple."""
    return tuple(name.strip() for flag in flags or () for name in flag.split(",") if name.strip())


def count(text: str) -> int:
    """A whole number from 1."""
    number = whole_number(text)
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return number
