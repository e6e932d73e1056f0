"""Which dialect each document is, and what it reads there. Judged by content; a pragma or a setting overrides."""

from __future__ import annotations

import os
import pkgutil
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.jobs.facts import Reading
from cfglint.source.node import Document, Mapping, SourceFile

MOST_KEYS = 5_000
"""Keys side by side beyond which a file is data (a vocabulary, a list of classes), no configuration."""
MANIFEST_TEXT = 2**17
"""Characters of a script that is searched for manifests."""
MANIFESTS_READ = 16
"""Documents of manifests read in one script."""
_MANIFEST = re.compile(r"^[ \t]*apiVersion:[ \t]*\S", re.MULTILINE)
_BLANKED = re.compile(r"[^\r\n]")
_DEFAULTED = re.compile(r"(\$\{\w+):?-([^{}\n]*)\}")
"""``${TP:-8}`` in a heredoc: the script that writes it puts its own value in."""
SNIFFED_KEYS = 2
"""Distinctive keys of one dialect that must stand in a broken file's text before its fault is reported as ours."""


@dataclass
class FileReport:
    """What became of one file: for ``--show-files``."""

    path: str
    format: str | None
    dialects: list[str] = field(default_factory=list)
    carrier: str | None = None
    skipped: str | None = None
    why: str | None = None
    broken_as: str | None = None
    """The dialect a file that does not parse looks like."""
    fault: str | None = None
    """A dialect that raised while reading the file: reported as an internal fault, the rest of the run goes on."""


@lru_cache(maxsize=1)
def dialects() -> tuple[Dialect, ...]:
    """Every module of this package that offers a ``DIALECT``, by name."""
    import cfglint.dialects as package

    found: list[Dialect] = []
    for info in pkgutil.iter_modules(package.__path__):
        if info.ispkg:
            continue
        module = import_module(f"{package.__name__}.{info.name}")
        offered = getattr(module, "DIALECT", None)
        if isinstance(offered, Dialect):
            found.append(offered)
    return tuple(sorted(found, key=lambda d: d.name))


def dialect_named(name: str) -> Dialect | None:
    return next((d for d in dialects() if d.name == name), None)


def recognise_files(
    files: Iterable[SourceFile], override: Callable[[str], str | None] = lambda path: None
) -> tuple[list[Reading], dict[str, FileReport]]:
    """Readings of all files, and a report for each. ``override`` gives the dialect settings name for a path."""
    readings: list[Reading] = []
    reports: dict[str, FileReport] = {}
    for file in files:
        report = FileReport(file.path, file.format, skipped=file.skipped)
        reports[file.path] = report
        if file.skipped:
            continue
        if file.fatal:
            report.broken_as = _sniff(file.text)
        forced = override(file.path) or _pragma_dialect(file)
        documents = file.documents or ([Document(file)] if file.script is not None else [])
        for document in [*documents, *_manifests(file)]:
            try:
                found = _document(document, forced)
            except Exception as error:
                report.fault = f"{type(error).__name__}: {error}"
                continue
            for reading in found:
                readings.append(reading)
                if reading.dialect not in report.dialects:
                    report.dialects.append(reading.dialect)
                report.carrier = report.carrier or reading.carrier
                report.why = report.why or reading.why or None
    return readings, reports


def _unsaid(found: re.Match[str]) -> str:
    """The variable alone, in as many characters."""
    return found[1] + "_" * (len(found[0]) - len(found[1]) - 1) + "}"


def _manifests(file: SourceFile) -> list[Document]:
    """Documents of Kubernetes manifests that a script holds as heredocs (``kubectl apply -f - <<EOF``), at their place in it."""
    if file.script is None or "apiVersion:" not in file.text or len(file.text) > MANIFEST_TEXT:
        return []
    from cfglint.source.yaml import parse_yaml

    found: list[Document] = []
    for command in file.script.commands:
        body, span = command.heredoc, command.heredoc_span
        if body is None or span is None or not _MANIFEST.search(body) or file.text[span.start : span.end] != body:
            continue
        text = _BLANKED.sub(" ", file.text[: span.start]) + _DEFAULTED.sub(_unsaid, body)
        found += parse_yaml(file.path, text).documents
        if len(found) >= MANIFESTS_READ:
            break
    return found


def _pragma_dialect(file: SourceFile) -> str | None:
    if "cfglint:" not in file.text:
        return None
    from cfglint.jobs.pragma import read_pragmas

    pragma = read_pragmas(file).dialect
    return pragma.value if pragma is not None else None


def _document(document: Document, forced: str | None) -> list[Reading]:
    return [*_own(document, forced), *_inside(document)]


