"""What a change does to jobs: text for a reviewer, Markdown for a pull request's comment, JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cfglint.estimate.result import GIB, Estimate, Interval
from cfglint.jobs.facts import UNKNOWN
from cfglint.jobs.job import Job
from cfglint.lint.comparison import Comparison, FactChange, FindingChanges, JobChange
from cfglint.lint.finding import SEVERITY_ORDER, Finding
from cfglint.report.estimates import VERDICT_STYLE, JobEstimate, job_as_json
from cfglint.report.json import finding_as_json
from cfglint.report.markdown import cell as markdown_cell
from cfglint.report.summary import plural
from cfglint.report.terminal import Paint, columns, harmless

SAYS: Final = {
    "fits": "fits",
    "tight": "tight",
    "likely-oom": "likely out of memory",
    "oom": "out of memory",
    "kv-too-small": "KV cache too small",
    "unknown": "no verdict",
}
"""Verdicts as short as can be; ``cfglint estimate`` says what they mean."""

LONGEST_VALUE: Final = 48
"""Characters of a value that are shown."""

MOST_IN_FULL: Final = 8
"""New jobs that get a page of their own; of more, each gets a line."""

_LINE: Final = re.compile(r":[0-9]+$")
"""How an origin in a file ends."""

MOST_ROWS: Final = 100
"""Rows of a Markdown table; a GitHub comment holds 65,536 characters."""


@dataclass(frozen=True)
class Sides:
    """How the two states are called, and their commits where they have any."""

    base: str
    head: str
    base_commit: str | None = None
    head_commit: str | None = None

    def words(self, arrow: str = "→") -> str:
        return f"{_named(self.base, self.base_commit)} {arrow} {_named(self.head, self.head_commit)}"


def _named(name: str, commit: str | None) -> str:
    shown = harmless(name)
    return shown if commit is None or commit.startswith(name) else f"{shown} ({commit[:9]})"


# Words ---------------------------------------------------------------------------------------------------------------


def sentence(made: Comparison) -> str:
    """``1 job changes, 1 is new, 3 are as before; 1 error is new, 2 warnings are gone``."""
    number = Counter(change.status for change in made.jobs)
    words = {
        "changed": "changes",
        "added": "is new",
        "removed": "is gone",
        "renamed": "is renamed",
        "same": "is as before",
    }
    several = {
        "changed": "change",
        "added": "are new",
        "removed": "are gone",
        "renamed": "are renamed",
        "same": "are as before",
    }
    parts: list[str] = []
    for status in ("changed", "added", "removed", "renamed", "same"):
        count = number[status]
        if count:
            jobs = plural(count, "job") if not parts else str(count)
            parts.append(f"{jobs} {words[status] if count == 1 else several[status]}")
    jobs = ", ".join(parts) or "no job on either side"
    found = [_tally(made.findings.added, "new"), _tally(made.findings.removed, "gone")]
    return "; ".join([jobs, ", ".join(filter(None, found)) or "no finding is new or gone"])


def _tally(findings: Iterable[Finding], what: str) -> str:
    number = Counter(finding.severity for finding in findings)
    parts = [plural(number[level], level) for level in ("error", "warning", "info") if number[level]]
    return f"{', '.join(parts)} {what}" if parts else ""


def value_words(value: Any) -> str:
    """A fact's value as a reader knows it from the file."""
    if value is None:
        return "not stated"
    if value is UNKNOWN:
        return "not known"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, (list, tuple)):
        text = ", ".join(map(str, value)) or "none"
    elif isinstance(value, dict):
        text = json.dumps(value, ensure_ascii=False, default=str)
    else:
        text = str(value)
    shown = harmless(" ".join(text.split()))
    return shown if len(shown) <= LONGEST_VALUE else f"{shown[: LONGEST_VALUE - 1]}…"


def change_words(change: FactChange, arrow: str = "→") -> str:
    """``4 → 8``; of long lists only what comes and goes."""
    before, after = change.before, change.after
    if isinstance(before, (list, tuple)) and isinstance(after, (list, tuple)) and len(before) + len(after) > 4:
        gone, come = [str(v) for v in before if v not in after], [str(v) for v in after if v not in before]
        parts = [f"+ {value_words(come)}"] if come else []
        parts += [f"- {value_words(gone)}"] if gone else []
        return ", ".join(parts)
    return f"{value_words(before)} {arrow} {value_words(after)}"


