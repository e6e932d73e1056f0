"""The rule API. A rule is one file with one class: docstring, evidence, good and bad examples, then its check.

A rule overrides any of the ``check_*`` methods and yields what :meth:`Rule.finding` makes. It names facts, readings and
keys; places are resolved by the core. It never handles lines, and it never raises for odd input: what is not known is
None, and then there is nothing to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cfglint.jobs.facts import Fact, Reading
from cfglint.jobs.job import Job, ServingJob, TrainingJob
from cfglint.lint.finding import Confidence, Finding, Fix, Persona, Severity, Where, place
from cfglint.lint.links import rule_page
from cfglint.source.node import SourceFile

if TYPE_CHECKING:
    from cfglint.lint.context import Context

Kind = Literal["train", "serve", "file"]


@dataclass(frozen=True)
class Example:
    """Files with the hardware they run on. In ``bad``, ``at`` is the key the finding must be reported at (last step of
    the route), ``count`` how many findings of the rule are expected."""

    files: Mapping[str, str]
    gpu: str | None = None
    gpus: int | None = None
    nodes: int | None = None
    at: str | None = None
    count: int | None = None
    note: str = ""


class _Dedented(Mapping[str, str]):
    """Texts without their common indentation; removed when they are asked for, as most runs show no example."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def __getitem__(self, name: str) -> str:
        return cleandoc(self._texts[name]) + "\n"

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def example(path: str | Mapping[str, str], text: str = "", **rest: Any) -> Example:
    """``example("train.yaml", "...", gpu="T4")``, or a mapping of several files. Common indentation is removed."""
    return Example(_Dedented({path: text} if isinstance(path, str) else path), **rest)


@dataclass(frozen=True)
class Parameter:
    """A setting of a rule (``[tool.cfglint.rules.<CODE>]``) with its default and why the default is what it is."""

    default: Any
    doc: str


class Rule:
    """Base of all rules. The docstring's first line is the summary; the rest says what, why and how sure."""

    code: ClassVar[str] = ""
    name: ClassVar[str] = ""
    family: ClassVar[str] = ""
    severity: ClassVar[Severity] = "warning"
    confidence: ClassVar[Confidence] = "high"
    kinds: ClassVar[tuple[Kind, ...]] = ("train",)
    since: ClassVar[str] = "0.1"
    preview: ClassVar[bool] = False
    persona: ClassVar[Persona] = "default"
    fixable: ClassVar[Literal["safe", "unsafe", "no"]] = "no"
    evidence: ClassVar[tuple[str, ...]] = ()
    catalogue: ClassVar[tuple[str, ...]] = ()
    """Ids of the evidence catalogue this rule covers."""
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    good: ClassVar[tuple[Example, ...]] = ()
    bad: ClassVar[tuple[Example, ...]] = ()

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = {name: parameter.default for name, parameter in self.parameters.items()}
        self.options.update(options or {})

    @classmethod
    def summary(cls) -> str:
        return cleandoc(cls.__doc__ or "").split("\n", 1)[0].rstrip(".").replace("``", "`")

    @classmethod
    def explanation(cls) -> str:
        """The docstring after its first line."""
        parts = cleandoc(cls.__doc__ or "").split("\n", 1)
        return parts[1].strip() if len(parts) > 1 else ""

    def check_file(self, file: SourceFile, context: Context) -> Iterator[Finding]:
        """Look at a file as text and tree, whatever reads it."""
        return iter(())

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        """Look at one document as one dialect reads it."""
        return iter(())

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        """Look at one training job."""
        return iter(())

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        """Look at one serving job."""
        return iter(())

    def finding(
        self,
        message: str,
        *where: Where | tuple[Where, str],
        help: str = "",
        notes: tuple[str, ...] = (),
        fixes: tuple[Fix, ...] = (),
        severity: Severity | None = None,
        confidence: Confidence | None = None,
        data: Mapping[str, Any] | None = None,
        job: Job | None = None,
    ) -> Finding:
        """A finding at the first of ``where`` that is in a file; the others become labelled related places.

        Each of ``where`` is a fact, an origin, a reading, a place, or a pair of one of these with its label. Facts that
        come from defaults, flags or the catalogue have no place and are skipped; with none left, the job's own file is.
        Where a fact was put together by guess (sole neighbours in a folder), an error becomes a warning of medium
        confidence.
        """
        places = []
        certain = True
        for item in where:
            target, label = item if isinstance(item, tuple) else (item, "")
            if isinstance(target, Fact) and not target.certain:
                certain = False
            found = place(target, label)
            if found is not None:
                places.append(found)
        if not places and job is not None and job.primary is not None:
            fallback = place(job.primary)
            places = [fallback] if fallback else []
        level: Severity = severity or self.severity
        sure: Confidence = confidence or self.confidence
        if not certain:
            level = "warning" if level == "error" else level
            sure = "medium" if sure == "high" else sure
        return Finding(
            code=self.code,
            name=self.name,
            severity=level,
            confidence=sure,
            message=message,
            places=tuple(places),
            help=help,
            notes=notes,
            fixes=fixes,
            data=dict(data or {}),
            job=job.name if job else None,
            url=rule_page(self.code),
            persona=self.persona,
        )


@dataclass
class RuleFault:
    """A rule that raised: reported as ``INT001``, the run goes on."""

    code: str
    path: str
    error: str
    detail: str = field(default="", repr=False)
