"""What lives through a step: weights, master weights, gradients and optimizer states of one rank, in bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from cfglint.estimate.training.families import style_of
from cfglint.estimate.training.formats import format_of
from cfglint.estimate.training.optimizers import OptimizerKind, optimizer_kind
from cfglint.estimate.training.parameters import Parameters
from cfglint.estimate.training.plan import Plan
from cfglint.estimate.training.tape import DTYPE_BYTES

SUB_GROUP: Final = 1e9
"""``sub_group_size`` of ZeRO-3, elements (deepspeed ``runtime/zero/config.py``)."""


@dataclass(frozen=True, slots=True)
class States:
    """Bytes on one rank, after sharding and offload."""

    weights: float
    masters: float
    gradients: float
    optimizer: float
    workspace: float
    gradient_bytes: float
    """Bytes of one gradient element."""
    master_bytes: float
    """Bytes of what is held of one element beside its 16-bit weight."""
    trainable: float
    paged: float = 0.0
    """Optimizer states in unified memory, which move to the host when the device is full."""
    host: float = 0.0
    all_weights: float = 0.0
    """Weights of the trained model on all ranks together, as a full state dict holds them."""
    all_optimizer: float = 0.0

    @property
    def resident(self) -> float:
        """What lives through the whole step."""
        return self.weights + self.masters + self.optimizer


def unquantized_dtype(plan: Plan) -> str:
    """Dtype of what quantization leaves alone."""
    return "fp32" if plan.quantization and plan.upcast_unquantized else plan.weight_dtype


def outer_dtype(plan: Plan) -> str:
    """Dtype of embeddings and head beside a frozen base."""
    return "fp32" if plan.quantization and plan.upcast_outer else plan.weight_dtype


def trainable_dtype(plan: Plan) -> str:
    """Dtype of trainable parameters as stored."""
    if plan.adapter:
        return plan.adapter_dtype
    sharded = plan.sharding in ("fsdp1", "fsdp2")
    if sharded and plan.upcasts_trainable and plan.compute_dtype in ("bf16", "fp16"):
        # accelerate/utils/fsdp_utils.py, fsdp2_prepare_model, and Accelerator._prepare_fsdp for version 1
        return "fp32"
    return plan.weight_dtype


def trained_bytes(plan: Plan, p: Parameters) -> float:
    """Bytes of a trained parameter as stored, on average: modules saved beside adapters are copies of the base's own.

    PEFT converts adapters alone to fp32 (``cast_adapter_dtype``, ``ModulesToSaveWrapper``); LLaMA-Factory all that is trained.
    """
    own = DTYPE_BYTES[trainable_dtype(plan)]
    if not plan.adapter or not p.saved_modules:
        return own
    sharded = plan.sharding in ("fsdp1", "fsdp2") and plan.upcasts_trainable and plan.compute_dtype
    saved = "fp32" if sharded or plan.profile.widens_saved else outer_dtype(plan)
    if plan.adapter_dtype != "fp32":
        saved = plan.adapter_dtype
    return (p.adapter * own + p.saved_modules * DTYPE_BYTES[saved]) / (p.adapter + p.saved_modules)


def partition_share(plan: Plan, parameters: Parameters, *, weights: bool = False) -> float:
    """Part of what is sharded that stays on this rank: of what is trained, or of the ``weights``.

    Experts are already spread over expert-parallel ranks: only the remaining ranks share them.
    """
    if plan.sharding in ("none", "ddp"):
        return 1.0
    has_experts = parameters.base and (weights or not plan.adapter)
    experts = parameters.routed / parameters.base if has_experts else 0.0
    padding = expert_padding(plan, parameters)
    return (1 - experts) / plan.shard_degree + experts * padding / plan.expert_shard_degree


def expert_padding(plan: Plan, parameters: Parameters) -> float:
    """How much larger the fullest rank's shard of fused experts is than an even one.

    FSDP2 cuts parameters along their first dimension, which is the experts' (``fully_shard`` places ``Shard(0)``).
    """
    experts = plan.architecture.moe if plan.architecture else None
    if plan.sharding != "fsdp2" or not parameters.experts or experts is None or plan.expert_parallel > 1:
        return 1.0
    count = max(1, experts.num_experts)
    return ceil(count / plan.shard_degree) * plan.shard_degree / count


def _weights(plan: Plan, p: Parameters, trainable: float) -> float:
    """Weights of the trained model, before data-parallel sharding."""
    stored = trained_bytes(plan, p)
    dense = DTYPE_BYTES[plan.weight_dtype]
    if plan.quantization:
        packed = p.linear + p.packed_head
        outer = p.embedding + p.head - p.packed_head + p.outside
        inside = p.base - packed - outer
        rest = inside * DTYPE_BYTES[unquantized_dtype(plan)] + outer * DTYPE_BYTES[outer_dtype(plan)]
        base = packed * format_of(plan).bytes_per_parameter + rest
    else:
        base = p.base * dense if plan.adapter else (p.base - p.frozen) * stored + p.frozen * dense
    return base + (trainable * stored if plan.adapter else max(0.0, trainable - p.base) * stored)


def _copies(plan: Plan, p: Parameters, weights: float, trainable: float) -> float:
    """Bytes of the whole frozen models beside the trained one, before data-parallel sharding."""
    own = weights - trainable * trained_bytes(plan, p) if plan.adapter else p.base * DTYPE_BYTES[plan.weight_dtype]
    return plan.frozen_copies * own


def _buffers(plan: Plan) -> float:
    """Bytes of the causal masks that a model's class keeps as buffers (transformers 5.24, GPTBigCode and GPT-Neo)."""
    architecture = plan.architecture
    if architecture is None or not plan.profile.modeling:
        return 0.0
    where = style_of(architecture)[0].causal_buffer
    stated = (architecture.config.get(name) for name in ("max_position_embeddings", "n_positions"))
    positions = next((value for value in stated if isinstance(value, int)), 0)
    return float(positions**2) * {"model": 1, "layer": architecture.num_hidden_layers}.get(where, 0)


