"""MEG004."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .arguments import Arguments, arguments, option

GONE = {
    "batch_size": "--micro-batch-size",
    "warmup": "--lr-warmup-fraction",
    "model_parallel_size": "--tensor-model-parallel-size",
    "checkpoint_activations": "--recompute-activations, or --recompute-granularity and --recompute-method",
}
"""Arguments that Megatron-LM still knows and stops at, with what took their place."""


class MegatronValues(Rule):
    """Values that Megatron refuses at its start: rates, lengths and intervals out of order, and arguments of old.

    A `--min-lr` above `--lr`, a sequence longer than `--max-position-embeddings`, `--save` without a `--save-interval` or one
    that is 0, a retained interval that is no multiple of it, a hidden size that is no multiple of the heads, and
    `--batch-size`, `--warmup`, `--model-parallel-size` or `--checkpoint-activations`, which are long replaced.

    How sure: the checks of Megatron-LM's training/arguments.py; a missing interval is reported where `--micro-batch-size` is
    stated, since releases before that argument had a default. Replaced arguments are information, since a script does not
    say which release it runs; forks that never took the renaming over (Megatron-DeepSpeed) are left out.
    """

    code = "MEG004"
    name = "megatron-values"
    family = "megatron"
    severity = "error"
    catalogue = ("megatron.min-lr", "megatron.removed-flags", "repro.megatron-save-interval")
    evidence = ("https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/arguments.py",)
    good = (
        example(
            "pretrain.sh",
            """
            torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2 --num-layers 32 --hidden-size 4096 \\
              --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 \\
              --global-batch-size 64 --train-iters 1000 --lr 3e-4 --min-lr 3e-5 --bf16 --save out --save-interval 500
            """,
        ),
    )
    bad = (
        example(
            "pretrain.sh",
            """
            torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2 --num-layers 32 --hidden-size 4096 \\
              --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 \\
              --global-batch-size 64 --train-iters 1000 --lr 3e-5 --min-lr 3e-4 --bf16
            """,
            at="min_lr",
            count=1,
        ),
        example(
            "pretrain.sh",
            """
            torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2 --num-layers 32 --hidden-size 4096 \\
              --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 2048 --micro-batch-size 1 \\
              --global-batch-size 64 --train-iters 1000 --lr 3e-4 --bf16 --save out
            """,
            count=2,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        found = arguments(job)
        if found is None:
            return
        yield from self._order(job, found)
        yield from self._saving(job, found)
        hidden, heads = found.integer("hidden_size"), found.integer("num_attention_heads")
        if hidden and heads and hidden % heads and not found.given("kv_channels") and found.whole:
            yield self.finding(
                f"--hidden-size {hidden} is no multiple of {heads} attention heads",
                found.origin("hidden_size"),
                help="state --kv-channels, or correct the two numbers",
                job=job,
            )
        for key, instead in GONE.items():
            if found.given(key) and found.reading.value(key) is not False:
                yield self.finding(
                    f"Megatron-LM no longer takes {option(key)}, and stops",
                    found.origin(key),
                    help=f"use {instead}",
                    severity="info",  # a script does not say which release it runs, and those of old took it
                    confidence="medium",
                    job=job,
                )

    def _order(self, job: TrainingJob, found: Arguments) -> Iterator[Finding]:
        least, rate = found.number("min_lr"), found.number("lr")
        if least is not None and rate is not None and least > rate:
            yield self.finding(
                f"--min-lr {least:g} is above --lr {rate:g}",
                found.origin("min_lr"),
                (found.origin("lr"), "the highest rate"),
                help="a tenth of the learning rate is usual",
                job=job,
            )
        tokens, positions = found.integer("seq_length"), found.integer("max_position_embeddings")
        if tokens and positions and tokens > positions:
            yield self.finding(
                f"--seq-length {tokens} is above --max-position-embeddings {positions}",
                found.origin("seq_length"),
                (found.origin("max_position_embeddings"), f"{positions} positions"),
                help=f"--max-position-embeddings {tokens}",
                job=job,
            )

    def _saving(self, job: TrainingJob, found: Arguments) -> Iterator[Finding]:
        if not found.given("save"):
            return
        interval, kept = found.integer("save_interval"), found.integer("save_retain_interval")
        # scripts of the time before --micro-batch-size ran with a default of 5000
        missing = found.whole and not found.given("save_interval") and found.given("micro_batch_size")
        if missing or interval == 0:
            yield self.finding(
                "--save without a --save-interval",
                found.origin("save_interval") if interval == 0 else found.origin("save"),
                help="--save-interval: after how many iterations a checkpoint is written",
                job=job,
            )
        elif interval and kept and kept % interval:
            yield self.finding(
                f"--save-retain-interval {kept} is no multiple of --save-interval {interval}",
                found.origin("save_retain_interval"),
                help=f"--save-retain-interval {-(-kept // interval) * interval}",
                job=job,
            )
