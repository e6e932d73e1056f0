"""PAR016."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument, argument_on, trainer_readings

SWITCHES = {"use_galore": "GaLore", "use_apollo": "APOLLO"}


class LowRankOptimizerWithDeepspeed(Rule):
    """GaLore or APOLLO is combined with DeepSpeed, which LLaMA-Factory refuses.

    Both project whole gradient matrices; DeepSpeed flattens and shards them. LLaMA-Factory stops with "GaLore and APOLLO
    are incompatible with DeepSpeed yet".

    How sure: the check is in LLaMA-Factory's parser (0.9.5). Only its own switches are looked at.
    """

    code = "PAR016"
    name = "low-rank-optimizer-with-deepspeed"
    family = "parallel"
    severity = "error"
    catalogue = ("par.galore-ds",)
    evidence = ("https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/parser.py",)
    good = (
        example(
            "full.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            stage: sft
            do_train: true
            finetuning_type: full
            template: qwen
            dataset: our_data
            use_galore: true
            """,
        ),
    )
    bad = (
        example(
            "full.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            stage: sft
            do_train: true
            finetuning_type: full
            template: qwen
            dataset: our_data
            use_galore: true
            deepspeed: ds_z2.json
            """,
            at="use_galore",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        if not any(r.dialect == "llamafactory" for r in trainer_readings(job)):
            return
        deepspeed = argument(job, "deepspeed")
        if deepspeed is None:
            return
        for key, name in SWITCHES.items():
            switch = argument_on(job, key)
            if switch is not None and switch.value:
                yield self.finding(
                    f"{name} does not work with DeepSpeed: LLaMA-Factory stops with a ValueError",
                    switch,
                    (deepspeed, "DeepSpeed"),
                    help=f"take deepspeed out, or switch {key} off",
                    job=job,
                )
