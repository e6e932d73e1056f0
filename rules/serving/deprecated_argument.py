"""SRV004."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .dropped_in import DROPPED_IN
from .removed_argument import INSTEAD
from .server import arguments, exact_version, readings, since


class DeprecatedArgument(Rule):
    """An argument that the stated vLLM release marks as deprecated, or ``--model`` with ``vllm serve``.

    It still works and logs a warning; a later release refuses it and the server does not start after an upgrade.

    How sure: the deprecation marks are in the release's source. ``vllm serve --model`` prints that the option "will be
    removed in a future version" since 0.10. Information only.
    """

    code = "SRV004"
    name = "deprecated-argument"
    family = "serving"
    severity = "info"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/utils/argparse_utils.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/engine/arg_utils.py",
    )
    catalogue = ("cli-deprecated-flag", "cli-model-flag-with-serve")
    good = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 8192"),
        example(
            "serve.sh",
            "python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen2.5-7B-Instruct --max-model-len 8192",
            note="the module takes the model as an option",
        ),
    )
    bad = (
        example("serve.sh", "vllm serve --model Qwen/Qwen2.5-7B-Instruct --max-model-len 8192", at="model", count=1),
        example(
            "serve.sh",
            "docker run --gpus all vllm/vllm-openai:v0.25.1 Qwen/Qwen2.5-7B-Instruct --calculate-kv-scales",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        from cfglint.catalog.engines import engine_argument, version_key

        release = exact_version(job)
        for reading in readings(job):
            if reading.context.get("program") == "vllm" and not _before_dashes(job):
                entry = reading.entry("model")
                if entry is not None and entry.key.raw == "--model":
                    yield self.finding(
                        "vllm serve takes the model as its first word; --model is deprecated",
                        reading.origin("model"),
                        help="vllm serve <model> …",
                        job=job,
                    )
            for name, _, key, _entry in arguments(reading):
                argument = engine_argument("vllm", f"--{name}")
                if argument is None or release is None or not argument.deprecated_in:
                    continue
                dropped = DROPPED_IN.get(name, argument.absent_from)
                if dropped is not None and since(job, dropped):
                    continue
                if version_key(argument.deprecated_in[0]) > version_key(release):
                    continue
                gone = f", and {dropped} does not have it" if dropped else ""
                yield self.finding(
                    f"{argument.name} is deprecated in vLLM {release}{gone}",
                    reading.origin(key),
                    help=INSTEAD.get(name, ""),
                    job=job,
                )


def _before_dashes(job: ServingJob) -> bool:
    """Releases before 0.10 took either form without a word."""
    from .server import before

    return before(job, "0.10")
