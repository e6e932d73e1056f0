"""CON003."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import trainer_fact
from .mismatch import Mismatch, compared_settings, mismatch_finding


class DeepspeedClippingDiffers(Rule):
    """DeepSpeed clips gradients at another norm than the trainer's `max_grad_norm`.

    transformers compares DeepSpeed's `gradient_clipping` with `max_grad_norm` (1.0 where it is not given) and stops with
    "Please correct the following DeepSpeed config values that mismatch TrainingArguments values", after the model has
    been loaded.

    How sure: the comparison is in transformers' source (4.45 to 5.24), and Axolotl's maintainers saw it. Where the
    trainer's side is the default and a script may set it in code, it is a warning.
    """

    code = "CON003"
    name = "deepspeed-clipping-differs"
    family = "consistency"
    severity = "error"
    fixable = "unsafe"
    catalogue = ("ds.hf-clip-mismatch",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/integrations/deepspeed.py",
        "https://github.com/axolotl-ai-cloud/axolotl/pull/1382",
    )
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                learning_rate: 1.0e-5
                num_train_epochs: 1
                per_device_train_batch_size: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": "auto",
                  "gradient_clipping": 1.0,
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
            note="1.0 is the trainer's default",
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                learning_rate: 1.0e-5
                max_grad_norm: 0.3
                num_train_epochs: 1
                per_device_train_batch_size: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": "auto",
                  "gradient_clipping": 1.0,
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
            at="gradient_clipping",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        settings = compared_settings(job)
        if settings is None:
            return
        mine, theirs = settings.number("gradient_clipping"), trainer_fact(job, "max_grad_norm")
        if mine is None or theirs is None or mine == theirs.value:
            return
        found = [Mismatch(("gradient_clipping",), settings.fact("gradient_clipping"), theirs, "max_grad_norm")]
        finding = mismatch_finding(self, job, settings, found, "clipping")
        if finding is not None:
            yield finding