def _workspace(plan: Plan, p: Parameters, kind: OptimizerKind, stepped: float, size: float) -> float:
    """What ``step()`` makes beside states and gradients; ``stepped`` parameters of ``size`` bytes on this rank."""
    if kind.workspace == "foreach":
        # DeepSpeed's stage 3 steps one sub-group at a time
        return (min(stepped, SUB_GROUP) if plan.sharding == "zero3" else stepped) * size
    largest = (p.largest_adapter if plan.adapter else p.largest) / plan.shard_degree
    if kind.factored:
        # fp32 copies of gradient and parameter where they are 16-bit, the update and one temporary
        return largest * (16 if size < 4 else 8)
    return largest * kind.largest_factor * size if kind.workspace == "largest" else 0.0


def state_bytes(plan: Plan, parameters: Parameters) -> States:
    """Weights, masters, gradients and optimizer states of one rank."""
    kind, _ = optimizer_kind(plan)
    p = parameters
    stored = trained_bytes(plan, p)
    trainable = p.adapter + p.saved_modules if plan.adapter else p.base - p.frozen
    if plan.objective == "ppo" and not plan.small_helpers:
        trainable *= 2  # policy and value model
    # DeepSpeed keeps fp32 masters of adapters too; Megatron's are beside 16-bit weights
    mastered = plan.sharding.startswith("zero") if plan.adapter else plan.master_weights and plan.weight_dtype != "fp32"
    state = 4.0 if mastered else stored
    gradient = 4.0 if mastered and plan.profile.main_grads_fp32 and not plan.adapter else stored
    master = 4.0
    if mastered and plan.profile.main_grads_fp32:
        gradient = DTYPE_BYTES[plan.gradient_dtype] if plan.gradient_dtype else gradient
        # TransformerEngine's FusedAdam: ``store_param_remainders``
        master = 2.0 if plan.precision_aware and plan.weight_dtype == "bf16" else master
    moment = DTYPE_BYTES[plan.state_dtype] if plan.state_dtype else state
    own = _weights(plan, p, trainable)
    whole = own + _copies(plan, p, own, trainable)
    part = partition_share(plan, p)
    optimizer = trainable * (kind.factors * moment + kind.block_bytes)
    if kind.factored and not plan.adapter:
        optimizer += p.rows_columns * 4
    if kind.embeddings_fp32 and not plan.adapter and plan.profile.modeling:
        optimizer += p.embedding * (8 - kind.block_bytes)
    states = States(
        weights=whole * (partition_share(plan, p, weights=True) if plan.shards_weights else 1.0) + _buffers(plan),
        masters=trainable * master * part if mastered else 0.0,
        gradients=trainable * gradient * (part if plan.shards_gradients else 1.0),
        optimizer=optimizer * part,
        workspace=_workspace(plan, p, kind, trainable * part, state),
        gradient_bytes=gradient,
        master_bytes=master,
        trainable=trainable,
        all_weights=own,
        all_optimizer=optimizer,
    )
    if plan.in_backward:
        states = replace(states, gradients=p.largest * gradient)
    if kind.paged:
        states = replace(states, paged=states.optimizer, optimizer=0.0)
    return _offloaded(plan, states, part)


