"""``cfglint check`` from the outside: exit codes, flags, fixes, baselines. The faults used are of the SRC and SUP rules."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cfglint.cli.main import main

GOOD = '{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}\n'
BROKEN = '{\n"train_micro_batch_size_per_gpu": 4,\n"zero_optimization": {\n"stage": 2,\n"overlap_comm": true,\n'
UNUSED = (
    "# cfglint: ignore-file[SRC002]\nbase_model: Qwen/Qwen2.5-0.5B  # cfglint: ignore[SRC001] was broken\n"
    "sequence_len: 2048\nmicro_batch_size: 1\n"
)
DUPLICATE = "base_model: Qwen/Qwen2.5-0.5B\nsequence_len: 2048\nmicro_batch_size: 1\nmicro_batch_size: 2\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "CFGLINT_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".git").mkdir()
    return tmp_path


def write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def codes(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [finding["code"] for finding in json.loads(capsys.readouterr().out)["findings"]]


def test_nothing_found_is_0_and_an_error_is_1(capsys: pytest.CaptureFixture[str]) -> None:
    write("ds.json", GOOD)
    assert main(["check", "--select", "SRC"]) == 0
    assert "no findings" in capsys.readouterr().out
    write("ds.json", BROKEN)
    assert main(["--select", "SRC", "."]) == 1
    assert "error[SRC001]" in capsys.readouterr().out


def test_fail_on(capsys: pytest.CaptureFixture[str]) -> None:
    write("a.yaml", DUPLICATE)
    assert main(["check", "--select", "SRC002", "--format", "json"]) == 0
    assert codes(capsys) == ["SRC002"]
    assert main(["check", "--select", "SRC002", "--fail-on", "warning"]) == 1
    write("ds.json", BROKEN)
    assert main(["check", "--select", "SRC", "--fail-on", "never"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "missing.yaml"], "missing.yaml: no such file or folder"),
        (["missing.yaml"], "missing.yaml: no such file or folder"),
        (["chekc"], "did you mean `cfglint check`?"),
        (["check", "--select", "SRC0011"], "--select: no rule is called `SRC0011`; did you mean"),
        (["check", "--write-baseline"], "--write-baseline needs --baseline FILE"),
        (["check", "--baseline", "none.json"], "none.json: cannot be read"),
        (["check", "--config", "none.toml"], "none.toml: cannot be read"),
        (["check", "-", "a.yaml"], "stands alone"),
    ],
)
def test_usage_errors_are_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    write("good.json", GOOD)
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_settings_errors_are_2_with_their_place(capsys: pytest.CaptureFixture[str]) -> None:
    write("cfglint.toml", "strict = true\nselekt = []\n")
    assert main(["check"]) == 2
    assert capsys.readouterr().err == "cfglint: cfglint.toml:2: unknown key `selekt`; did you mean `select`?\n"
    assert main(["check", "--isolated"]) == 0


def test_a_rule_that_raises_is_3_and_the_rest_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from cfglint.lint import registry
    from cfglint.lint.rule import Rule

    class Raising(Rule):
        """Raises."""

        code, name = "TST001", "raising"

        def check_reading(self, reading, context):  # type: ignore[no-untyped-def]
            raise ZeroDivisionError("division by zero")
            yield

    known = registry.RuleSet({**registry.load_rules(), "TST001": Raising})
    monkeypatch.setattr("cfglint.lint.engine.find_rules", lambda plugins, own: known)
    write("ds.json", GOOD)
    write("broken.json", BROKEN)
    assert main(["check", "--select", "SRC,TST", "--format", "json"]) == 3
    assert codes(capsys) == ["SRC001", "INT001"]


def test_an_unforeseen_exception_is_3_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **rest: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr("cfglint.lint.engine.run", fail)
    write("ds.json", GOOD)
    assert main(["check"]) == 3
    shown = capsys.readouterr().err
    assert "internal fault: RuntimeError: odd" in shown and "Traceback" not in shown
    monkeypatch.setenv("CFGLINT_TRACEBACK", "1")
    assert main(["check"]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*args: object, **rest: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cfglint.lint.engine.run", stop)
    assert main(["check"]) == 130


def test_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Standard:
        buffer = io.BytesIO(BROKEN.encode())

    monkeypatch.setattr("sys.stdin", Standard())
    assert main(["check", "--select", "SRC", "--format", "concise", "--stdin-filename", "conf/ds.json", "-"]) == 1
    assert capsys.readouterr().out.startswith("conf/ds.json:")


def test_nothing_recognised_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    write("a.yaml", "hello: world\n")
    write("b.yaml", "- 1\n")
    assert main(["check"]) == 0
    assert capsys.readouterr().out == "0 configs recognised in 2 files\n"


def test_excluded_file_named_explicitly_is_left_out_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    write("cfglint.toml", 'extend-exclude = ["old/"]\n')
    write("old/ds.json", BROKEN)
    assert main(["check", "old/ds.json"]) == 0
    assert capsys.readouterr().err == "cfglint: left out by `exclude`: old/ds.json\n"


def test_a_path_called_like_a_command() -> None:
    write("rules", GOOD)
    assert main(["./rules"]) == 0
    assert main(["check", "rules"]) == 0


def test_fix_writes_and_diff_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    write("a.yaml", UNUSED.replace("\n", "\r\n"))
    flags = ["check", "--select", "SRC,SUP", "--format", "json"]
    assert main(flags) == 0
    assert codes(capsys) == ["SUP001", "SUP001"]
    assert main([*flags, "--diff"]) == 0
    shown = capsys.readouterr().out
    assert "-# cfglint: ignore-file[SRC002]" in shown
    assert Path("a.yaml").read_bytes() == UNUSED.replace("\n", "\r\n").encode()
    assert main([*flags, "--fix"]) == 0
    assert codes(capsys) == []
    expected = b"base_model: Qwen/Qwen2.5-0.5B\r\nsequence_len: 2048\r\nmicro_batch_size: 1\r\n"
    assert Path("a.yaml").read_bytes() == expected
    assert sorted(os.listdir()) == [".git", "a.yaml"]


def test_baseline_hides_what_was_there_and_shows_what_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    write("a.yaml", DUPLICATE)
    flags = ["check", "--select", "SRC", "--fail-on", "info", "--baseline", "known.json", "--format", "json"]
    assert main([*flags, "--write-baseline"]) == 0
    capsys.readouterr()
    assert main(flags) == 0
    assert codes(capsys) == []
    write("a.yaml", "# moved down\n\n" + DUPLICATE)
    assert main(flags) == 0
    write("ds.json", BROKEN)
    assert main(flags) == 1
    write("a.yaml", DUPLICATE.replace("micro_batch_size: 2\n", ""))
    Path("ds.json").unlink()
    capsys.readouterr()
    assert main(flags) == 0
    assert "a.yaml: 1 × SRC002 is gone" in capsys.readouterr().err


def test_output_file_and_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    write("ds.json", GOOD)
    assert main(["check", "--quiet", "--select", "SRC"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["check", "--select", "SRC", "--format", "sarif", "--output-file", "out.sarif"]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads(Path("out.sarif").read_text())["version"] == "2.1.0"
    assert main(["check", "--output-file", "no/such/folder.txt"]) == 2


def test_show_files(capsys: pytest.CaptureFixture[str]) -> None:
    write("ds.json", GOOD)
    write("values.yaml", "hello: 1\n")
    assert main(["check", "--show-files", "--format", "json", "--select", "SRC"]) == 0
    files = {f["path"]: f["dialects"] for f in json.loads(capsys.readouterr().out)["files"]}
    assert files == {"ds.json": ["deepspeed"], "values.yaml": []}


def test_severity_settings_and_comment_ignores(capsys: pytest.CaptureFixture[str]) -> None:
    write("cfglint.toml", '[severity]\nSRC002 = "error"\n')
    write("a.yaml", DUPLICATE)
    assert main(["check", "--select", "SRC,SUP", "a.yaml"]) == 1
    write(
        "a.yaml", DUPLICATE.replace("micro_batch_size: 2", "micro_batch_size: 2  # cfglint: ignore[SRC002] on purpose")
    )
    assert main(["check", "--select", "SRC,SUP", "a.yaml"]) == 0
    assert "1 silenced by comments" in capsys.readouterr().out


def cfglint(*arguments: str, **rest: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cfglint", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **rest)  # type: ignore[call-overload,no-any-return]


def test_as_a_module_in_a_terminal_that_knows_ascii_only() -> None:
    write("a.yaml", DUPLICATE.replace("Qwen/Qwen2.5-0.5B", "ünï/côde"))
    done = cfglint("check", "a.yaml", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert json.loads(cfglint("check", "--format", "json", env={**os.environ, "PYTHONIOENCODING": "ascii"}).stdout)


def test_a_reader_that_leaves_early_makes_no_noise() -> None:
    for i in range(300):
        write(f"conf/{i}.yaml", DUPLICATE)
    process = subprocess.Popen(
        [sys.executable, "-m", "cfglint", "check"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 0


def test_version_and_help_import_nothing_heavy() -> None:
    code = (
        "import sys; from cfglint.cli.main import main; main(['--version']); main([]);"
        "heavy = {'yaml', 'pydantic', 'pathspec', 'json', 'cfglint.lint'} & set(sys.modules); assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("cfglint 0.")


RUN = (
    "base_model: Qwen/Qwen2.5-0.5B\nsequence_len: 2048\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\n"
    "deepspeed: ../deepspeed/zero2.json\nlearning_rat: 1\n"
)
PART = '{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}}\n'


def test_a_part_that_is_given_alone_is_linted_with_the_runs_that_name_it(capsys: pytest.CaptureFixture[str]) -> None:
    """As pre-commit gives the one file that was changed."""
    write("configs/sft.yaml", RUN)
    write("configs/other.yaml", RUN.replace("zero2", "zero3"))
    write("deepspeed/zero2.json", PART)
    assert main(["check", "--format", "json", "--show-files", "deepspeed/zero2.json"]) == 1
    content = json.loads(capsys.readouterr().out)
    found = {(f["code"], f["path"]) for f in content["findings"]}
    assert ("CON001", "deepspeed/zero2.json") in found
    assert {path for _, path in found} == {"deepspeed/zero2.json"}, "what concerns only the run is not reported"
    assert [file["path"] for file in content["files"]] == ["deepspeed/zero2.json"]
    assert (content["summary"]["jobs"], content["summary"]["files"]) == (1, 1)


def test_a_part_is_searched_for_in_its_repository_only(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("configs/sft.yaml", RUN)
    write("deepspeed/zero2.json", PART)
    monkeypatch.chdir(folder / "deepspeed")
    assert main(["check", "--format", "json", "--select", "CON001", "zero2.json"]) == 1
    assert codes(capsys) == ["CON001"]
    (folder / ".git").rmdir()
    assert main(["check", "--format", "json", "--select", "CON001", "zero2.json"]) == 0
    assert codes(capsys) == []


def test_a_run_elsewhere_has_the_part_beside_it(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From within a folder, ``cfglint check ds.json`` reported the run of another folder, which has a ds.json of its own."""
    script = "deepspeed --num_gpus 4 train.py --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 2 \\\n"
    script += (
        "  --gradient_accumulation_steps 1 --bf16 True --output_dir out --num_train_epochs 3 --deepspeed ds.json\n"
    )
    write("there/run.sh", script)
    write("there/ds.json", '{"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 2}\n')
    write("here/ds.json", '{"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 8}\n')
    monkeypatch.chdir(folder / "here")
    assert main(["check", "--format", "json", "--select", "CON001", "ds.json"]) == 0
    assert codes(capsys) == []
    Path("../there/ds.json").write_text(Path("ds.json").read_text("utf-8"), "utf-8")
    monkeypatch.chdir(folder / "there")
    assert main(["check", "--format", "json", "--select", "CON001", "ds.json"]) == 1
    assert codes(capsys) == ["CON001"]


