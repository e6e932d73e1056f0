"""CON014."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Scalar

from ..trainer import deepspeed_settings, handed_to_deepspeed


class AutoWithoutTrainer(Rule):
    """A DeepSpeed file with `auto` is handed to DeepSpeed itself, which does not know the word.

    `"auto"` is transformers' and Accelerate's word: they put their own value there. A script that takes
    `--deepspeed_config` gives the file to DeepSpeed as it is. There `auto` for a batch size ends in a TypeError,
    `fp16.enabled: auto` counts as off, and inside `zero_optimization` it means the default.

    How sure: run with DeepSpeed 0.19.8. A script may fill in the values before it starts the engine, so it is a warning of
    medium confidence.
    """

    code = "CON014"
    name = "auto-without-trainer"
    family = "consistency"
    severity = "warning"
    confidence = "medium"
    catalogue = ("ds.auto-outside-hf",)
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/config_utils.py",
        "https://huggingface.co/docs/transformers/deepspeed",
    )
    good = (
        example(
            {
                "run.sh": "deepspeed --num_gpus 4 train.py --model_name_or_path Qwen/Qwen2.5-0.5B --output_dir out --bf16 "
                "--per_device_train_batch_size 4 --deepspeed ds.json",
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
                """,
            },
            note="transformers fills it in",
        ),
    )
    bad = (
        example(
            {
                "run.sh": "deepspeed --num_gpus 4 main.py --deepspeed --deepspeed_config ds.json",
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
                """,
            },
            at="train_micro_batch_size_per_gpu",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        settings, named = deepspeed_settings(job), handed_to_deepspeed(job)
        if settings is None or named is None or not settings.certain:
            return
        root = settings.node()
        routes = list(_autos(root, ())) if isinstance(root, Mapping) else []
        seen: set[int] = context.shared.setdefault(self.code, set())
        if not routes or id(settings.reading) in seen:
            return
        seen.add(id(settings.reading))
        names = [".".join(route) for route in routes]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        yield self.finding(
            f"{shown}: DeepSpeed does not know auto, and nothing fills it in here",
            *(settings.origin(*route) for route in routes),
            (named, "handed to DeepSpeed itself"),
            help="state values, or start the run with transformers' or Accelerate's trainer",
            job=job,
        )


def _autos(node: Mapping, route: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for entry in node.entries:
        here = (*route, str(entry.key.value))
        if isinstance(entry.value, Mapping):
            yield from _autos(entry.value, here)
        elif isinstance(entry.value, Scalar) and entry.value.value == "auto":
            yield here
