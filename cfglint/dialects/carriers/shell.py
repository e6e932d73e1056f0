"""Shell scripts and Dockerfiles as carriers: their commands become launches, SLURM headers become hardware."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from cfglint.dialects.base import Launch
from cfglint.dialects.carriers.command import (
    CONTAINER_PROGRAMS,
    STARTERS,
    ContainerRun,
    basename,
    container_run,
    expanded,
    put_in_container,
    shell_in,
    unwrap,
)
from cfglint.jobs.facts import LARGEST, FileOrigin
from cfglint.jobs.versions import parse_requirements
from cfglint.source.node import Document, Span
from cfglint.source.shell import Command, Word, commands_of
from cfglint.source.whole_number import whole_number


def origin_of(document: Document, word: Word, *route: str) -> FileOrigin:
    return FileOrigin(document, route or (word.text,), word.span, word.span)


def launches(document: Document) -> Iterator[Launch]:
    """Every command of a script, with its environment and what ``#SBATCH`` lines and ``CUDA_VISIBLE_DEVICES`` say."""
    script = document.script
    if script is None:
        return
    slurm = SlurmHeader(document, script.directives)
    moved = own_folder(document)
    carrier = "dockerfile" if document.file.format == "dockerfile" else ("slurm" if script.directives else "shell")
    if carrier == "shell":
        yield from _argument_lists(document)
    releases = installed(script.commands) if carrier != "dockerfile" else _built_in(document.file.text)
    containers = _shells_in_containers(script.commands) if carrier != "dockerfile" else []
    for command in (*script.commands, *((script.image_command,) if script.image_command else ())):
        if not command.words and command.image is None:
            continue
        environment = {**command.environment, **command.assignments}
        gpus = slurm.gpus
        visible = visible_devices(environment)
        if visible is not None:
            gpus = (visible[0], origin_of(document, visible[2], visible[1]))
        versions = {name: release for name, (release, place) in releases.items() if place < command.span.start}
        for launch in expanded(
            Launch(
                words=list(command.words),
                document=document,
                carrier=carrier,
                environment=environment,
                image=command.image,
                command=command,
                gpu=slurm.gpu,
                gpus=gpus,
                nodes=slurm.nodes,
                host_memory=slurm.memory,
                context={
                    **({"slurm": slurm} if script.directives else {}),
                    **({FOLDER: moved[0]} if moved is not None and command.span.start > moved[1] else {}),
                    **({"versions": versions} if versions else {}),
                },
            )
        ):
            if "docker" not in launch.context and containers and launch.words:
                place = launch.words[0].span.start
                for script_word, run in containers:
                    if script_word.start <= place < script_word.end:
                        put_in_container(launch, run)
            if "docker" in launch.context:
                launch.context.pop("versions", None)  # the image has its own
            yield launch


def _shells_in_containers(commands: Sequence[Command]) -> list[tuple[Span, ContainerRun]]:
    """The scripts that ``docker run … bash -c "…"`` hands to a shell: where each stands, and its container."""
    found = []
    for command in commands:
        if not any(basename(word.text) in CONTAINER_PROGRAMS for word in command.words):
            continue
        run = container_run(unwrap(list(command.words)))
        word = shell_in(run) if run is not None else None
        if run is not None and word is not None and not _INSTALLS_ENGINE.search(word.text):
            found.append((word.span, run))
    return found


_INSTALLS_ENGINE = re.compile(r"\bpip3?\s+install\b[^;&|\n]*(?:vllm|sglang|lmdeploy|git\+|\s-e\b|\s\.(?:\s|$|/))")
"""The image's release is not what runs then."""


def installed(commands: Sequence[Command]) -> dict[str, tuple[str, int]]:
    """Frameworks that a script installs with pip or uv at a stated release: the specifier, and where it stands."""
    return _releases(([w.text if w.known else "" for w in command.words], command.span.start) for command in commands)


_RUN = re.compile(r"^[ \t]*RUN[ \t]+((?:[^\\\n]|\\.|\\\r?\n)*)", re.MULTILINE | re.IGNORECASE)


def _built_in(text: str) -> dict[str, tuple[str, int]]:
    """The same of a Dockerfile's ``RUN`` lines."""
    found = []
    for line in _RUN.finditer(text) if "install" in text else ():
        for command in re.split(r"&&|;|\|\||(?<=[^\\])\n", line[1]):
            words = [w.strip("\"'") for w in command.replace("\\\n", " ").split()]
            found.append(([w for w in words if "$" not in w], line.start()))
    return _releases(found)


