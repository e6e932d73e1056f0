"""Which files an open one is linted with, and what is kept between runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cfglint.editor import project as module
from cfglint.editor.project import Project, Root, parse_buffer, root_of
from cfglint.lint.engine import RunResult

RUN = "per_device_train_batch_size: 4\ngradient_accumulation_steps: 8\nnum_train_epochs: 1\n"
NAMES_DEEPSPEED = RUN + "deepspeed: ../ds/zero2.json\n"
DEEPSPEED = '{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}'


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")


def test_root_is_the_nearest_repository_or_workspace_folder(tmp_path: Path) -> None:
    write(tmp_path, {"repo/.git/HEAD": "", "repo/a/b/x.yaml": ""})
    file = str(tmp_path / "repo" / "a" / "b" / "x.yaml")
    assert root_of(file, []) == Root(str(tmp_path / "repo"))
    assert root_of(file, [str(tmp_path)]) == Root(str(tmp_path / "repo"))
    assert root_of(file, [str(tmp_path / "repo" / "a")]) == Root(str(tmp_path / "repo" / "a"))


def test_a_file_outside_everything_has_only_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path, {"x.yaml": RUN, "y.yaml": RUN, "below/z.yaml": RUN})
    root = root_of(str(tmp_path / "x.yaml"), [])
    assert root == Root(str(tmp_path), recursive=False)
    assert sorted(Project(root).current({"x.yaml": RUN}).files) == ["x.yaml", "y.yaml"]


def test_files_no_dialect_reads_are_left_out_but_open_ones_are_kept(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": RUN, "package.json": '{"name": "x"}', "ci.yaml": "on: push\njobs: {}\n"})
    analysis = Project(Root(str(tmp_path))).current({"notes.yaml": "a: 1\n"})
    assert sorted(analysis.files) == ["a.yaml", "notes.yaml"]
    assert analysis.findings("notes.yaml") == []


def test_excluded_files_are_not_linted_though_open(tmp_path: Path) -> None:
    write(tmp_path, {"cfglint.toml": 'exclude = ["old/"]\n', "old/a.yaml": RUN})
    text = RUN + RUN
    project = Project(Root(str(tmp_path)))
    assert project.current({"old/a.yaml": text}).findings("old/a.yaml") == []
    assert [f.code for f in project.current({"new/a.yaml": text}).findings("new/a.yaml")].count("SRC002") == 3


def test_the_same_texts_are_linted_once(tmp_path: Path) -> None:
    project = Project(Root(str(tmp_path)))
    first = project.current({"a.yaml": RUN})
    assert project.current({"a.yaml": RUN}) is first
    assert project.current({"a.yaml": RUN + "seed: 1\n"}) is not first


def test_a_file_that_changed_on_disk_is_read_again_and_others_are_not(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": RUN, "b.yaml": RUN})
    project = Project(Root(str(tmp_path)))
    before = project.current({"open.yaml": RUN}).files
    write(tmp_path, {"b.yaml": RUN + "seed: 1\n"})
    after = project.current({"open.yaml": RUN + "seed: 2\n"}).files
    assert after["a.yaml"] is before["a.yaml"]
    assert after["b.yaml"].text == RUN + "seed: 1\n"


def test_new_files_are_found_after_a_refresh(tmp_path: Path) -> None:
    project = Project(Root(str(tmp_path)))
    assert sorted(project.current({"a.yaml": RUN}).files) == ["a.yaml"]
    write(tmp_path, {"b.yaml": RUN})
    project.refresh()
    assert sorted(project.current({"a.yaml": RUN}).files) == ["a.yaml", "b.yaml"]


def test_a_refresh_during_a_run_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(Root(str(tmp_path)))
    run = module.run

    def interrupted(*arguments: Any, **options: Any) -> RunResult:
        write(tmp_path, {"late.yaml": RUN})
        project.refresh()
        return run(*arguments, **options)

    monkeypatch.setattr(module, "run", interrupted)
    assert sorted(project.current({"a.yaml": RUN}).files) == ["a.yaml"]
    monkeypatch.setattr(module, "run", run)
    assert sorted(project.current({"a.yaml": RUN}).files) == ["a.yaml", "late.yaml"]


def test_of_too_many_files_the_nearest_are_taken(tmp_path: Path) -> None:
    write(tmp_path, {f"{folder}/{i}.yaml": RUN for folder in ("far/off", "near/by", "near") for i in range(3)})
    project = Project(Root(str(tmp_path)), most_files=4)
    assert sorted(project.current({"near/by/open.yaml": RUN}).files) == [
        "near/0.yaml", "near/by/0.yaml", "near/by/1.yaml", "near/by/2.yaml", "near/by/open.yaml"
    ]  # fmt: skip


def test_a_large_project_is_cut_down_to_what_belongs_to_the_open_files(tmp_path: Path) -> None:
    write(tmp_path, {"runs/a.yaml": NAMES_DEEPSPEED, "ds/zero2.json": DEEPSPEED, "other/d.yaml": NAMES_DEEPSPEED})
    write(tmp_path, {f"many/{i}/x.yaml": RUN for i in range(module.WHOLE_PROJECT_UP_TO)})
    analysis = Project(Root(str(tmp_path))).current({"runs/a.yaml": NAMES_DEEPSPEED})
    assert sorted(analysis.files) == ["ds/zero2.json", "other/d.yaml", "runs/a.yaml"]
    assert analysis.result is not None
    assert [job.documents for job in analysis.result.context.jobs][1] == ["runs/a.yaml", "ds/zero2.json"]


def test_settings_that_cannot_be_used_are_a_problem_until_they_are_mended(tmp_path: Path) -> None:
    write(tmp_path, {"cfglint.toml": "select = 3\n"})
    project = Project(Root(str(tmp_path)))
    analysis = project.current({"a.yaml": RUN})
    assert analysis.result is None
    assert analysis.problem.startswith("cfglint.toml:1: `select`")
    write(tmp_path, {"cfglint.toml": 'plugins = ["no_such_rules"]\n'})
    project.refresh()
    assert "no_such_rules" in project.current({"a.yaml": RUN}).problem
    (tmp_path / "cfglint.toml").unlink()
    project.refresh()
    assert project.current({"a.yaml": RUN}).problem == ""


def test_the_working_directory_comes_back(tmp_path: Path) -> None:
    before = os.getcwd()
    Project(Root(str(tmp_path))).current({"a.yaml": RUN})
    assert os.getcwd() == before


def test_a_text_too_large_to_be_a_configuration_is_not_parsed() -> None:
    file = parse_buffer("a.yaml", "a: 1\n" * 300_000)
    assert (file.skipped, file.text) == ("too-large", "")


def test_half_a_surrogate_pair_keeps_its_length() -> None:
    file = parse_buffer("a.yaml", "a: x\ud83dy\n")
    assert file.documents[0].value("a") == "x\ufffdy"
