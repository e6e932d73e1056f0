"""MEG003."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .arguments import Arguments, arguments, option


class MegatronSwitches(Rule):
    """Megatron arguments that exclude each other, or that need another one.

    fp16 and bf16; training by iterations with anything counted in samples, and the other way round; a warmup given twice;
    `--overlap-param-gather` without a distributed optimizer or `--overlap-grad-reduce`; selective recomputation with a
    method; `--use-torch-fsdp2` with what it does not support; `--tp-comm-overlap` without sequence parallelism. Each is an
    assertion at the start.

    How sure: the checks of Megatron-LM's training/arguments.py. What a missing argument would decide is said only where the
    whole command is in sight.
    """

    code = "MEG003"
    name = "megatron-switches"
    family = "megatron"
    severity = "error"
    catalogue = (
        "megatron.fp16-bf16-both", "megatron.samples-vs-iters", "par.megatron-overlap-param", "par.megatron-recompute",
        "par.megatron-fsdp2", "par.seq-parallel-tp1", "megatron.bf16-grad-allreduce",
    )  # fmt: skip
    evidence = ("https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/arguments.py",)
    good = (
        example(
            "pretrain.sh",
            """
            torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2 --sequence-parallel --num-layers 32 \\
              --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 \\
              --micro-batch-size 1 --global-batch-size 64 --train-iters 1000 --lr-warmup-iters 100 --lr 3e-4 --bf16 \\
              --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --tp-comm-overlap
            """,
        ),
    )
    bad = (
        example(
            "pretrain.sh",
            """
            torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2 --num-layers 32 --hidden-size 4096 \\
              --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 \\
              --global-batch-size 64 --train-iters 1000 --lr 3e-4 --bf16 --fp16
            """,
            at="fp16",
            count=1,
        ),
        example(
            "pretrain.sh",
            """
            torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2 --num-layers 32 --hidden-size 4096 \\
              --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 \\
              --global-batch-size 64 --train-samples 100000 --lr-warmup-iters 100 --lr 3e-4 --bf16
            """,
            at="lr_warmup_iters",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        found = arguments(job)
        if found is None:
            return
        for key, other, advice in _clashes(found):
            yield self.finding(
                f"{option(key)} does not go with {option(other)}",
                found.origin(key),
                (found.origin(other), "given here"),
                help=advice,
                job=job,
            )
        for key, needed, advice in _lacking(found) if found.whole else ():
            yield self.finding(f"{option(key)} needs {needed}", found.origin(key), help=advice, job=job)


def _clashes(found: Arguments) -> Iterator[tuple[str, str, str]]:
    if found.on("fp16") and found.on("bf16"):
        yield "fp16", "bf16", "keep one of the two"
    for basis, others in (
        ("train_iters", ("train_samples", "lr_decay_samples", "lr_warmup_samples")),
        ("train_samples", ("lr_decay_iters", "lr_warmup_iters")),
    ):
        if (found.integer(basis) or 0) > 0:
            unit = "iterations" if basis == "train_iters" else "samples"
            for key in others:
                if (found.integer(key) or 0) > 0:
                    yield key, basis, f"count the whole run in {unit}"
    for key in ("lr_warmup_iters", "lr_warmup_samples"):
        if found.given("lr_warmup_fraction") and (found.integer(key) or 0) > 0:
            yield key, "lr_warmup_fraction", "keep one of the two"
    granularity = found.reading.value("recompute_granularity")
    if (granularity == "selective" or found.on("recompute_activations")) and found.given("recompute_method"):
        basis = "recompute_granularity" if granularity == "selective" else "recompute_activations"
        yield "recompute_method", basis, "a method is for --recompute-granularity full"
    if found.on("use_torch_fsdp2"):
        for key in ("fp16", "use_distributed_optimizer"):
            if found.on(key):
                yield key, "use_torch_fsdp2", f"leave {option(key)} out"
        for key in ("pipeline_model_parallel_size", "expert_model_parallel_size"):
            if (found.integer(key) or 1) > 1:
                yield key, "use_torch_fsdp2", f"leave {option(key)} out, or shard without FSDP 2"
    grads = found.reading.value("main_grads_dtype")
    if found.on("bf16") and found.on("accumulate_allreduce_grads_in_fp32") and grads not in (None, "fp32"):
        yield "main_grads_dtype", "accumulate_allreduce_grads_in_fp32", "fp32, or leave one of the two out"


def _lacking(found: Arguments) -> Iterator[tuple[str, str, str]]:
    if found.on("overlap_param_gather"):
        sharded = any(found.on(key) for key in ("use_distributed_optimizer", "use_megatron_fsdp", "use_custom_fsdp"))
        muon = str(found.reading.value("optimizer") or "").startswith("dist_")
        if not sharded and not muon:
            yield "overlap_param_gather", "--use-distributed-optimizer", "add --use-distributed-optimizer"
        elif not found.on("overlap_grad_reduce"):
            yield "overlap_param_gather", "--overlap-grad-reduce", "add --overlap-grad-reduce"
    if found.on("tp_comm_overlap"):
        tensor = found.size("tensor_model_parallel_size")
        if not found.on("sequence_parallel") or tensor == 1:
            yield "tp_comm_overlap", "sequence parallelism over 2 or more ranks", "add --sequence-parallel"
    if found.on("use_torch_fsdp2") and not found.on("untie_embeddings_and_output_weights"):
        yield "use_torch_fsdp2", option("untie_embeddings_and_output_weights"), "add it"
    if found.on("distribute_saved_activations") and found.reading.value("recompute_granularity") != "full":
        yield "distribute_saved_activations", "--recompute-granularity full", "add it, with a --recompute-method"
