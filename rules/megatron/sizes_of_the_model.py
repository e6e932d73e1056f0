"""MEG006."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.values import integer
from cfglint.jobs.facts import Fact, Reading
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Where
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Route

from .parallel_sizes import UNEVEN

_SECTION: Final[dict[str, Route]] = {"nemo": ("model",), "ms-swift": ()}
"""Where each program has Megatron's names."""


class MegatronCoreSizes(Rule):
    """Parallel sizes of NeMo or ms-swift that do not divide the model or the GPUs.

    Both hand them to Megatron-Core, which stops: "num_attention_heads (15) must be a multiple of tensor_model_parallel_size
    (2)", "Number of layers should be divisible by the pipeline-model-parallel size", "world_size (1) is not divisible by 2".

    How sure: checks of Megatron-Core (transformer_config.py, parallel_state.py). Heads and layers are those that the file
    states, or those of a model whose architecture is known; a model of several parts and an uneven pipeline are left out. The
    GPUs are judged where the file or the launcher states them; what NeMo's own YAML states of them is information, since
    commands override it.
    """

    code = "MEG006"
    name = "megatron-core-sizes"
    family = "megatron"
    severity = "error"
    catalogue = ("par.world-model-size", "par.tp-heads", "par.pp-layers", "par.ep-experts")
    evidence = (
        "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/transformer/transformer_config.py",
        "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/parallel_state.py",
        "https://github.com/modelscope/ms-swift/issues/5737",
    )
    good = (
        example(
            "sft.sh",
            """
            NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset our/data --tensor_model_parallel_size 4 \\
              --pipeline_model_parallel_size 2 --micro_batch_size 1 --global_batch_size 16 --max_length 4096
            """,
        ),
        example(
            "sft.sh",
            """
            megatron sft --model zai-org/GLM-4.5-Air --dataset our/data --pipeline_model_parallel_size 4 \\
              --decoder_last_pipeline_num_layers 10 --micro_batch_size 1 --global_batch_size 16 --max_length 4096
            """,
            note="46 layers, the last stage with fewer",
        ),
    )
    bad = (
        example(
            "sft.sh",
            """
            megatron sft --load ZhipuAI/GLM-4.5-Air-Base-mcore --dataset our/data --tensor_model_parallel_size 2 \\
              --pipeline_model_parallel_size 4 --micro_batch_size 1 --global_batch_size 16 --max_length 4096
            """,
            at="pipeline_model_parallel_size",
            count=1,
        ),
        example(
            "nemo.yaml",
            """
            trainer:
              devices: 8
              num_nodes: 1
              precision: bf16
            model:
              micro_batch_size: 1
              global_batch_size: 64
              tensor_model_parallel_size: 4
              pipeline_model_parallel_size: 1
              num_layers: 24
              hidden_size: 1920
              num_attention_heads: 30
            """,
            at="tensor_model_parallel_size",
            count=1,
        ),
        example(
            "sft.sh",
            """
            NPROC_PER_NODE=6 megatron sft --model Qwen/Qwen3-8B --dataset our/data --tensor_model_parallel_size 4 \\
              --micro_batch_size 1 --global_batch_size 12 --max_length 4096
            """,
            at="tensor_model_parallel_size",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        reading = next((r for r in job.readings if r.dialect in _SECTION and r.role in ("run", "arguments")), None)
        if (
            reading is None
            or job.value("framework") not in ("nemo", "megatron")
            or reading.context.get("trains") is False
        ):
            return
        section = _SECTION[reading.dialect]
        tensor, pipeline, experts = (
            _size(reading, (*section, f"{name}_parallel_size"))
            for name in ("tensor_model", "pipeline_model", "expert_model")
        )
        own = job.architecture
        if own is not None and (
            not own.exact or own.encoder_layers or own.ssm or any(key.endswith("_config") for key in own.config)
        ):
            own = None  # of several parts, or not known whole
        heads = integer(reading.value(*section, "num_attention_heads")) or (own.num_attention_heads if own else 0)
        layers = integer(reading.value(*section, "num_layers")) or (len(own.layers) if own else 0)
        routed = own.moe.num_experts if own and own.moe else 0
        uneven = any(reading.at(*section, key) is not None for key in UNEVEN)
        for size, count, what, key in (
            (tensor, heads, "attention heads", "num_attention_heads"),
            (pipeline, 0 if uneven else layers, "layers", "num_layers"),
            (experts, routed, "experts", "num_moe_experts"),
        ):
            if size is None or not count or count % size.value == 0:
                continue
            counted = (*section, key)
            said: Where = reading.origin(*counted) if reading.at(*counted) is not None else job.model_id
            yield self.finding(
                f"{count} {what} cannot be split over {size.value} ranks: Megatron-Core stops at the start",
                size,
                (said, f"{count} {what}"),
                help=f"a size that divides the {what.split()[-1]}",
                job=job,
            )
        yield from self._world(job, reading, section)

    def _world(self, job: TrainingJob, reading: Reading, section: Route) -> Iterator[Finding]:
        world, product = job.hardware.world_size, 1
        routes = [(*section, f"{name}_parallel_size") for name in ("tensor_model", "pipeline_model", "context")]
        sizes = [_size(reading, route) for route in routes if reading.at(*route) is not None]
        if not world or any(size is None for size in sizes):
            return
        places = [size for size in sizes if size is not None and size.value > 1]
        for size in places:
            product *= size.value
        if world % product:
            overridden = reading.dialect == "nemo" and reading.document.script is None
            yield self.finding(
                f"{world} GPUs are no multiple of the {product} that one copy of the model takes",
                *places,
                help=f"start a multiple of {product} processes, or lower the sizes",
                severity="info"
                if overridden
                else "error",  # NeMo's files are defaults; commands state devices and nodes
                confidence="medium" if overridden else "high",
                job=job,
            )


def _size(reading: Reading, route: Route) -> Fact[int] | None:
    value = integer(reading.value(*route))
    return Fact(value, reading.origin(*route)) if value is not None and value > 0 else None
