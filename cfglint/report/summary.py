"""A run in one line, and in counts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cfglint.lint.engine import RunResult


def counts(result: RunResult) -> dict[str, int]:
    """Files, jobs and findings by severity, as ``check --format json`` gives them."""
    levels = Counter(f.severity for f in result.shown)
    return {
        "files": len(result.files),
        "jobs": jobs(result),
        "errors": levels["error"],
        "warnings": levels["warning"],
        "infos": levels["info"],
        "suppressed": sum(f.suppressed is not None for f in result.findings),
    }


def jobs(result: RunResult) -> int:
    """Whole jobs; parts of a job that no run names are not counted."""
    return sum(not getattr(job, "partial", False) for job in result.context.jobs)


def recognised(result: RunResult) -> int:
    """Files that some dialect reads."""
    return sum(bool(report.dialects) for report in result.files.values())


def templates(result: RunResult) -> int:
    """Files that have still to be filled in."""
    return sum(report.skipped == "template" for report in result.files.values())


def sentence(result: RunResult) -> str:
    """``2 errors, 1 warning in 3 jobs, 12 files``; templates are said to be left alone."""
    number = templates(result)
    return _sentence(result) + (f", {plural(number, 'template')} left alone" if number else "")


def _sentence(result: RunResult) -> str:
    number = counts(result)
    found = [
        plural(number[key], word)
        for key, word in (("errors", "error"), ("warnings", "warning"), ("infos", "info"))
        if number[key]
    ]
    looked_at = plural(number["files"], "file")
    if not recognised(result):
        where = f"0 configs recognised in {looked_at}"
        return f"{', '.join(found)}; {where}" if found else where
    where = f"{plural(number['jobs'], 'job')}, {looked_at}" if number["jobs"] else looked_at
    return f"{', '.join(found) or 'no findings'} in {where}"


def silenced(result: RunResult) -> str:
    """``3 silenced (2 by the baseline, 1 by comments)``, ``2 silenced by comments``, empty where none is."""
    how = Counter(f.suppressed for f in result.findings if f.suppressed)
    words = {"baseline": "by the baseline", "comment": "by comments", "settings": "by settings"}
    parts = [f"{n} {words.get(str(kind), kind)}" for kind, n in sorted(how.items(), key=lambda item: -item[1])]
    if len(parts) == 1:
        return parts[0].replace(" ", " silenced ", 1)
    return f"{sum(how.values())} silenced ({', '.join(parts)})" if parts else ""


def fixable(result: RunResult) -> tuple[int, int]:
    """How many of the findings shown have a safe fix, and how many only an unsafe one."""
    safe = sum(any(fix.safe for fix in f.fixes) for f in result.shown)
    return safe, sum(bool(f.fixes) for f in result.shown) - safe


def statistics(result: RunResult) -> list[tuple[int, str, str, str]]:
    """Count, code, name and severity, the most frequent first."""
    number: Counter[tuple[str, str]] = Counter((f.code, f.name) for f in result.shown)
    worst = {f.code: f.severity for f in sorted(result.shown, key=lambda f: f.severity, reverse=True)}
    ordered = sorted(number.items(), key=lambda item: (-item[1], item[0]))
    return [(n, code, name, worst[code]) for (code, name), n in ordered]


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
