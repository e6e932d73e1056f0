"""Parameters of one rank by what happens to them: quantized, trained, gathered, tied. In elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cfglint.catalog.architecture import Architecture, Tensor
from cfglint.estimate.training.families import converted_targets, fused_expert_targets, slots_of
from cfglint.estimate.training.plan import Plan


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
    frozen: float = 0.0
    """Vision and audio towers with their projectors where they are not trained; a part of the rest."""
    one_of_each: float = 0.0
    """Elements of the blocks' matrices, each shape of one projection once; joined projections count in parts."""
    rows_columns: float = 0.0
    """Sum of rows and columns of all matrices, for factored states."""

    @property
    def base(self) -> float:
        return self.linear + self.experts + self.rest + self.embedding + self.head + self.outside


TOWERS: Final = frozenset({"vision", "audio", "projector"})
"""Roles of what a model sees and hears with."""


def on_rank(tensor: Tensor, plan: Plan, elements: float) -> float:
    """Elements of a tensor on one rank of tensor and expert parallelism."""
    if tensor.role == "expert":
        return elements / plan.expert_parallel / plan.expert_tensor_parallel
    whole = ("router", "position_embedding", *(("embedding",) if plan.profile.follows_tp_plan else ()))
    if len(tensor.shape) >= 2 and tensor.role not in whole:
        return elements / plan.tensor_parallel
    return elements


def count_parameters(
    architecture: Architecture, plan: Plan, layers: tuple[int, int], first: bool, last: bool
) -> Parameters:
    """Parameters of one pipeline stage: decoder layers ``layers[0]`` to ``layers[1]`` (exclusive)."""
    found = Parameters()
    matrices: dict[tuple[str, float], float] = {}
    start, stop = layers
    whole = stop - start == len(architecture.layers)
    tied = architecture.tie_word_embeddings
    if not architecture.tensors:
        return _from_total(architecture, plan, stop - start)
    targets = _targets(architecture, plan)
    adapted = expert_adapters(architecture, plan)
    taken = _taken_names(architecture, plan)
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
        elif tensor.role == "lm_head" and plan.scores_sequences:
            found.head += tensor.shape[-1]  # one score a token
            continue
        elif tensor.role == "lm_head":
            found.head += elements
            if plan.profile.quantizes_head:
                found.packed_head += elements
        elif not tensor.stack:
            found.outside += elements
        elif tensor.role == "expert" and not separate_experts(plan):
            found.experts += elements
        elif (tensor.linear or tensor.role == "expert") and not _left_alone(architecture, plan, tensor, targets):
            found.linear += elements
        else:
            found.rest += elements
        if tensor.role in TOWERS and not plan.trains_vision:
            found.frozen += elements
        if tensor.role == "expert":
            found.routed += elements
        matrix = on_rank(tensor, plan, tensor.elements)
        if tensor.stack in ("decoder", "encoder") and len(tensor.shape) == 2 and tensor.role != "router":
            experts = plan.expert_parallel if tensor.role == "expert" else 1  # which ranks share, not cut
            matrices[tensor.module, matrix * experts] = matrix * experts
        if tensor.role == "expert" and not separate_experts(plan):
            # gate and up are one parameter
            fused = 2 if slots_of((tensor.module,)) & {"gate", "up"} and architecture.gated_mlp else 1
            matrix = on_rank(tensor, plan, per_layer) * fused
        found.largest = max(found.largest, matrix)
        if len(tensor.shape) == 2:
            found.rows_columns += (tensor.shape[0] + tensor.shape[1]) * tensor.count * times
        else:
            found.rows_columns += tensor.elements * tensor.count * times
        if plan.adapter and tensor.module not in taken and _targeted(tensor, plan, targets):
            rows, columns = tensor.shape
            sides = rows + columns
            if _adapts_parts(plan, tensor):
                sides = _joined_sides(architecture, plan, columns)
            elif plan.profile.splits_projections and "gate_up" in _slot(tensor):
                sides += columns
            found.adapter += on_rank(tensor, plan, plan.lora_rank * sides * tensor.count * times)
            if plan.dora:
                found.adapter += on_rank(tensor, plan, rows * tensor.count * times)
            found.largest_adapter = max(found.largest_adapter, plan.lora_rank * max(rows, columns))
        elif tensor.role == "expert" and _fused_slot(tensor) in adapted:
            rows, columns = tensor.shape
            # gate and up share one pair of factors of twice the rank
            sides = columns + 2 * rows if _fused_slot(tensor) == "gate_up" else rows + columns
            found.adapter += on_rank(tensor, plan, plan.lora_rank * sides * tensor.count * times)
            found.largest_adapter = max(found.largest_adapter, plan.lora_rank * sides * tensor.count / 2)
        if plan.modules_to_save and any(tensor.module == name.rsplit(".", 1)[-1] for name in plan.modules_to_save):
            found.saved_modules += elements
    found.one_of_each = sum(matrices.values())
    return found


def _from_total(architecture: Architecture, plan: Plan, layers: int) -> Parameters:
    """Parameters where only their number is known: embeddings as the dimensions say, the rest in the blocks."""
    total = float(architecture.total_parameters or 0)
    table = min(float(architecture.vocab_size * architecture.hidden_size), total / 2)
    head = 0.0 if architecture.tie_word_embeddings else table
    blocks = max(0.0, total - table - head)
    stage = layers / len(architecture.layers) if architecture.layers else 1 / plan.pipeline_parallel
    share = stage / plan.tensor_parallel / plan.expert_parallel  # what expert parallelism is used on is mostly experts
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


def _left_alone(architecture: Architecture, plan: Plan, tensor: Tensor, targets: _Targets) -> bool:
    """Whether quantization leaves a projection alone because it has no adapter."""
    if plan.quantization is None or architecture.model_type not in plan.profile.quantizes_adapted:
        return False
    return not _targeted(tensor, plan, targets)


