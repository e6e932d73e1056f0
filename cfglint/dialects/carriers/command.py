"""Finding the program that matters in a command: past ``sudo``, ``srun``, ``env``, ``docker run`` and friends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from cfglint.dialects.base import Launch
from cfglint.jobs.facts import FileOrigin
from cfglint.source.shell import Word
from cfglint.source.whole_number import whole_number

WRAPPERS = frozenset(
    [
        "sudo",
        "env",
        "time",
        "nohup",
        "exec",
        "eval",
        "stdbuf",
        "numactl",
        "nsys",
        "ncu",
        "srun",
        "mpirun",
        "mpiexec",
        "timeout",
        "nice",
        "ionice",
        "chroot",
        "gosu",
        "tini",
        "dumb-init",
        "unbuffer",
        "script",
        "singularity",
        "apptainer",
        "conda",
        "mamba",
        "uv",
        "uvx",
        "pipx",
        "poetry",
        "xargs",
        "setsid",
        "flock",
        "screen",
        "tmux",
        "taskset",
        "ssh",
        "coverage",
        "then",
        "do",
        "else",
        "if",
        "while",
        "command",
        "&&",
        "||",
    ]
)
STARTERS = frozenset(
    [
        "torchrun",
        "accelerate",
        "deepspeed",
        "python",
        "python3",
        "vllm",
        "llamafactory-cli",
        "axolotl",
        "trl",
        "swift",
        "sglang",
        "tune",
        "litgpt",
        "composer",
        "colossalai",
        "ft_launcher",
        "automodel",
        "text-generation-launcher",
        "lmdeploy",
        "llama-server",
        "trtllm-serve",
        "docker",
        "podman",
        "nerdctl",
        "torchx",
    ]
)
SHELLS = frozenset({"bash", "sh", "zsh"})
CONTAINER_PROGRAMS = frozenset({"docker", "podman", "nerdctl"})
DOCKER_BOOLEANS = frozenset(
    [
        "d",
        "detach",
        "i",
        "interactive",
        "t",
        "tty",
        "rm",
        "init",
        "privileged",
        "read-only",
        "no-healthcheck",
        "oom-kill-disable",
        "P",
        "publish-all",
        "it",
        "ti",
        "dit",
        "itd",
        "idt",
        "tid",
        "sig-proxy",
        "disable-content-trust",
        "q",
        "quiet",
    ]
)


def basename(text: str) -> str:
    return text.rsplit("/", 1)[-1]


def unwrap(words: list[Word]) -> list[Word]:
    """The words from the program that matters on. Words of a wrapper that leads nowhere known come back unchanged."""
    if not words:
        return words
    submitted = _submitted_to_ray(words) or submission(words)
    if submitted:
        return unwrap(submitted)
    if basename(words[0].text) in SHELLS and len(words) > 1 and not words[1].text.startswith(("-", "+")):
        return unwrap(words[1:])
    run = _run_in_environment(words) or _run_in_running(words)
    if run:
        return unwrap(run)
    if not _wraps(words[0]):
        return words
    script = basename(words[0].text).endswith(".sh")
    terminal = basename(words[0].text) in TERMINALS
    for i, word in enumerate(words):
        name = basename(word.text)
        if terminal and (TAKES_A_NAME.fullmatch(words[i - 1].text) or " " in word.text):
            continue
        if word.text.startswith("-") or (i > 1 and script and _values_of_options(words[i - 1], name)):
            continue
        known = name in STARTERS or name in programs_of_dialects() or name.startswith(("python3.", "torchrun"))
        if known or (i and name.endswith(".py")):
            return words[i:]
    return words


TERMINALS: Final = frozenset({"screen", "tmux"})
TAKES_A_NAME: Final = re.compile(r"-[a-zA-Z]*[stncSLfT]")
"""Options of ``screen`` and ``tmux`` whose word is a name, a folder or a file: ``-s vllm`` is a session, not a program."""


def _values_of_options(before: Word, name: str) -> bool:
    """``run.sh --backend deepspeed``: a script's option and its value, not a program it is to start."""
    return before.text.startswith("--") and "=" not in before.text and not name.startswith(("python", "torchrun"))


