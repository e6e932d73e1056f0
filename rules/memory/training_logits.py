"""MEM012."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.estimate.result import GIB
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Parameter, Rule, example

from .wording import accelerator_words

PART = "logits and loss"
"""Name of the part in the estimate (cfglint/estimate/training)."""


class TrainingLogits(Rule):
    """The logits of one micro-batch take a large part of the GPU.

    A stock loss keeps the logits (tokens × vocabulary) in 16 bit and in fp32, and their gradients: with 64 k tokens and a
    vocabulary of 262 k more than 190 GiB. They grow with the vocabulary, not with the model, so a small model with a
    large vocabulary runs out of memory at lengths a larger one trains at. A fused loss never makes them.

    How sure: from the estimate, which shows the working. It is a warning where the logits alone take half of the
    accelerator, else information, and only where no fused or chunked loss is in force and the accelerator is known. Where the
    whole run does not fit, MEM001 says so with the logits' share, and nothing is said here.
    """

    code = "MEM012"
    name = "training-logits"
    family = "memory"
    severity = "warning"
    catalogue = ("mem.logits-large-vocab",)
    evidence = (
        "https://github.com/EvolvingLMMs-Lab/LongVA/pull/19",
        "https://github.com/NVIDIA-NeMo/Automodel/issues/3907",
        "https://arxiv.org/abs/2411.09009",
    )
    parameters = {"share": Parameter(0.25, "share of the accelerator's memory from which the logits are reported")}
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            bf16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            max_length: 16384
            gradient_checkpointing: true
            use_liger_kernel: true
            """,
            gpu="A100-80GB",
            gpus=1,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            bf16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            max_length: 8192
            gradient_checkpointing: true
            """,
            gpu="A100-80GB",
            gpus=1,
            at="per_device_train_batch_size",
            count=1,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            bf16: true
            per_device_train_batch_size: 1
            per_device_eval_batch_size: 4
            eval_strategy: steps
            eval_steps: 100
            num_train_epochs: 1
            max_length: 8192
            gradient_checkpointing: true
            """,
            gpu="A100-80GB",
            gpus=1,
            at="per_device_eval_batch_size",
            count=1,
            note="evaluation is where the run needs most",
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        if job.partial or not job.hardware.candidates:
            return
        if job.sequence_length is None or job.micro_batch_size is None:
            return
        share = self.options["share"]
        memory = context.estimate(job).memory
        evaluating = memory.at == "evaluation"
        kernel = job.value("loss_kernel", "torch")
        if (job.value("eval_loss_kernel", kernel) if evaluating else kernel) not in ("torch", "triton"):
            return
        if evaluating and job.undecided("eval_micro_batch_size"):
            return
        part = next((c for c in memory.components if c.name == PART), None)
        capacity = memory.capacity or max(a.usable_bytes for a in job.hardware.candidates)
        if memory.verdict in ("oom", "likely-oom"):
            return  # MEM001's finding, which names the logits
        if part is None or not isinstance(share, (int, float)) or part.bytes < share * capacity:
            return
        severity: Severity = "warning" if part.bytes >= 0.5 * capacity else "info"
        fused = "a fused loss makes no logits: use_liger_kernel: true, cut cross-entropy or a chunked loss"
        yield self.finding(
            f"the logits of one {'batch of evaluation' if evaluating else 'micro-batch'} take {part.bytes / GIB:.1f} GiB of {capacity / GIB:.1f} on "
            f"{accelerator_words(job)}: {part.formula}",
            (job.eval_micro_batch_size or job.evaluates) if evaluating else job.micro_batch_size,
            ((evaluating and job.eval_sequence_length) or job.sequence_length, "tokens per sequence"),
            help=f"evaluate in smaller batches; {fused}" if evaluating else fused,
            severity=severity,
            confidence="medium",
            data={"logits_gib": round(part.bytes / GIB, 2)},
            job=job,
        )
