"""SRV110."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.server import image_name
from cfglint.dialects.tgi import ARGUMENTS
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping as Table

from .server import before, launch_of, runs

TOKENS_SINCE = "1.5"
"""1.4 does not have ``max_input_tokens`` (issue 1903); 2.0 is the next release."""
OWN_IMAGE = "text-generation-inference"
CLOSE = 0.85
"""Names as alike as this are the same name misspelled."""


class TgiUnknownArgument(Rule):
    """Argument that TGI's launcher does not have, or does not spell so.

    It ends with "error: unexpected argument '--…' found". Names are written with dashes alone and never shortened; and
    ``--max-input-tokens`` came after 1.4, where it is ``--max-input-length``.

    How sure: the launcher's arguments of 0.9 to 3.3, after which TGI is only maintained. An error where a known name is meant
    (by its spelling or its underscores); else a warning, since builds of others may have more.
    """

    code = "SRV110"
    name = "tgi-unknown-argument"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/huggingface/text-generation-inference/blob/db931fcf42da018a3657580c64bf2720f167f9ab/launcher/src/main.rs",
        "https://github.com/huggingface/text-generation-inference/issues/1903",
    )
    catalogue = ("cli-unknown-flag",)
    good = (
        example(
            "serve.sh",
            "text-generation-launcher --model-id Qwen/Qwen2.5-7B-Instruct --max-total-tokens 4096 --max-input-tokens 3000",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "text-generation-launcher --model-id Qwen/Qwen2.5-7B-Instruct --max_total_tokens 4096",
            at="max_total_tokens",
            count=1,
        ),
        example(
            "serve.sh",
            "text-generation-launcher --model-id Qwen/Qwen2.5-7B-Instruct --max-total-token 4096",
            count=1,
        ),
        example(
            "serve.sh",
            "docker run --gpus all ghcr.io/huggingface/text-generation-inference:1.4 --model-id Qwen/Qwen2.5-7B-Instruct --max-total-tokens 18000 --max-input-tokens 14000",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs(job, "tgi"):
            return
        from difflib import get_close_matches

        launch = launch_of(job)
        if launch is not None and launch.image is not None and image_name(launch.image.text) != OWN_IMAGE:
            return  # builds for other accelerators
        for reading in job.readings:
            if reading.dialect != "tgi" or not isinstance(reading.root, Table):
                continue
            for entry in reading.root.entries:
                written = entry.key.raw.partition("=")[0]
                if not written.startswith("--") or "$" in written or " " in written:
                    continue  # words-in-one-item tells of a name and value in one
                bare = written[2:]
                name = bare.replace("-", "_")
                help, sure = "", True
                if name not in ARGUMENTS:
                    near = get_close_matches(name, ARGUMENTS, n=1, cutoff=CLOSE)
                    sure = bool(near)
                    help = f"did you mean --{near[0].replace('_', '-')}?" if near else ""
                    said = f"TGI's launcher has no argument {written}"
                elif "_" in bare:
                    help = f"--{bare.replace('_', '-')}"
                    said = f"TGI's launcher writes its arguments with dashes, here {written}"
                elif name == "max_input_tokens" and before(job, TOKENS_SINCE):
                    help = "--max-input-length"
                    said = "TGI 1.4 does not have --max-input-tokens yet"
                else:
                    continue
                yield self.finding(
                    said,
                    reading.origin(entry.name),
                    help=help,
                    severity="error" if sure else "warning",
                    confidence="high" if sure else "medium",
                    job=job,
                )
