"""The harness for rule authors: run a rule over files, and hold its good and bad examples to their word.

from cfglint.testing import check_examples
from my_rules.naming import RunNeedsName

def test_examples() -> None:
    check_examples(RunNeedsName)
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cfglint.jobs.linker import HardwareOptions
from cfglint.lint.engine import RunResult, run
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Example, Rule
from cfglint.lint.selection import RuleSelection
from cfglint.settings import Settings, SettingsResolver
from cfglint.source import read_file
from cfglint.source.detect import detect_format

SETTINGS_FILES = ("cfglint.toml", "pyproject.toml")


def lint_files(
    files: Mapping[str, str],
    *,
    gpu: str | None = None,
    gpus: int | None = None,
    nodes: int | None = None,
    select: tuple[str, ...] | None = None,
    strict: bool = True,
) -> RunResult:
    """Write ``files`` (path → text) to a folder of their own and lint them there.

    Files under ``.cfglint`` are model facts and settings files are settings: they are written, but not linted.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        sources = []
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("utf-8", "surrogateescape"))  # a lone surrogate is a byte that is no UTF-8
            if name.startswith(".cfglint/") or name in SETTINGS_FILES or detect_format(name, text) is None:
                continue
            sources.append(read_file(path, name))
        settings = any(name in SETTINGS_FILES for name in files)
        resolver = SettingsResolver() if settings else None

        def settings_for(path: str) -> Settings:
            return resolver(str(root / path)) if resolver is not None else Settings(root=root)

        return run(
            sources,
            settings_for,
            HardwareOptions(gpu, gpus, nodes),
            selection=RuleSelection(select=select, strict=strict, preview=True),
            root=root,
        )


def findings_of(rule: type[Rule], example: Example) -> list[Finding]:
    """What one rule finds in an example.

    Raises:
        AssertionError: the rule itself failed on it.
    """
    result = lint_files(
        example.files, gpu=example.gpu, gpus=example.gpus, nodes=example.nodes, select=(rule.code,), strict=True
    )
    assert not result.faults, f"{rule.code} failed: {result.faults[0].detail or result.faults[0].error}"
    return [f for f in result.findings if f.code == rule.code]


def check_examples(rule: type[Rule]) -> None:
    """Every bad example gives findings of this rule, with a place, at the key it names; every good one gives none.

    Raises:
        AssertionError: with the rule, the example and what was found.
    """
    assert rule.code and rule.name and rule.family, f"{rule.__name__} lacks code, name or family"
    assert rule.summary(), f"{rule.code} has no docstring"
    assert rule.bad, f"{rule.code} has no bad example"
    assert rule.good, f"{rule.code} has no good example"
    for i, shown in enumerate(rule.bad):
        found = findings_of(rule, shown)
        assert found, f"{rule.code}: bad example {i + 1} gives no finding: {dict(shown.files)}"
        if shown.count is not None:
            assert len(found) == shown.count, f"{rule.code}: bad example {i + 1}: {[f.message for f in found]}"
        for finding in found:
            _check_finding(rule, finding)
        if shown.at is not None:
            keys = [str(f.primary.route[-1]) if f.primary and f.primary.route else "" for f in found]
            assert shown.at in keys, f"{rule.code}: bad example {i + 1} is reported at {keys}, not at {shown.at}"
    for i, shown in enumerate(rule.good):
        found = findings_of(rule, shown)
        assert not found, f"{rule.code}: good example {i + 1} gives: {[f.message for f in found]}"


def _check_finding(rule: type[Rule], finding: Finding) -> None:
    words: Any = finding.message
    assert isinstance(words, str) and words.strip(), f"{rule.code} has an empty message"
    assert not words.rstrip().endswith(("!", ".")), f"{rule.code}: a message ends without a full stop: {words}"
    assert finding.places, f"{rule.code} points at no place: {words}"
    assert all(p.span.start <= p.span.end for p in finding.places), f"{rule.code}: a place ends before it starts"
