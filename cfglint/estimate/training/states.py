"""Parameters as memory: how many stand where, and the bytes of weights, gradients and optimizer states of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cfglint.catalog.architecture import Architecture, Tensor
from cfglint.estimate.training.families import slots_of
from cfglint.estimate.training.plan import Plan
from cfglint.estimate.training.tape import DTYPE_BYTES

SUB_GROUP: Final = 1e9
"""``sub_group_size`` of ZeRO-3, elements (deepspeed ``runtime/zero/config.py``)."""


@dataclass(frozen=True, slots=True)
class Format:
    """Storage of a quantized linear weight: bytes per parameter, block constants included."""

    bytes_per_parameter: float
    source: str


NF4_BLOCK = 64
"""Weights per absmax constant in bitsandbytes 4-bit (``functional.quantize_4bit`` blocksize)."""

FORMATS: Final[dict[str, Format]] = {
    "nf4": Format(0.5 + 4 / NF4_BLOCK, "bitsandbytes: 4 bits, an fp32 absmax per 64"),
    "fp4": Format(0.5 + 4 / NF4_BLOCK, "bitsandbytes: 4 bits, an fp32 absmax per 64"),
    "nf4-double": Format(0.5 + 1 / NF4_BLOCK + 4 / (NF4_BLOCK * 256), "bitsandbytes: absmax in 8 bits, fp32 per 256"),
    "fp4-double": Format(0.5 + 1 / NF4_BLOCK + 4 / (NF4_BLOCK * 256), "bitsandbytes: absmax in 8 bits, fp32 per 256"),
    "int8": Format(1.0, "LLM.int8: a byte, an fp32 scale per row"),
    "gptq-int4": Format(0.5 + (2 + 0.5) / 128, "GPTQ: 4 bits, fp16 scale and 4-bit zero per group of 128"),
    "gptq-int8": Format(1.0 + (2 + 1.0) / 128, "GPTQ: a byte, fp16 scale and zero per group of 128"),
    "awq-int4": Format(0.5 + (2 + 0.5) / 128, "AWQ: 4 bits, fp16 scale and 4-bit zero per group of 128"),
    "hqq-int4": Format(0.5 + 4 / 64, "HQQ: 4 bits, fp16 scale and zero per group of 64"),
    "fp8": Format(1.0, "a byte per weight"),
    "mxfp4": Format(0.5 + 1 / 32, "MXFP4: 4 bits, a byte of scale per 32"),
    "nvfp4": Format(0.5 + 1 / 16, "NVFP4: 4 bits, a byte of scale per 16"),
    "int4": Format(0.5 + (2 + 0.5) / 128, "4 bits, scale and zero per group of 128"),
}


def format_of(plan: Plan) -> Format:
    """The storage of the plan's quantized weights; an unknown name counts as NF4."""
    return FORMATS.get(plan.quantization or "", FORMATS["nf4"])


@dataclass(frozen=True, slots=True)
class OptimizerKind:
    """``factors``: states of the parameter's own dtype; ``block_bytes``: states of fixed width, bytes per parameter.

    ``workspace``: what ``step()`` makes on top: ``foreach`` (a copy of every parameter), ``largest`` (multiples of the
    largest tensor in its own dtype plus fp32 temporaries), ``none``.
    """

    factors: float = 0.0
    block_bytes: float = 0.0
    workspace: str = "none"
    largest_factor: float = 0.0
    factored: bool = False
    paged: bool = False
    embeddings_fp32: bool = False
    """transformers registers 32-bit states for embeddings with bitsandbytes' 8-bit optimizers."""


_BNB8 = OptimizerKind(block_bytes=2 * (1 + 4 / 256), embeddings_fp32=True)
_LION8 = OptimizerKind(block_bytes=1 + 4 / 256, embeddings_fp32=True)

