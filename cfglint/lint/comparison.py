"""What a change does: the jobs, estimates and findings of two states of the same files, set side by side.

Jobs are the same job where they bear the same name; what is left is matched by what the files state, as git matches
renamed files by their content. Findings are the same where rule, place and words are; moved lines are not new.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

from cfglint.estimate.result import Estimate, Interval
from cfglint.jobs.facts import DefaultOrigin, DerivedOrigin, Fact, FileOrigin
from cfglint.jobs.job import Job
from cfglint.lint.context import Context
from cfglint.lint.engine import RunResult
from cfglint.lint.finding import SEVERITY_ORDER, Finding, route_text
from cfglint.source.node import Route

ALIKE: Final = 0.5
"""Share of equal statements from which a job that is gone and a job that is new are one job under another name; git
takes the same share of a file's content."""

GROUPED: Final = frozenset({"engine_args"})
"""Facts that hold many arguments: compared one by one."""

NOT_A_SETTING: Final = frozenset({"framework"})
"""Facts that follow from the format."""

VERDICTS: Final = ("fits", "tight", "likely-oom", "kv-too-small", "oom")
"""From good to bad; ``unknown`` is neither."""

Status = Literal["changed", "added", "removed", "renamed", "same"]


@dataclass(frozen=True, slots=True, eq=False)
class FactChange:
    """A fact whose value differs. None: nothing states it; ``UNKNOWN`` as a value: stated, but not known.

    ``key`` is the file's own name for it (``route``: the way to it), ``place`` where it stands now, ``was`` where it
    stood.
    """

    name: str
    before: Any
    after: Any
    key: str = ""
    route: str = ""
    place: str = ""
    was: str = ""
    derived: bool = False
    """It follows from other facts of the same job."""


@dataclass(eq=False)
class FindingChanges:
    """Findings that are new, that are gone, and that are still there in other words (as they were, as they are)."""

    added: list[Finding] = field(default_factory=list)
    removed: list[Finding] = field(default_factory=list)
    reworded: list[tuple[Finding, Finding]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.reworded)

    @property
    def raised(self) -> list[Finding]:
        """Findings that are new, and those that have become more severe or speak of more keys."""
        return [*self.added, *(now for was, now in self.reworded if _is_more(was, now))]


@dataclass(eq=False)
class JobChange:
    """One job before and after; one side is None for a job that is added or removed."""

    before: Job | None
    after: Job | None
    contexts: tuple[Context, Context]
    facts: list[FactChange] = field(default_factory=list)
    findings: FindingChanges = field(default_factory=FindingChanges)

    @property
    def job(self) -> Job:
        """The job as it is now, or was."""
        job = self.after or self.before
        assert job is not None
        return job

    @cached_property
    def before_estimate(self) -> Estimate | None:
        return None if self.before is None else self.contexts[0].estimate(self.before)

    @cached_property
    def after_estimate(self) -> Estimate | None:
        return None if self.after is None else self.contexts[1].estimate(self.after)

    @property
    def renamed(self) -> bool:
        return self.before is not None and self.after is not None and self.before.name != self.after.name

    @cached_property
    def status(self) -> Status:
        if self.before is None or self.after is None:
            return "added" if self.before is None else "removed"
        if self.facts or self.findings or self.estimate_differs:
            return "changed"
        return "renamed" if self.renamed else "same"

    @cached_property
    def estimate_differs(self) -> bool:
        if (
            not self.facts
            and self.before is not None
            and self.after is not None
            and _same_inputs(self.before, self.after)
        ):
            return False  # most jobs of a repository: not worth two estimates
        return _figures(self.before_estimate) != _figures(self.after_estimate)

    @property
    def verdicts(self) -> tuple[str | None, str | None]:
        if self.status == "same":
            return None, None
        before, after = self.before_estimate, self.after_estimate
        return before.memory.verdict if before else None, after.memory.verdict if after else None

    @property
    def worse(self) -> int:
        """How much worse the verdict has become; negative where it is better, 0 where nothing is known to have changed."""
        before, after = (VERDICTS.index(v) if v in VERDICTS else None for v in self.verdicts)
        if self.before is None:
            before = 0
        return 0 if before is None or after is None else after - before

    @property
    def stops_fitting(self) -> bool:
        """It cannot run as it is now, and could before, or was not there."""
        before, after = self.verdicts
        return after in ("oom", "kv-too-small") and before not in ("oom", "kv-too-small")