def left_by_loading(plan: Plan, parameters: Parameters) -> float:
    """Bytes of blocks that were freed before the first step.

    Where the trainer itself prepares a quantized model (TRL; the loops of fitcheck-t4, which do it before, hold none of it),
    of embeddings and head: the 16-bit ones that became fp32 (PEFT ``utils/other.py``, prepare_model_for_kbit_training), or
    the fp32 ones where they became 16-bit again. In a loop around DeepSpeed's stage 3 the whole model: without ``zero.Init``
    the engine moves it to the device before it is partitioned (``runtime/engine.py``, _configure_distributed_model).
    """
    if plan.profile.name == "deepspeed" and plan.sharding == "zero3":
        return parameters.base * DTYPE_BYTES[plan.compute_dtype or plan.weight_dtype]
    prepares = bool(plan.profile.kbit_releases) and plan.upcast_unquantized
    if plan.quantization is None or not prepares or plan.weight_dtype == "fp32":
        return 0.0
    freed = DTYPE_BYTES[plan.weight_dtype] if plan.upcast_outer else DTYPE_BYTES["fp32"]
    return (parameters.embedding + parameters.head) * freed


def _offloaded(plan: Plan, states: States, part: float) -> States:
    """States with what is offloaded moved to the host (or to NVMe, where it is counted nowhere)."""
    if plan.offload_optimizer in ("cpu", "nvme"):
        moved = states.masters + states.optimizer
        gradients = states.gradients
        if plan.sharding.startswith("zero") and not plan.profile.distributed_optimizer:
            # reduced gradients go to the host as they come (stage_1_and_2.py, stage3.py: ``cpu_offload``)
            moved += states.trainable * part * 4
            gradients = 0.0
        elif plan.profile.distributed_optimizer:
            moved += states.trainable * part * 4  # copies of the gradients, whose buffer stays on the device
        host = states.host + (moved if plan.offload_optimizer == "cpu" else 0.0)
        # Megatron's HybridDeviceOptimizer copies what it is handed to the host: fp32 copies, unless it makes them itself
        masters = states.masters if plan.profile.distributed_optimizer and plan.precision_aware is False else 0.0
        states = replace(states, masters=masters, optimizer=0.0, workspace=0.0, gradients=gradients, host=host)
    if plan.offload_parameters in ("cpu", "nvme"):
        host = states.host + (states.weights if plan.offload_parameters == "cpu" else 0.0)
        states = replace(states, weights=0.0, host=host)
        if plan.sharding.startswith("fsdp"):
            host = states.host + states.gradients + states.optimizer + states.masters
            states = replace(states, gradients=0.0, optimizer=0.0, masters=0.0, workspace=0.0, host=host)
    return states


__all__ = [
    "States",
    "expert_padding",
    "optimizer_kind",
    "outer_dtype",
    "partition_share",
    "state_bytes",
    "trainable_dtype",
    "trained_bytes",
    "unquantized_dtype",
]
