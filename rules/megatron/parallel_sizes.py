"""MEG002."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .arguments import Arguments, arguments

UNEVEN = (
    "decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers", "pipeline_model_parallel_layout",
    "account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split", "hybrid_layer_pattern",
    "hybrid_override_pattern", "encoder_num_layers", "decoder_num_layers", "pipeline_model_parallel_split_rank",
    "standalone_embedding_stage", "num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage",
)  # fmt: skip
"""Arguments by which stages may hold different numbers of layers."""


class MegatronParallelSizes(Rule):
    """Megatron's parallel sizes do not divide what they split: GPUs, heads, layers, experts or the sequence.

    Each is an assertion at the start: the GPUs by tensor × pipeline × context size, attention heads by the tensor size (the
    query groups may also divide it), layers by the pipeline size and its virtual stages, experts by the expert size, the
    sequence by twice the context size. Expert parallelism without experts is refused too.

    How sure: the checks of Megatron-LM (training/arguments.py, core/transformer/transformer_config.py). Uneven pipelines,
    encoder-decoder and hybrid models are left out of the layers' check.
    """

    code = "MEG002"
    name = "megatron-parallel-sizes"
    family = "megatron"
    severity = "error"
    catalogue = (
        "par.world-model-size", "par.tp-heads", "par.pp-layers", "par.pp-interleave", "par.ep-experts", "par.seq-len-cp",
    )  # fmt: skip
    evidence = (
        "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/arguments.py",
        "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/transformer/transformer_config.py",
    )
    good = (
        example(
            "pretrain.sh",
            """
            torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 \\
              --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention --num-query-groups 2 \\
              --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 \\
              --train-iters 1000 --lr 3e-4 --min-lr 3e-5 --bf16
            """,
            note="two query groups for four ranks",
        ),
    )
    bad = (
        example(
            "pretrain.sh",
            """
            torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 8 --num-layers 32 --hidden-size 4480 \\
              --num-attention-heads 28 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 \\
              --global-batch-size 64 --train-iters 1000 --lr 3e-4 --min-lr 3e-5 --bf16
            """,
            at="num_attention_heads",
            count=1,
        ),
        example(
            "pretrain.sh",
            """
            torchrun --nproc_per_node 8 pretrain_gpt.py --pipeline-model-parallel-size 4 --num-layers 30 --hidden-size 4096 \\
              --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 \\
              --global-batch-size 64 --train-iters 1000 --lr 3e-4 --min-lr 3e-5 --bf16
            """,
            at="num_layers",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        found = arguments(job)
        if found is None:
            return
        tensor, pipeline, length = (
            found.size(f"{kind}_parallel_size") for kind in ("tensor_model", "pipeline_model", "context")
        )
        yield from self._world(job, found, tensor, pipeline, length)
        yield from self._heads(job, found, tensor)
        yield from self._layers(job, found, pipeline)
        yield from self._experts(job, found)
        tokens = found.integer("seq_length")
        if length and length > 1 and tokens and tokens % (2 * length):
            yield self.finding(
                f"--seq-length {tokens} is no multiple of 2 × context-parallel-size = {2 * length}",
                found.origin("seq_length"),
                (found.origin("context_parallel_size"), f"context parallelism over {length}"),
                help=f"--seq-length {-(-tokens // (2 * length)) * 2 * length}",
                job=job,
            )

    def _world(
        self, job: TrainingJob, found: Arguments, tensor: int | None, pipeline: int | None, length: int | None
    ) -> Iterator[Finding]:
        world = job.hardware.world_size
        if not world or tensor is None or pipeline is None or length is None:
            return
        model = tensor * pipeline * length
        if world % model:
            keys = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
            where = [found.origin(key) for key in keys if found.given(key)]
            yield self.finding(
                f"{world} GPUs are no multiple of tensor {tensor} × pipeline {pipeline} × context {length} = {model}",
                *where,
                help=f"start a multiple of {model} processes, or lower the sizes",
                job=job,
            )

    def _heads(self, job: TrainingJob, found: Arguments, tensor: int | None) -> Iterator[Finding]:
        heads, groups = found.integer("num_attention_heads"), found.integer("num_query_groups")
        if not tensor or tensor < 2:
            return
        if heads and heads % tensor:
            yield self.finding(
                f"{heads} attention heads cannot be split over tensor-parallel size {tensor}",
                found.origin("num_attention_heads"),
                (found.origin("tensor_model_parallel_size"), f"{tensor} ranks"),
                help="a tensor-parallel size that divides the heads, the rest as pipeline parallelism",
                job=job,
            )
        elif groups and found.on("group_query_attention") and groups % tensor and tensor % groups:
            yield self.finding(
                f"{groups} query groups neither divide tensor-parallel size {tensor} nor are divided by it",
                found.origin("num_query_groups"),
                (found.origin("tensor_model_parallel_size"), f"{tensor} ranks"),
                help="a tensor-parallel size that divides the groups, or a multiple of them",
                job=job,
            )

    def _layers(self, job: TrainingJob, found: Arguments, pipeline: int | None) -> Iterator[Finding]:
        layers, virtual = found.integer("num_layers"), found.integer("num_layers_per_virtual_pipeline_stage")
        if not pipeline or not layers or not found.whole or any(found.given(key) for key in UNEVEN):
            return
        if layers % pipeline:
            yield self.finding(
                f"{layers} layers cannot be split over {pipeline} pipeline stages",
                found.origin("num_layers"),
                (found.origin("pipeline_model_parallel_size"), f"{pipeline} stages"),
                help="a pipeline size that divides the layers, or --decoder-first/last-pipeline-num-layers",
                job=job,
            )
        elif virtual and virtual > 0 and (layers // pipeline) % virtual:
            yield self.finding(
                f"{layers // pipeline} layers per stage are no multiple of {virtual} per virtual stage",
                found.origin("num_layers_per_virtual_pipeline_stage"),
                help=f"a number that divides {layers // pipeline}",
                job=job,
            )
        elif virtual and pipeline == 1 and layers != virtual:
            yield self.finding(
                "virtual pipeline stages without pipeline parallelism",
                found.origin("num_layers_per_virtual_pipeline_stage"),
                help="--pipeline-model-parallel-size of 2 or more, or leave the virtual stages out",
                job=job,
            )

    def _experts(self, job: TrainingJob, found: Arguments) -> Iterator[Finding]:
        ranks, experts = found.integer("expert_model_parallel_size"), found.integer("num_experts")
        if not ranks or ranks < 2:
            return
        if experts and experts % ranks:
            yield self.finding(
                f"{experts} experts cannot be split over expert-parallel size {ranks}",
                found.origin("num_experts"),
                (found.origin("expert_model_parallel_size"), f"{ranks} ranks"),
                help="an expert-parallel size that divides the experts",
                job=job,
            )
        elif not found.given("num_experts") and found.whole:
            yield self.finding(
                f"expert-parallel size {ranks}, and the model has no experts",
                found.origin("expert_model_parallel_size"),
                help="state --num-experts, or leave expert parallelism out",
                job=job,
            )
