"""PRC018."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import DerivedOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import trains_adapters
from .stated_precision import inference_only, uses_deepspeed, uses_fsdp


class DtypeFollowsCheckpoint(Rule):
    """With transformers 5 the trained parameters take the checkpoint's 16-bit dtype, no key says so.

    ``from_pretrained`` loaded fp32 up to transformers 4 and loads the checkpoint's own dtype since 5. A run that never
    named a dtype kept fp32 parameters under autocast; after the upgrade it trains bf16 parameters without an fp32 copy,
    and small updates are rounded away.

    How sure: transformers' source, and TRL's remark on it. Reported where the release is known to be 5 or later, all parameters
    are trained, the checkpoint's dtype is known and neither DeepSpeed nor FSDP keeps fp32 copies. TRL (0.27 and later) and
    LLaMA-Factory load fp32 by themselves, Axolotl names the dtype: they are not concerned.
    """

    code = "PRC018"
    name = "dtype-follows-checkpoint"
    family = "precision"
    severity = "warning"
    confidence = "medium"
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/modeling_utils.py",
        "https://github.com/huggingface/trl/pull/5457",
    )
    catalogue = ("transformers5.dtype-auto-change",)
    good = (
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                dtype: float32
                bf16: true
                per_device_train_batch_size: 4
                num_train_epochs: 1
                """,
                "requirements.txt": """
                transformers==5.2.0
                """,
            },
        ),
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                bf16: true
                per_device_train_batch_size: 4
                num_train_epochs: 1
                """,
                "requirements.txt": """
                transformers==4.57.1
                """,
            },
            note="transformers 4 loads fp32",
        ),
    )
    bad = (
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                bf16: true
                per_device_train_batch_size: 4
                num_train_epochs: 1
                """,
                "requirements.txt": """
                transformers==5.2.0
                """,
            },
            at="model_name_or_path",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        weights, compute = job.weight_dtype, job.compute_dtype
        if weights is None or weights.value != "bf16" or not isinstance(weights.origin, DerivedOrigin):
            return
        if any(r.context.get("weight_dtype") == "auto" for r in job.readings):
            return  # the file asks for the checkpoint's dtype
        if job.framework is None or job.framework.value != "transformers" or trains_adapters(job) is not False:
            return
        if uses_deepspeed(job) or uses_fsdp(job) or inference_only(job) or job.value("method") == "pretrain":
            return
        if not always_at_least(context.version(job, "transformers"), "5"):
            return
        yield self.finding(
            "transformers 5 loads this checkpoint in bf16, so all parameters are trained in bf16 without an fp32 copy",
            (job.model_id, "stored in bf16"),
            (compute, "autocast needs fp32 parameters to keep small updates"),
            help="say which is meant: dtype: float32 as transformers 4 did, or dtype: bfloat16",
            job=job,
        )