OPTIMIZERS: Final[dict[str, OptimizerKind]] = {
    "adamw_torch": OptimizerKind(2, workspace="foreach"),
    "adamw_torch_fused": OptimizerKind(2),
    "adamw_loop": OptimizerKind(2, workspace="largest", largest_factor=2),
    "adamw_apex_fused": OptimizerKind(2),
    "adamw_8bit": _BNB8,
    "adamw_bnb_8bit": _BNB8,
    "paged_adamw_8bit": OptimizerKind(block_bytes=2 * (1 + 4 / 256), paged=True, embeddings_fp32=True),
    "paged_adamw": OptimizerKind(block_bytes=8, paged=True),
    "paged_adamw_32bit": OptimizerKind(block_bytes=8, paged=True),
    "adamw_torch_8bit": OptimizerKind(block_bytes=2 * (1 + 4 / 256), workspace="largest", largest_factor=6),
    "adamw_torch_4bit": OptimizerKind(block_bytes=2 * (0.5 + 4 / 128), workspace="largest", largest_factor=6),
    "ademamix": OptimizerKind(3, workspace="foreach"),
    "ademamix_8bit": OptimizerKind(block_bytes=3 * (1 + 4 / 256)),
    "adafactor": OptimizerKind(workspace="largest", largest_factor=0, factored=True),
    "sgd": OptimizerKind(),
    "sgd_momentum": OptimizerKind(1),
    "rmsprop": OptimizerKind(1, workspace="foreach"),
    "lion": OptimizerKind(1, workspace="largest", largest_factor=1),
    "lion_32bit": OptimizerKind(1, workspace="largest", largest_factor=1),
    "lion_8bit": _LION8,
    "paged_lion_8bit": OptimizerKind(block_bytes=1 + 4 / 256, paged=True),
    "paged_lion_32bit": OptimizerKind(block_bytes=4, paged=True),
    "muon": OptimizerKind(1, workspace="largest", largest_factor=4),
    "galore_adamw": OptimizerKind(0.5, workspace="largest", largest_factor=2),
    "galore_adamw_8bit": OptimizerKind(block_bytes=0.5, workspace="largest", largest_factor=2),
    "apollo_adamw": OptimizerKind(0.25, workspace="largest", largest_factor=2),
    "apollo": OptimizerKind(0.25, workspace="largest", largest_factor=2),
    "schedule_free_adamw": OptimizerKind(2, workspace="foreach"),
    "adalomo": OptimizerKind(factored=True),
    "lomo": OptimizerKind(),
}

_ALIASES: Final[dict[str, str]] = {
    "adamw": "adamw_torch",
    "adamw_hf": "adamw_torch",
    "adam": "adamw_torch",
    "adamw_torch_xla": "adamw_torch",
    "adamw_fused": "adamw_torch_fused",
    "fused_adam": "adamw_torch_fused",
    "fusedadam": "adamw_torch_fused",
    "cpuadam": "adamw_torch_fused",
    "deepspeedcpuadam": "adamw_torch_fused",
    "pagedadamw8bit": "paged_adamw_8bit",
    "pagedadamw": "paged_adamw",
    "adamw_anyprecision": "adamw_torch",
    "dist_muon": "muon",
    "lion_bnb_8bit": "lion_8bit",
    "paged_adamw_32": "paged_adamw_32bit",
    "adamw8bit": "adamw_8bit",
    "distributed_fused_adam": "adamw_torch_fused",
    "apollo_adamw_layerwise": "apollo_adamw",
    "galore_adamw_layerwise": "galore_adamw",
    "optimi_adamw": "adamw_torch",
}


def optimizer_kind(plan: Plan) -> tuple[OptimizerKind, bool]:
    """The optimizer's memory, and whether its name is known."""
    name = _ALIASES.get(plan.optimizer.replace("-", "_"), plan.optimizer)
    kind = OPTIMIZERS.get(name)
    if kind is None:
        return OPTIMIZERS["adamw_torch"], False
    if plan.profile.fused_adam and kind.workspace == "foreach":
        return OptimizerKind(kind.factors), True
    if kind.workspace == "foreach" and (plan.foreach is False or plan.in_backward):
        return OptimizerKind(kind.factors, workspace="largest", largest_factor=2), True
    if plan.foreach and kind.workspace == "largest":
        return OptimizerKind(kind.factors, workspace="foreach"), True
    return kind, True