@lru_cache(maxsize=1)
def programs_of_dialects() -> frozenset[str]:
    """The commands that dialects say are their tools' own."""
    from cfglint.dialects.recognise import dialects

    return frozenset(name for dialect in dialects() for name in dialect.programs)


RUNNERS = frozenset({"uv", "poetry", "pipenv", "pdm", "hatch", "rye", "pixi", "conda", "mamba", "micromamba"})
"""Tools whose ``run`` starts a command in a project's environment."""
RUNNERS_TAKE = frozenset({
    "--with", "--extra", "--group", "--env-file", "--directory", "--project", "--package", "--python", "-p",
    "--with-requirements", "--index", "--config-file", "--only-group", "--no-group", "-e", "--environment",
    "-n", "--name", "--prefix", "--cwd",
})  # fmt: skip
"""Options of ``uv run``, ``pixi run`` and ``conda run`` that take a word; the others take none."""


def _run_in_environment(words: list[Word]) -> list[Word]:
    """What ``uv run [options] COMMAND`` starts; empty for every other command, and where an option is not known to take a word."""
    if len(words) < 3 or basename(words[0].text) not in RUNNERS or words[1].text != "run":
        return []
    i = 2
    while i < len(words) and words[i].text.startswith("-"):
        if words[i].text in ("--", "-m", "--module"):
            break
        i += 2 if words[i].text in RUNNERS_TAKE else 1
    if i < len(words) and words[i].text == "--":
        i += 1
    if i >= len(words) or words[i].text.startswith("-"):
        return []
    return words[i:]


EXEC_TAKES: Final = frozenset(
    {"-e", "--env", "--env-file", "-u", "--user", "-w", "--workdir", "--detach-keys", "--index"}
)
"""Options of ``docker exec`` and ``docker compose exec`` that take a word; the others take none."""

COMPOSE_TAKES: Final = frozenset(
    {"-f", "--file", "-p", "--project-name", "--profile", "--env-file", "--project-directory"}
)
"""Options of ``docker compose`` itself that take a word."""


def _run_in_running(words: list[Word]) -> list[Word]:
    """What ``docker exec [options] CONTAINER COMMAND`` starts; empty for every other command.

    ``docker compose exec`` names a service in the container's place.
    """
    i = 1
    if basename(words[0].text) not in CONTAINER_PROGRAMS:
        return []
    if len(words) > 1 and words[1].text in ("compose", "container"):
        i = 2
        while i < len(words) and words[i].text.startswith("-"):
            i += 2 if words[i].text in COMPOSE_TAKES else 1
    if i >= len(words) or words[i].text != "exec":
        return []
    i += 1
    while i < len(words) and words[i].text.startswith("-"):
        i += 2 if words[i].text in EXEC_TAKES else 1
    return words[i + 1 :]


def _wraps(word: Word) -> bool:
    """A wrapper, a variable set before the program, an unknown prefix (``$PROFILER python …``), or a script that binds CPUs."""
    name = basename(word.text)
    return name in WRAPPERS or "=" in word.text.split("/", 1)[0] or not word.known or name.endswith(".sh")


def _submitted_to_ray(words: list[Word]) -> list[Word]:
    """The entry point of ``ray job submit [options] -- COMMAND``; empty for every other command."""
    if [basename(words[0].text), *(w.text for w in words[1:3])] != ["ray", "job", "submit"]:
        return []
    for i, word in enumerate(words):
        if word.text == "--":
            return words[i + 1 :]
    for i, word in enumerate(words[3:], 3):
        if basename(word.text) in STARTERS:
            return words[i:]
    return []


def submission(words: list[Word]) -> list[Word]:
    """The command that another program is asked to run behind a lone ``--``: ``mason.py [options] -- COMMAND``.

    Empty where a launcher itself comes first: its ``--`` is its own.
    """
    first = basename(words[0].text)
    if first in STARTERS and not first.startswith("python"):
        return []
    for i, word in enumerate(words[:-1]):
        if word.text == "--":
            handed = words[i + 1 :]
            joints = [j for j, later in enumerate(handed) if later.text == "&&"]  # `-- source env.sh \&\& torchrun …`
            if joints:
                handed = handed[joints[-1] + 1 :]
            name = basename(handed[0].text) if handed else ""
            if name in STARTERS or name in WRAPPERS or name.startswith(("python3.", "torchrun")):
                return handed
    return []


