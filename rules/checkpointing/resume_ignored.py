"""CKP010."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.schema import is_unknown
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example


class ResumeIgnored(Rule):
    """LLaMA-Factory does not resume a reward or PPO run of full or frozen parameters: it starts over.

    "Cannot resume from checkpoint in current stage" is logged, `resume_from_checkpoint` is set to nothing, and training
    begins at step 0.

    How sure: read in LLaMA-Factory's parser (0.8 to 0.9.5). Runs with LoRA load the adapter instead.
    """

    code = "CKP010"
    name = "resume-ignored"
    family = "checkpointing"
    severity = "warning"
    catalogue = ("ckpt.rm-ppo-resume",)
    evidence = ("https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/parser.py",)
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct
            stage: sft
            finetuning_type: full
            template: qwen
            dataset: identity
            output_dir: out
            resume_from_checkpoint: out/checkpoint-500
            """,
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct
            stage: rm
            finetuning_type: full
            template: qwen
            dataset: identity
            output_dir: out
            resume_from_checkpoint: out/checkpoint-500
            """,
            at="resume_from_checkpoint",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "llamafactory" or reading.context.get("trains") is False:
            return
        stage, kind = reading.value("stage"), reading.value("finetuning_type")
        path = reading.value("resume_from_checkpoint")
        if stage not in ("rm", "ppo") or kind not in ("full", "freeze"):
            return
        if not isinstance(path, str) or is_unknown(path) or path.strip().lower() in ("", "false", "none", "null"):
            return
        yield self.finding(
            f"stage {stage} with finetuning_type {kind} is not resumed: training starts at step 0",
            reading.origin("resume_from_checkpoint"),
            (reading.origin("stage"), f"stage {stage}"),
            help="name the checkpoint as model_name_or_path to go on from its weights",
        )
