"""Dockerfiles: instructions, stages, and the command an image starts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cfglint.source.dockerfile import parse_dockerfile
from cfglint.source.shell import Script


def script(text: str) -> Script:
    found = parse_dockerfile("Dockerfile", text).script
    assert found is not None
    return found


def commands(text: str) -> list[list[str]]:
    return [[w.text for w in c.words] for c in script(text).commands]


def test_instructions_with_continuations_comments_and_values() -> None:
    text = (
        "# syntax=docker/dockerfile:1\nARG TAG=v0.6.0\nFROM vllm/vllm-openai:${TAG} AS base\n"
        'ENV A=1 B="two words" \\\n    # inside\n    C=$A-x\nENV OLD value here\nARG TAG\n'
        "RUN pip install x && \\\n    echo y\nLABEL v=${OLD}/$TAG\n"
    )
    found = script(text).instructions
    assert [(i.name, [w.text for w in i.words]) for i in found] == [
        ("ARG", ["TAG=v0.6.0"]),
        ("FROM", ["vllm/vllm-openai:v0.6.0", "AS", "base"]),
        ("ENV", ["A=1", "B=two words", "C=$A-x"]),
        ("ENV", ["OLD", "value here"]),
        ("ARG", ["TAG"]),
        ("RUN", ["pip", "install", "x", "echo", "y"]),
        ("LABEL", ["v=value here/v0.6.0"]),
    ]
    assert text[found[2].span.start : found[2].span.end].endswith("C=$A-x")
    assert [c.text for c in parse_dockerfile("Dockerfile", text).comments] == ["syntax=docker/dockerfile:1", "inside"]
    assert script(text).commands == []


def test_entrypoint_and_cmd_are_one_command_with_places() -> None:
    text = 'FROM x\nENV HF_HOME=/m\nENTRYPOINT ["vllm", "serve"]\nCMD ["--model", "a\\tb", \\\n  "--tp", "2"]\n'
    (command,) = script(text).commands
    assert [w.text for w in command.words] == ["vllm", "serve", "--model", "a\tb", "--tp", "2"]
    assert [text[w.span.start : w.span.end] for w in command.words][3:5] == ['"a\\tb"', '"--tp"']
    assert {k: w.text for k, w in command.environment.items()} == {"HF_HOME": "/m"}


def test_shell_form_and_shells() -> None:
    assert commands("FROM x\nENV M=m\nCMD cd a && vllm serve $M --tp 2\n") == [
        ["cd", "a"],
        ["vllm", "serve", "m", "--tp", "2"],
    ]
    assert commands('FROM x\nENTRYPOINT ["bash", "-c", "vllm serve \\"m\\""]\n')[1] == ["vllm", "serve", "m"]
    assert commands('FROM x\nENTRYPOINT vllm serve m\nCMD ["--ignored"]\n') == [["vllm", "serve", "m"]]


def test_stages_inherit_by_name_and_otherwise_begin_empty() -> None:
    text = (
        "FROM x AS base\nENV A=1\nENTRYPOINT [\"run\"]\nCMD [\"base\"]\n"
        "FROM base\nCMD [\"child\"]\n"
        "FROM base\nENTRYPOINT [\"other\"]\n"
        "FROM y\nCMD run $A\n"
    )  # fmt: skip
    assert commands(text) == [["run", "base"], ["run", "child"], ["other"], ["run", "$A"]]
    assert [sorted(c.environment) for c in script(text).commands] == [["A"], ["A"], ["A"], []]


def test_run_heredocs_are_not_instructions() -> None:
    assert commands("FROM x\nRUN <<EOF\nCMD nothing\nEOF\nCMD run\n") == [["run"]]


DOCKER_TOKENS = ["FROM x\n", "FROM x AS y\n", "RUN ", "CMD ", "ENTRYPOINT ", '["a",', '"b"]', "[", "ENV ", "ARG ", "A=", "$A", "\\\n", "\n",
                 "# escape=`\n", "`\n", '"', "'", "$(", "<<E\n", "E\n", "ONBUILD ", '["bash","-c","', " ", "a", "\r\n", "#"]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(DOCKER_TOKENS), max_size=30).map("".join) | st.text(max_size=40))
def test_any_text_is_read_and_every_place_holds_its_raw_text(text: str) -> None:
    found = script(text)
    for words in [i.words for i in found.instructions] + [c.words for c in found.commands]:
        for word in words:
            assert text[word.span.start : word.span.end] == word.raw


def test_the_image_a_stage_builds_on_goes_with_its_command() -> None:
    found = script(
        "ARG TAG=v1\nFROM org/server:${TAG} AS base\nENV A=1\nFROM base\nENV B=2\nCMD ['--x']\n".replace("'", '"')
    )
    (command,) = found.commands
    assert command.image is not None
    assert (command.image.text, [w.text for w in command.words]) == ("org/server:v1", ["--x"])
    assert {name: word.text for name, word in command.environment.items()} == {"A": "1", "B": "2"}
    assert found.image_command is None


def test_a_stage_without_a_command_runs_its_image_in_its_environment() -> None:
    found = script("FROM org/build AS build\nCMD make\nFROM org/server:2.0\nENV MODEL_ID=org/m\n").image_command
    assert found is not None
    assert found.image is not None
    assert (found.words, found.image.text, found.environment["MODEL_ID"].text) == ([], "org/server:2.0", "org/m")
    assert script('FROM org/server\nENTRYPOINT ["/start.sh"]\n').image_command is None