SUBMITTERS: Final = {"mason.py": ("gpus", "num_nodes"), "gantry": ("gpus", "replicas")}
"""Submitters to Beaker, with their options for GPUs per node and for nodes (mason.py of open-instruct, gantry's ``run``)."""


PER_NODE: Final = "processes-per-node"
"""In a launch's context: ``--num_processes`` counts those of one node; the submitter multiplies it (mason.py)."""


def _state_submission(launch: Launch) -> None:
    """What a submitter's own options say of the hardware."""
    words = launch.words
    inner = submission(words) if words else []
    own = words[: len(words) - len(inner)] if inner else []
    options = next((SUBMITTERS[name] for word in own if (name := basename(word.text)) in SUBMITTERS), None)
    if options is None:
        return
    given: dict[str, Word] = {}
    for i, word in enumerate(own[:-1]):
        name, equals, value = word.text.lstrip("-").partition("=")
        given[name] = Word(value, word.raw, word.span, word.known) if equals else own[i + 1]
    launch.context = {**launch.context, PER_NODE: True}
    gpus, nodes = (given.get(option) for option in options)
    if gpus is not None and gpus.known and (count := whole_number(gpus.text)):
        launch.gpus = (count, gpus)
    if nodes is not None and nodes.known and (count := whole_number(nodes.text)):
        launch.nodes = (count, nodes)


@dataclass(frozen=True)
class Program:
    """What is run: a program's base name, a Python module (``module`` True) or a script, with its arguments."""

    name: str
    word: Word
    arguments: list[Word]
    module: bool = False
    script: bool = False


def program(words: list[Word]) -> Program | None:
    """Look through ``python [-u] [-m module|script.py]``; any other first word is the program itself.

    A first word that is not known is an interpreter where a module or script follows it (``$PYTHON -m …``), else a script.
    """
    if not words:
        return None
    name = basename(words[0].text)
    hidden = not words[0].known and len(words) > 1
    interpreter = hidden and (words[1].text == "-m" or words[1].text.endswith(".py"))
    if name in ("python", "python3") or name.startswith("python3.") or name == "python2" or interpreter:
        i = 1
        while i < len(words) and words[i].text.startswith("-") and words[i].text not in ("-m", "-c"):
            i += 2 if words[i].text in ("-W", "-X") else 1
        if i >= len(words) or words[i].text == "-c":
            return None
        if words[i].text == "-m":
            return Program(words[i + 1].text, words[i + 1], words[i + 2 :], module=True) if i + 1 < len(words) else None
        return Program(words[i].text, words[i], words[i + 1 :], script=True)
    return Program(
        name, words[0], words[1:], script=name.endswith(".py") or (hidden and words[1].text.startswith("--"))
    )


@dataclass
class ContainerRun:
    """``docker run``: image, the words after it, and the options before it (name → words of its values)."""

    image: Word
    arguments: list[Word]
    options: dict[str, list[Word]]


def container_run(words: list[Word]) -> ContainerRun | None:
    """Read ``docker run [options] IMAGE [words]``."""
    if len(words) < 3 or basename(words[0].text) not in CONTAINER_PROGRAMS:
        return None
    i = 1
    while i < len(words) and words[i].text not in ("run", "create"):
        if words[i].text in ("container",) or words[i].text.startswith("-"):
            i += 1
            continue
        return None
    i += 1
    options: dict[str, list[Word]] = {}
    while i < len(words) and words[i].text.startswith("-"):
        text, equals, inline = words[i].text.partition("=")
        name = text.lstrip("-")
        if equals:
            options.setdefault(name, []).append(
                Word(inline, words[i].raw.partition("=")[2], words[i].span, words[i].known, words[i].quoted)
            )
            i += 1
        elif name in DOCKER_BOOLEANS:
            options.setdefault(name, []).append(words[i])
            i += 1
        elif i + 1 < len(words):
            options.setdefault(name, []).append(words[i + 1])
            i += 2
        else:
            return None
    if i >= len(words):
        return None
    return ContainerRun(words[i], words[i + 1 :], options)


