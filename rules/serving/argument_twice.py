"""SRV033."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Entry, Scalar
from cfglint.source.node import Mapping as Table

from .server import launch_of, runs, wrapper


class ArgumentTwice(Rule):
    """One command gives the same argument two different values.

    The last one counts, without a word from most engines: an edit of the first has no effect.

    How sure: both stand as plain words in the same command. Words that come from variables, which wrappers use to append
    what goes over the rest, are left alone.
    """

    code = "SRV033"
    name = "argument-twice"
    family = "serving"
    severity = "info"
    kinds = ("serve",)
    evidence = (
        "https://docs.python.org/3/library/argparse.html",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/utils/argparse_utils.py",
    )
    catalogue = ("cli-duplicate-flag",)
    good = (
        example(
            "serve.sh",
            "vllm serve our/chat --max-model-len 8192 $EXTRA",
            note="what a variable adds may be meant to win",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "vllm serve our/chat --max-model-len 8192 --dtype half --max-model-len 16384",
            at="max_model_len",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        if launch is None or wrapper(job) or not runs(job, "vllm", "sglang", "tgi", "lmdeploy", "trtllm"):
            return
        written = {word.span for word in launch.words if word.known and "$" not in word.text}
        for reading in job.readings:
            if not reading.context.get("command_line") or not isinstance(reading.root, Table):
                continue
            seen: dict[str, Entry] = {}
            for entry in reading.root.entries:
                name = entry.name.replace("-", "_")
                if not isinstance(entry.value, Scalar) or "." in name or name in REPEATED:
                    continue
                first = seen.get(name)
                seen[name] = entry
                if first is None or not isinstance(first.value, Scalar) or first.value.value == entry.value.value:
                    continue
                if any("$" in str(value.value) for value in (first.value, entry.value)):
                    continue
                spans = {first.value.span, entry.value.span}
                if not spans <= written or len(spans) < 2:
                    continue
                yield self.finding(
                    f"{name} is given twice, {first.value.value!s} and {entry.value.value!s}: the last one counts",
                    FileOrigin(reading.document, (*reading.base, name), entry.key.span, entry.value.span),
                    (
                        FileOrigin(reading.document, (*reading.base, name), first.key.span, first.value.span),
                        "without effect",
                    ),
                    help="leave one of them",
                    job=job,
                )


REPEATED = frozenset({"middleware", "lora_modules", "lora_paths", "config"})
"""Arguments that add up, or that another rule looks at."""