@dataclass
class Parameters:
    """Parameters of one rank by what happens to them, in elements (before sharding over data-parallel ranks).

    ``linear``: weights of block linears, what quantization packs; ``experts``: routed experts held as fused
    parameters; ``outside``: embeddings, head and what else is outside the blocks; ``rest``: norms, biases and other
    leftovers inside blocks.
    """

    linear: float = 0.0
    experts: float = 0.0
    rest: float = 0.0
    embedding: float = 0.0
    head: float = 0.0
    packed_head: float = 0.0
    """The head where quantization packs it too."""
    outside: float = 0.0
    adapter: float = 0.0
    saved_modules: float = 0.0
    largest: float = 0.0
    """Elements of the largest single tensor."""
    largest_adapter: float = 0.0
    routed: float = 0.0
    """Routed experts, a part of ``linear`` and ``experts``."""
    rows_columns: float = 0.0
    """Sum of rows and columns of all matrices, for factored states."""

    @property
    def base(self) -> float:
        return self.linear + self.experts + self.rest + self.embedding + self.head + self.outside


def on_rank(tensor: Tensor, plan: Plan, elements: float) -> float:
    """Elements of a tensor on one rank of tensor and expert parallelism."""
    if tensor.role == "expert":
        return elements / plan.expert_parallel / (plan.tensor_parallel if plan.expert_parallel == 1 else 1)
    if len(tensor.shape) >= 2 and tensor.role not in ("router", "position_embedding"):
        return elements / plan.tensor_parallel
    return elements


def count_parameters(
    architecture: Architecture, plan: Plan, layers: tuple[int, int], first: bool, last: bool
) -> Parameters:
    """Parameters of one pipeline stage: decoder layers ``layers[0]`` to ``layers[1]`` (exclusive)."""
    found = Parameters()
    start, stop = layers
    whole = stop - start == len(architecture.layers)
    tied = architecture.tie_word_embeddings
    if not architecture.tensors:
        return _from_total(architecture, plan, stop - start)
    for tensor in architecture.tensors:
        per_layer = tensor.elements * tensor.count
        if tensor.stack == "decoder":
            times = len(tensor.layers) if whole else sum(start <= i < stop for i in tensor.layers)
        elif tensor.stack:
            times = len(tensor.layers) if first else 0
        elif tensor.role == "lm_head" or (tensor.role == "norm" and not first):
            times = 1 if last else 0
        elif tensor.role == "embedding":
            times = 1 if first or (last and tied) else 0
        else:
            times = 1 if first else 0
        if not times:
            continue
        elements = on_rank(tensor, plan, per_layer * times)
        if tensor.role == "embedding":
            found.embedding += elements
            if tied and plan.profile.unties:
                found.head += elements
                found.packed_head += elements if plan.profile.quantizes_head else 0.0
        elif tensor.role == "lm_head":
            found.head += elements
            if plan.profile.quantizes_head:
                found.packed_head += elements
        elif not tensor.stack:
            found.outside += elements
        elif tensor.role == "expert" and not separate_experts(plan):
            found.experts += elements
        elif tensor.linear or tensor.role == "expert":
            found.linear += elements
        else:
            found.rest += elements
        if tensor.role == "expert":
            found.routed += elements
        matrix = on_rank(tensor, plan, tensor.elements)
        if tensor.role == "expert" and not separate_experts(plan):
            # gate and up are one parameter
            fused = 2 if slots_of((tensor.module,)) & {"gate", "up"} and architecture.gated_mlp else 1
            matrix = on_rank(tensor, plan, per_layer) * fused
        found.largest = max(found.largest, matrix)
        if len(tensor.shape) == 2:
            found.rows_columns += (tensor.shape[0] + tensor.shape[1]) * tensor.count * times
        else:
            found.rows_columns += tensor.elements * tensor.count * times
        if plan.adapter and _targeted(tensor, plan):
            rows, columns = tensor.shape
            found.adapter += plan.lora_rank * (rows + columns) * tensor.count * times / plan.tensor_parallel
            if plan.dora:
                found.adapter += rows * tensor.count * times
            found.largest_adapter = max(found.largest_adapter, plan.lora_rank * max(rows, columns))
        if plan.modules_to_save and any(tensor.module == name.rsplit(".", 1)[-1] for name in plan.modules_to_save):
            found.saved_modules += elements
    return found