def image_version(image: str) -> str | None:
    """The version a tag states: ``vllm/vllm-openai:v0.11.0-cu128`` → ``0.11.0``; None for ``latest`` and digests."""
    tag = image.split("@", 1)[0].rpartition("/")[2].partition(":")[2]
    text = tag[1:] if tag[:1] == "v" and tag[1:2].isdigit() else tag
    number = text.split("-", 1)[0].split("_", 1)[0].split("+", 1)[0]
    parts = number.split(".")
    if len(parts) >= 2 and parts[0].isdigit() and parts[1][:1].isdigit():
        return number
    return None


def expanded(launch: Launch) -> Iterator[Launch]:
    """The launch itself, or for ``docker run`` what runs inside the container, with image and options noted."""
    _state_submission(launch)
    words = unwrap(launch.words)
    run = container_run(words)
    if run is None:
        launch.words = words
        yield launch
        return
    environment = {**launch.environment, **_container_environment(run)}
    entrypoint = run.options.get("entrypoint", [None])[-1]
    inner = [entrypoint] if isinstance(entrypoint, Word) else []
    context = {**launch.context, "docker": run}
    yield Launch(
        words=unwrap([*inner, *run.arguments]) if inner else list(run.arguments),
        document=launch.document,
        carrier=launch.carrier,
        environment=environment,
        image=run.image,
        command=launch.command,
        name=launch.name,
        context=context,
        gpu=launch.gpu,
        gpus=_docker_gpus(run) or launch.gpus,
        nodes=launch.nodes,
        host_memory=_docker_memory(launch, run) or launch.host_memory,
    )


def shell_in(run: ContainerRun) -> Word | None:
    """The script that a shell runs in the container: ``IMAGE bash -c "…"``, ``--entrypoint bash IMAGE -c "…"``."""
    entry = run.options.get("entrypoint", [])[-1:]
    words = [*entry, *run.arguments]
    if len(words) < 3 or basename(words[0].text) not in SHELLS:
        return None
    options = [w.text for w in words[1:-1]]
    whole = all(o.startswith("-") for o in options) and re.fullmatch(r"-[a-z]*c", options[-1])
    return words[-1] if whole else None


def put_in_container(launch: Launch, run: ContainerRun) -> None:
    """A command of a script that ``docker run`` hands to a shell has that container's image, environment and devices.

    Only for programs that are known by name: others would pass for arguments of the image's own server.
    """
    name = launch.words[0].text if launch.words else ""
    if name not in STARTERS and name not in programs_of_dialects():
        return
    launch.image = run.image
    launch.environment = {**_container_environment(run), **launch.environment}
    launch.context = {**launch.context, "docker": run}
    launch.gpus = _docker_gpus(run) or launch.gpus
    launch.host_memory = _docker_memory(launch, run) or launch.host_memory


def _container_environment(run: ContainerRun) -> dict[str, Word]:
    environment: dict[str, Word] = {}
    for option in [*run.options.get("e", ()), *run.options.get("env", ())]:
        name, equals, _ = option.text.partition("=")
        if equals:
            environment[name] = Word(option.text[len(name) + 1 :], option.raw, option.span, option.known, option.quoted)
    return environment


def _docker_memory(launch: Launch, run: ContainerRun) -> tuple[int, FileOrigin] | None:
    """``-m 32g`` or ``--memory=32g``, in powers of 1024."""
    from cfglint.dialects.carriers.shell import memory_bytes

    for name in ("memory", "m"):
        for word in run.options.get(name, ()):
            size = memory_bytes(word.text) if word.known else None
            if size:
                return size, FileOrigin(launch.document, (name,), word.span, word.span)
    return None


def _docker_gpus(run: ContainerRun) -> tuple[int, Word] | None:
    """``--gpus 2`` or ``--gpus '"device=0,1"'``; ``all`` says nothing of the count."""
    for word in run.options.get("gpus", ()):
        text = word.text.strip("\"'")
        count = whole_number(text)
        if count is not None:
            return count, word
        if text.startswith("device="):
            return len([d for d in text[len("device=") :].split(",") if d]), word
    return None