def place_words(change: FactChange, own: Sequence[str] = ()) -> str:
    """Where the value stands, or stood, and the file's own name for it where it is another. In ``own`` files, the line."""
    same = change.key.lstrip("-").replace("-", "_") in ("", change.name)
    name = "" if same else f" {harmless(change.key)}"
    if _LINE.search(change.place) or not change.was:
        return f"{_short(change.place, own)}{name}"
    return ", ".join(filter(None, (harmless(change.place), f"was {_short(change.was, own)}{name}")))


def _short(place: str, own: Sequence[str]) -> str:
    path, _, line = place.rpartition(":")
    return f"line {line}" if path in own else harmless(place)


def memory_words(change: JobChange, arrow: str = "→") -> str:
    """``61.2 → 92.3 GiB (80.1–104.9) of 79.2``; empty where neither side has an estimate."""
    before, after = (None if e is None else e.memory.used for e in (change.before_estimate, change.after_estimate))
    made = change.after_estimate or change.before_estimate
    if made is None or (before is None and after is None):
        return ""
    usable = [accelerator.usable_gib for accelerator in change.job.hardware.candidates]
    of = f" of {min(usable):.1f}" if usable else ""
    if change.before is None or change.after is None:
        return f"{_span(after or before)}{of}"
    if before is not None and after is not None and _span(before) == _span(after):
        return f"{_span(after)}{of}, as before"
    if _expected(before) == _expected(after):
        return f"{_span(before)} {arrow} {_span(after)}{of}"
    return f"{_expected(before)} {arrow} {_span(after)}{of}"


def _expected(value: Interval | None) -> str:
    return "not known" if value is None else f"{value.expected / GIB:.1f}"


def _span(value: Interval | None) -> str:
    if value is None:
        return "not known"
    return f"{value.expected / GIB:.1f} GiB ({value.low / GIB:.1f}–{value.high / GIB:.1f})"


def verdict_words(change: JobChange, arrow: str = "→") -> str:
    """``fits → does not fit``."""
    before, after = change.verdicts
    shown = [SAYS.get(verdict, verdict) for verdict in (before, after) if verdict is not None]
    return shown[0] if len(set(shown)) == 1 else f" {arrow} ".join(shown)


def figures(change: JobChange, arrow: str = "→") -> list[tuple[str, str]]:
    """Rows on what differs besides memory: host memory, batch, compute, KV cache."""
    before, after = change.before_estimate, change.after_estimate
    rows: list[tuple[str, str]] = []

    def differs(read: Callable[[Estimate], Any], words: Callable[[Any], str], unit: str) -> str:
        one, other = (None if made is None else read(made) for made in (before, after))
        old, new = ("not known" if value is None else words(value) for value in (one, other))
        if change.before is None or change.after is None:
            return "" if one is None and other is None else f"{new if before is None else old} {unit}"
        return "" if old == new else f"{old} {arrow} {new} {unit}"

    def add(label: str, *texts: str) -> None:
        shown = ", ".join(filter(None, texts))
        if shown:
            rows.append((label, shown))

    def count(value: float) -> str:
        return f"{value:,.0f}"

    def gib(value: Interval) -> str:
        return f"{value.expected / GIB:.1f}"

    add("host memory", differs(_host, gib, "GiB"))
    if change.job.kind == "train":
        add(
            "batch",
            differs(lambda e: e.batch.sequences, count, "sequences" if _sequences(change) != 1 else "sequence"),
            differs(lambda e: e.batch.tokens, count, "tokens per step"),
        )
        add("epoch", differs(lambda e: e.batch.steps_per_epoch, count, "steps"))
        add("compute", differs(lambda e: e.compute.flops_per_step, lambda v: f"{v:.3g}", "FLOPs per step"))
        add("trained", differs(lambda e: e.trainable_parameters, _parameters, "parameters"))
    else:
        add(
            "KV cache",
            differs(lambda e: e.serving and e.serving.kv_cache, gib, "GiB"),
            differs(lambda e: e.serving and e.serving.kv_tokens, lambda v: count(v.expected), "tokens"),
        )
        add(
            "requests",
            differs(lambda e: e.serving and e.serving.max_concurrency, lambda v: f"{v:.1f}", "of full length at once"),
        )
    return rows


