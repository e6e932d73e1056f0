"""Bytes to text to a parsed file: encodings, sizes, and what is not read at all."""

from __future__ import annotations

import codecs
import os
import stat
from pathlib import Path
from typing import Final

from cfglint.source.detect import detect_format, is_template_name
from cfglint.source.node import Document, Format, Problem, SourceFile, Span
from cfglint.source.problems import NOT_UTF8

SIZE_LIMIT: Final = 1_048_576
"""Bytes. No configuration is larger; tokenizer vocabularies, datasets and lock files are."""

_WIDE_MARKS: Final = (
    # UTF-32 first: its little-endian mark begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)


def skipped_file(path: str, why: str, text: str = "", format: Format | None = None) -> SourceFile:
    """A file that is not parsed, and why (see :class:`~cfglint.source.node.SourceFile`)."""
    file = SourceFile(path, text, format or detect_format(path) or "text", skipped=why)
    file.documents.append(Document(file, None, 0, Span(0, len(text))))
    return file


def parse_text(path: str, text: str, format: Format | None = None) -> SourceFile:
    """Parse text as ``format``, or as the format its path and first characters show.

    A byte-order mark at the start is taken off and remembered. A file of another kind comes back as
    ``skipped="unknown-format"``, one named as a template as ``skipped="template"``.
    """
    if format is None:
        format = detect_format(path, text)
    bom = text.startswith("\ufeff")
    if format == "json":
        from cfglint.source.json import parse_json

        return parse_json(path, text)  # JSON readers refuse the mark, so its reader must see it
    if bom:
        text = text[1:]
    file: SourceFile
    if format == "yaml":
        from cfglint.source.yaml import parse_yaml

        file = parse_yaml(path, text)
    elif format == "toml":
        from cfglint.source.toml import parse_toml

        file = parse_toml(path, text)
    elif format == "shell":
        from cfglint.source.shell import parse_shell

        file = parse_shell(path, text)
    elif format == "dockerfile":
        from cfglint.source.dockerfile import parse_dockerfile

        file = parse_dockerfile(path, text)
    else:
        file = skipped_file(path, "template" if is_template_name(path) else "unknown-format", text, "text")
    file.bom = bom
    return file


def file_bytes(file: SourceFile, text: str) -> bytes:
    """``text`` as the bytes of ``file``: its encoding, byte order and byte-order mark stay."""
    data = text.encode(file.encoding or "utf-8")
    if not file.bom:
        return data
    return next((mark for mark, codec, _ in _WIDE_MARKS if codec == file.encoding), codecs.BOM_UTF8) + data


def parse_bytes(path: str, data: bytes, format: Format | None = None) -> SourceFile:
    """Decode and parse a file's bytes; see :func:`read_file`."""
    for mark, codec, name in _WIDE_MARKS:
        if data.startswith(mark):
            try:
                text = data[len(mark) :].decode(codec)
            except UnicodeDecodeError:
                return skipped_file(path, "binary", format=format)
            file = parse_text(path, text, format)
            file.encoding = codec
            file.bom = True
            problem = Problem(
                NOT_UTF8, f"the file is {name}; configuration readers expect UTF-8", _first_line(file.text)
            )
            file.problems.insert(0, problem)
            return file
    if b"\0" in data:
        return skipped_file(path, "binary", format=format)
    try:
        return parse_text(path, data.decode("utf-8"), format)
    except UnicodeDecodeError as error:
        offset = len(data[: error.start].decode("utf-8").removeprefix("\ufeff"))
        bad = data[error.start]
        file = parse_text(path, data.decode("utf-8", "replace"), format)
        file.encoding = None
        accepted = ("bash",) if file.format in ("shell", "dockerfile") else ()
        message = f"byte 0x{bad:02X} is not UTF-8; save the file as UTF-8"
        file.problems.insert(0, Problem(NOT_UTF8, message, Span(offset, offset + 1), accepted_by=accepted))
        return file


def _first_line(text: str) -> Span:
    line = text.splitlines()[0] if text else ""
    return Span(0, len(line))


def read_file(path: Path, display: str | None = None, *, size_limit: int = SIZE_LIMIT) -> SourceFile:
    """Read and parse a file. Never raises for what is on disk.

    ``display`` is the path that findings show. Files that are not parsed say why in ``skipped``: ``unreadable`` (no
    such file, no permission, a folder or device), ``too-large`` (more than ``size_limit`` bytes), ``binary`` (NUL
    bytes), or what the parser found (``template``, ``json-lines``). Line ends stay as they are in the file.
    """
    shown = display if display is not None else str(path)
    try:
        status = os.stat(path)  # before opening: opening a pipe would wait for its writer
        if not stat.S_ISREG(status.st_mode):
            return skipped_file(shown, "unreadable")
        if status.st_size > size_limit:
            return skipped_file(shown, "too-large")
        with open(path, "rb") as handle:
            data = handle.read(size_limit + 1)
    except (OSError, ValueError):
        return skipped_file(shown, "unreadable")
    if len(data) > size_limit:
        return skipped_file(shown, "too-large")
    return parse_bytes(shown, data)


parse_file = read_file
