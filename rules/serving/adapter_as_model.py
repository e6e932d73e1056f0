"""SRV030."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import engine_title, runs


class AdapterAsModel(Rule):
    """The model is a folder that holds an adapter and no model.

    ``adapter_config.json`` without ``config.json`` beside it is what PEFT saves: the weights are those of the adapter alone.
    The server ends with "… does not appear to have a file named config.json" or a similar word.

    How sure: both files are looked for on disk, in the folder that the command names. A step that merges the adapter into
    the same folder before the server starts cannot be seen: a warning.
    """

    code = "SRV030"
    name = "adapter-as-model"
    family = "serving"
    severity = "warning"
    kinds = ("serve",)
    evidence = (
        "https://huggingface.co/docs/peft/developer_guides/checkpoint",
        "https://docs.vllm.ai/en/latest/features/lora/",
    )
    catalogue = ("mc-adapter-as-model",)
    good = (
        example(
            {
                "serve.sh": "vllm serve Qwen/Qwen2.5-7B-Instruct --enable-lora --lora-modules sql=./out/sql",
                "out/sql/adapter_config.json": '{"peft_type": "LORA", "r": 16, "base_model_name_or_path": "Qwen/Qwen2.5-7B-Instruct"}',
            }
        ),
    )
    bad = (
        example(
            {
                "serve.sh": "vllm serve ./out/sql --max-model-len 8192",
                "out/sql/adapter_config.json": '{"peft_type": "LORA", "r": 16, "base_model_name_or_path": "Qwen/Qwen2.5-7B-Instruct"}',
            },
            at="model",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        fact = job.model_id
        if fact is None or not isinstance(fact.value, str) or not isinstance(fact.origin, FileOrigin) or not runs(job):
            return
        if "://" in fact.value or "$" in fact.value or len(fact.value) > 512 or job.architecture is not None:
            return
        beside = (context.root / fact.origin.document.path).parent
        for base in (beside, context.root):
            folder = base / Path(fact.value).expanduser()
            if (folder / "adapter_config.json").is_file():
                if not (folder / "config.json").is_file():
                    yield self.finding(
                        f"{fact.value} holds an adapter and no model",
                        fact,
                        help=f"serve the base model with {_how(job)}, or merge the adapter first",
                        job=job,
                    )
                return


def _how(job: ServingJob) -> str:
    flags = {"vLLM": "--enable-lora --lora-modules name=path", "SGLang": "--enable-lora --lora-paths name=path"}
    return flags.get(engine_title(job), "its own option for adapters")
