"""HWF007."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean, scalar
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .capability import ADA, BLACKWELL, HOPPER, below, described

CONSUMER_BLACKWELL = (12, 0)
"""Compute capability of RTX 50 and RTX PRO: Transformer Engine lists no MXFP8 for it."""


class Mxfp8Capability(Rule):
    """A block-scaled FP8 or FP4 recipe on a GPU without it.

    MXFP8 (Accelerate's ``use_mxfp8_block_scaling``, Megatron's ``--fp8-recipe mxfp8``) scales blocks of 32 values, which the
    tensor cores of data-center Blackwell (compute capability 10.0) do, as they do NVFP4. Transformer Engine has neither for
    Hopper or Ada, nor MXFP8 for compute capability 12.0 (RTX 50, RTX PRO). Block-wise scaling needs Hopper (9.0).

    How sure: Transformer Engine's support matrix; the frameworks ask it when the run starts. The matrix grows with releases, so
    compute capability 12.0 is a warning.
    """

    code = "HWF007"
    name = "mxfp8-capability"
    family = "hardware"
    severity = "error"
    evidence = (
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/transformer_engine.py",
        "https://github.com/NVIDIA/TransformerEngine/issues/1654",
    )
    catalogue = ("hw.fp8-recipe-capability",)
    good = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: MULTI_GPU
            mixed_precision: fp8
            num_machines: 1
            num_processes: 8
            fp8_config:
              backend: TE
              use_mxfp8_block_scaling: true
            """,
            gpu="B200-SXM",
        ),
    )
    bad = (
        example(
            "pretrain.sh",
            """
            torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 \\
              --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 \\
              --train-iters 1000 --lr 3e-4 --bf16 --fp8-format e4m3 --fp8-recipe mxfp8
            """,
            gpu="H100-SXM",
            at="fp8_recipe",
            count=1,
        ),
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: MULTI_GPU
            mixed_precision: fp8
            num_machines: 1
            num_processes: 8
            fp8_config:
              backend: TE
              use_mxfp8_block_scaling: true
            """,
            gpu="H100-SXM",
            at="use_mxfp8_block_scaling",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        candidates = job.hardware.candidates
        if not candidates or below(job, ADA):
            return  # without any FP8: fp8-capability's finding
        for dialect, route, value in _STATED:
            reading = job.reading(dialect)
            stated = scalar(reading.at(*route)) if reading is not None else None
            recipe = _RECIPES.get(str(stated).lower() if value is None else value)
            if reading is None or recipe is None or (value is not None and boolean(stated) is not True):
                continue
            name, needed = recipe
            consumer = needed == BLACKWELL and all(
                a.compute_capability is not None and a.compute_capability >= CONSUMER_BLACKWELL for a in candidates
            )
            if not below(job, needed) and not consumer:
                continue
            yield self.finding(
                f"{name} needs compute capability {needed[0]}.{needed[1]}, the accelerator is {described(job)}",
                reading.origin(*route),
                (job.hardware.origin, f"no {name}"),
                help="per-tensor FP8 scaling runs here",
                severity="warning" if consumer else "error",
                confidence="medium" if consumer else "high",
                job=job,
            )
            return


_RECIPES = {
    "mxfp8": ("MXFP8", BLACKWELL),
    "nvfp4": ("NVFP4", BLACKWELL),
    "blockwise": ("block-wise FP8 scaling", HOPPER),
}
"""Transformer Engine's recipes with the first compute capability that has them."""

_STATED = (
    ("accelerate", ("fp8_config", "use_mxfp8_block_scaling"), "mxfp8"),
    ("megatron", ("fp8_recipe",), None),
    ("megatron", ("fp4_recipe",), None),
)
"""Where a recipe is named: dialect, key, and the recipe that a switch stands for."""