def _sequences(change: JobChange) -> int | None:
    made = change.after_estimate or change.before_estimate
    return made.batch.sequences if made is not None else None


def _host(made: Estimate) -> Interval | None:
    host = made.memory.host
    return host if host is not None and host.high >= GIB / 10 else None


def _parameters(number: float) -> str:
    return f"{number / 1e9:.2f} B" if number >= 1e9 else f"{number / 1e6:.1f} M"


# Text ----------------------------------------------------------------------------------------------------------------


def as_text(made: Comparison, sides: Sides, *, colour: bool = False, arrow: str = "→") -> str:
    """A line that sums up, then what changes job by job, what gets worse first."""
    paint = Paint(colour)
    lines = [f"{paint('bold', sides.words(arrow))}: {sentence(made)}"]
    for group in _groups(made.with_status("changed")):
        lines += ["", *_group_text(group, made, paint, arrow)]
    added = made.with_status("added")
    if len(added) > MOST_IN_FULL:
        lines += ["", paint("bold", f"{len(added)} jobs are new"), *_job_lines(added, made, paint, arrow)]
    else:
        lines += [line for change in added for line in ("", *_job_text(change, made, paint, arrow))]
    for change in made.with_status("renamed"):
        assert change.before is not None and change.after is not None
        lines += ["", f"{harmless(change.before.name)} {arrow} {harmless(change.after.name)}  renamed, else as before"]
    for change in made.with_status("removed"):
        lines += [
            "",
            f"{paint('bold', harmless(change.job.name))}  gone",
            *_finding_lines(change.findings, made, paint),
        ]
    if made.elsewhere:
        lines += ["", paint("bold", "in files of no job"), *_finding_lines(made.elsewhere, made, paint)]
    return "\n".join(lines) + "\n"


def _groups(changes: Sequence[JobChange]) -> list[list[JobChange]]:
    """Jobs whose settings change alike (a shared file was edited) stand together; order is kept."""
    groups: dict[object, list[JobChange]] = {}
    for change in changes:
        signature: object = id(change)
        if change.facts:
            signature = tuple((f.name, repr(f.before), repr(f.after), f.place) for f in change.facts)
        groups.setdefault(signature, []).append(change)
    return list(groups.values())


def _group_text(group: list[JobChange], made: Comparison, paint: Paint, arrow: str) -> list[str]:
    if len(group) == 1:
        return _job_text(group[0], made, paint, arrow)
    heading = paint("bold", f"{len(group)} jobs change alike")
    return [heading, *_fact_lines(group[0].facts, arrow), *_job_lines(group, made, paint, arrow)]


def _job_lines(changes: Sequence[JobChange], made: Comparison, paint: Paint, arrow: str) -> list[str]:
    """A line for each job, with its figures and findings below where it is one that changes."""
    lines: list[str] = []
    width = max(columns(harmless(change.job.name)) for change in changes)
    for change in changes:
        name = harmless(change.job.name)
        pad = " " * (width - columns(name))
        lines.append(
            f"  {paint('bold', name)}{pad}  {memory_words(change, arrow)}{_verdict(change, paint, arrow, ': ')}"
        )
        if change.before is not None:
            lines += [f"  {' ' * width}  {label} {text}" for label, text in figures(change, arrow)]
        lines += _finding_lines(change.findings, made, paint)
    return lines


