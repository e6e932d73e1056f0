"""Settings: found upward, checked, with the place of what is wrong."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from cfglint.settings import (
    DEFAULT_EXCLUDE,
    Settings,
    SettingsError,
    SettingsResolver,
    read_settings,
    settings_json_schema,
)

FULL = """\
select = ["MEM", "PRC001"]
extend-select = ["BAT"]
ignore = ["MEM002", {file = "ds.json", key = "fp16.enabled", rule = "PRC001", reason = "V100"}]
extend-exclude = ["old/"]
plugins = ["acme_rules"]

[per-file-ignores]
"tests/**" = ["MEM"]

[severity]
MEM001 = "warning"

[frameworks]
transformers = "4.56.2"

[rules.MEM001]
margin = 0.1

[models]
"acme/one" = "models/one"
"acme/two" = {config = "models/two/config.json"}
"acme/three" = {model_type = "llama", hidden_size = 64}

[dialects]
"runs/*.yaml" = "axolotl"

[[targets]]
path = ["configs/h100/**", "big.yaml"]
gpu = "H100-80GB"
gpus = 8
nodes = 2

[[targets]]
path = "configs/**"
gpu = "A100-80GB"

[[jobs]]
files = ["train.yaml", "ds.json"]
gpus = 4

[[accelerators]]
id = "X1-64GB"
memory-gb = 64
compute-capability = "9.0"
"""


def write(folder: Path, text: str, name: str = "cfglint.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def test_everything_is_read(tmp_path: Path) -> None:
    settings = read_settings(write(tmp_path, FULL))
    assert settings.select == ("MEM", "PRC001") and settings.ignore == ("MEM002",)
    (place,) = settings.ignored_places
    assert (place.file, place.key, place.rules, place.reason) == ("ds.json", "fp16.enabled", ("PRC001",), "V100")
    assert settings.exclude == (*DEFAULT_EXCLUDE, "old/")
    big = settings.target(tmp_path / "configs" / "h100" / "a.yaml")
    assert big is not None and (big.hardware.gpu, big.hardware.gpus, big.hardware.nodes) == ("H100-80GB", 8, 2)
    assert "targets[0]" in big.hardware.origin.describe()
    other = settings.target(tmp_path / "configs" / "b.yaml")
    assert other is not None and other.hardware.gpu == "A100-80GB"
    assert settings.target(tmp_path / "elsewhere.yaml") is None
    assert settings.dialect(tmp_path / "runs" / "a.yaml") == "axolotl"
    assert settings.models["acme/one"].path == tmp_path / "models/one"
    assert settings.models["acme/two"].path == tmp_path / "models/two/config.json"
    assert settings.models["acme/three"].config == {"model_type": "llama", "hidden_size": 64}
    assert settings.jobs[0].name == "train.yaml" and settings.jobs[0].hardware.gpus == 4
    assert settings.accelerators[0].compute_capability == (9, 0)
    assert settings.accelerators[0].usable_gib == pytest.approx(60.16)
    assert settings.rules == {"MEM001": {"margin": 0.1}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\ntagets = []\n", r"cfglint.toml:2: unknown key `tagets`; did you mean `targets`\?"),
        ("extend_select = []\n", r":1: unknown key `extend_select`; did you mean `extend-select`\?"),
        ('[[targets]]\npath = "a"\nnods = 2\n', r":3: unknown key `targets\[0\].nods`; did you mean `nodes`\?"),
        ('[[targets]]\ngpu = "T4"\n', r":1: `targets\[0\]` needs the key `path`"),
        (
            '[[targets]]\npath = "a"\ngpus = "8"\n',
            r":3: `targets\[0\].gpus`: input should be a valid integer \(is '8'\)",
        ),
        ('[severity]\nMEM001 = "fatal"\n', r":2: `severity.MEM001`: .*'error', 'warning' or 'info' \(is 'fatal'\)"),
        ('ignore = [{file = "a", rule = "M"}]\n', r":1: `ignore\[0\]` needs the key `reason`"),
        ("a = = 1\n", r"cfglint.toml: not TOML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text.replace("a = 1\n", "strict = true\n"))
    with pytest.raises(SettingsError, match=message):
        read_settings(path)


def test_the_nearest_file_counts_and_pyproject_without_a_table_does_not(tmp_path: Path) -> None:
    write(tmp_path, '[tool.cfglint]\nselect = ["TOP"]\n', "pyproject.toml")
    write(tmp_path / "a", "[tool.ruff]\n", "pyproject.toml")
    write(tmp_path / "a" / "b", 'select = ["DEEP"]\n')
    resolver = SettingsResolver()
    assert resolver(str(tmp_path / "a" / "x.yaml")).select == ("TOP",)
    assert resolver(str(tmp_path / "a" / "b" / "c" / "x.yaml")).select == ("DEEP",)
    assert resolver(str(tmp_path / "a" / "y.yaml")) is resolver(str(tmp_path / "z.yaml"))


def test_the_search_ends_at_the_git_root(tmp_path: Path) -> None:
    write(tmp_path, 'select = ["OUTSIDE"]\n')
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    assert SettingsResolver()(str(tmp_path / "repository" / "a.yaml")).select is None


def test_one_file_for_all_or_none(tmp_path: Path) -> None:
    path = write(tmp_path / "conf", '[tool.cfglint]\nselect = ["X"]\n', "any.toml")
    write(tmp_path, 'select = ["NEAR"]\n')
    assert SettingsResolver(path)(str(tmp_path / "a.yaml")).select == ("X",)
    assert SettingsResolver(isolated=True)(str(tmp_path / "a.yaml")).select is None
    with pytest.raises(SettingsError, match="cannot be read"):
        SettingsResolver(tmp_path / "none.toml")


def test_globs_mean_what_gitignore_says(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path)
    assert settings.matches(tmp_path / "a" / "b" / "c.yaml", "a/")
    assert settings.matches(tmp_path / "a" / "b" / "c.yaml", "c.yaml")
    assert settings.matches(tmp_path / "a" / "b" / "c.yaml", "a/**/c.yaml")
    assert not settings.matches(tmp_path / "a" / "b" / "c.yaml", "/c.yaml")


def test_the_json_schema_takes_what_is_taken(tmp_path: Path) -> None:
    schema = settings_json_schema()
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate({"ignore": ["MEM", {"file": "a", "rule": "b", "reason": "c"}], "extend-select": ["X"]})
    assert not validator.is_valid({"tagets": []})
    assert not validator.is_valid({"targets": [{"gpu": "T4"}]})
