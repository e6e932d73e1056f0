"""Silencing by comment and by settings."""

from pathlib import Path

from cfglint.lint.engine_rules import ENGINE_RULES
from cfglint.lint.finding import Finding, Place
from cfglint.lint.rule import Rule
from cfglint.lint.suppress import key_matches, read_ignores, silence
from cfglint.settings import Settings, read_settings
from cfglint.source.node import Mapping, SourceFile, Span
from cfglint.source.text import parse_text


class Memory(Rule):
    code, name = "MEM001", "training-out-of-memory"


class Precision(Rule):
    code, name = "PRC001", "fp16-overflow"


RULES: dict[str, type[Rule]] = {**ENGINE_RULES, Memory.code: Memory, Precision.code: Precision}
ALL = frozenset(RULES)


def at_key(file: SourceFile, key: str, rule: type[Rule] = Memory) -> Finding:
    root = file.documents[0].root
    assert isinstance(root, Mapping)
    entry = root.entry(key)
    assert entry is not None
    return rule().finding("found", Place(file.documents[0], Span(entry.key.span.start, entry.value.span.end), (key,)))


def run(
    text: str, *findings: tuple[str, type[Rule]], settings: Settings | None = None, on: frozenset[str] = ALL
) -> tuple[list[Finding], list[Finding]]:
    file = parse_text("a.yaml", text)
    made = [at_key(file, key, rule) for key, rule in findings]
    extra = silence(made, {"a.yaml": file}, lambda _: settings or Settings(), RULES, lambda _: on)
    return made, extra


def test_at_the_end_of_the_line_with_its_reason() -> None:
    (finding,), extra = run("a: 1\nb: 2  # cfglint: ignore[MEM001] known, see the wiki\n", ("b", Memory))
    assert (finding.suppressed, finding.justification) == ("comment", "known, see the wiki")
    assert extra == []


def test_on_the_line_above_and_over_other_comments() -> None:
    (finding,), extra = run(
        "a: 1\n# cfglint: ignore[training-out-of-memory]\n# measured by hand\nb: 2\n", ("b", Memory)
    )
    assert finding.suppressed == "comment"
    assert extra == []


def test_an_end_of_line_comment_does_not_reach_the_next_line() -> None:
    (finding,), extra = run("a: 1  # cfglint: ignore[MEM001]\nb: 2\n", ("b", Memory))
    assert finding.suppressed is None
    assert [(f.code, f.primary.start.line if f.primary else 0) for f in extra] == [("SUP001", 1)]


def test_anywhere_in_a_value_of_several_lines() -> None:
    (finding,), _ = run("a: [1,\n  2,  # cfglint: ignore[MEM]\n  3]\n", ("a", Memory))
    assert finding.suppressed == "comment"


def test_other_rules_on_the_line_stay() -> None:
    (memory, precision), extra = run("a: 1 # cfglint: ignore[MEM001, PRC001]\nb: 1\n", ("a", Memory), ("b", Precision))
    assert memory.suppressed == "comment"
    assert precision.suppressed is None
    (unused,) = extra
    assert unused.message == "`PRC001` reports nothing here"
    (fix,) = unused.fixes
    assert fix.edits[0].text == "MEM001"


def test_ignore_file_only_at_the_top() -> None:
    (finding,), extra = run("# a run\n\n# cfglint: ignore-file[MEM001] by hand\na: 1\n", ("a", Memory))
    assert finding.suppressed == "comment" and not extra
    (finding,), extra = run("a: 1\n# cfglint: ignore-file[MEM001]\nb: 1\n", ("b", Memory))
    assert finding.suppressed is None
    assert [f.code for f in extra] == ["SUP002"]
    assert "top of a file" in extra[0].message


def test_unused_is_silent_where_the_rule_did_not_run_or_is_unknown() -> None:
    _, extra = run("a: 1 # cfglint: ignore[MEM001]\n", on=frozenset({"SUP001", "PRC001"}))
    assert extra == []
    _, extra = run("a: 1 # cfglint: ignore[ACME017]\n")
    assert extra == []