def _releases(commands: Iterable[tuple[list[str], int]]) -> dict[str, tuple[str, int]]:
    """One that is installed at several releases is left out: which of them a command finds is not known."""
    found: dict[str, tuple[str, int]] = {}
    several: set[str] = set()
    for words, place in commands:
        programs = {basename(text) for text in words[:4]}
        if "install" not in words[1:5] or not programs & {"pip", "pip3", "uv"}:
            continue
        for word in words:
            for name, specifier in parse_requirements(word).items():
                if "," not in specifier and "*" not in specifier:
                    specifier = specifier.removeprefix("==").strip()
                if found.setdefault(name, (specifier, place))[0] != specifier:
                    several.add(name)
    return {name: stated for name, stated in found.items() if name not in several}


FOLDER = "folder"
"""Key in a launch's context: where a script went, as a path from its own folder, before it ran the command."""

_OWN = r"\$\(\s*(?:cd\s+(?:--\s+)?\"?\$\()?\s*dirname\s+(?:--\s+)?\"?\$(?:0|\{?BASH_SOURCE(?:\[0\])?\}?)\"?\s*\)"
_TO_OWN = re.compile(rf"^[ \t]*cd[ \t]+(?:--[ \t]+)?\"?{_OWN}((?:/\.\.)*)/?\"?(?=[ \t]*(?:$|;|&&|\|\|))", re.MULTILINE)
_NAMED_OWN = re.compile(
    rf"^[ \t]*(?:export[ \t]+|readonly[ \t]+)?(\w+)=\"?{_OWN}((?:/\.\.)*)/?\"?"
    r"(?:[ \t]*(?:&?>[ \t]*/dev/null[ \t]*)*(?:2>&1[ \t]*)?&&[ \t]*pwd(?:[ \t]+-P)?[ \t]*\)\"?)?[ \t]*$",
    re.MULTILINE,
)
_ANY_CD = re.compile(r"^[ \t]*(?:cd|pushd|popd)\b|[;&|(][ \t]*(?:cd|pushd)\b", re.MULTILINE)


def own_folder(document: Document) -> tuple[str, int] | None:
    """``cd "$(dirname "$0")/.."`` as (``..``, where it stands), for a script that goes nowhere else; None for every other."""
    text = document.file.text
    if "dirname" not in text or document.file.format != "shell":
        return None
    found = _TO_OWN.search(text)
    if found is not None:
        place, suffix = found.start(), found.group(1)
    else:
        named = _NAMED_OWN.search(text)
        if named is None:
            return None
        used = re.compile(
            rf"^[ \t]*cd[ \t]+\"?\$\{{?{named.group(1)}\}}?((?:/\.\.)*)/?\"?[ \t]*$", re.MULTILINE
        ).search(text)
        if used is None:
            return None
        place, suffix = used.start(), named.group(2) + used.group(1)
    # ``$(cd … && pwd)`` goes nowhere: it runs in a shell of its own
    goes = list(_ANY_CD.finditer(re.sub(r"\$\(\s*cd\b", "$(__", text)))
    if len(goes) != 1:
        return None
    return (suffix.strip("/") or "."), place


VISIBLE_DEVICES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES")
_DEVICES = re.compile(r"(?:\d+|GPU-[0-9a-fA-F-]+)(?:\s*,\s*(?:\d+|GPU-[0-9a-fA-F-]+))*,?")


def visible_devices(environment: Mapping[str, Word], *also: str) -> tuple[int, str, Word] | None:
    """How many devices a program sees, by which variable: their numbers or UUIDs; None where no variable says."""
    for variable in (*VISIBLE_DEVICES, *also):
        word = environment.get(variable)
        if word is not None and word.known and _DEVICES.fullmatch(word.text.strip()):
            return len([device for device in word.text.split(",") if device.strip()]), variable, word
    return None


ARGUMENT_LIST = "argument-list"
"""The program of a launch that stands for a list of arguments which other scripts source."""

_LIST = re.compile(r"^[ \t]*(?:export[ \t]+)?(\w*(?:ARGS|OPTS|OPTIONS|ARGUMENTS)\w*)=[(\"']", re.MULTILINE)
LISTS_READ = 8
"""Lists that are read in one script."""


def _argument_lists(document: Document) -> Iterator[Launch]:
    """Lists of a script that starts no program itself: ``MODEL_ARGS=(--num-layers 32 …)``, for others to source."""
    script, text = document.script, document.file.text
    if script is None or "--" not in text or len(text) > 2**16 or any(_starts(c.words) for c in script.commands):
        return
    names = list(dict.fromkeys(_LIST.findall(text)))[:LISTS_READ]
    if not names:
        return
    use = "".join(f"\n{ARGUMENT_LIST} ${{{name}[@]}}" for name in names)
    offsets = [*range(len(text)), *([max(0, len(text) - 1)] * len(use))]
    for command in commands_of(document.file, text + use, offsets)[-len(names) :]:
        if command.words and command.words[0].text == ARGUMENT_LIST and len(command.words) > 1:
            yield Launch(words=list(command.words), document=document, carrier="shell", command=command)


