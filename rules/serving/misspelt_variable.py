"""SRV038."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import launch_of, runs_vllm


class MisspeltVariable(Rule):
    """An environment variable is one letter away from one that vLLM reads.

    vLLM reads no such name and goes on with the default; newer releases log "Unknown vLLM environment variable".
    ``VLLM_USER_V1=0`` leaves the V1 engine on.

    How sure: no release read (0.4.3 to 0.33.0) has the name, and one letter or underscore more, less or other gives one that
    some release reads. Names that differ in a digit, and names that the file itself uses (``$VLLM_…``), are left alone. A
    plugin may read a variable of that name.
    """

    code = "SRV038"
    name = "misspelt-variable"
    family = "serving"
    severity = "warning"
    confidence = "medium"
    kinds = ("serve",)
    evidence = (
        "https://github.com/gpustack/gpustack/issues/1420",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/envs.py",
    )
    catalogue = ("env-unknown-vllm",)
    good = (
        example("serve.sh", "VLLM_USE_V1=1 vllm serve Qwen/Qwen2.5-7B-Instruct"),
        example("serve.sh", "export VLLM_USE_V3=1\nvllm serve Qwen/Qwen2.5-7B-Instruct", note="a later engine's"),
        example(
            "serve.sh",
            "export VLLM_PORTS=8000\nvllm serve Qwen/Qwen2.5-7B-Instruct --port $VLLM_PORTS",
            note="the script's own",
        ),
    )
    bad = (
        example("serve.sh", "VLLM_USER_V1=0 vllm serve Qwen/Qwen2.5-7B-Instruct", at="VLLM_USER_V1", count=1),
        example(
            "serve.sh",
            "docker run --gpus all --ipc=host -e VLLM_LOGING_LEVEL=DEBUG vllm/vllm-openai:v0.18.1 --model Qwen/Qwen2.5-7B-Instruct",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        if launch is None or not runs_vllm(job):
            return
        from cfglint.catalog.engines import environment_names

        known, text = environment_names("vllm"), launch.document.file.text
        for name, word in launch.environment.items():
            if not name.startswith("VLLM_") or name in known or "$" + name in text or "${" + name in text:
                continue
            meant = next((other for other in sorted(known) if _one_letter_apart(name, other)), None)
            if meant is None or "$(" + name in text:
                continue
            yield self.finding(
                f"vLLM reads no {name}: {meant} is its name",
                FileOrigin(launch.document, (name,), word.span, word.span),
                help=f"{meant}={word.text}" if word.known else meant,
                job=job,
            )


def _one_letter_apart(name: str, other: str) -> bool:
    """Whether one letter or underscore more, less or other, or two changed places, makes ``other`` of ``name``."""
    if abs(len(name) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(name), len(other)) and name[start] == other[start]:
        start += 1
    end = 0
    while end < min(len(name), len(other)) - start and name[-1 - end] == other[-1 - end]:
        end += 1
    here, there = name[start : len(name) - end], other[start : len(other) - end]
    if any(c.isdigit() for c in here + there):
        return False
    return max(len(here), len(there)) == 1 or (len(here) == len(there) == 2 and here == there[::-1])
