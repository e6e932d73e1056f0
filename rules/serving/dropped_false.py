"""SRV010."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.fixes import rename_key, replace_value
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Scalar

from .server import arguments, before, readings

ON_BY_DEFAULT = ("enable_prefix_caching", "enable_chunked_prefill")
"""Switches that are on where nothing switches them off: in the V1 engine, the default from 0.8 on, both are for every model
that has them (vllm/engine/arg_utils.py)."""
V1_ENGINE = "0.8"


class DroppedFalse(Rule):
    """``false`` for a switch that is on by default, in a vLLM ``--config`` file, does nothing.

    ``vllm serve --config`` turns keys into arguments. A key with ``true`` becomes ``--key``; one with ``false`` is left out,
    so the default stays: prefix caching or chunked prefill that the file switches off stays on, without a word.

    How sure: read in vllm/utils/argparse_utils.py, where ``load_config_file`` looks for the negated option in the top
    parser, which has none under ``vllm serve``; run with that parser for 0.33.0. The old ``api_server`` module, which has no
    sub-command, does honour it from the release on that looks for the negation.
    """

    code = "SRV010"
    name = "dropped-false"
    family = "serving"
    severity = "warning"
    kinds = ("serve",)
    fixable = "unsafe"
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/utils/argparse_utils.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/engine/arg_utils.py",
    )
    catalogue = ("cfg-yaml-bool-false-dropped",)
    good = (
        example(
            "serve.yaml",
            """
            model: Qwen/Qwen2.5-7B-Instruct
            max-model-len: 8192
            no-enable-prefix-caching: true
            enforce-eager: false
            """,
            note="a switch that is off by default may be called false",
        ),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --no-enable-prefix-caching"),
    )
    bad = (
        example(
            "serve.yaml",
            """
            model: Qwen/Qwen2.5-7B-Instruct
            max-model-len: 8192
            enable-prefix-caching: false
            """,
            at="enable-prefix-caching",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if any(r.context.get("program", "").endswith("api_server") for r in readings(job)):
            return
        for reading in readings(job):
            if reading.context.get("command_line"):
                continue
            for name, negated, key, entry in arguments(reading):
                off = isinstance(entry.value, Scalar) and entry.value.value is False
                if name not in ON_BY_DEFAULT or negated or not off or before(job, V1_ENGINE):
                    continue
                yield self.finding(
                    f"{key}: false is dropped by vllm serve --config: it stays on",
                    reading.origin(key),
                    help=f"no-{name.replace('_', '-')}: true",
                    fixes=_negated(reading, key, name),
                    job=job,
                )


def _negated(reading: Reading, key: str, name: str) -> tuple[Fix, ...]:
    """Write the negated switch in the key's place."""
    written = f"no-{name.replace('_', '-')}"
    named, valued = rename_key(reading, (key,), written), replace_value(reading, (key,), "true")
    return () if named is None or valued is None else (Fix(f"Write {written}: true", (named, valued), safe=False),)