def _from_total(architecture: Architecture, plan: Plan, layers: int) -> Parameters:
    """Parameters where only their number is known: embeddings as the dimensions say, the rest in the blocks."""
    total = float(architecture.total_parameters or 0)
    table = min(float(architecture.vocab_size * architecture.hidden_size), total / 2)
    head = 0.0 if architecture.tie_word_embeddings else table
    blocks = max(0.0, total - table - head)
    share = layers / max(1, len(architecture.layers)) / plan.tensor_parallel
    found = Parameters(
        linear=blocks * share,
        embedding=table / plan.tensor_parallel,
        head=head / plan.tensor_parallel,
        largest=max(table, architecture.hidden_size * architecture.intermediate_size),
        rows_columns=total**0.5 * 2,
    )
    if plan.adapter:
        # seven projections of a block, each with hidden_size on one side and about intermediate_size on the other
        found.adapter = (
            plan.lora_rank
            * len(plan.lora_slots)
            * layers
            * (architecture.hidden_size + max(architecture.hidden_size, architecture.intermediate_size))
        )
        found.largest_adapter = plan.lora_rank * max(architecture.hidden_size, architecture.intermediate_size)
    return found


def separate_experts(plan: Plan) -> bool:
    """Experts are modules of their own, which quantization and FSDP treat as any linear layer.

    transformers 5 fuses them into 3-D parameters, which bitsandbytes leaves alone; earlier versions and checkpoints
    quantized per expert (GPTQ, AWQ) hold separate linears.
    """
    fused = plan.profile.modeling and (plan.version or "").lstrip(">=~^ ").startswith("5")
    return not fused or bool(
        plan.quantization and plan.quantization.startswith(("gptq", "awq", "fp8", "mxfp4", "nvfp4"))
    )


def _targeted(tensor: Tensor, plan: Plan) -> bool:
    if not tensor.linear or len(tensor.shape) != 2 or tensor.role in ("lm_head", "vision", "audio"):
        return False
    if plan.lora_all_linear:
        return tensor.role not in ("router",) or bool(tensor.stack)
    if tensor.module in plan.lora_names:
        return True
    return bool(slots_of((tensor.module,)) & plan.lora_slots) and not any(
        "_" in n for n in plan.lora_names if n == tensor.module
    )


@dataclass(frozen=True, slots=True)
class States:
    """Bytes on one rank, before and after sharding; ``persistent`` lives through the whole step."""

    weights: float
    masters: float
    gradients: float
    optimizer: float
    workspace: float
    buffers: float
    gradient_bytes: float
    """Bytes of one gradient element."""
    weights_whole: float
    """Weights of the rank before data-parallel sharding."""
    trainable: float
    paged: float = 0.0
    host: float = 0.0

    @property
    def resident(self) -> float:
        """What lives through the whole step."""
        return self.weights + self.masters + self.optimizer + self.buffers


def unquantized_dtype(plan: Plan) -> str:
    """Dtype of what quantization leaves alone."""
    return "fp32" if plan.quantization and plan.upcast_unquantized else plan.weight_dtype


def trainable_dtype(plan: Plan) -> str:
    """Dtype of trainable parameters as stored."""
    if plan.adapter:
        return "fp32" if plan.profile.adapter_dtype == "fp32" else plan.weight_dtype
    if plan.sharding == "fsdp1" and plan.profile.fsdp_upcasts_trainable and plan.compute_dtype in ("bf16", "fp16"):
        return "fp32"
    return plan.weight_dtype


