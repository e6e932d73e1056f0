"""MEG001."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .arguments import arguments


class MegatronBatch(Rule):
    """Megatron's global batch is no multiple of the micro-batch times the data-parallel size.

    Megatron stops with "global batch size (…) is not divisible by micro batch size (…) times data parallel size (…)", after
    all ranks have started. The data-parallel size is what tensor, pipeline and context parallelism leave of the GPUs.

    How sure: the check is in Megatron-Core (num_microbatches_calculator.py). Said where the number of GPUs is known, for runs
    without a batch-size ramp. Programs that wrap Megatron and count batches in their own way are left out.
    """

    code = "MEG001"
    name = "megatron-batch"
    family = "megatron"
    severity = "error"
    catalogue = ("megatron.global-batch-divisible",)
    evidence = ("https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/num_microbatches_calculator.py",)
    good = (
        example(
            "pretrain.sh",
            """
            torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2 --num-layers 32 --hidden-size 4096 \\
              --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 2 \\
              --global-batch-size 64 --train-iters 1000 --lr 3e-4 --min-lr 3e-5 --bf16
            """,
        ),
    )
    bad = (
        example(
            "pretrain.sh",
            """
            torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2 --num-layers 32 --hidden-size 4096 \\
              --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 3 \\
              --global-batch-size 64 --train-iters 1000 --lr 3e-4 --min-lr 3e-5 --bf16
            """,
            at="global_batch_size",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        found, world = arguments(job), job.hardware.world_size
        if found is None or found.given("rampup_batch_size") or not world:
            return
        micro, whole = found.integer("micro_batch_size"), found.integer("global_batch_size")
        sizes = [found.size(f"{kind}_parallel_size") for kind in ("tensor_model", "pipeline_model", "context")]
        model = 1
        for size in sizes:
            if size is None:
                return
            model *= size
        if not micro or not whole or micro < 1 or whole < 1 or world % model:
            return
        ranks = world // model
        if whole % (micro * ranks):
            step = micro * ranks
            yield self.finding(
                f"global batch {whole} is no multiple of {micro} × {ranks} data-parallel ranks = {step}",
                found.origin("global_batch_size"),
                (found.origin("micro_batch_size"), f"micro-batch {micro}"),
                help=f"--global-batch-size {max(step, round(whole / step) * step)}, or another micro-batch",
                job=job,
            )
