"""A baseline: findings that were there when linting began, kept in a file so that only new ones count.

Findings are told apart by rule, key and message, not by line, so that edits elsewhere in a file change nothing. Each
is kept with a count per file: one more of a known kind is new.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cfglint.lint.finding import Finding

VERSION: Final = 1
SIZE_LIMIT: Final = 64 * 2**20
"""Bytes; a million findings take less."""


class BaselineError(Exception):
    """A baseline file that cannot be read."""


@dataclass
class Baseline:
    """``counts``: path (from the baseline's folder) to code to fingerprint to how many."""

    root: Path
    counts: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)

    def mark(self, findings: Iterable[Finding]) -> None:
        """Mark the findings that the baseline holds as suppressed."""
        left = {path: {code: Counter(c) for code, c in codes.items()} for path, codes in self.counts.items()}
        for finding in findings:
            if finding.suppressed is not None:
                continue
            known = left.get(self._path(finding), {}).get(finding.code)
            print_ = fingerprint(finding)
            if known is not None and known[print_] > 0:
                known[print_] -= 1
                finding.suppressed, finding.justification = "baseline", "in the baseline"
        self._left = left

    def stale(self, looked_at: Iterable[str]) -> list[tuple[str, str, int]]:
        """After :meth:`mark`: entries (path, code, how many) of files of this run whose findings are gone."""
        here = {self._relative(path) for path in looked_at}
        gone: list[tuple[str, str, int]] = []
        for path, codes in self._left.items():
            if path not in here and os.path.exists(self.root / path):
                continue
            gone.extend((path, code, sum(c.values())) for code, c in codes.items() if sum(c.values()))
        return gone

    def _path(self, finding: Finding) -> str:
        return self._relative(finding.reported_path)

    def _relative(self, path: str) -> str:
        return os.path.relpath(os.path.abspath(path), self.root).replace(os.sep, "/")

    _left: dict[str, dict[str, Counter[str]]] = field(default_factory=dict, repr=False)


def fingerprint(finding: Finding) -> str:
    """Stable over moves of the file and edits elsewhere in it: code, key and message."""
    from hashlib import sha256

    material = "\0".join((finding.code, finding.key, finding.message))
    return sha256(material.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def collect(findings: Iterable[Finding], path: Path) -> Baseline:
    """A baseline for ``path`` of all findings that nothing else silences."""
    baseline = Baseline(Path(os.path.dirname(os.path.abspath(path))))
    for finding in findings:
        if finding.suppressed is None or finding.suppressed == "baseline":
            codes = baseline.counts.setdefault(baseline._path(finding), {})
            codes.setdefault(finding.code, Counter())[fingerprint(finding)] += 1
    return baseline


def write(baseline: Baseline, path: Path) -> None:
    """Write a baseline as JSON, sorted, so that changes to it can be reviewed. Raises OSError."""
    files = {
        name: {code: dict(sorted(counts.items())) for code, counts in sorted(codes.items())}
        for name, codes in sorted(baseline.counts.items())
    }
    content = {"version": VERSION, "tool": "cfglint", "files": files}
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))  # a file name may hold bytes that are no UTF-8


def read(path: Path) -> Baseline:
    """Read a baseline. Raises :class:`BaselineError` with the reason."""
    try:
        with path.open("rb") as stream:
            data = stream.read(SIZE_LIMIT + 1)
        if len(data) > SIZE_LIMIT:
            raise BaselineError(f"{path}: not a baseline: larger than {SIZE_LIMIT >> 20} MiB")
        content: Any = json.loads(data.decode("utf-8", "surrogateescape"))
    except OSError as error:
        raise BaselineError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{path}: not a baseline: {error}") from error
    if not isinstance(content, dict) or content.get("version") != VERSION or not isinstance(content.get("files"), dict):
        raise BaselineError(f"{path}: not a baseline of version {VERSION}; write it anew with --write-baseline")
    baseline = Baseline(Path(os.path.dirname(os.path.abspath(path))))
    try:
        baseline.counts = {
            str(name): {
                str(code): Counter({str(p): int(n) for p, n in prints.items()}) for code, prints in codes.items()
            }
            for name, codes in content["files"].items()
        }
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise BaselineError(f"{path}: not a baseline: {error}") from error
    return baseline
