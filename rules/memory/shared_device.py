"""MEM103."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from cfglint.dialects.base import Launch
from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Where
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Scalar, Sequence, at, value_at
from cfglint.source.whole_number import whole_number

from ..serving.server import docker_run, launch_of, runs_vllm, since

DEFAULT_UTILIZATION = 0.9
"""Up to 0.18.1."""
LATER_DEFAULT = 0.92
"""From 0.25.1 on (vllm/config/cache.py)."""
BRANCHES = re.compile(
    r"^\s*((case|if|elif|else|select|while|until|for|function)\b(?!:)|[\w-]+\s*\(\)\s*\{)", re.MULTILINE
)
"""A shell script with branches or functions may start one server or the other."""
ENDED = re.compile(r"\b(wait|kill|pkill|killall)\b")
"""Between two commands: the first may have ended before the second starts."""
Devices = frozenset[str]
ALL: Devices = frozenset({"all"})


class SharedDevice(Rule):
    """Servers that start together on the same GPUs ask for more than the whole of it.

    ``gpu_memory_utilization`` is a share of the whole device, not of what is free. The second server ends with "Free memory
    on device … on startup is less than desired GPU memory utilization (0.95, …)".

    How sure: only servers that the same file starts side by side, in compose services, detached ``docker run`` lines or
    commands in the background (``&``), whose devices are stated and overlap. Services of a compose profile are alternatives
    and left out, and so are scripts with branches or functions.
    """

    code = "MEM103"
    name = "shared-device"
    family = "memory"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/issues/50135",
        "https://github.com/vllm-project/vllm/issues/20305",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/worker/utils.py",
    )
    catalogue = ("mem-util-colocated-sum", "compose-count-all-shared")
    good = (
        example(
            "serve.sh",
            """
            docker run -d --gpus all --ipc=host vllm/vllm-openai:v0.18.1 our/chat --gpu-memory-utilization 0.5
            docker run -d --gpus all --ipc=host vllm/vllm-openai:v0.18.1 our/embed --gpu-memory-utilization 0.3
            """,
        ),
        example(
            "serve.sh",
            """
            docker run -d --gpus '"device=0"' --ipc=host vllm/vllm-openai:v0.18.1 our/chat
            docker run -d --gpus '"device=1"' --ipc=host vllm/vllm-openai:v0.18.1 our/embed
            """,
        ),
    )
    bad = (
        example(
            "serve.sh",
            """
            docker run -d --gpus all --ipc=host vllm/vllm-openai:v0.18.1 our/chat --gpu-memory-utilization 0.3
            docker run -d --gpus all --ipc=host vllm/vllm-openai:v0.18.1 our/embed --gpu-memory-utilization 0.95
            """,
            at="gpu_memory_utilization",
            count=1,
        ),
        example(
            "docker-compose.yml",
            """
            services:
              chat:
                image: vllm/vllm-openai:v0.18.1
                command: --model our/chat
                deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all, capabilities: [gpu]}]}}}
              embed:
                image: vllm/vllm-openai:v0.18.1
                command: --model our/embed
                deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all, capabilities: [gpu]}]}}}
            """,
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        mine = _devices(job)
        if mine is None or job.primary is None or not runs_vllm(job) or BRANCHES.search(job.primary.document.file.text):
            return
        mine_launch = launch_of(job)
        own = mine_launch.container if mine_launch is not None else None
        others = [
            other
            for other in context.jobs.serving
            if other.primary is not None
            and other.primary.document is job.primary.document
            and runs_vllm(other)
            and (theirs := _devices(other)) is not None
            and _overlap(mine, theirs)
            and (other is job or own is None or (launch := launch_of(other)) is None or launch.container is not own)
        ]
        if len(others) < 2 or others[-1] is not job or not _side_by_side(others):
            return  # said once, at the last of them
        shares = [(other, _utilization(other)) for other in others]
        if any(share is None for _, share in shares):
            return
        total = sum(share for _, share in shares if share is not None)
        if total <= 1.0:
            return
        parts = " + ".join(f"{share:g}" for _, share in shares)
        where: list[Where | tuple[Where, str]] = []
        for other, share in reversed(shares):
            fact = other.gpu_memory_utilization
            theirs_launch = launch_of(other)
            spot: Where = fact
            if fact is None and theirs_launch is not None and theirs_launch.image is not None:
                image = theirs_launch.image
                spot = FileOrigin(theirs_launch.document, ("image",), image.span, image.span)
            where.append((spot, f"{share:g}{'' if fact else ', the default'}"))
        yield self.finding(
            f"{len(shares)} servers on the same GPUs ask for {parts} = {total:g} of their memory",
            *where,
            help="shares that add up to 0.95 at most, or devices of their own",
            data={"sum": round(total, 3)},
            job=job,
        )


def _utilization(job: ServingJob) -> float | None:
    fact = job.gpu_memory_utilization
    if fact is not None:
        return fact.value
    if job.stated("gpu_memory_utilization"):
        return None
    return LATER_DEFAULT if since(job, "0.25.1") else DEFAULT_UTILIZATION


def _overlap(a: Devices, b: Devices) -> bool:
    return a == ALL or b == ALL or bool(a & b)


def _devices(job: ServingJob) -> Devices | None:
    """Device ids as written, ``ALL``, or None where they are not known or the server starts alone."""
    launch = launch_of(job)
    if launch is None:
        return None
    visible = _visible(launch)
    run = docker_run(launch)
    if run is not None:
        detached = any(name in run.options for name in ("d", "detach", "dit", "itd", "tid", "idt"))
        options = run.options.get("gpus")
        if not detached or not options:
            return None
        text = options[-1].text.strip("\"'")
        if visible is not None:
            return visible
        if text == "all":
            return ALL
        first = whole_number(text)
        if first is not None:
            return _first(first)
        return frozenset(text[len("device=") :].split(",")) if text.startswith("device=") else None
    if launch.carrier == "compose" and launch.container is not None:
        if "profiles" in launch.container:
            return None
        return visible or _compose_devices(launch.container)
    if launch.carrier == "shell" and launch.image is None and launch.command is not None:
        return visible or (None if "CUDA_VISIBLE_DEVICES" in launch.environment else ALL)
    return None


def _side_by_side(jobs: list[ServingJob]) -> bool:
    """Whether every server but the last is left running; what compose and ``docker run -d`` start is."""
    for job, following in pairwise(jobs):
        first, second = launch_of(job), launch_of(following)
        if first is None or second is None or first.command is None or second.command is None:
            continue
        if first.carrier != "shell" or docker_run(first) is not None:
            continue
        between = first.document.file.text[first.command.span.end : second.command.span.start]
        rest = between.split("\n", 1)[0]
        if not re.search(r"(?<![&>])&(?![&>\d])", rest) or ENDED.search(between):
            return False
    return True


def _visible(launch: Launch) -> Devices | None:
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        word = launch.environment.get(name)
        if word is not None and word.known and re.fullmatch(r"\d+(,\d+)*", word.text.strip()):
            return frozenset(word.text.strip().split(","))
    return None


def _compose_devices(service: Mapping) -> Devices | None:
    devices = at(service, "deploy", "resources", "reservations", "devices")
    if devices is None and value_at(service, "runtime") == "nvidia":
        return ALL  # the images set NVIDIA_VISIBLE_DEVICES=all
    if not isinstance(devices, Sequence) or len(devices.items) != 1:
        return None
    device = devices.items[0]
    ids = at(device, "device_ids")
    if isinstance(ids, Sequence):
        found = [str(item.value) for item in ids.items if isinstance(item, Scalar)]
        return None if any("$" in one for one in found) or not found else frozenset(found)
    count = value_at(device, "count")
    many = whole_number(count)
    if many is not None:
        return _first(many)
    return ALL if count == "all" or count is None else None


def _first(count: int) -> Devices:
    """Docker takes the first devices for a number, whoever has them already."""
    return frozenset(str(index) for index in range(count))
