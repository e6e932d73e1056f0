"""SRV111."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping as Table

from .server import runs

OWN = {
    "max_model_len": "session-len",
    "max_seq_len": "session-len",
    "context_length": "session-len",
    "tensor_parallel_size": "tp",
    "tensor_parallel": "tp",
    "tp_size": "tp",
    "data_parallel_size": "dp",
    "gpu_memory_utilization": "cache-max-entry-count",
    "mem_fraction_static": "cache-max-entry-count",
    "served_model_name": "model-name",
    "max_num_seqs": "max-batch-size",
    "max_running_requests": "max-batch-size",
    "kv_cache_dtype": "quant-policy",
    "quantization": "model-format",
    "enforce_eager": "eager-mode",
    "host": "server-name",
    "port": "server-port",
    "lora_modules": "adapters",
}
"""Arguments of vLLM and SGLang, and LMDeploy's for the same thing."""


class LmdeployForeignArgument(Rule):
    """LMDeploy is given an argument of another engine.

    ``lmdeploy serve api_server`` ends with "unrecognized arguments: --max-model-len". Its own names are ``--session-len``,
    ``--tp``, ``--cache-max-entry-count`` and others.

    How sure: a list of names that neither 0.10.2 nor 0.16.0 has (lmdeploy/cli/serve.py), and that are no beginning of one.
    """

    code = "SRV111"
    name = "lmdeploy-foreign-argument"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/InternLM/lmdeploy/blob/v0.10.2/lmdeploy/cli/serve.py",
        "https://lmdeploy.readthedocs.io/en/latest/llm/api_server.html",
    )
    catalogue = ("cli-unknown-flag",)
    good = (
        example("serve.sh", "lmdeploy serve api_server internlm/internlm2_5-7b-chat --session-len 8192 --tp 2"),
        example("serve.sh", "lmdeploy serve api_server internlm/internlm2_5-7b-chat --server-port 23333"),
    )
    bad = (
        example(
            "serve.sh",
            "lmdeploy serve api_server internlm/internlm2_5-7b-chat --max-model-len 8192 --tp 2",
            at="max_model_len",
            count=1,
        ),
        example("serve.sh", "lmdeploy serve api_server internlm/internlm2_5-7b-chat --port 8000", count=1),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs(job, "lmdeploy"):
            return
        for reading in job.readings:
            if reading.dialect != "lmdeploy" or not isinstance(reading.root, Table):
                continue
            for entry in reading.root.entries:
                own = OWN.get(entry.name.replace("-", "_"))
                if own is not None and entry.key.raw.startswith("--"):
                    yield self.finding(
                        f"LMDeploy has no argument {entry.key.raw.partition('=')[0]}",
                        reading.origin(entry.name),
                        help=f"--{own}",
                        job=job,
                    )
