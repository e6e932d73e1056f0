"""A dialect is one module: dropping it into the package is all that adding one takes."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import cfglint.dialects as package
from cfglint.cli.main import main
from cfglint.dialects import recognise
from cfglint.dialects.carriers import command

MODULE = '''
"""Rocket's YAML, and `rocket launch` with flags."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import Program
from cfglint.dialects.flags import read_flags
from cfglint.dialects.values import FactReader, because
from cfglint.jobs.facts import Reading, Reference
from cfglint.source.node import Document, Mapping


class Rocket(Dialect):
    name = "rocket"
    title = "Rocket"
    summary = "Rocket's YAML, and its command"
    markers = frozenset({"rocket_batch", "rocket_model"})
    programs = frozenset({"rocket"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        return Recognition(80, because(["rocket_batch"])) if "rocket_batch" in root else None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield read_rocket(document, root)

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        if started.name == "rocket" and started.arguments and started.arguments[0].text == "launch":
            parsed = read_flags(started.arguments[1:])
            reading = read_rocket(launch.document, parsed.mapping)
            reading.why = "rocket launch"
            for word in parsed.positionals:
                origin = reading.origin()
                reading.references.append(Reference("config", word.text, origin, base="cwd"))
                reading.role = "arguments"
            yield reading


def read_rocket(document: Document, root: Mapping) -> Reading:
    reading = Reading("rocket", document, root, framework="rocket")
    facts = FactReader(reading)
    reading.facts.state("framework", "rocket", reading.origin())
    facts.model("rocket_model")
    facts.integer("micro_batch_size", "rocket_batch", low=1)
    return reading


DIALECT = Rocket()
'''

CONFIG = "rocket_model: org/m\nrocket_batch: 4\n"


@pytest.fixture
def dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The module in a folder that the package is looked up in as well."""
    folder = tmp_path / "dialects"
    folder.mkdir()
    (folder / "rocket.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    monkeypatch.delitem(sys.modules, "cfglint.dialects.rocket", raising=False)
    _forget()
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    yield project
    sys.modules.pop("cfglint.dialects.rocket", None)
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    recognise.dialects.cache_clear()
    recognise.wrapping_dialects.cache_clear()
    command.programs_of_dialects.cache_clear()


def test_it_is_found_and_says_why(dropped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dropped / "a.yaml").write_text(CONFIG)
    (dropped / "run.sh").write_text("srun --gres=gpu:8 rocket launch --rocket_model org/other --rocket_batch 2\n")
    assert main(["check", "--show-files", "--format", "json", "--no-cache", "."]) == 0
    files = {row["path"]: row for row in json.loads(capsys.readouterr().out)["files"]}
    assert (files["a.yaml"]["dialects"], files["a.yaml"]["why"]) == (["rocket"], "rocket_batch")
    assert (files["run.sh"]["dialects"], files["run.sh"]["carrier"]) == (["launch", "rocket"], "shell")


def test_its_command_goes_over_its_file(dropped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dropped / "a.yaml").write_text(CONFIG)
    (dropped / "run.sh").write_text(
        "torchrun --nproc_per_node 8 x.py\nNCCL_DEBUG=INFO rocket launch a.yaml --rocket_batch 2\n"
    )
    assert main(["estimate", "--format", "json", "."]) == 0
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (job["dialects"], job["documents"]) == (["rocket", "launch"], ["a.yaml", "run.sh"])
    assert job["batch"]["micro_batch"] == 2


def test_a_broken_file_of_its_own_is_reported(dropped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dropped / "a.yaml").write_text(CONFIG + "x: y: z\n")
    assert main(["check", "--format", "concise", "--no-cache", "."]) == 1
    assert "SRC001" in capsys.readouterr().out


def test_settings_and_comments_name_it(dropped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dropped / "b.yaml").write_text("# cfglint: dialect=rocket\nrocket_model: org/m\n")
    assert main(["check", "--show-files", "--format", "json", "--no-cache", "."]) == 0
    (row,) = json.loads(capsys.readouterr().out)["files"]
    assert row["dialects"] == ["rocket"]


def test_the_page_of_formats_lists_it(dropped: Path) -> None:
    lines = _builder().section(recognise.dialect_named("rocket"), [])
    text = "\n".join(lines)
    assert "### Rocket" in text
    assert "- **read from**: files, command lines" in text
    assert "- **facts**: `model_id`, `micro_batch_size`" in text
    assert "- **links**: config, model" in text


def _builder() -> ModuleType:
    path = Path(__file__).parents[2] / "docs" / "build_dialects.py"
    spec = importlib.util.spec_from_file_location("build_dialects", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