def test_a_part_that_is_given_alone_is_fixed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    write("configs/sft.yaml", RUN)
    write("deepspeed/zero2.json", PART)
    main(["check", "--fix", "--unsafe-fixes", "--select", "CON001", "deepspeed/zero2.json"])
    assert Path("configs/sft.yaml").read_text("utf-8") == RUN
    assert json.loads(Path("deepspeed/zero2.json").read_text("utf-8"))["train_micro_batch_size_per_gpu"] == "auto"


def test_a_rule_that_fails_is_named_as_its_page_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from cfglint.lint.registry import find_rules

    def fails(self: object, job: object, context: object) -> object:
        raise ZeroDivisionError("made to fail")

    monkeypatch.setattr(find_rules()["BAT010"], "check_training", fails)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text("base_model: meta-llama/Llama-3.1-8B\nmicro_batch_size: 1\nsequence_len: 2048\n")
    assert main(["check", "a.yaml", "--select", "BAT010", "--format", "json"]) == 3
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["code"], finding["name"]) == ("INT001", "rule-failed")


def test_help_in_a_terminal_of_odd_width(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for columns in ("\u00b2", "9" * 5000, "-3"):
        monkeypatch.setenv("COLUMNS", columns)
        with pytest.raises(SystemExit) as left:
            main(["check", "--help"])
        assert left.value.code == 0 and "usage: cfglint check" in capsys.readouterr().out