def test_a_misspelt_rule_is_reported_with_the_nearest() -> None:
    _, extra = run("a: 1 # cfglint: ignore[MEM0001]\n")
    assert [(f.code, f.help) for f in extra] == [("SUP002", "did you mean `MEM001`?")]
    _, extra = run("a: 1 # cfglint: ignore\n")
    assert [f.code for f in extra] == ["SUP002"]


def test_removal_takes_the_comment_or_the_whole_line() -> None:
    text = "a: 1  # cfglint: ignore[MEM001]\n# cfglint: ignore[PRC001]\nb: 1\n"
    _, extra = run(text)
    for finding in reversed(extra):
        (edit,) = finding.fixes[0].edits
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    assert text == "a: 1\nb: 1\n"


def test_per_file_ignores() -> None:
    settings = Settings(path="x.toml", per_file_ignores={"a.yaml": ("MEM",)})
    (finding,), extra = run("a: 1\n", ("a", Memory), settings=settings)
    assert finding.suppressed == "settings"
    assert extra == []


def test_ignored_places_by_key_path_and_unused_ones(tmp_path: Path) -> None:
    toml = tmp_path / "cfglint.toml"
    toml.write_text(
        '[[ignore]]\nfile = "ds.json"\nkey = "fp16.enabled"\nrule = "PRC001"\nreason = "old GPUs"\n'
        '[[ignore]]\nfile = "ds.json"\nkey = "bf16.*"\nrule = "MEM001"\nreason = "never"\n'
    )
    settings = read_settings(toml)
    file = parse_text(str(tmp_path / "ds.json"), '{"fp16": {"enabled": true}}')
    document = file.documents[0]
    finding = Precision().finding("found", Place(document, Span(1, 5), ("fp16", "enabled")))
    extra = silence([finding], {file.path: file}, lambda _: settings, RULES, lambda _: ALL)
    assert (finding.suppressed, finding.justification) == ("settings", "old GPUs")
    (unused,) = extra
    assert unused.code == "SUP001"
    assert unused.primary is not None and unused.primary.start.line == 9
    assert "bf16.*" in unused.message


def test_key_paths() -> None:
    assert key_matches("zero_optimization.stage", ("zero_optimization", "stage"))
    assert key_matches("/zero_optimization/stage", ("zero_optimization", "stage"))
    assert key_matches("a[0].b", ("a", 0, "b"))
    assert key_matches("a.*.b", ("a", 3, "b"))
    assert key_matches("**.b", ("a", 3, "b"))
    assert key_matches("a.**", ("a",))
    assert not key_matches("a", ("a", "b"))
    assert not key_matches("a.*", ("a",))


def test_shell_comment_above_a_continued_command() -> None:
    text = "#!/bin/bash\n# cfglint: ignore[MEM001] big box\ntorchrun train.py \\\n  --bs 4 \\\n  --fp16\n"
    file = parse_text("run.sh", text)
    place = text.index("--fp16")
    finding = Memory().finding("found", Place(file.documents[0], Span(place, place + 6)))
    extra = silence([finding], {"run.sh": file}, lambda _: Settings(), RULES, lambda _: ALL)
    assert finding.suppressed == "comment"
    assert extra == []


def test_reading_keeps_places() -> None:
    file = parse_text("a.yaml", "a: 1 # cfglint: ignore[MEM001, PRC] why\n")
    (ignore,) = read_ignores(file).comments
    assert [(s, file.text[span.start : span.end]) for s, span in ignore.selectors] == [("MEM001",) * 2, ("PRC",) * 2]


def test_an_ignore_beside_the_line_that_is_reported() -> None:
    made, (unused,) = run("a: 1\nb: 2 # cfglint: ignore[MEM001] why\n", ("a", Memory))
    assert made[0].suppressed is None
    assert unused.code == "SUP001" and unused.help == "it reports at line 1: the comment belongs there"
    _, (alone,) = run("a: 1\nb: 2 # cfglint: ignore[MEM001] why\n", ("a", Precision))
    assert alone.help == "remove it, so that a later fault is not hidden"
