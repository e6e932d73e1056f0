"""CKP005."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument, argument_on, sections, trainer_readings, uses_deepspeed

STATE_KEYS = ("fsdp_state_dict_type", "state_dict_type")


class ModelOnlyCheckpoints(Rule):
    """`save_only_model` is combined with something that needs the whole state.

    Without the optimizer's state DeepSpeed and FSDP cannot load the best model at the end ("DeepSpeed can't be used with
    `save_only_model` along with `load_best_model_at_end`"), FSDP's SHARDED_STATE_DICT cannot be written ("save_only_model
    option is not compatible with FSDP state dict type 'SHARDED_STATE_DICT'"), and `resume_from_checkpoint` starts with an
    empty optimizer and a fresh schedule, in silence.

    How sure: the first two are in transformers' trainer.py (4.57, 5.24) and errors; resuming is a warning.
    """

    code = "CKP005"
    name = "model-only-checkpoints"
    family = "checkpointing"
    severity = "error"
    catalogue = ("ckpt.save-only-model",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/trainer.py",
        "https://huggingface.co/docs/transformers/main_classes/trainer",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            save_only_model: true
            save_steps: 200
            """,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            eval_strategy: steps
            save_only_model: true
            load_best_model_at_end: true
            deepspeed: ds_z2.json
            """,
            at="save_only_model",
            count=1,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            save_only_model: true
            fsdp: full_shard auto_wrap
            fsdp_config:
              state_dict_type: SHARDED_STATE_DICT
            """,
            at="save_only_model",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        only, best = argument_on(job, "save_only_model"), argument_on(job, "load_best_model_at_end")
        if only is None or not only.value or not trainer_readings(job):
            return
        sharded = job.value("fsdp") not in (None, "none")
        deepspeed = uses_deepspeed(job) and argument(job, "deepspeed") is not None
        if best is not None and best.value and (deepspeed or sharded):
            yield self.finding(
                f"save_only_model with load_best_model_at_end does not work with {'DeepSpeed' if deepspeed else 'FSDP'}: the "
                "trainer stops with a ValueError",
                only,
                best,
                help="switch one of the two off",
                job=job,
            )
            return
        for settings in sections(job, "fsdp_config") if sharded else ():
            for key in STATE_KEYS:
                if str(settings.value(key) or "").strip().upper() == "SHARDED_STATE_DICT":
                    yield self.finding(
                        "save_only_model does not work with FSDP's SHARDED_STATE_DICT: the trainer stops with a ValueError",
                        only,
                        settings.fact(key),
                        help="use FULL_STATE_DICT, or save the optimizer as well",
                        job=job,
                    )
                    return
        resume = argument(job, "resume_from_checkpoint")
        if resume is not None and str(resume.value).strip().lower() not in ("false", "none", "null", ""):
            yield self.finding(
                "save_only_model writes checkpoints without the optimizer: resuming from one starts its moments at zero",
                only,
                (resume, "resumes"),
                help="save the optimizer where a run is to be resumed",
                severity="warning",
                confidence="medium",
                job=job,
            )
