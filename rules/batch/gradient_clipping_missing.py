"""BAT008."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import DefaultOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix, Severity
from cfglint.lint.fixes import insert_key
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from ..trainer import Settings, deepspeed_settings, shown, trainer_fact, trainer_readings

CLIPS_FROM = "0.19.3"
"""First release whose ``gradient_clipping`` is 1.0 where the file has none; 0.0 (off) before."""


class GradientClippingMissing(Rule):
    """The DeepSpeed file has no `gradient_clipping`, so the trainer's `max_grad_norm` has no effect.

    Under DeepSpeed the engine clips, not the trainer, and it knows only its own `gradient_clipping`. transformers fills
    that key in where it is `auto`; where the key is missing DeepSpeed's default is in force: no clipping before 0.19.3,
    1.0 since. A single bad batch then moves the weights as far as it likes, and nothing is logged.

    How sure: reported to and fixed by Axolotl, and in the sources (transformers fills keys that exist, Accelerate's
    clipping does nothing under DeepSpeed). A stated `max_grad_norm` other than the engine's default is a warning, the
    trainer's default of 1.0 one only where the DeepSpeed version is known to be older than 0.19.3; else it is for strict
    readers. `max_grad_norm: 0` and files that only lie side by side are left out.
    """

    code = "BAT008"
    name = "gradient-clipping-missing"
    family = "batch"
    severity = "warning"
    fixable = "unsafe"
    catalogue = ("ds.hf-clip-missing", "ds.clip-default-changed")
    evidence = (
        "https://github.com/axolotl-ai-cloud/axolotl/issues/1381",
        "https://github.com/axolotl-ai-cloud/axolotl/pull/1382",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/constants.py",
    )
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                max_grad_norm: 0.3
                num_train_epochs: 1
                per_device_train_batch_size: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto", "zero_optimization": {"stage": 2}}
                """,
            },
        ),
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                max_grad_norm: 1.0
                num_train_epochs: 1
                per_device_train_batch_size: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
                """,
                "requirements.txt": "deepspeed>=0.19.3",
            },
            note="1.0 is DeepSpeed's own default by now",
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                max_grad_norm: 0.3
                num_train_epochs: 1
                per_device_train_batch_size: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
                """,
            },
            at="max_grad_norm",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        settings = deepspeed_settings(job)
        norm = trainer_fact(job, "max_grad_norm")
        if settings is None or not settings.certain or not trainer_readings(job) or norm is None:
            return
        if settings.has("gradient_clipping") or not isinstance(norm.value, (int, float)) or norm.value <= 0:
            return
        version = job.versions.get("deepspeed")
        if norm.value == 1.0 and always_at_least(version, CLIPS_FROM):
            return
        stated = not isinstance(norm.origin, DefaultOrigin)
        old = always_below(version, CLIPS_FROM)
        severity: Severity = "warning" if old or (stated and norm.value != 1.0) else "info"
        if old:
            effect = "gradients are not clipped"
        elif always_at_least(version, CLIPS_FROM):
            effect = "gradients are clipped at DeepSpeed's 1.0"
        else:
            effect = f"gradients are not clipped (DeepSpeed before {CLIPS_FROM}) or clipped at 1.0 (since)"
        finding = self.finding(
            f"max_grad_norm {shown(norm.value)}{'' if stated else ' (the default)'} has no effect, "
            f"the DeepSpeed file has no gradient_clipping: {effect}",
            norm,
            (settings.reading, "no gradient_clipping here"),
            help='"gradient_clipping": "auto" in the DeepSpeed file hands max_grad_norm on',
            fixes=self._fix(settings),
            severity=severity,
            job=job,
        )
        if severity == "info":
            finding.persona = "strict"
        yield finding

    def _fix(self, settings: Settings) -> tuple[Fix, ...]:
        root = settings.node()
        if not isinstance(root, Mapping) or not root.keys():
            return ()
        edit = insert_key(settings.reading, (*settings.prefix, root.keys()[-1]), "gradient_clipping", '"auto"')
        return (Fix("add gradient_clipping", (edit,), safe=False),) if edit else ()
