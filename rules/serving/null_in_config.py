"""SRV027."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Scalar

from .server import arguments, readings, runs_vllm


class NullInConfig(Rule):
    """A key without a value in a vLLM `--config` file reaches the server as the word None.

    `vllm serve --config` turns every key into an argument and its value into text: `max-num-seqs:` becomes
    `--max-num-seqs None`, which argparse refuses for a number; `served-model-name:` names the model "None".

    How sure: read in vllm/utils/argparse_utils.py (0.33.0), `load_config_file`: only booleans, lists and mappings are treated
    apart.
    """

    code = "SRV027"
    name = "null-in-config"
    family = "serving"
    severity = "warning"
    kinds = ("serve",)
    evidence = ("https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/utils/argparse_utils.py",)
    catalogue = ("cfg-null-value",)
    good = (example("serve.yaml", "model: Qwen/Qwen2.5-7B-Instruct\nmax-model-len: 4096\nserved-model-name: chat"),)
    bad = (
        example(
            "serve.yaml",
            "model: Qwen/Qwen2.5-7B-Instruct\nmax-model-len: 4096\nserved-model-name:",
            at="served-model-name",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs_vllm(job):
            return
        for reading in readings(job):
            if reading.context.get("command_line") or reading.context.get("wrapper"):
                continue
            if reading.base or reading.document.file.format != "yaml":
                continue  # arguments inside another tool's file
            for name, _, key, entry in arguments(reading):
                if isinstance(entry.value, Scalar) and entry.value.value is None:
                    yield self.finding(
                        f"{key} has no value: vLLM gets --{name.replace('_', '-')} None",
                        reading.origin(key),
                        help="give it a value, or leave the key out",
                        job=job,
                    )
