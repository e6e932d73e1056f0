"""SRV002."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfglint.dialects.vllm import tag_is_engine_version
from cfglint.jobs.facts import Reading
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix, Severity
from cfglint.lint.fixes import rename_key
from cfglint.lint.rule import Rule, example

from .server import NEWEST_SAMPLED, arguments, before, launch_of, managed, readings, since

OWN = frozenset({"model", "model_tag", "config", "help", "version", "O", "h", "v"})
"""Taken by the command itself, or by argparse."""


class UnknownArgument(Rule):
    """Argument that no vLLM release has.

    vLLM's parser ends with "unrecognized arguments" and the server never starts; a key of a ``--config`` file becomes an
    argument and ends the same way.

    How sure: names, aliases, negations (``--no-x``), dotted keys and unambiguous beginnings of names are all known from
    eight releases up to 0.33.0. It is an error where the version is stated and within those releases, or where a known
    argument is spelled almost the same; else a warning, since later releases have arguments of their own, and information for images that are not
    the project's: forks have theirs.
    """

    code = "SRV002"
    name = "unknown-argument"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    fixable = "unsafe"
    evidence = (
        "https://github.com/vllm-project/vllm/issues/22072",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/utils/argparse_utils.py",
    )
    catalogue = ("cli-unknown-flag", "cfg-unknown-key")
    good = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --gpu-memory-util 0.9 --compilation-config.mode 3 -tp 2 -O3 --no-enable-prefix-caching",
            note="beginnings of names, dotted keys, short names and negations are all taken",
        ),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 8192 --disable-log-stats"),
    )
    bad = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --gpu-memory-utilisation 0.9", count=1),
        example(
            "serve.yaml",
            """
            model: Qwen/Qwen2.5-7B-Instruct
            max-model-lenght: 8192
            gpu-memory-utilization: 0.9
            tensor-parallel-size: 2
            max-num-seqs: 64
            """,
            at="max-model-lenght",
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        for reading in readings(job):
            if managed(job):
                continue  # a wrapper has arguments of its own
            for name, _, key, _entry in arguments(reading):
                if not _known(name, key):
                    yield self._one(job, reading, name, key)

    def _one(self, job: ServingJob, reading: Reading, name: str, key: str) -> Finding:
        from cfglint.catalog.engines import similar_arguments

        near = [found for found in similar_arguments("vllm", name, 3) if found != "model_tag"]
        within = since(job, "0.4.3") and not since(job, f"{NEWEST_SAMPLED}.1") and before(job, "0.34")
        severity: Severity = "error" if within or (near and alike(name, near[0], CLOSE)) else "warning"
        if not own_build(job):
            severity = "info"
        flag = f"--{name.replace('_', '-')}"
        fixes: tuple[Fix, ...] = ()
        if near and alike(name, near[0], CLOSE):
            spelled = near[0].lstrip("-")
            written = f"--{spelled}" if reading.context.get("command_line") else spelled
            edit = rename_key(reading, (key,), written)
            fixes = (Fix(f"Write {written}", (edit,), safe=False),) if edit is not None else ()
        return self.finding(
            f"vLLM has no argument {flag} in any release from 0.4.3 to {NEWEST_SAMPLED}",
            reading.origin(key),
            help=f"did you mean {', '.join(near)}?" if near else "",
            severity=severity,
            confidence="high" if severity == "error" else "medium",
            fixes=fixes,
            data={"argument": name, "similar": near},
            job=job,
        )


def own_build(job: ServingJob) -> bool:
    """False where a container image that is not the project's own runs the server: a fork may have more arguments."""
    launch = launch_of(job)
    return launch is None or launch.image is None or tag_is_engine_version(launch.image.text)


def _known(name: str, key: str) -> bool:
    from cfglint.catalog.engines import begins_argument, engine_argument

    plain = name.split(".", 1)[0].rstrip("+")
    if plain in OWN or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", plain):
        return True  # a word with blanks or a variable in it is another matter
    if len(plain) <= 3 or re.fullmatch(r"O\w+", key.lstrip("-")):
        return True  # short options: -O3, -tp
    if engine_argument("vllm", f"--{plain}") is not None or begins_argument("vllm", plain):
        return True
    for prefix in ("no_", "disable_", "enable_"):
        if plain.startswith(prefix) and begins_argument("vllm", plain[len(prefix) :]):
            return True
    return False


def alike(name: str, other: str, least: float) -> bool:
    """Whether an argument as written is so like a known one that it may be the same one misspelled."""
    from difflib import SequenceMatcher

    return SequenceMatcher(None, name, other.lstrip("-").replace("-", "_")).ratio() >= least


CLOSE = 0.85
"""Names as alike as this are the same name misspelled (``utilisation``, ``lenght``, a letter left out)."""
