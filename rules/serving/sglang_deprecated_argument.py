"""SRV109."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from .server import managed, runs, since

READ = "0.5.23"


class SglangDeprecatedArgument(Rule):
    """Argument that SGLang still takes, and warns of.

    A later release refuses it: "unrecognized arguments". What is gone already is removed-argument's finding.

    How sure: arguments that the source of 0.5.23 marks as deprecated, for a stated release from 0.5.23 on. No release is
    named for the removal: information.
    """

    code = "SRV109"
    name = "sglang-deprecated-argument"
    family = "serving"
    severity = "info"
    kinds = ("serve",)
    evidence = ("https://docs.sglang.io/advanced_features/server_arguments.html",)
    catalogue = ("cli-deprecated-flag-sglang",)
    good = (
        example(
            {
                "serve.sh": "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --disable-cuda-graph",
                "requirements.txt": "sglang==0.5.5",
            }
        ),
    )
    bad = (
        example(
            {
                "serve.sh": "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --disable-cuda-graph",
                "requirements.txt": "sglang==0.5.23",
            },
            at="disable_cuda_graph",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs(job, "sglang") or managed(job) or not since(job, READ):
            return
        from cfglint.catalog.engines import engine_argument

        for reading in job.readings:
            if reading.dialect != "sglang" or not isinstance(reading.root, Mapping):
                continue
            for key in reading.root.index:
                argument = engine_argument("sglang", f"--{key.replace('_', '-')}")
                if argument is None or not argument.deprecated_in or argument.absent_from is not None:
                    continue
                if argument.deprecated_in[-1] != READ:
                    continue
                yield self.finding(
                    f"{argument.name} is deprecated in SGLang {READ}",
                    reading.origin(key),
                    help=argument.replaced_by or "see SGLang's list of server arguments for what stands for it now",
                    job=job,
                )
