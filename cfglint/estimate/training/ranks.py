"""How many ranks a job has, and what each kind of parallelism does with them."""

from __future__ import annotations

from dataclasses import dataclass

from cfglint.catalog.architecture import Architecture
from cfglint.estimate.training.profiles import Profile
from cfglint.estimate.training.reader import Reader


def check_division(read: Reader, architecture: Architecture | None, ranks: Ranks, megatron: bool = False) -> None:
    """Heads, layers and experts that cannot be dealt out to the ranks: no framework starts so.

    ``megatron``: experts have groups of their own, which must divide the GPUs (megatron/core/parallel_state.py).
    """
    if architecture is None:
        return
    heads, experts = architecture.num_attention_heads, architecture.moe.num_experts if architecture.moe else 0
    if heads and heads % ranks.tensor:
        read.problems.append(f"{heads} attention heads do not divide by tensor_parallel_size {ranks.tensor}")
        read.missing.append("tensor_parallel_size")
    layers = architecture.num_hidden_layers
    if layers and ranks.pipeline > layers:
        read.problems.append(f"{layers} layers are fewer than the {ranks.pipeline} stages of pipeline_parallel_size")
        read.missing.append("pipeline_parallel_size")
    if experts and experts % ranks.expert:
        read.problems.append(f"{experts} experts do not divide by expert_parallel_size {ranks.expert}")
        read.missing.append("expert_parallel_size")
    world = read.job.hardware.world_size
    if megatron and experts and world and world % (ranks.expert_tensor * ranks.expert * ranks.pipeline):
        sizes = f"expert tensor {ranks.expert_tensor} × expert {ranks.expert} × pipeline {ranks.pipeline}"
        read.problems.append(f"{world} GPUs cannot be divided into {sizes} ranks")
        read.missing.append("expert_parallel_size")


@dataclass(frozen=True, slots=True)
class Ranks:
    world: int
    data: int
    tensor: int
    pipeline: int
    context: int
    expert: int
    expert_tensor: int
    sharding: str
    shards_gradients: bool
    reshard: bool
    shard_degree: int


def ranks_of(read: Reader, profile: Profile) -> Ranks:
    """How many ranks there are, and what each kind of parallelism does with them."""
    tensor, pipeline, context, expert = (
        read.count(f"{kind}_parallel_size", 1) or 1 for kind in ("tensor", "pipeline", "context", "expert")
    )
    zero = read.get("zero_stage")
    zero = zero if isinstance(zero, int) and not isinstance(zero, bool) and 0 <= zero <= 3 else None
    fsdp = read.text("fsdp")
    hardware = read.job.hardware
    model_ranks = tensor * pipeline * context
    stated = read.count("data_parallel_size", None)
    world = hardware.world_size or None
    if world is None and stated is not None:
        world = stated * model_ranks
    if world is None:
        if (zero or 0) > 0 or fsdp not in (None, "none", "no_shard"):
            read.missing.append("gpus_per_node")
        elif model_ranks == 1:
            read.assumptions.append("the number of GPUs is not stated: one")
        each = hardware.gpus_per_node or 0
        # of nodes that are not counted, one
        world = each if each >= model_ranks and each % model_ranks == 0 else model_ranks
    elif hardware.count_origin is not None:
        read.note("world_size", world, hardware.count_origin.describe())
    if world % model_ranks:
        read.problems.append(
            f"{world} {'GPU' if world == 1 else 'GPUs'} cannot be divided into tensor {tensor} × pipeline {pipeline} × context {context} ranks"
        )
        kinds = {"tensor": tensor, "pipeline": pipeline, "context": context}
        read.missing.append(f"{next(kind for kind, size in kinds.items() if size > 1)}_parallel_size")
    if stated is not None and stated * model_ranks > world:
        count = f"{world} {'GPU' if world == 1 else 'GPUs'}"
        read.problems.append(f"data_parallel_size {stated} × {model_ranks} ranks of a model are more than {count}")
        read.missing.append("data_parallel_size")
    data = stated or max(1, world // model_ranks)
    sharding, shards_gradients, reshard = _sharding(zero, fsdp, read.count("fsdp_version", 1), world)
    if zero == 0 and profile.name == "megatron":
        sharding = "ddp"
    degree = data * context
    if fsdp == "hybrid_shard":
        degree = min(degree, hardware.gpus_per_node or degree)
    return Ranks(
        world=world,
        data=data,
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        expert=expert,
        expert_tensor=_expert_tensor(read, tensor, expert),
        sharding=sharding,
        shards_gradients=shards_gradients,
        reshard=reshard,
        shard_degree=1 if sharding in ("none", "ddp") else degree,
    )


def _expert_tensor(read: Reader, tensor: int, expert: int) -> int:
    """Ranks that split each expert: as many as split the other layers where there is no expert parallelism, else one.

    torchtitan, ms-swift and Megatron-Bridge's recipes say one; Megatron-LM's own default is the dialect's to state.
    """
    return read.count("expert_tensor_parallel_size", tensor if expert == 1 else 1) or 1


def _sharding(zero: int | None, fsdp: str | None, version: int | None, world: int) -> tuple[str, bool, bool]:
    """``(kind, gradients sharded, parameters resharded after forward)``."""
    if zero:
        return f"zero{zero}", zero >= 2, True
    if fsdp in ("full_shard", "hybrid_shard", "shard_grad_op", "hybrid_shard_zero2"):
        kind = "fsdp2" if version == 2 else "fsdp1"
        return kind, True, fsdp in ("full_shard", "hybrid_shard")
    return ("ddp" if world > 1 else "none"), False, True