@dataclass(eq=False)
class Comparison:
    """All jobs of both sides, and the findings that differ: ``findings`` all of them, ``elsewhere`` those of no job."""

    jobs: list[JobChange]
    findings: FindingChanges
    silenced: dict[int, Finding] = field(default_factory=dict)
    """Findings that are gone because something silences them now: as they are now, by the ``id`` of what is gone."""
    elsewhere: FindingChanges = field(default_factory=FindingChanges)

    def with_status(self, *wanted: Status) -> list[JobChange]:
        return [change for change in self.jobs if change.status in wanted]


def compare(before: RunResult, after: RunResult) -> Comparison:
    """Set two runs side by side."""
    pairs = _matched(
        [j for j in before.context.jobs if not j.partial], [j for j in after.context.jobs if not j.partial]
    )
    old_path = _renamed_files(pairs)
    findings = _findings(before.shown, after.shown, old_path)
    changes = [
        JobChange(
            old,
            new,
            (before.context, after.context),
            _facts(old, new) if old is not None and new is not None else [],
        )
        for old, new in pairs
    ]
    comparison = Comparison(changes, findings, _silenced(findings.removed, after, old_path))
    _assign(comparison)
    changes.sort(key=_urgency)
    return comparison


def _is_more(was: Finding, now: Finding) -> bool:
    if SEVERITY_ORDER[now.severity] > SEVERITY_ORDER[was.severity]:
        return True
    # one finding may name several keys of a file; places of a job's finding are only where its numbers come from
    return now.job is None and not _keys(now) <= _keys(was)


def _keys(finding: Finding) -> set[str]:
    return {_INDEX.sub("[]", route_text(place.route)) for place in finding.places}


# Jobs ----------------------------------------------------------------------------------------------------------------


def _matched(before: Sequence[Job], after: Sequence[Job]) -> list[tuple[Job | None, Job | None]]:
    pairs: list[tuple[Job | None, Job | None]] = []
    old = {(job.kind, job.name): job for job in before}
    new = {(job.kind, job.name): job for job in after}
    for key in old.keys() & new.keys():
        pairs.append((old.pop(key), new.pop(key)))
    candidates = sorted(
        (
            (likeness, i, k)
            for i, one in enumerate(old.values())
            for k, other in enumerate(new.values())
            if (likeness := _likeness(one, other)) >= ALIKE
        ),
        key=lambda c: (-c[0], c[1], c[2]),
    )
    gone, come = list(old.values()), list(new.values())
    taken: set[tuple[str, int]] = set()
    for _, i, k in candidates:
        if ("old", i) not in taken and ("new", k) not in taken:
            taken |= {("old", i), ("new", k)}
            pairs.append((gone[i], come[k]))
    pairs += [(job, None) for i, job in enumerate(gone) if ("old", i) not in taken]
    pairs += [(None, job) for k, job in enumerate(come) if ("new", k) not in taken]
    return pairs


def _likeness(one: Job, other: Job) -> float:
    """Share of what either job's files state that both state alike; 0 for jobs of another kind or format."""
    if one.kind != other.kind or one.dialects[:1] != other.dialects[:1]:
        return 0.0
    mine, theirs = _statements(one), _statements(other)
    everything = len(mine | theirs)
    same_file = one.documents[:1] == other.documents[:1]
    return (len(mine & theirs) + same_file) / (everything + same_file) if everything else 0.0


def _statements(job: Job) -> set[tuple[str, str]]:
    return {
        (name, repr(fact.value))
        for name in job.names()
        for fact in job.statements(name)
        if isinstance(fact.origin, FileOrigin)
    }


def _same_inputs(one: Job, other: Job) -> bool:
    """Whether two jobs with the same facts also have the very same files, model and hardware."""
    files = [[id(reading.document.file) for reading in job.readings] for job in (one, other)]
    return (
        files[0] == files[1]
        and one.versions == other.versions
        and one.hardware.candidates == other.hardware.candidates
        and one.hardware.world_size == other.hardware.world_size
        and one.hardware.host_memory_bytes == other.hardware.host_memory_bytes
        and one.architecture == other.architecture
    )


