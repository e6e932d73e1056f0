"""BAT009."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..consistency.mismatch import compared_settings
from ..trainer import deepspeed_settings, shown


class GradNormInOptimizer(Rule):
    """`max_grad_norm` stands among DeepSpeed's optimizer parameters, which the engine refuses.

    DeepSpeed raises "'max_grad_norm' is not supported as an optimizer parameter, please switch to using the deepspeed
    parameter 'gradient_clipping'" when it makes the optimizer.

    How sure: the check is in DeepSpeed's engine.py (0.19.8 read). It is an error where transformers' trainer names the file,
    since DeepSpeed makes the optimizer then. A script that brings its own optimizer (Megatron-DeepSpeed) passes the section
    over, so for a file alone it is information.
    """

    code = "BAT009"
    name = "grad-norm-in-optimizer"
    family = "batch"
    severity = "error"
    catalogue = ("ds.max-grad-norm-in-optimizer",)
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/engine.py",
        "https://www.deepspeed.ai/docs/config-json/",
    )
    good = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 1,
              "gradient_clipping": 1.0,
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
              "zero_optimization": {"stage": 1}
            }
            """,
        ),
    )
    bad = (
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
                  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "max_grad_norm": 1.0}},
                  "zero_optimization": {"stage": 1}
                }
                """,
            },
            at="max_grad_norm",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        settings = deepspeed_settings(job)
        route = ("optimizer", "params", "max_grad_norm")
        if settings is None or not settings.has(*route) or settings.value("optimizer", "type") is None:
            return
        certain = compared_settings(job) is not None
        yield self.finding(
            f"max_grad_norm {shown(settings.value(*route))} among the optimizer's parameters: DeepSpeed stops with a "
            f"ValueError{'' if certain else ' where it makes the optimizer itself'}",
            settings.fact(*route),
            help="state gradient_clipping at the top of the file instead",
            severity="error" if certain else "info",
            confidence="high" if certain else "medium",
            job=job,
        )
