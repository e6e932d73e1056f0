"""SRV019."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import launch_of, runs_vllm

READABLE = (".yaml", ".yml")


class ConfigNotRead(Rule):
    """``--config`` in a form that vLLM does not read: ``--config=FILE``, or a file that is not called .yaml or .yml.

    vLLM looks for the word ``--config`` alone; with an equals sign the option is accepted, the file never opened, and every
    setting in it is lost. A file of another ending is refused with "Config file must be of a yaml/yml type".

    How sure: read in vllm/utils/argparse_utils.py (0.10 to 0.33) and run with its parser for 0.33.0.
    """

    code = "SRV019"
    name = "config-not-read"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/utils/argparse_utils.py",
        "https://docs.vllm.ai/en/latest/configuration/serve_args/",
    )
    catalogue = ("cfg-equals-form-ignored", "cfg-extension")
    good = (example("serve.sh", "vllm serve --config serve.yaml --port 8001"),)
    bad = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --config=serve.yaml", count=1),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --config serve.json", count=1),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        if launch is None or not runs_vllm(job):
            return
        words = launch.words
        for i, word in enumerate(words):
            where = FileOrigin(launch.document, ("config",), word.span, word.span)
            if word.text.startswith("--config="):
                file = word.text.partition("=")[2]
                yield self.finding(
                    f"--config={file} is accepted but never read: vLLM looks for --config as a word of its own",
                    where,
                    help=f"--config {file}",
                    job=job,
                )
            elif word.text == "--config" and i + 1 < len(words):
                file = words[i + 1].text
                if words[i + 1].known and "." in file.rsplit("/", 1)[-1] and not file.endswith(READABLE):
                    yield self.finding(
                        f"vLLM reads .yaml and .yml alone, not {file}",
                        where,
                        help="write the settings as YAML in a file that ends in .yaml",
                        job=job,
                    )
