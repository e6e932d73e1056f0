"""A small result to render: two files, findings of every kind. No dialect or estimate takes part."""

from __future__ import annotations

from cfglint.dialects.recognise import FileReport
from cfglint.jobs.job import Jobs, TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.engine import RunResult
from cfglint.lint.engine_rules import ENGINE_RULES
from cfglint.lint.finding import Change, Edit, Finding, Fix, Place, Severity
from cfglint.lint.rule import Rule
from cfglint.source.node import SourceFile, Span
from cfglint.source.text import parse_text

TRAIN = """\
# a run
base_model: meta-llama/Llama-3.1-8B
bf16: true

sequence_len: 4096
micro_batch_size: 8  # as on the old box
datasets: [{path: ünï/côde, type: alpaca}]
deepspeed: deepspeed/zero2.json
long: LONG
"""
ZERO = '{\n\t"zero_optimization": {\n\t\t"stage": 2\n\t}\n}\n'


class Memory(Rule):
    """Training needs more memory per GPU than the accelerator has.

    The peak is worked out.
    """

    code, name, family, severity = "MEM001", "training-out-of-memory", "memory", "error"
    evidence = ("https://arxiv.org/abs/1910.02054",)


def files() -> dict[str, SourceFile]:
    long = "x" * 150 + "here" + "y" * 150
    return {
        "configs/train.yaml": parse_text("configs/train.yaml", TRAIN.replace("LONG", long)),
        "deepspeed/zero2.json": parse_text("deepspeed/zero2.json", ZERO),
    }


def place(file: SourceFile, text: str, label: str = "", route: tuple[str | int, ...] = ()) -> Place:
    start = file.text.index(text)
    return Place(file.documents[0], Span(start, start + len(text)), route, label)


def result(*, silenced: bool = True) -> RunResult:
    made = files()
    train, zero = made["configs/train.yaml"], made["deepspeed/zero2.json"]
    batch = place(train, "micro_batch_size: 8", "activations 61.2 GiB", ("micro_batch_size",))
    eight = train.text.index("8  #")
    edit = Edit(
        train.documents[0], Span(eight, eight + 1), "2", Change("replace", ("micro_batch_size",), value_text="2")
    )

    def finding(code: str, name: str, severity: Severity, message: str, *places: Place) -> Finding:
        return Finding(code, name, severity, "high", message, places, url=f"https://example.org/{code}")

    memory = finding(
        "MEM001",
        "training-out-of-memory",
        "error",
        "needs 91.2–97.0 GiB per GPU, A100-80GB has 79.2",
        batch,
        place(train, "base_model: meta-llama/Llama-3.1-8B", "weights 15.0 GiB"),
        place(train, "sequence_len: 4096"),
        place(zero, '"stage": 2', "optimizer 30.0 GiB", ("zero_optimization", "stage")),
    )
    memory.help = "micro_batch_size: 2 fits (71.9 GiB expected)"
    memory.notes = ("attention: sdpa (transformers default)",)
    memory.fixes = (Fix("set micro_batch_size to 2", (edit,), safe=False),)
    memory.job = "configs/train.yaml"
    memory.data = {"used_gib": {"low": 91.2, "high": 97.0}}
    several = finding(
        "DAT001",
        "odd-data",
        "warning",
        "100% odd: path, with a colon",
        place(train, "ünï/côde", "this path"),
        place(train, "alpaca", "and this type"),
    )
    several.confidence = "medium"
    clipped = finding("DAT002", "long-line", "info", "the middle of a long line", place(train, "here", "look"))
    bare = Finding("SRC006", "not-utf8", "error", "high", "cannot be read", (), path="configs/\x1b[31mbroken.yaml")
    hidden = finding("PRC001", "fp16-overflow", "error", "silenced", place(train, "bf16: true"))
    hidden.suppressed, hidden.justification = "comment", "known"
    known = finding("PRC001", "fp16-overflow", "error", "known", place(train, "bf16: true"))
    known.suppressed, known.justification = "baseline", "in the baseline"
    jobs = Jobs(training=[TrainingJob("configs/train.yaml")])
    reports = {
        "configs/train.yaml": FileReport("configs/train.yaml", "yaml", ["axolotl"], why="base_model + sequence_len"),
        "deepspeed/zero2.json": FileReport("deepspeed/zero2.json", "json", ["deepspeed"]),
        "values.yaml": FileReport("values.yaml", "yaml", skipped="template"),
    }
    findings = [memory, several, clipped, bare, *([hidden, known] if silenced else [])]
    return RunResult(findings, Context(made, [], jobs), reports, [], {**ENGINE_RULES, "MEM001": Memory})


def empty() -> RunResult:
    reports = {"a.yaml": FileReport("a.yaml", "yaml")}
    return RunResult([], Context({}, [], Jobs()), reports, [], {})