def _job_text(change: JobChange, made: Comparison, paint: Paint, arrow: str) -> list[str]:
    job = change.job
    name = harmless(job.name)
    if change.renamed and change.before is not None:
        name = f"{harmless(change.before.name)} {arrow} {name}"
    kind = "training" if job.kind == "train" else "serving"
    new = ", new" if change.before is None else ""
    lines = [f"{paint('bold', name)}  {kind}, {' + '.join(job.dialects)}{new}{_verdict(change, paint, arrow, '  ')}"]
    lines += _fact_lines(change.facts, arrow, _own_files(change))
    rows = [("memory per GPU", text)] if (text := memory_words(change, arrow)) else []
    lines += [f"  {label:<{LABEL}}{text}" for label, text in (*rows, *figures(change, arrow))]
    return [*lines, *_finding_lines(change.findings, made, paint)]


LABEL: Final = 16
"""Columns of a row's label."""


def _own_files(change: JobChange) -> list[str]:
    """The file that a job is named after, as it was called and is called."""
    return [side.documents[0] for side in (change.before, change.after) if side is not None and side.documents]


def _fact_lines(facts: Sequence[FactChange], arrow: str, own: Sequence[str] = ()) -> list[str]:
    rows = [(harmless(f.name), change_words(f, arrow), place_words(f, own)) for f in facts]
    name = max((columns(r[0]) for r in rows), default=0)
    value = max((columns(r[1]) for r in rows), default=0)
    return [
        f"  {n}{' ' * (max(name, LABEL - 2) - columns(n))}  {v}{' ' * (value - columns(v))}  {p}".rstrip()
        for n, v, p in rows
    ]


def _verdict(change: JobChange, paint: Paint, arrow: str, before: str) -> str:
    after = change.verdicts[1] or change.verdicts[0]
    if after is None or set(change.verdicts) <= {"unknown", None}:
        return ""
    return f"{before}{paint(VERDICT_STYLE.get(after, 'bold'), verdict_words(change, arrow))}"


def _finding_lines(findings: FindingChanges, made: Comparison, paint: Paint) -> list[str]:
    lines = [f"  {paint(f.severity, '+ ' + _head(f))} {_said(f)}" for f in _by_severity(findings.added)]
    for was, now in findings.reworded:
        louder = f"  (was {was.severity})" if was.severity != now.severity else ""
        lines.append(f"  {paint('dim', '~ ' + _head(now))} {_said(now)}{louder}")
    for gone in _by_severity(findings.removed):
        quiet = made.silenced.get(id(gone))
        sign = f"  (silenced by {_silencer(quiet)})" if quiet is not None else ""
        lines.append(f"  {paint('help' if quiet is None else 'warning', '- ' + _head(gone))} {_said(gone)}{sign}")
    return lines


def _by_severity(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda f: -SEVERITY_ORDER[f.severity])


def _silencer(finding: Finding) -> str:
    how = {"comment": "a comment", "settings": "settings", "baseline": "a baseline"}.get(str(finding.suppressed), "")
    return f"{how}: {harmless(finding.justification)}" if finding.justification else how


def _head(finding: Finding) -> str:
    return f"{finding.severity}[{finding.code}]"


def _said(finding: Finding) -> str:
    return f"{_where(finding)}: {harmless(' '.join(finding.message.split()))}"


def _where(finding: Finding) -> str:
    line = f":{finding.primary.start.line}" if finding.primary else ""
    return f"{harmless(finding.reported_path)}{line}"


# Markdown ------------------------------------------------------------------------------------------------------------


def as_markdown(made: Comparison, sides: Sides) -> str:
    """A line that sums up, a row for each job that differs, a row for each finding that is new or gone."""
    lines = [f"**cfglint**, {markdown_cell(sides.words())}: {sentence(made)}", ""]
    differing = made.with_status("changed", "added", "removed", "renamed")
    if differing:
        lines += ["| job | changes | memory per GPU | verdict | and |", "| --- | --- | --- | --- | --- |"]
        lines += [_job_row(change) for change in differing[:MOST_ROWS]]
        lines += _more(len(differing))
    rows = [
        *(_finding_row("new", f) for f in _by_severity(made.findings.added)),
        *(_finding_row("still", now) for was, now in made.findings.reworded),
        *(
            _finding_row("silenced" if id(f) in made.silenced else "gone", f)
            for f in _by_severity(made.findings.removed)
        ),
    ]
    if rows:
        lines += ["| | rule | where | what |", "| --- | --- | --- | --- |", *rows[:MOST_ROWS], *_more(len(rows))]
    return "\n".join(lines)