def _inside(document: Document) -> list[Reading]:
    """Readings of the config files that a ConfigMap holds."""
    from cfglint.dialects.carriers.inline_files import held_files

    return _of_files(held_files(document), "kubernetes") if document.script is None else []


def _of_files(files: Iterable[tuple[str, SourceFile]], carrier: str) -> list[Reading]:
    """Readings of files that stand inside another."""
    from cfglint.dialects.carriers.inline_files import INSIDE

    readings = []
    for name, file in files:
        for inner in file.documents if not file.skipped else []:
            for reading in _own(inner, None):
                reading.context[INSIDE] = name
                reading.carrier = reading.carrier or carrier
                readings.append(reading)
    return readings


def _own(document: Document, forced: str | None) -> list[Reading]:
    if document.script is not None:
        return _launches(document, _script_launches)
    root = document.root
    if not isinstance(root, Mapping) or len(root.entries) > MOST_KEYS:
        return []
    if forced is not None:
        dialect = dialect_named(forced)
        if dialect is not None:
            own = _stamped(list(dialect.read(document, root)), "named by a cfglint comment or setting")
            return [*own, *_wrapped(dialect, document, root)] if dialect.wraps else own
    from cfglint.dialects.carriers import compose, kubernetes

    wrapper = _best(document, root, wrapping_dialects())
    if wrapper is not None:
        recognition, dialect = wrapper
        own = _stamped(list(dialect.read(document, root)), recognition.why)
        return [*own, *_wrapped(dialect, document, root)]
    if kubernetes.matches(root):
        found = _launches(document, kubernetes.launches)
        if found:
            return found
    elif compose.matches(root):
        return _launches(document, compose.launches)
    best = _best(document, root, dialects())
    if best is None:
        return []
    recognition, dialect = best
    return _stamped(list(dialect.read(document, root)), recognition.why)


def _wrapped(dialect: Dialect, document: Document, root: Mapping) -> list[Reading]:
    return _launches(document, lambda inside: dialect.launches(inside, root))


def _best(document: Document, root: Mapping, candidates: Iterable[Dialect]) -> tuple[Recognition, Dialect] | None:
    best = None
    for dialect in candidates:
        recognition = dialect.recognise(document, root)
        if recognition is not None and (best is None or recognition.score > best[0].score):
            best = (recognition, dialect)
    return best


@lru_cache(maxsize=1)
def wrapping_dialects() -> tuple[Dialect, ...]:
    return tuple(d for d in dialects() if d.wraps)


def _stamped(readings: list[Reading], why: str) -> list[Reading]:
    for reading in readings:
        reading.why = reading.why or why
    return readings


def _script_launches(document: Document) -> Iterable[Launch]:
    from cfglint.dialects.carriers import shell

    return shell.launches(document)


def _launches(document: Document, find: Callable[[Document], Iterable[Launch]]) -> list[Reading]:
    from cfglint.dialects.carriers.inline_files import written_files

    readings: list[Reading] = []
    carrier, commands = "", []
    for launch in find(document):
        if launch.command is not None and launch.command.heredoc_span is not None:
            carrier = launch.carrier
            commands.append(launch.command)
        for dialect in dialects():
            for reading in dialect.read_launch(launch):
                reading.carrier = reading.carrier or launch.carrier
                reading.context.setdefault("launch", launch)
                _from_folder(reading, launch)
                if "versions" in launch.context:
                    reading.context["versions"] = {**launch.context["versions"], **reading.context.get("versions", {})}
                readings.append(reading)
    if commands:
        readings.extend(_of_files(written_files(document, commands), carrier))
    return readings


_FILES = frozenset({"config", "accelerate", "deepspeed", "fsdp"})


def _from_folder(reading: Reading, launch: Launch) -> None:
    """Paths that start from where a script has gone, which is known from its own folder on."""
    folder = launch.context.get("folder")
    if folder is None:
        return
    for reference in reading.references:
        if reference.base == "cwd" and reference.role in _FILES and not os.path.isabs(reference.target):
            reference.base = "file"
            reference.target = os.path.normpath(os.path.join(folder, reference.target))


_KEY = re.compile(r"""^[ \t]*(?:- )?["']?([A-Za-z_][\w.-]*)["']?[ \t]*[:=]""", re.MULTILINE)


def _sniff(text: str) -> str | None:
    """The dialect whose distinctive keys a broken file holds, or None."""
    keys = set(_KEY.findall(text[:65536]))
    best: tuple[int, str] | None = None
    for dialect in dialects():
        hits = len(keys & dialect.markers)
        if hits >= SNIFFED_KEYS and (best is None or hits > best[0]):
            best = (hits, dialect.name)
    return best[1] if best else None
