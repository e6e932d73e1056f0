"""HWF017."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.jobs.facts import DefaultOrigin, Reading
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import trainer_readings

ROWS: Final = 8
"""What the number of rows of a matrix product must be a multiple of for Transformer Engine's FP8."""

MXFP8_ROWS: Final = 32

OTHER_BACKENDS: Final = ("AO", "MSAMP")
"""Accelerate's FP8 backends that are not Transformer Engine."""


def transformer_engine(accelerate: Reading) -> bool:
    """Whether Accelerate trains in FP8, and not by another backend than Transformer Engine."""
    backend = str(accelerate.value("fp8_config", "backend") or "").upper()
    return accelerate.value("mixed_precision") == "fp8" and backend not in OTHER_BACKENDS


class Fp8TokenRows(Rule):
    """The tokens of a micro-batch are no multiple of what Transformer Engine's FP8 products take.

    The rows of a product are the tokens of the micro-batch, and Transformer Engine asks for a multiple of 8 (MXFP8: 32):
    "FP8 execution requires the product of all dimensions except the last to be divisible by 8 and the last dimension to be
    divisible by 16". The run ends at its first step, or at the first batch that is as long as that.

    How sure: Transformer Engine's check and reports of it. Scripts that pad to the longest sample of a batch meet other lengths
    as well, so it is a warning for the stated length alone. Accelerate leaves out layers whose sizes do not fit, and
    Megatron-LM pads its vocabulary: sizes of the model are not looked at.
    """

    code = "HWF017"
    name = "fp8-token-rows"
    family = "hardware"
    severity = "warning"
    confidence = "medium"
    catalogue = ("hw.fp8-dim-alignment",)
    evidence = (
        "https://github.com/NVIDIA/TransformerEngine/issues/1422",
        "https://github.com/NVIDIA/TransformerEngine/pull/317",
    )
    good = (
        example(
            "pretrain.sh",
            """
            torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 \\
              --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 \\
              --train-iters 1000 --lr 3e-4 --bf16 --fp8-format hybrid
            """,
        ),
    )
    bad = (
        example(
            "pretrain.sh",
            """
            torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 \\
              --seq-length 1023 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 \\
              --train-iters 1000 --lr 3e-4 --bf16 --fp8-format hybrid
            """,
            at="seq_length",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        length, micro, compute = job.sequence_length, job.micro_batch_size, job.compute_dtype
        if length is None or micro is None or isinstance(length.origin, DefaultOrigin):
            return
        if not isinstance(length.value, int) or not isinstance(micro.value, int) or job.undecided("micro_batch_size"):
            return
        accelerate, megatron = job.reading("accelerate"), job.reading("megatron")
        recipe = ""
        if megatron is not None:
            if job.value("fp8_linear") is not True and (compute is None or compute.value != "fp8"):
                return
            recipe = str(megatron.value("fp8_recipe") or "")
        elif accelerate is None or not trainer_readings(job) or not transformer_engine(accelerate):
            return
        rows = length.value * micro.value
        needed = MXFP8_ROWS if recipe == "mxfp8" else ROWS
        if rows % needed == 0:
            return
        yield self.finding(
            f"a micro-batch has {micro.value} × {length.value} = {rows} tokens: FP8 products take multiples of {needed}",
            length,
            (micro, f"micro-batch {micro.value}"),
            help=f"a length of {-(-length.value // needed) * needed}, or pad to a multiple of {needed}",
            job=job,
        )