def _renamed_files(pairs: Iterable[tuple[Job | None, Job | None]]) -> dict[str, str]:
    """New path to the old one, of files that only one side of a job has."""
    found: dict[str, str] = {}
    for old, new in pairs:
        if old is not None and new is not None:
            gone = [path for path in old.documents if path not in new.documents]
            come = [path for path in new.documents if path not in old.documents]
            if len(gone) == len(come):
                found.update(zip(come, gone, strict=True))
    return found


# Facts ---------------------------------------------------------------------------------------------------------------


def _facts(before: Job, after: Job) -> list[FactChange]:
    changes = [
        change
        for name in dict.fromkeys((*after.names(), *before.names()))
        if name not in NOT_A_SETTING
        for change in _fact(name, before, after)
    ]
    changes += _versions(before, after)
    changes += _model(before, after)
    return sorted(changes, key=lambda c: c.derived)


def _fact(name: str, before: Job, after: Job) -> Iterator[FactChange]:
    was, now = _winning(before, name), _winning(after, name)
    old, new = (None if was is None else was.value), (None if now is None else now.value)
    if _same(old, new):
        return
    if name in GROUPED and all(value is None or isinstance(value, dict) for value in (old, new)):
        for key in sorted({*(old or {}), *(new or {})}):
            one, other = (old or {}).get(key), (new or {}).get(key)
            if not _same(one, other):
                there, here = _argument(before, key), _argument(after, key)
                yield FactChange(key, one, other, place=_place(here), was=_place(there))
        return
    derived = all(fact is None or isinstance(fact.origin, (DerivedOrigin, DefaultOrigin)) for fact in (was, now))
    shown = now if now is not None and isinstance(now.origin, FileOrigin) else was
    route: Route = shown.origin.route if shown is not None and isinstance(shown.origin, FileOrigin) else ()
    key = next((step for step in reversed(route) if isinstance(step, str)), "")
    yield FactChange(name, old, new, key, route_text(route), _place(now), _place(was), derived)


def _winning(job: Job, name: str) -> Fact[Any] | None:
    """The statement in force; one whose value is not known where there is no other."""
    return job.fact(name) or next(iter(job.statements(name)), None)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return sorted(map(repr, one)) == sorted(map(repr, other))
    return (type(one) is type(other) and bool(one == other)) or (_is_number(one) and _is_number(other) and one == other)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _argument(job: Job, name: str) -> Fact[Any] | None:
    """An engine's argument, with its place in the job's files."""
    for reading in job.readings:
        for spelled in (name, name.replace("_", "-")):
            if reading.entry(spelled) is not None:
                return Fact(reading.value(spelled), reading.origin(spelled))
    return None


def _place(fact: Fact[Any] | None) -> str:
    return "" if fact is None else fact.describe()


def _versions(before: Job, after: Job) -> Iterator[FactChange]:
    stated = {job.value("framework") for job in (before, after) if job.stated("framework_version")}
    for framework in sorted({*before.versions, *after.versions} - stated):
        old, new = before.versions.get(framework), after.versions.get(framework)
        if old != new:
            yield FactChange(f"{framework} version", old, new)


def _model(before: Job, after: Job) -> Iterator[FactChange]:
    """The same name, and another model behind it: its config.json was changed."""
    one, other = before.architecture, after.architecture
    if before.value("model_id") == after.value("model_id") and (one is None) != (other is None):
        yield FactChange("model's config", None if one is None else "known", None if other is None else "known")


# Findings ------------------------------------------------------------------------------------------------------------

_INDEX: Final = re.compile(r"\[[0-9]+\]")

_Identity = Callable[[Finding, str], "tuple[object, ...]"]

_IDENTITIES: Final[tuple[_Identity, ...]] = (
    lambda finding, path: (finding.code, path, finding.key, finding.message, finding.severity),
    lambda finding, path: (finding.code, path, _INDEX.sub("[]", finding.key), finding.message),
    # at a key, or of a job, a rule says one thing: other words are other numbers
    lambda finding, path: (finding.code, path, _INDEX.sub("[]", finding.key) or finding.job is not None or id(finding)),
)
"""By what two findings are the same one, the strictest first: each is tried on what those before it leave."""


