"""SRV102."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.server import image_name
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from .server import before, launch_of, managed, runs, since
from .unknown_argument import alike

OWN = frozenset({"config", "help", "version", "model_type", "backend", "num_gpus", "h"})
"""Taken by ``sglang serve`` itself (``--model-type diffusion`` and its arguments), or by argparse."""
FIRST, LAST, AFTER = "0.3.6", "0.5.23", "0.5.24"


class SglangUnknownArgument(Rule):
    """Argument that no SGLang release has.

    SGLang's parser ends with "unrecognized arguments" before the model is loaded. Unlike vLLM's it takes dashes alone:
    ``--enable_metrics`` is none of its arguments.

    How sure: names, aliases and unambiguous beginnings of names are known from seven releases up to 0.5.23. It is an error
    where the release is stated and within those, or where a known argument is spelled almost the same; a warning else, and
    information for images that are not the project's.
    """

    code = "SRV102"
    name = "sglang-unknown-argument"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://docs.sglang.io/advanced_features/server_arguments.html",
        "https://github.com/sgl-project/sglang/issues/5032",
    )
    catalogue = ("cli-unknown-flag", "cfg-unknown-key")
    good = (
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model Qwen/Qwen3-8B --tp 2 --mem-frac 0.85 --nccl-init 10.0.0.1:5000",
            note="aliases and beginnings of names",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --mem-fraction-statik 0.85",
            count=1,
        ),
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --enable_metrics",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        from cfglint.catalog.engines import begins_argument, engine_argument, similar_arguments

        if not runs(job, "sglang") or managed(job):
            return
        launch = launch_of(job)
        foreign = launch is not None and launch.image is not None and image_name(launch.image.text) != "sglang"
        for reading in job.readings:
            if reading.dialect != "sglang" or not isinstance(reading.root, Mapping):
                continue
            if any(k in reading.root for k in ("model_type", "num_gpus", "dit_cpu_offload", "ulysses_degree")):
                continue  # SGLang's diffusion server has arguments of its own
            for key in reading.root.index:
                name = key.replace("-", "_")
                if name in OWN or len(name) <= 3 or not name.replace("_", "").isalnum():
                    continue
                written = reading.root.index[key].key.raw.partition("=")[0]
                if written.startswith("--") and "_" in written and engine_argument("sglang", written) is not None:
                    yield self.finding(
                        f"SGLang writes its arguments with dashes, and does not know {written}",
                        reading.origin(key),
                        help=written.replace("_", "-"),
                        severity="info" if foreign else "error",
                        confidence="medium" if foreign else "high",
                        data={"argument": name},
                        job=job,
                    )
                    continue
                if engine_argument("sglang", f"--{name}") is not None or begins_argument("sglang", name):
                    continue
                near = list(similar_arguments("sglang", name, 3))
                close = bool(near) and alike(name, near[0], CLOSE)
                within = since(job, FIRST) and before(job, AFTER)
                severity: Severity = "info" if foreign else "error" if within or close else "warning"
                yield self.finding(
                    f"SGLang has no argument --{name.replace('_', '-')} in any release from {FIRST} to {LAST}",
                    reading.origin(key),
                    help=f"did you mean {', '.join(near)}?" if near else "",
                    severity=severity,
                    confidence="high" if severity == "error" else "medium",
                    data={"argument": name, "similar": near},
                    job=job,
                )


CLOSE = 0.9
"""Names as alike as this are the same name misspelled."""