def _more(number: int) -> list[str]:
    return ["", f"{number - MOST_ROWS} more are not shown.", ""] if number > MOST_ROWS else [""]


def _job_row(change: JobChange) -> str:
    name = f"`{_code(change.job.name)}`"
    if change.renamed and change.before is not None:
        name = f"`{_code(change.before.name)}` → {name}"
    own = _own_files(change)
    if change.status in ("added", "removed", "renamed"):
        what = {"added": "new", "removed": "gone", "renamed": "renamed"}[change.status]
    else:
        what = "<br>".join(
            f"`{_code(f.name)}` {markdown_cell(change_words(f))}"
            + (f" ({markdown_cell(place)})" if (place := place_words(f, own)) else "")
            for f in change.facts
        )
    verdict = "" if set(change.verdicts) <= {"unknown", None} else verdict_words(change)
    if change.stops_fitting:
        verdict = f"**{verdict}**"
    rest = "<br>".join(f"{label}: {text}" for label, text in figures(change)) if change.status != "removed" else ""
    memory = memory_words(change) if change.status != "removed" else ""
    return f"| {name} | {what} | {memory} | {verdict} | {rest} |"


def _finding_row(what: str, finding: Finding) -> str:
    return f"| {what} {finding.severity} | {finding.code} | `{_code(_where(finding))}` | {markdown_cell(finding.message)} |"


def _code(text: str) -> str:
    return harmless(" ".join(text.split())).replace("`", "'").replace("|", "\\|")


# JSON ----------------------------------------------------------------------------------------------------------------


def as_json(made: Comparison, sides: Sides) -> str:
    """``{"version": 1, "base": …, "head": …, "jobs": […], "findings": …, "summary": …}``; ``before`` and ``after`` of a
    job have the form of ``estimate --format json``, findings that of ``check --format json``."""
    content = {
        "version": 1,
        "base": {"name": sides.base, "commit": sides.base_commit},
        "head": {"name": sides.head, "commit": sides.head_commit},
        "jobs": [_job_json(change) for change in made.jobs if change.status != "same"],
        "findings": {
            "added": [finding_as_json(f) for f in made.findings.added],
            "removed": [
                {**finding_as_json(f), "silenced": made.silenced[id(f)].suppressed if id(f) in made.silenced else None}
                for f in made.findings.removed
            ],
            "reworded": [
                {"before": finding_as_json(was), "after": finding_as_json(now)} for was, now in made.findings.reworded
            ],
        },
        "summary": {
            "jobs": {
                status: len(made.with_status(status)) for status in ("changed", "added", "removed", "renamed", "same")
            },
            "findings": {"added": _levels(made.findings.added), "removed": _levels(made.findings.removed)},
            "no_longer_fit": [change.job.name for change in made.jobs if change.stops_fitting],
        },
    }
    return json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n"


def _job_json(change: JobChange) -> dict[str, Any]:
    return {
        "name": change.job.name,
        "old_name": change.before.name if change.renamed and change.before is not None else None,
        "kind": change.job.kind,
        "status": change.status,
        "verdict": dict(zip(("before", "after"), change.verdicts, strict=True)),
        "facts": [
            {
                "fact": f.name,
                "key": f.route,
                "before": None if f.before is None else {"value": _plain(f.before), "origin": f.was},
                "after": None if f.after is None else {"value": _plain(f.after), "origin": f.place},
            }
            for f in change.facts
        ],
        "before": _estimate_json(change.before, change.before_estimate),
        "after": _estimate_json(change.after, change.after_estimate),
    }


def _estimate_json(job: Job | None, made: Estimate | None) -> dict[str, Any] | None:
    return None if job is None or made is None else job_as_json(JobEstimate(job, made))


def _plain(value: Any) -> Any:
    return "unknown" if value is UNKNOWN else value


def _levels(findings: Iterable[Finding]) -> dict[str, int]:
    number = Counter(finding.severity for finding in findings)
    return {"errors": number["error"], "warnings": number["warning"], "infos": number["info"]}
