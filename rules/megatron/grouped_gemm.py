"""MEG005."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..hardware.capability import AMPERE, below, described
from .arguments import arguments


class MegatronGroupedGemm(Rule):
    """Megatron's grouped GEMM for experts on a GPU before Ampere, which has no kernels for it.

    Megatron asks for compute capability 8.0 and stops with "Unsupported compute capability for GroupedGEMM kernels".

    How sure: the check of Megatron-LM's training/arguments.py; every accelerator that the name can mean must be older.
    """

    code = "MEG005"
    name = "megatron-grouped-gemm"
    family = "megatron"
    severity = "error"
    catalogue = ("hw.megatron-grouped-gemm",)
    evidence = ("https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/arguments.py",)
    _COMMAND = """
            torchrun --nproc_per_node 8 pretrain_gpt.py --expert-model-parallel-size 8 --num-experts 8 --moe-grouped-gemm \\
              --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 \\
              --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 64 --train-iters 1000 --lr 3e-4 --fp16
            """
    good = (example("pretrain.sh", _COMMAND, gpu="A100-80GB"),)
    bad = (example("pretrain.sh", _COMMAND, gpu="V100-32GB", at="moe_grouped_gemm", count=1),)

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        found = arguments(job)
        if found is None or not found.on("moe_grouped_gemm") or not below(job, AMPERE):
            return
        yield self.finding(
            f"--moe-grouped-gemm needs compute capability 8.0, the accelerator is {described(job)}",
            found.origin("moe_grouped_gemm"),
            (job.hardware.origin, "before Ampere"),
            help="leave --moe-grouped-gemm out",
            job=job,
        )