def _findings(before: Iterable[Finding], after: Iterable[Finding], old_path: Mapping[str, str]) -> FindingChanges:
    old, new = list(before), list(after)
    reworded: list[tuple[Finding, Finding]] = []
    for identity in _IDENTITIES:
        left: dict[tuple[object, ...], list[Finding]] = {}
        for finding in old:
            left.setdefault(identity(finding, finding.reported_path), []).append(finding)
        matched: set[int] = set()
        for finding in new:
            path = old_path.get(finding.reported_path, finding.reported_path)
            twins = left.get(identity(finding, path))
            if twins:
                was = twins.pop(0)
                matched |= {id(was), id(finding)}
                if was.message != finding.message or was.severity != finding.severity:
                    reworded.append((was, finding))
        old = [finding for finding in old if id(finding) not in matched]
        new = [finding for finding in new if id(finding) not in matched]
    return FindingChanges(new, old, reworded)


def _silenced(removed: Iterable[Finding], after: RunResult, old_path: Mapping[str, str]) -> dict[int, Finding]:
    """Of the findings that are gone those that are still found, but silenced."""
    quiet: dict[tuple[str, ...], list[Finding]] = {}
    for finding in after.findings:
        if finding.suppressed is not None:
            path = old_path.get(finding.reported_path, finding.reported_path)
            quiet.setdefault((finding.code, path, finding.key), []).append(finding)
    found: dict[int, Finding] = {}
    for finding in removed:
        twins = quiet.get((finding.code, finding.reported_path, finding.key))
        if twins:
            found[id(finding)] = twins.pop(0)
    return found


def _assign(comparison: Comparison) -> None:
    """Give each finding to the job it speaks of: by name, else the first that has its file; the rest to none."""

    def owner(finding: Finding, side: Callable[[JobChange], Job | None]) -> FindingChanges:
        jobs = [(change, job) for change in comparison.jobs if (job := side(change)) is not None]
        named = [change for change, job in jobs if job.name == finding.job]
        holding = [change for change, job in jobs if finding.reported_path in job.documents]
        return (named or holding)[0].findings if named or holding else comparison.elsewhere

    for finding in comparison.findings.added:
        owner(finding, lambda change: change.after).added.append(finding)
    for finding in comparison.findings.removed:
        owner(finding, lambda change: change.before).removed.append(finding)
    for was, finding in comparison.findings.reworded:
        owner(finding, lambda change: change.after).reworded.append((was, finding))


# Order ---------------------------------------------------------------------------------------------------------------


def _urgency(change: JobChange) -> tuple[int, int, int, str]:
    """What gets worse first, the worst verdict first; then what is changed, added, renamed, removed."""
    order = ("changed", "added", "renamed", "removed", "same")
    verdict = VERDICTS.index(change.verdicts[1] or "fits") if change.worse > 0 else 0
    errors = sum(finding.severity == "error" for finding in change.findings.raised)
    return -verdict, -errors, order.index(change.status), change.job.name


def _figures(made: Estimate | None) -> tuple[Any, ...]:
    """What of an estimate a reader would call a change: figures rounded to what is shown."""
    if made is None:
        return ()
    memory, batch, serving = made.memory, made.batch, made.serving
    return (
        memory.verdict,
        _rounded(memory.used),
        _rounded(memory.host),
        batch.sequences,
        batch.tokens,
        batch.steps_per_epoch,
        made.parameters,
        made.trainable_parameters,
        None if made.compute.flops_per_step is None else f"{made.compute.flops_per_step:.3g}",
        None if serving is None else (_rounded(serving.kv_cache), serving.max_model_len, serving.max_concurrency),
        None if serving is None or serving.kv_tokens is None else round(serving.kv_tokens.expected),
    )


def _rounded(value: Interval | None) -> tuple[int, ...] | None:
    """In tenths of a GiB, as it is shown."""
    return None if value is None else tuple(round(v / 2**30 * 10) for v in (value.low, value.expected, value.high))
