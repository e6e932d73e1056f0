"""The index of the built-in rules: fresh, passed over where it is not, and only the rules that run are imported."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from cfglint.lint.registry import RuleSet, _entry_points, _entry_points_in, find_rules, load_rules
from cfglint.lint.rule_index import head_of, index_text, read_index

ROOT = Path(__file__).parents[2]
RULES = ROOT / "rules"


def test_index_is_fresh() -> None:
    index = read_index("cfglint_rules", str(RULES))
    assert index is not None and index.changed == [], "rules/index.json is stale: python docs/build_rules.py"
    for head in index.heads:
        own = head_of(getattr(import_module(head.module), head.class_name))
        assert [getattr(head, name) for name in head.__slots__] == [getattr(own, name) for name in own.__slots__]
    package = {code for code, rule in load_rules().items() if rule.__module__.startswith("cfglint_rules.")}
    assert package == {head.code for head in index.heads}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the rules with a fresh index."""
    folder = tmp_path / "rules"
    shutil.copytree(RULES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    ours = [rule for rule in load_rules().values() if rule.__module__.startswith("cfglint_rules.")]
    (folder / "index.json").write_text(index_text("cfglint_rules", str(folder), ours), "utf-8")
    return folder


def changed(package: Path) -> list[str]:
    index = read_index("cfglint_rules", str(package))
    assert index is not None
    return [name.removeprefix("cfglint_rules.") for name in index.changed]


def heads(package: Path) -> set[str]:
    index = read_index("cfglint_rules", str(package))
    assert index is not None
    return {head.code for head in index.heads}


def test_modules_that_differ_are_looked_at_anew(package: Path) -> None:
    everything = heads(package)
    assert changed(package) == [] and "BAT017" in everything and "SRC001" in everything
    (package / "batch" / "brand_new.py").write_text("x = 1\n", "utf-8")
    assert changed(package) == ["batch.brand_new"] and heads(package) == everything
    (package / "batch" / "brand_new.py").unlink()
    twice = package / "batch" / "warmup_twice.py"
    code = next(code for code, rule in load_rules().items() if rule.__module__.endswith(".warmup_twice"))
    twice.write_text(twice.read_text("utf-8") + "\n", "utf-8")
    assert changed(package) == ["batch.warmup_twice"] and heads(package) == everything - {code}
    twice.unlink()
    assert changed(package) == [] and heads(package) == everything - {code}


def test_rules_that_inherit_from_a_module_that_differs_are_looked_at_anew(package: Path) -> None:
    base = package / "source" / "problem.py"
    base.write_text(base.read_text("utf-8") + "\n", "utf-8")
    assert {"source.problem", "source.duplicate_key"} <= set(changed(package))
    assert not {"SRC001", "SRC002"} & heads(package)


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2}', '{"version": 1, "modules": {}, "rules": [1]}'])
def test_a_broken_index_is_passed_over(package: Path, text: str) -> None:
    (package / "index.json").write_text(text, "utf-8")
    assert read_index("cfglint_rules", str(package)) is None
    assert read_index("cfglint_rules", str(package / "absent")) is None


def test_a_rule_is_imported_when_it_is_asked_for() -> None:
    code = (
        "import sys\n"
        "from cfglint.lint.registry import find_rules\n"
        "rules = find_rules()\n"
        "print(len(rules), rules.heads['MEM001'].name, 'cfglint_rules.memory.training_out_of_memory' in sys.modules)\n"
        "print(rules['MEM001'].name, 'cfglint_rules.memory.training_out_of_memory' in sys.modules)\n"
        "print('cfglint_rules.batch.warmup_twice' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    number = len(find_rules())
    expected = [f"{number} training-out-of-memory False", "training-out-of-memory True", "False"]
    assert done.stdout.splitlines() == expected


def test_serving_files_import_no_training_rules(tmp_path: Path) -> None:
    (tmp_path / "serve.sh").write_text("vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 4096\n", "utf-8")
    code = (
        "import sys\n"
        "from cfglint.cli.main import main\n"
        "main(['check', '--quiet', 'serve.sh'])\n"
        "names = [n for n in sys.modules if n.startswith('cfglint_rules.')]\n"
        "print('cfglint_rules.batch.warmup_twice' in names, 'cfglint_rules.serving.unknown_argument' in names)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "False True"


def test_rules_found_are_those_loaded() -> None:
    found = find_rules()
    assert isinstance(found, RuleSet)
    assert dict(found) == load_rules()
    assert list(found) == sorted(found)


def test_entry_points_are_those_that_importlib_reads() -> None:
    from importlib.metadata import entry_points

    expected = {point.value.split(":")[0] for point in entry_points(group="cfglint.rules")}
    assert set(_entry_points()) == expected | {"cfglint_rules"}


def test_entry_points_of_a_folder_and_of_an_archive(tmp_path: Path) -> None:
    text = "# none\n[console_scripts]\nx = y:z\n\n[cfglint.rules]\nacme = acme_rules\nother=deep.rules:thing [extra]\n"
    info = tmp_path / "site" / "acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text(text, "utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", "utf-8")
    assert _entry_points_in(str(tmp_path / "site")) == {"acme_rules", "deep.rules"}
    archive = shutil.make_archive(str(tmp_path / "acme"), "zip", tmp_path / "site")
    assert _entry_points_in(archive) == {"acme_rules", "deep.rules"}
    assert _entry_points_in(str(tmp_path / "absent")) == set()
