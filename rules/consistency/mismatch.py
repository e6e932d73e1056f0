"""Values that DeepSpeed's file states and transformers compares with the trainer's arguments.

transformers goes through this list when a trainer with DeepSpeed starts (integrations/deepspeed.py,
``trainer_config_process`` and ``trainer_config_finalize``): ``auto`` is filled in, everything else must be equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cfglint.jobs.facts import DefaultOrigin, Fact
from cfglint.jobs.job import TrainingJob
from cfglint.lint.finding import Finding, Fix, Severity, Where
from cfglint.lint.fixes import replace_value
from cfglint.lint.rule import Rule
from cfglint.source.node import Mapping

from ..trainer import COMMANDS, Settings, deepspeed_settings, shown, trainer_readings

STARTS_WITH = "transformers compares the two when the trainer starts and stops with a ValueError"


@dataclass(frozen=True)
class Mismatch:
    """``theirs`` is what the trainer's side comes to, and ``name`` what that side calls it."""

    route: tuple[str | int, ...]
    mine: Fact[Any]
    theirs: Fact[Any]
    name: str
    words: str = ""

    @property
    def key(self) -> str:
        return ".".join(str(step) for step in self.route)


def compared_settings(job: TrainingJob) -> Settings | None:
    """DeepSpeed's settings, where a trainer of transformers compares them with its own.

    That is so for what the trainer's ``deepspeed`` argument or Accelerate's file names. A script that is given
    ``--deepspeed_config`` hands the file to DeepSpeed itself.
    """
    if job.partial or not trainer_readings(job):
        return None
    settings = deepspeed_settings(job)
    if not named_by_trainer(job) and not any(
        r.dialect == "accelerate" and r.value("deepspeed_config", "deepspeed_config_file") for r in job.readings
    ):
        return None
    # files that merely lie side by side are not known to be used together
    return settings if settings is not None and settings.certain else None


def named_by_trainer(job: TrainingJob) -> bool:
    """Whether the trainer's own ``deepspeed`` argument gives the settings."""
    return any(
        isinstance(r.at("deepspeed"), Mapping) or isinstance(r.value("deepspeed"), str) for r in trainer_readings(job)
    )


def complete(job: TrainingJob) -> bool:
    """Whether the files hold all arguments of the run, so that what they leave out is the default."""
    readings = trainer_readings(job)
    return bool(readings) and all(r.dialect in COMMANDS for r in readings)


def mismatch_finding(
    rule: Rule, job: TrainingJob, settings: Settings, found: Iterable[Mismatch], subject: str
) -> Finding | None:
    """One finding for all mismatches of a kind; None where there are none."""
    items = list(found)
    if not items:
        return None
    by_default = all(isinstance(m.theirs.origin, DefaultOrigin) for m in items)
    # a script that only Accelerate leads to DeepSpeed may train in a loop of its own, without the comparison
    unsure = by_default or not named_by_trainer(job)
    severity: Severity = "warning" if unsure and not complete(job) else "error"
    where: list[Where | tuple[Where, str]] = []
    edits = []
    for item in items:
        where.append((item.mine, f"DeepSpeed: {shown(item.mine.value)}"))
        where.append((item.theirs, f"trainer: {shown(item.theirs.value)}"))
        edit = replace_value(settings.reading, (*settings.prefix, *item.route), '"auto"')
        if edit is not None:
            edits.append(edit)
    text = "; ".join(
        f"{m.key} is {shown(m.mine.value)}, {m.name} {shown(m.theirs.value)}"
        + (f" ({m.words})" if m.words else " (the default)" if isinstance(m.theirs.origin, DefaultOrigin) else "")
        for m in items
    )
    keys = ", ".join(m.key for m in items)
    fix = Fix(f"let the trainer fill in {keys}", tuple(edits), safe=False)
    return rule.finding(
        f"DeepSpeed's {subject} {'differ' if subject.endswith('settings') else 'differs'} from the trainer's: {text}",
        *where,
        help=f'write "auto" for {keys}: the trainer fills its own value in',
        notes=(STARTS_WITH,),
        fixes=(fix,) if len(edits) == len(items) else (),
        severity=severity,
        confidence="high" if severity == "error" else "medium",
        data={m.key: {"deepspeed": m.mine.value, "trainer": m.theirs.value} for m in items},
        job=job,
    )