def separate_experts(plan: Plan) -> bool:
    """Experts are modules of their own, which quantization and FSDP treat as any linear layer.

    transformers 5 fuses them into 3-D parameters, which bitsandbytes leaves alone; earlier versions and checkpoints
    quantized per expert (GPTQ, AWQ) hold separate linears, and a framework may quantize the fused ones itself.
    """
    fused = plan.profile.modeling and plan.transformers_5 and not plan.quantizes_experts
    return not fused or bool(
        plan.quantization and plan.quantization.startswith(("gptq", "awq", "fp8", "mxfp4", "nvfp4"))
    )


def expert_adapters(architecture: Architecture, plan: Plan) -> frozenset[str]:
    """The fused expert parameters (``gate_up``, ``down``) that carry adapters in transformers 5."""
    if not plan.adapter or separate_experts(plan):
        return frozenset()
    return fused_expert_targets(architecture.model_type, plan.lora_names, plan.lora_all_linear)


def _taken_names(architecture: Architecture, plan: Plan) -> frozenset[str]:
    """Names that mean the fused experts alone, where the model has any."""
    if not plan.adapter or architecture.moe is None or separate_experts(plan):
        return frozenset()
    return converted_targets(architecture.model_type)


def _fused_slot(tensor: Tensor) -> str:
    found = slots_of((tensor.module,))
    return "down" if "down" in found else "gate_up" if found & {"gate", "up", "gate_up"} else ""


ATTENTION_SLOTS: Final = frozenset({"q", "k", "v", "qkv", "o"})


def _slot(tensor: Tensor) -> frozenset[str]:
    """The projection slot of a tensor: names such as ``dense`` and ``c_proj`` mean different ones by role."""
    found = slots_of((tensor.module,))
    attention = tensor.role in ("attention", "mla", "linear_attention")
    return found & ATTENTION_SLOTS if attention else found - ATTENTION_SLOTS


OWNERS: Final = {
    "experts": "expert",
    "shared_expert": "shared_expert",
    "shared_experts": "shared_expert",
    "shared_mlp": "shared_expert",
}
"""Modules that a target may name before its own (``shared_expert.up_proj``), to the role of what they hold."""


@dataclass(frozen=True, slots=True)
class _Targets:
    direct: frozenset[str]
    """Module names that LoRA targets name as they are."""
    aliases: frozenset[str]
    """Slots that other frameworks' names stand for."""
    owned: frozenset[tuple[str, str]]
    """Module names with the role of the only ones that are meant."""


def _targets(architecture: Architecture, plan: Plan) -> _Targets:
    modules = {tensor.module for tensor in architecture.tensors}
    names: set[str] = set()
    owned: set[tuple[str, str]] = set()
    for target in plan.lora_names:
        *parents, name = target.split(".")
        role = next((OWNERS[parent] for parent in reversed(parents) if parent in OWNERS), None)
        if role is None:
            names.add(name)
        else:
            owned.add((name, role))
    direct = frozenset(names & modules)
    return _Targets(direct, slots_of(tuple(names - direct)), frozenset(owned))


def _adapts_parts(plan: Plan, tensor: Tensor) -> bool:
    """Whether queries, keys and values that one tensor of the checkpoint holds have adapters of their own."""
    return (plan.profile.joins_qkv or plan.profile.splits_projections) and "qkv" in _slot(tensor)


def _joined_sides(architecture: Architecture, plan: Plan, columns: int) -> int:
    """Inputs and outputs of the factors of a joined projection whose parts carry adapters of their own."""
    width = architecture.head_dim
    parts = {
        "q": architecture.num_attention_heads * width,
        "k": architecture.num_key_value_heads * width,
        "v": architecture.num_key_value_heads * width,
    }
    return sum(columns + rows for slot, rows in parts.items() if slot in plan.lora_slots)


def _targeted(tensor: Tensor, plan: Plan, targets: _Targets) -> bool:
    linear = tensor.linear or (tensor.role == "expert" and separate_experts(plan))
    if not linear or len(tensor.shape) != 2 or tensor.role in ("lm_head", "vision", "audio"):
        return False
    if plan.lora_all_linear:
        return tensor.role != "router" or bool(tensor.stack)
    if _adapts_parts(plan, tensor):
        return bool(targets.aliases & {"q", "k", "v"})
    named = tensor.module in targets.direct or (tensor.module, tensor.role) in targets.owned
    return named or bool(_slot(tensor) & targets.aliases)


def adapter_slots(architecture: Architecture, plan: Plan) -> frozenset[str]:
    """The projections of a block that carry an adapter."""
    if not plan.adapter:
        return frozenset()
    if plan.profile.joins_qkv or plan.profile.splits_projections:
        return plan.lora_slots  # one layout for all models
    if (plan.lora_all_linear and not _taken_names(architecture, plan)) or not architecture.tensors:
        return plan.lora_slots
    targets, taken = _targets(architecture, plan), _taken_names(architecture, plan)
    tensors = [tensor for tensor in architecture.tensors if tensor.stack and tensor.module not in taken]
    return frozenset().union(*(_slot(tensor) for tensor in tensors if _targeted(tensor, plan, targets)))


def bare_experts(architecture: Architecture, plan: Plan) -> bool:
    """Routed experts that are modules of their own carry no adapters, whatever other projections of these names do."""
    if not plan.adapter or plan.lora_all_linear or not architecture.tensors:
        return False
    targets = _targets(architecture, plan)
    experts = [tensor for tensor in architecture.tensors if tensor.role == "expert"]
    return bool(experts) and not any(_targeted(tensor, plan, targets) for tensor in experts)
