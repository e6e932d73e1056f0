"""CON011."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfglint.jobs.facts import Fact
from cfglint.jobs.job import Job, ServingJob, TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

_MARKS = re.compile(r"[-_.](?:bnb|4bit|8bit|nf4|gptq|awq|int4|int8|fp8|bf16|fp16|unsloth|hf|dynamic|quantized|w4a16)\b")
"""Parts of a name that say how a checkpoint is stored, not what was trained."""


class AdapterOfOtherBase(Rule):
    """The adapter was trained on another base model than the one that is loaded.

    An adapter holds differences to the weights of one model. On a model of another shape loading stops with a size
    mismatch; on one of the same shape (base instead of instruct, another release) it loads and gives worse answers, in
    silence.

    How sure: the adapter's `base_model_name_or_path` is compared with the job's model by name, with the storage form
    (`-bnb-4bit`, `-hf`) and the publisher left out. It is an error where the catalogue knows both and their widths or
    depths differ, else information: names do not prove that weights differ, and a local path is not compared.
    """

    code = "CON011"
    name = "adapter-of-other-base"
    family = "consistency"
    severity = "error"
    kinds = ("train", "serve")
    evidence = ("https://github.com/huggingface/peft/blob/v0.21.2/src/peft/config.py",)
    catalogue = ("lora-base-mismatch",)
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: meta-llama/Llama-3.1-8B
                adapter_name_or_path: first
                stage: sft
                do_train: true
                finetuning_type: lora
                template: llama3
                dataset: our_data
                """,
                "first/adapter_config.json": """
                {"peft_type": "LORA", "base_model_name_or_path": "unsloth/Llama-3.1-8B-bnb-4bit", "r": 16, "lora_alpha": 32,
                 "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}
                """,
            },
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: meta-llama/Llama-3.2-1B
                adapter_name_or_path: first
                stage: sft
                do_train: true
                finetuning_type: lora
                template: llama3
                dataset: our_data
                """,
                "first/adapter_config.json": """
                {"peft_type": "LORA", "base_model_name_or_path": "meta-llama/Llama-3.1-8B", "r": 16, "lora_alpha": 32,
                 "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}
                """,
            },
            at="base_model_name_or_path",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        yield from self._check(job)

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        yield from self._check(job)

    def _check(self, job: Job) -> Iterator[Finding]:
        model = job.model_id
        if model is None or not isinstance(model.value, str):
            return
        for reading in job.readings:
            if reading.dialect != "peft-adapter":
                continue
            base = reading.value("base_model_name_or_path")
            if not isinstance(base, str) or not _is_name(base) or not _is_name(model.value) or _same(base, model.value):
                continue
            differs = _shapes_differ(base, job)
            if differs is False:
                severity = "info"
            else:
                severity = "error" if differs else "info"
            yield self.finding(
                f"the adapter was trained on {base}, the job loads {model.value}"
                + (": their layers differ in size" if differs else ""),
                (Fact(base, reading.origin("base_model_name_or_path")), "the adapter's base"),
                (model, "the job's model"),
                help="load the adapter's own base, or name another adapter",
                severity="error" if severity == "error" else "info",
                confidence="high" if differs else "low",
                job=job,
            )


def _is_name(text: str) -> bool:
    return not text.startswith((".", "/", "~")) and text.count("/") <= 1 and "$" not in text and bool(text.strip())


def _same(a: str, b: str) -> bool:
    return _bare(a) == _bare(b)


def _bare(name: str) -> str:
    text = name.rpartition("/")[2].lower().replace("meta-llama", "llama")
    while (shorter := _MARKS.sub("", text)) != text:
        text = shorter
    return re.sub(r"[^a-z0-9]", "", text)


def _shapes_differ(base: str, job: Job) -> bool | None:
    """Whether the two models' widths or depths differ; None where one of them is not known."""
    from cfglint.catalog.models import find_model

    row = find_model(base)
    mine = job.architecture
    if row is None or mine is None:
        return None
    text = row.config.get("text_config")
    config = text if isinstance(text, dict) else row.config
    width, depth = config.get("hidden_size"), config.get("num_hidden_layers")
    if not isinstance(width, int) or not isinstance(depth, int):
        return None
    return width != mine.hidden_size or depth != len(mine.layers)