def _starts(words: list[Word]) -> bool:
    return any(basename(word.text) in STARTERS for word in words)


class SlurmHeader:
    """What ``#SBATCH`` lines say: GPU type and count per node, nodes, host memory per node."""

    def __init__(self, document: Document, directives: list[Word]) -> None:
        self.gpu: tuple[str, FileOrigin] | None = None
        self.gpus: tuple[int, FileOrigin] | None = None
        self.nodes: tuple[int, FileOrigin] | None = None
        self.memory: tuple[int, FileOrigin] | None = None
        self.tasks_per_node: int | None = None
        options = list(_slurm_options(directives))
        total: tuple[int, FileOrigin] | None = None
        per_task: tuple[int, FileOrigin] | None = None
        per_cpu: tuple[int, FileOrigin] | None = None
        cpus: int | None = None
        for name, value, word in options:
            origin = FileOrigin(document, (f"SBATCH --{name}",), word.span, word.span)
            if name in ("gres", "gpus-per-node", "gpus-per-task", "gpus", "G"):
                kind, count = _gres(value, bare=name != "gres")
                if kind and self.gpu is None:
                    self.gpu = (kind, origin)
                if count is not None:
                    if name in ("gpus", "G"):
                        total = (count, origin)
                    elif name == "gpus-per-task":
                        per_task = (count, origin)
                    else:
                        self.gpus = (count, origin)
            elif name in ("constraint", "C") and self.gpu is None and _is_accelerator(value):
                self.gpu = (value, origin)
            elif name in ("nodes", "N"):
                nodes = whole_number(value)
                self.nodes = self.nodes if nodes is None else (nodes, origin)
            elif name == "ntasks-per-node":
                self.tasks_per_node = whole_number(value) or self.tasks_per_node
            elif name == "mem":
                size = memory_bytes(value, default_unit="M")
                if size:
                    self.memory = (size, origin)
            elif name == "mem-per-cpu":
                size = memory_bytes(value, default_unit="M")
                per_cpu = (size, origin) if size else None
            elif name in ("cpus-per-task", "c"):
                cpus = whole_number(value) or cpus
        if per_cpu is not None and self.memory is None and cpus and self.tasks_per_node:
            self.memory = (per_cpu[0] * cpus * self.tasks_per_node, per_cpu[1])
        if per_task is not None and self.gpus is None and self.tasks_per_node:
            self.gpus = (per_task[0] * self.tasks_per_node, per_task[1])
        if total is not None and self.gpus is None:
            nodes = self.nodes[0] if self.nodes else 1
            if nodes and total[0] % nodes == 0:
                self.gpus = (total[0] // nodes, total[1])


def _is_accelerator(feature: str) -> bool:
    """Whether a node feature is an accelerator's name, as most clusters call theirs; ``a100|h100`` leaves it open."""
    from cfglint.catalog.accelerators import find_accelerators

    return bool(re.fullmatch(r"[\w-]+", feature)) and bool(find_accelerators(feature))


def _slurm_options(directives: list[Word]) -> Iterator[tuple[str, str, Word]]:
    i = 0
    while i < len(directives):
        word = directives[i]
        i += 1
        if not word.text.startswith("-"):
            continue
        name, equals, value = word.text.lstrip("-").partition("=")
        if not equals and word.text.startswith("-") and not word.text.startswith("--") and len(name) > 1:
            name, value, equals = name[0], name[1:], "="
        if not equals and i < len(directives) and not directives[i].text.startswith("-"):
            value = directives[i].text
            i += 1
        yield name, value, word


def _gres(value: str, bare: bool) -> tuple[str | None, int | None]:
    """``gpu:a100:8`` → (a100, 8); ``gpu:8`` → (None, 8); with ``bare``: ``8`` or ``a100:8``."""
    for part in value.split(","):
        pieces = part.split("(")[0].split(":")
        if not bare:
            if pieces[0] != "gpu":
                continue
            pieces = pieces[1:]
        count = whole_number(pieces[-1]) if pieces else None
        if count is not None:
            return (pieces[0] if len(pieces) > 1 else None), count
        if not bare and not pieces:
            return None, 1
        if pieces and pieces[0]:
            return pieces[0], 1 if not bare else None
    return None, None


_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([KMGTP]?)(i?)[bB]?\s*$", re.IGNORECASE)


def memory_bytes(text: str, default_unit: str = "", binary: bool = True) -> int | None:
    """``200G``, ``512Mi``, ``64000`` (in ``default_unit``) as bytes. Kubernetes ``G`` is 10^9: pass ``binary=False``."""
    match = _SIZE.match(text)
    if not match:
        return None
    unit = (match.group(2) or default_unit).upper()
    base = 1024 if binary or match.group(3) else 1000
    power = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}[unit]
    size = float(match.group(1)) * base**power
    return int(size) if size < LARGEST else None
