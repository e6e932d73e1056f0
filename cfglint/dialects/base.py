"""The shape of a dialect: how one config format is recognised and read.

A dialect is one module of this package with a module-level ``DIALECT``; :func:`cfglint.dialects.recognise.dialects` finds it.
Importing a dialect must stay cheap: schemas are data in ``data/`` and are loaded by :mod:`cfglint.dialects.schema`
only when a file of that dialect is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cfglint.jobs.facts import Reading
from cfglint.source.node import Document, Mapping
from cfglint.source.shell import Command, Word

if TYPE_CHECKING:
    from cfglint.dialects.carriers.command import Program


@dataclass(frozen=True, slots=True)
class Recognition:
    """Why a document is of a dialect. ``score`` 0–100 decides between dialects that exclude each other."""

    score: int
    why: str


@dataclass(slots=True, eq=False)
class Launch:
    """A command with what surrounds it: from a shell script, a Dockerfile, a Kubernetes container, a compose service.

    ``words`` start with the program. ``facts`` hold what the carrier knows (GPU type and count, nodes, host memory).
    """

    words: list[Word]
    document: Document
    carrier: str
    environment: dict[str, Word] = field(default_factory=dict)
    image: Word | None = None
    command: Command | None = None
    name: str = ""
    container: Mapping | None = None
    """The container or service mapping, where the carrier is YAML."""
    context: dict[str, Any] = field(default_factory=dict)
    gpu: tuple[str, Any] | None = None
    """Accelerator name with its origin."""
    gpus: tuple[int, Any] | None = None
    nodes: tuple[int, Any] | None = None
    host_memory: tuple[int, Any] | None = None


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """A tool's own command whose flags have the names of its files' keys: what stands behind it, and what it trains for."""

    arguments: list[Word]
    task: str = ""


class Dialect:
    """Base of all dialects. Override :meth:`recognise` and :meth:`read` (files), :meth:`read_launch` (commands), or both."""

    name: str = ""
    title: str = ""
    kind: str = "train"
    summary: str = ""
    schema: str | None = None
    """Name of the key table in ``data/`` (see :mod:`cfglint.dialects.schema`)."""
    markers: frozenset[str] = frozenset()
    """Keys that hardly stand in files of any other tool: two of them make a file that does not parse ours to report."""
    programs: frozenset[str] = frozenset()
    """Commands that the tool installs: they are found behind ``srun``, ``env``, ``numactl`` and other wrappers."""
    scripts: frozenset[str] = frozenset()
    """Names that people give scripts around the tool's trainers: flags of such a script that the dialect recognises are its."""
    wraps: bool = False
    """Documents of this dialect hold commands or arguments of other tools (:meth:`launches`): it is asked before the
    carriers, and has the document to itself."""

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        """Say whether this dialect's tool would read ``root``; judge by content, not by file name."""
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        """Turn a recognised document into readings."""
        return iter(())

    def launches(self, document: Document, root: Mapping) -> Iterator[Launch]:
        """Commands that a document of a dialect that :attr:`wraps` holds or stands for; every dialect is asked to read them."""
        return iter(())

    def read_launch(self, launch: Launch) -> Iterator[Reading]:
        """Readings of a command line this dialect knows; nothing where it is another's."""
        return iter(())

    def own_command(self, started: Program) -> OwnCommand | None:
        """The tool's own command, whose config files, ``key=value`` words and flags the dialect ``launch`` finds."""
        return None

    def read_flags(self, document: Document, flags: Mapping, task: str) -> Iterator[Reading]:
        """Readings of the flags of an own command, or of a script in :attr:`scripts`; ``task`` is its word for what it trains for."""
        return self.read(document, flags)

    def state_launcher(self, reading: Reading, flags: Mapping, positionals: list[Word]) -> None:
        """State on the launch's reading what an own command's flags say of processes and of the launcher it uses."""

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        """Readings of a trainer's own script, module or command with its arguments, whatever launched it.

        ``started`` is what torchrun, ``accelerate launch``, ``deepspeed``, ``ray job submit`` or nothing at all starts; the
        launcher's words are read by the dialect ``launch``. A reading of role ``run`` holds all settings of a run; it
        becomes ``arguments`` where the command names a config file, unless its context says ``standalone``.
        """
        return iter(())