def state_bytes(plan: Plan, parameters: Parameters) -> States:
    """Weights, masters, gradients and optimizer states of one rank."""
    kind, _ = optimizer_kind(plan)
    shard = plan.shard_degree
    weight = DTYPE_BYTES[plan.weight_dtype]
    outside = DTYPE_BYTES[unquantized_dtype(plan)]
    stored_trainable = DTYPE_BYTES[trainable_dtype(plan)]
    p = parameters
    if plan.quantization:
        format_ = format_of(plan)
        packed = p.linear + p.packed_head
        weights = packed * format_.bytes_per_parameter + (p.base - packed) * outside
    elif plan.adapter:
        weights = p.base * weight
    else:
        weights = p.base * stored_trainable
    frozen = plan.frozen_copies * (weights if plan.adapter else p.base * weight)
    trainable = p.adapter + p.saved_modules if plan.adapter else p.base
    if plan.objective == "ppo":
        trainable *= 2  # policy and value model
        weights += 0.0 if plan.adapter else p.base * stored_trainable
    if plan.adapter:
        weights += trainable * stored_trainable
    masters = 0.0
    state = stored_trainable
    gradient = stored_trainable
    if plan.master_weights and plan.weight_dtype != "fp32" and not plan.adapter:
        masters = trainable * 4
        state = 4
        if plan.profile.main_grads_fp32:
            gradient = 4
    elif plan.sharding.startswith("zero") and plan.adapter:
        # DeepSpeed keeps adapters in the engine's dtype with fp32 masters
        masters = trainable * 4
        state = 4
    factored = p.rows_columns * 4 if kind.factored and not plan.adapter else 0.0
    optimizer = trainable * (kind.factors * state + kind.block_bytes) + factored
    if kind.embeddings_fp32 and not plan.adapter and plan.profile.modeling:
        optimizer += p.embedding * (8 - kind.block_bytes)
    gradients = trainable * gradient
    weights += frozen
    whole = weights
    shards = plan.sharding not in ("none", "ddp")
    # experts are already spread over expert-parallel ranks: only the rest of the data-parallel ranks shares them
    experts = p.routed / p.base if p.base and not plan.adapter else 0.0
    expert_shard = max(1, shard // plan.expert_parallel)
    part = ((1 - experts) / shard + experts / expert_shard) if shards else 1.0
    if plan.sharding in ("zero3", "fsdp1", "fsdp2"):
        weights *= part
    masters *= part
    optimizer *= part
    if plan.shards_gradients:
        gradients *= part
    largest = (p.largest_adapter if plan.adapter else p.largest) / (shard if shards else 1)
    if kind.workspace == "foreach":
        # DeepSpeed's stage 3 steps one sub-group at a time
        stepped = min(trainable * part, SUB_GROUP) if plan.sharding == "zero3" else trainable * part
        workspace = stepped * (4 if masters else stored_trainable)
    elif kind.factored:
        # fp32 copies of gradient and parameter where they are 16-bit, the update and one temporary
        workspace = largest * (16 if stored_trainable < 4 else 8)
    elif kind.workspace == "largest":
        workspace = largest * kind.largest_factor * stored_trainable
    else:
        workspace = 0.0
    if plan.in_backward:
        gradients = p.largest * gradient
    host = 0.0
    if plan.offload_optimizer in ("cpu", "nvme"):
        if plan.offload_optimizer == "cpu":
            host += masters + optimizer
        masters = optimizer = workspace = 0.0
        if plan.sharding.startswith("zero"):
            # reduced gradients go to the host as they come (stage_1_and_2.py, stage3.py: ``cpu_offload``)
            host += trainable * part * 4 if plan.offload_optimizer == "cpu" else 0.0
            gradients = 0.0
    if plan.offload_parameters in ("cpu", "nvme"):
        if plan.offload_parameters == "cpu":
            host += weights
        weights = 0.0
        if plan.sharding.startswith("fsdp"):
            host += gradients + optimizer + masters
            gradients = optimizer = masters = workspace = 0.0
    paged = 0.0
    if kind.paged:
        paged, optimizer = optimizer, 0.0
    return States(
        weights=weights,
        masters=masters,
        gradients=gradients,
        optimizer=optimizer,
        workspace=workspace,
        buffers=0.0,
        gradient_bytes=gradient,
        weights_whole=whole,
        trainable=trainable,
        paged=paged,
        host=host,
    )
