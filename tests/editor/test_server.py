"""The language server as an editor meets it: a process, messages over its standard streams."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls", reason="the language server needs the extra `lsp`")

sys.path.insert(0, str(Path(__file__).parent))
from language_client import CAPABILITIES, Client, client

GOOD = """\
per_device_train_batch_size: 4
gradient_accumulation_steps: 8
num_train_epochs: 1
learning_rate: 2.0e-5
"""
BAD = GOOD + "per_device_train_batch_size: 2\n"
DEEPSPEED = (
    '{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8, "zero_optimization": {"stage": 2}}\n'
)


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Client]:
    with client(tmp_path) as made:
        yield made


def place(line: int, start: int, end: int) -> dict[str, Any]:
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


def codes(found: list[dict[str, Any]]) -> list[str]:
    return [diagnostic["code"] for diagnostic in found]


def test_a_fault_is_shown_on_opening_cleared_by_mending_it_and_on_closing(editor: Client, tmp_path: Path) -> None:
    uri = (tmp_path / "sft.yaml").as_uri()
    editor.open(uri, BAD)
    (found,) = editor.diagnostics(uri)
    assert found["code"] == "SRC002"
    assert found["source"] == "cfglint"
    assert found["severity"] == 2
    assert found["range"] == place(4, 0, 27)
    assert found["message"].splitlines()[-1] == "help: keep one of the two"
    assert "codeDescription" not in found, "the project has no public address yet: a path is no link"
    (related,) = found["relatedInformation"]
    assert related["location"] == {"uri": uri, "range": place(0, 0, 27)}
    editor.change(uri, GOOD, 2)
    assert editor.diagnostics(uri) == []
    editor.change(uri, BAD, 3)
    assert codes(editor.diagnostics(uri)) == ["SRC002"]
    editor.close(uri)
    assert editor.diagnostics(uri) == []


def test_what_it_offers_and_how_it_ends(editor: Client) -> None:
    offered = editor.initialized["capabilities"]
    assert offered["positionEncoding"] == "utf-16"
    assert offered["hoverProvider"]
    assert offered["codeActionProvider"]["codeActionKinds"] == ["quickfix"]
    assert offered["textDocumentSync"]["openClose"] is True
    assert editor.initialized["serverInfo"]["name"] == "cfglint"
    assert editor.leave() == 0


def test_a_client_that_goes_away_without_shutdown_is_told_by_the_exit_code(editor: Client) -> None:
    editor.notify("exit", None)
    assert editor.process.wait(timeout=60) == 1


def test_saving_looks_at_the_files_of_the_project_anew(editor: Client, tmp_path: Path) -> None:
    uri = (tmp_path / "sft.yaml").as_uri()
    editor.open(uri, BAD)
    assert codes(editor.diagnostics(uri)) == ["SRC002"]
    (tmp_path / "cfglint.toml").write_text('ignore = ["SRC002"]\n', "utf-8")
    editor.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    assert editor.diagnostics(uri) == []


def test_settings_that_cannot_be_used_are_said_in_the_file(editor: Client, tmp_path: Path) -> None:
    (tmp_path / "cfglint.toml").write_text('selekt = ["SRC"]\n', "utf-8")
    uri = (tmp_path / "sft.yaml").as_uri()
    editor.open(uri, GOOD)
    (found,) = editor.diagnostics(uri)
    assert found["code"] == "settings"
    assert "cfglint.toml:1: unknown key `selekt`; did you mean `select`?" in found["message"]
    (tmp_path / "cfglint.toml").write_text('select = ["SRC"]\n', "utf-8")
    settings = (tmp_path / "cfglint.toml").as_uri()
    editor.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": settings, "type": 2}]})
    assert editor.diagnostics(uri) == []


def test_hover_gives_the_value_in_force_and_every_other_statement(editor: Client, tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(DEEPSPEED, "utf-8")
    uri = (tmp_path / "sft.yaml").as_uri()
    editor.open(uri, GOOD.replace(": 8", ": 2") + "deepspeed: ds.json\n")
    editor.diagnostics(uri)
    answer = editor.hover(uri, 1, 31)
    assert answer["range"] == place(1, 0, 30)
    assert answer["contents"]["kind"] == "markdown"
    text = answer["contents"]["value"]
    assert "**`gradient_accumulation_steps`** = `2`" in text
    assert "`gradient_accumulation_steps` of `sft.yaml`: `2` is in force, from this line" in text
    assert f"also stated: `8` from [ds.json:1]({(tmp_path / 'ds.json').as_uri()}#L1)" in text
    assert "an integer, default `1`" in text
    assert editor.hover(uri, 40, 0) is None


def test_hover_over_what_drives_memory_gives_the_estimate(editor: Client, tmp_path: Path) -> None:
    uri = (tmp_path / "sft.yaml").as_uri()
    head = "# cfglint: gpu=H100-80GB gpus=1\nmodel_name_or_path: meta-llama/Llama-3.1-8B\nmax_seq_length: 2048\nbf16: true\n"
    editor.open(uri, head + GOOD)
    editor.diagnostics(uri)
    text = editor.hover(uri, 4, 2)["contents"]["value"]
    assert re.search(
        r"memory per GPU [\d.]+–[\d.]+ GiB of [\d.–]+ GiB \(H100-80GB\): (oom|likely-oom|tight|fits)", text
    )
    assert "effective batch 4 × 8 × 1 = 32 sequences" in text
    comment = editor.hover(uri, 0, 12)["contents"]["value"]
    assert "**`gpu`**" in comment
    assert "`gpu` of `sft.yaml`: `H100-80GB` is in force, from this line" in comment


def test_hover_over_the_value_that_is_not_in_force_says_which_is(editor: Client, tmp_path: Path) -> None:
    (tmp_path / "sft.yaml").write_text(GOOD.replace(": 8", ": 2") + "deepspeed: ds.json\n", "utf-8")
    uri = (tmp_path / "ds.json").as_uri()
    editor.open(uri, DEEPSPEED, "json")
    editor.diagnostics(uri)
    text = editor.hover(uri, 0, DEEPSPEED.index("gradient_accumulation_steps") + 3)["contents"]["value"]
    assert f"`2` is in force, from [sft.yaml:2]({(tmp_path / 'sft.yaml').as_uri()}#L2)" in text
    assert "also stated: `8` from this line" in text


def test_the_open_buffer_counts_over_the_file_on_disk(editor: Client, tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(DEEPSPEED, "utf-8")
    ds, sft = (tmp_path / "ds.json").as_uri(), (tmp_path / "sft.yaml").as_uri()
    editor.open(sft, GOOD + "deepspeed: ds.json\n")
    editor.diagnostics(sft)
    editor.open(ds, DEEPSPEED.replace('steps": 8', 'steps": 16'), "json")
    editor.diagnostics(ds)
    assert "also stated: `16` from" in editor.hover(sft, 1, 3)["contents"]["value"]
    editor.close(ds)
    editor.diagnostics(ds)
    assert "also stated: `8` from" in editor.hover(sft, 1, 3)["contents"]["value"]


def test_hover_is_plain_text_for_a_client_that_shows_no_markdown(tmp_path: Path) -> None:
    with client(tmp_path, {}) as editor:
        uri = (tmp_path / "sft.yaml").as_uri()
        editor.open(uri, BAD)
        (found,) = editor.diagnostics(uri)
        assert "relatedInformation" not in found
        contents = editor.hover(uri, 3, 2)["contents"]
        assert contents["kind"] == "plaintext"
        assert contents["value"].startswith("learning_rate = 2e-05 · ")


def test_an_ignore_is_offered_and_silences(editor: Client, tmp_path: Path) -> None:
    uri = (tmp_path / "sft.yaml").as_uri()
    editor.open(uri, BAD)
    (found,) = editor.diagnostics(uri)
    actions = editor.actions(uri, found["range"])
    (ignore,) = [action for action in actions if action["title"] == "Ignore SRC002 here"]
    assert ignore["kind"] == "quickfix"
    assert ignore["diagnostics"] == [found]
    editor.change(uri, apply(BAD, ignore["edit"]["changes"][uri]), 2)
    assert editor.diagnostics(uri) == []
    assert editor.actions(uri, place(0, 0, 5)) == []


def test_a_safe_fix_is_offered_and_mends(editor: Client, tmp_path: Path) -> None:
    uri = (tmp_path / "sft.yaml").as_uri()
    text = GOOD + "report_to: none  # cfglint: ignore[SRC001]\n"
    editor.open(uri, text)
    (found,) = editor.diagnostics(uri)
    assert (found["code"], found["tags"]) == ("SUP001", [1])
    fix = editor.actions(uri, found["range"])[0]
    assert fix["title"] == "remove the unused ignore (SUP001)"
    assert fix["isPreferred"] is True
    mended = apply(text, fix["edit"]["changes"][uri])
    assert mended == GOOD + "report_to: none\n"
    editor.change(uri, mended, 2)
    assert editor.diagnostics(uri) == []


@pytest.mark.parametrize(("encoding", "width"), [("utf-16", 2), ("utf-8", 4), ("utf-32", 1)])
def test_columns_are_counted_as_the_client_asked(tmp_path: Path, encoding: str, width: int) -> None:
    capabilities = {**CAPABILITIES, "general": {"positionEncodings": [encoding]}}
    with client(tmp_path, capabilities) as editor:
        assert editor.initialized["capabilities"]["positionEncoding"] == encoding
        uri = (tmp_path / "ds.json").as_uri()
        head = '{"gradient_accumulation_steps": 8, "zero_optimization": {"stage": 2}, "x": "'
        editor.open(uri, head + '\U0001f600", "zero_optimization": {"stage": 2}}\r\n', "json")
        found = [d for d in editor.diagnostics(uri) if d["code"] == "SRC002"]
        start = len(head) + width + 3
        assert [d["range"] for d in found] == [place(0, start, start + 19)]


def test_line_ends_of_windows(editor: Client, tmp_path: Path) -> None:
    uri = (tmp_path / "sft.yaml").as_uri()
    text = BAD.replace("\n", "\r\n")
    editor.open(uri, text)
    (found,) = editor.diagnostics(uri)
    assert found["range"] == place(4, 0, 27)
    ignore = editor.actions(uri, found["range"])[-1]
    changed = apply(text, ignore["edit"]["changes"][uri])
    assert changed.endswith("per_device_train_batch_size: 2  # cfglint: ignore[SRC002]\r\n")


def test_bad_input_never_ends_the_server(editor: Client, tmp_path: Path) -> None:
    editor.send_raw(b"{ this is not JSON")
    editor.send_raw(b"[]")
    editor.send_raw(b'{"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": 3}}')
    editor.send_raw(b'{"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {}} \xff\xfe')
    editor.notify("textDocument/didChange", {"textDocument": {"uri": "file:///no", "version": 1}, "contentChanges": []})
    editor.change((tmp_path / "never-opened.yaml").as_uri(), GOOD, 7)
    editor.close("file:///no/such/file.yaml")
    editor.notify("textDocument/didSave", {"textDocument": {"uri": "http://example.org/x.yaml"}})
    editor.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": "not a uri", "type": 1}]})
    editor.notify("no/such/notification", {"a": 1})
    for number, uri in enumerate(("untitled:Untitled-1", "", "file://", "file:///%00.yaml", "nonsense", "git:/a?b")):
        editor.open(uri, BAD)
        assert editor.hover(uri, number, 0) is None
        assert editor.actions(uri, place(0, 0, 9)) == []
    huge = (tmp_path / "huge.yaml").as_uri()
    editor.open(huge, "key: value\n" * 150_000)
    assert editor.diagnostics(huge) == []
    nested = (tmp_path / "nested.json").as_uri()
    editor.open(nested, "[" * 20_000, "json")
    editor.diagnostics(nested)
    surrogate = (tmp_path / "half.yaml").as_uri()
    editor.open(surrogate, BAD + "run_name: \ud83d\n")
    assert codes(editor.diagnostics(surrogate)) == ["SRC002"]
    (tmp_path / "latin.yaml").write_bytes(GOOD.encode() + b"run_name: caf\xe9\n")
    (tmp_path / "binary.yaml").write_bytes(bytes(range(256)))
    uri = (tmp_path / "sft.yaml").as_uri()
    editor.open(uri, BAD)
    assert codes(editor.diagnostics(uri)) == ["SRC002"]
    assert editor.hover(uri, 10**9, 10**9) is None
    assert editor.process.poll() is None
    assert editor.leave() == 0


def test_without_a_workspace_a_file_is_linted_with_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(DEEPSPEED, "utf-8")
    (tmp_path / "below").mkdir()
    with client(None) as editor:
        uri = (tmp_path / "sft.yaml").as_uri()
        editor.open(uri, GOOD + "deepspeed: ds.json\n")
        assert "SRC002" not in codes(editor.diagnostics(uri))
        assert "also stated: `8` from" in editor.hover(uri, 1, 3)["contents"]["value"]


def test_without_pygls_it_says_which_extra_is_needed(tmp_path: Path) -> None:
    (tmp_path / "pygls.py").write_text("raise ImportError('no pygls')\n", "utf-8")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from cfglint.cli.main import main; sys.exit(main(['lsp']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "pip install 'cfglint-llm[lsp]'" in done.stderr


def apply(text: str, edits: list[dict[str, Any]]) -> str:
    """The text with an action's edits done, by UTF-16 columns, as an editor does it."""
    lines = text.splitlines(keepends=True)
    for edit in sorted(edits, key=lambda e: json.dumps(e["range"]["start"], sort_keys=True), reverse=True):
        start, end = edit["range"]["start"], edit["range"]["end"]
        offset = [
            sum(map(len, lines[: at["line"]]))
            + len(
                "".join(lines[at["line"] : at["line"] + 1])
                .encode("utf-16-le")[: 2 * at["character"]]
                .decode("utf-16-le")
            )
            for at in (start, end)
        ]
        text = text[: offset[0]] + edit["newText"] + text[offset[1] :]
        lines = text.splitlines(keepends=True)
    return text
