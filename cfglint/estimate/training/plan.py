"""From a job's facts to a resolved plan: every value that memory depends on, with its origin or the assumption made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cfglint.catalog.architecture import Architecture
from cfglint.estimate.result import Input
from cfglint.estimate.training.families import ALL_LINEAR, slots_of
from cfglint.estimate.training.profiles import Profile, profile_of
from cfglint.jobs.facts import Fact
from cfglint.jobs.job import TrainingJob

RL_METHODS = ("grpo", "ppo", "rloo")
PAIRED = ("dpo", "orpo", "kto", "simpo", "cpo", "ipo", "reward", "rm")
"""Methods that put two sequences of each sample through the model at once (chosen and rejected, or a shuffled one)."""

FROZEN_COPIES = {"dpo": 1, "kto": 1, "ipo": 1, "ppo": 2, "distill": 1, "gkd": 1}
"""Whole models held beside the trained one: the reference; PPO's reward model; a teacher taken to be as large."""

PREFERENCE = ("dpo", "orpo", "kto", "simpo", "cpo", "ipo", "reward", "rm", "grpo", "ppo", "distill", "gkd", "rloo")


@dataclass
class Plan:
    """What one rank of the run does. Sizes in elements, tokens and ranks."""

    architecture: Architecture | None
    profile: Profile
    objective: str
    pretrains: bool
    adapter: bool
    dora: bool
    lora_rank: int
    lora_slots: frozenset[str]
    lora_dropout: float
    lora_all_linear: bool
    lora_names: tuple[str, ...]
    modules_to_save: tuple[str, ...]
    quantization: str | None
    upcast_unquantized: bool
    weight_dtype: str
    compute_dtype: str | None
    master_weights: bool
    optimizer: str
    foreach: bool | None
    in_backward: bool
    micro_batch: int | None
    accumulation: int
    sequence: int | None
    packing: bool
    checkpointing: str
    attention: str
    loss_kernel: str
    compile: bool
    fp8: bool
    sharding: str
    """``none``, ``ddp``, ``zero1``, ``zero2``, ``zero3``, ``fsdp1``, ``fsdp2``."""
    shards_gradients: bool
    reshard: bool
    shard_degree: int
    world: int
    data_parallel: int
    tensor_parallel: int
    pipeline_parallel: int
    context_parallel: int
    expert_parallel: int
    sequence_parallel: bool
    offload_optimizer: str
    offload_parameters: str
    version: str | None = None
    inputs: dict[str, Input] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    loose: set[str] = field(default_factory=set)
    """Facts that were assumed and move the result: they widen the interval."""

    @property
    def rows(self) -> int:
        """Sequences in one forward pass."""
        return (self.micro_batch or 0) * (2 if self.objective in PAIRED else 1)

    @property
    def scores_sequences(self) -> bool:
        """One score a sequence instead of logits (reward models)."""
        return self.objective in ("reward", "rm")

    @property
    def frozen_copies(self) -> int:
        """Whole frozen models beside the trained one; adapters serve as their own reference when switched off."""
        copies = FROZEN_COPIES.get(self.objective, 0)
        return max(0, copies - 1) if self.adapter and self.objective not in ("distill", "gkd") else copies

    @property
    def packs(self) -> bool:
        """Every batch is full: packed, or pretraining on a token stream."""
        return self.packing or self.pretrains or not self.profile.pads_dynamically

    @property
    def autocast(self) -> str | None:
        """The autocast dtype, None where the engine casts parameters itself or nothing does."""
        if self.compute_dtype is None or self.engine_casts:
            return None
        return self.compute_dtype

    @property
    def engine_casts(self) -> bool:
        """Parameters themselves are held or gathered in the compute dtype (DeepSpeed, FSDP mixed precision, Megatron)."""
        return self.sharding in ("zero1", "zero2", "zero3", "fsdp1", "fsdp2") or self.profile.name == "megatron"

    @property
    def local_sequence(self) -> int:
        return -(-(self.sequence or 0) // self.context_parallel)


class _Reader:
    """Reads facts, remembering where each came from and what was assumed."""

    def __init__(self, job: TrainingJob) -> None:
        self.job = job
        self.inputs: dict[str, Input] = {}
        self.assumptions: list[str] = []
        self.missing: list[str] = []
        self.problems: list[str] = []
        self.loose: set[str] = set()

    def note(self, name: str, value: object, origin: str) -> None:
        self.inputs[name] = Input(name, _words(value), origin)

    def get(self, name: str, default: Any = None, why: str = "", loose: bool = False) -> Any:
        fact: Fact[Any] | None = self.job.fact(name)
        if fact is not None and fact.value is not None:
            self.note(name, fact.value, fact.describe())
            return fact.value
        if default is not None and why:
            self.note(name, default, why)
            self.assumptions.append(f"{name} is not stated: {_words(default)} ({why})")
        if loose:
            self.loose.add(name)
        return default

    def count(self, name: str, default: int | None, why: str = "", loose: bool = False) -> int | None:
        """A whole number of at least 1; anything else is a problem that is named."""
        value = self.get(name, default, why, loose)
        if value is None:
            return None
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or value != value
            or value < 1
            or value != int(value)
        ):
            self.problems.append(f"{name} is {value!r}: it must be a whole number of at least 1")
            self.missing.append(name)
            return None
        return int(value)

    def text(self, name: str, default: str | None = None, why: str = "", loose: bool = False) -> str | None:
        value = self.get(name, default, why, loose)
        return value.strip().lower() if isinstance(value, str) else (default if value is not None else None)

    def flag(self, name: str, default: bool) -> bool:
        value = self.get(name)
        return value if isinstance(value, bool) else default


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)


_DTYPES = {
    "float32": "fp32",
    "fp32": "fp32",
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "fp16",
    "fp16": "fp16",
    "half": "fp16",
    "fp8": "fp8",
    "float8": "fp8",
    "tf32": "fp32",
}


def resolve(job: TrainingJob) -> Plan:
    """The plan of a job. What cannot be known is in ``missing``; impossible values are in ``problems``."""
    read = _Reader(job)
    framework = read.text("framework")
    profile, known = profile_of(framework)
    default = f"{profile.name} default" if known else "common default"
    if framework is not None and not known:
        read.assumptions.append(f"framework {framework} is not known: computed as a plain Hugging Face loop")
        read.loose.add("framework")
    if framework is None:
        read.loose.add("framework")
    architecture = job.architecture
    if architecture is None:
        read.missing.append("model")
    method = read.text("method") or ""
    lora_stated = job.fact("lora_rank") is not None or job.fact("lora_targets") is not None
    quantization = read.text("quantization")
    if quantization in ("none", ""):
        quantization = None
    parts = method.replace("_", "-").replace("+", "-").split("-") if method else []
    if not parts:
        parts = ["qlora"] if quantization and lora_stated else ["lora"] if lora_stated or quantization else ["full"]
        read.assumptions.append(f"method is not stated: {parts[0]}")
    objective = next((p for p in parts if p in PREFERENCE), "sft")
    adapter = any(p in ("lora", "qlora", "dora", "qdora", "adapter", "rslora", "loraplus", "fa") for p in parts) or (
        objective != "sft" and lora_stated
    )
    if quantization is not None and quantization not in ("fp8", "mxfp8") and not adapter:
        adapter = True
        read.assumptions.append(f"weights stored as {quantization} are not trained: adapters are")
        read.loose.add("method")
    if "qlora" in parts and quantization is None:
        quantization = "nf4"
        read.note("quantization", "nf4", "qlora default")
        read.assumptions.append("quantization is not stated: nf4 (the qlora default)")
    if quantization == "nf4" and profile.nf4_double:
        quantization = "nf4-double"
    targets: list[str] = []
    rank = 0
    if adapter:
        rank = read.count("lora_rank", 8, f"{default}") or 8
        stated = read.get("lora_targets")
        if isinstance(stated, str):
            stated = [stated]
        if isinstance(stated, (list, tuple)) and stated:
            targets = [str(t) for t in stated]
        else:
            targets = ["q_proj", "v_proj"] if profile.name in ("transformers", "peft", "trl") else ["all-linear"]
            read.assumptions.append(f"lora_targets is not stated: {', '.join(targets)} ({default})")
            read.loose.add("lora_targets")
    everything = any(t in ("all-linear", "all", "all_linear", "linear") for t in targets)
    saved = read.get("lora_modules_to_save") if adapter else None
    modules_to_save = tuple(map(str, saved)) if isinstance(saved, (list, tuple)) else ()

    compute = read.text("compute_dtype")
    if compute is None:
        compute = profile.compute_dtype if not job.stated("compute_dtype") else "none"
    compute = _DTYPES.get(compute or "none")
    if compute == "fp32":
        compute = None
    if compute is None and quantization and profile.quantized_autocast and not job.stated("compute_dtype"):
        stated = read.job.value("weight_dtype")
        compute = _DTYPES.get(stated, "bf16") if isinstance(stated, str) else "bf16"
        compute = None if compute == "fp32" else compute
        read.assumptions.append(
            f"compute_dtype is not stated: autocast in {compute} over the quantized base ({default})"
        )
    weight = read.text("weight_dtype")
    if weight is None:
        weight = profile.weight_dtype
        if weight is None:
            weight = compute if adapter and compute else None
        if weight is None and architecture is not None and architecture.native_dtype:
            weight = _DTYPES.get(architecture.native_dtype)
            if weight:
                read.note("weight_dtype", weight, "the checkpoint's own dtype")
                read.assumptions.append(f"weight_dtype is not stated: {weight} (the checkpoint's own)")
        if weight is None:
            weight = "bf16" if quantization or adapter else "fp32"
            read.assumptions.append(f"weight_dtype is not stated: {weight} ({default})")
        read.loose.add("weight_dtype")
    weight = _DTYPES.get(weight, weight)
    if weight not in ("fp32", "bf16", "fp16", "fp8"):
        read.problems.append(f"weight_dtype is {weight!r}: not a dtype known here")
        weight = "bf16"

    micro = read.count("micro_batch_size", profile.micro_batch_size, default, loose=True)
    if micro is None and "micro_batch_size" not in read.missing:
        read.missing.append("micro_batch_size")
    sequence = read.count("sequence_length", profile.sequence_length, default, loose=True)
    if sequence is None and "sequence_length" not in read.missing:
        read.missing.append("sequence_length")
    if job.fact("micro_batch_size") is not None:
        read.loose.discard("micro_batch_size")
    if job.fact("sequence_length") is not None:
        read.loose.discard("sequence_length")
    accumulation = read.count("gradient_accumulation_steps", 1) or 1

    tensor = read.count("tensor_parallel_size", 1) or 1
    pipeline = read.count("pipeline_parallel_size", 1) or 1
    context = read.count("context_parallel_size", 1) or 1
    expert = read.count("expert_parallel_size", 1) or 1
    zero = read.get("zero_stage")
    zero = zero if isinstance(zero, int) and not isinstance(zero, bool) and 0 <= zero <= 3 else None
    fsdp = read.text("fsdp")
    hardware = job.hardware
    world = hardware.world_size
    stated_dp = read.count("data_parallel_size", None)
    if world is None and stated_dp is not None:
        world = stated_dp * tensor * pipeline * context
    shards = (zero or 0) > 0 or fsdp not in (None, "none", "no_shard")
    if world is None:
        if shards or tensor * pipeline * context > 1:
            if shards:
                read.missing.append("gpus_per_node")
            world = tensor * pipeline * context
        else:
            world = 1
            read.assumptions.append("the number of GPUs is not stated: one")
    elif hardware.count_origin is not None:
        read.note("world_size", world, hardware.count_origin.describe())
    model_ranks = tensor * pipeline * context
    if world % model_ranks:
        read.problems.append(
            f"{world} GPUs cannot be divided into tensor {tensor} × pipeline {pipeline} × context {context} ranks"
        )
    data = stated_dp or max(1, world // model_ranks)
    shard_ranks = data * context
    sharding, shards_gradients, reshard = _sharding(zero, fsdp, read.count("fsdp_version", 1), world)
    if zero == 0 and profile.name == "megatron":
        sharding = "ddp"
    if fsdp == "hybrid_shard":
        shard_ranks = min(shard_ranks, hardware.gpus_per_node or shard_ranks)
    if sharding in ("none", "ddp"):
        shard_ranks = 1

    optimizer = (
        read.text("optimizer", profile.optimizer, default, loose=job.fact("optimizer") is None) or profile.optimizer
    )
    checkpointing = read.text("gradient_checkpointing", profile.gradient_checkpointing, default, loose=True) or "none"
    if checkpointing in ("true", "unsloth"):
        checkpointing = "full"
    if checkpointing == "false":
        checkpointing = "none"
    if job.fact("gradient_checkpointing") is not None:
        read.loose.discard("gradient_checkpointing")
    return Plan(
        architecture=architecture,
        profile=profile,
        objective=objective,
        pretrains="pretrain" in parts or "pt" in parts,
        adapter=adapter,
        dora="dora" in parts or "qdora" in parts,
        lora_rank=rank,
        lora_dropout=_share(read.get("lora_dropout", profile.lora_dropout)) if adapter else 0.0,
        lora_slots=ALL_LINEAR if everything else slots_of(targets),
        lora_all_linear=everything,
        lora_names=tuple(targets),
        modules_to_save=modules_to_save,
        quantization=quantization,
        upcast_unquantized=_upcasts(read, quantization, profile, sharding),
        weight_dtype=weight,
        compute_dtype=compute,
        master_weights=read.flag("master_weights", profile.name == "megatron" or sharding.startswith("zero")),
        optimizer=optimizer,
        foreach=read.get("optimizer_foreach"),
        in_backward=read.flag("optimizer_in_backward", False),
        micro_batch=micro,
        accumulation=accumulation,
        sequence=sequence,
        packing=read.flag("packing", False),
        checkpointing=checkpointing,
        attention=read.text("attention", profile.attention, default, loose=job.fact("attention") is None) or "sdpa",
        loss_kernel=read.text("loss_kernel", profile.loss_kernel) or "torch",
        compile=read.flag("compile", False),
        fp8=read.flag("fp8_linear", False),
        sharding=sharding,
        shards_gradients=shards_gradients,
        reshard=reshard,
        shard_degree=shard_ranks,
        world=world,
        data_parallel=data,
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        context_parallel=context,
        expert_parallel=expert,
        sequence_parallel=read.flag("sequence_parallel", profile.name == "megatron" and tensor > 1),
        offload_optimizer=read.text("offload_optimizer") or "none",
        offload_parameters=read.text("offload_parameters") or "none",
        version=read.text("framework_version"),
        inputs=read.inputs,
        assumptions=read.assumptions,
        missing=read.missing,
        problems=read.problems,
        loose=read.loose,
    )


def _share(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1 else 0.0


def _upcasts(read: _Reader, quantization: str | None, profile: Profile, sharding: str) -> bool:
    """Whether what is not quantized is held in fp32 (PEFT ``prepare_model_for_kbit_training``).

    Only bitsandbytes models are cast (``peft/utils/other.py``), and trainers leave it out where parameters are sharded,
    since a flat parameter has one dtype (``trl``: ``is_sharded_qlora``).
    """
    bitsandbytes = quantization is not None and quantization.startswith(("nf4", "fp4", "int8"))
    stated = read.flag("upcast_unquantized", bitsandbytes and profile.kbit_upcast)
    return stated and sharding not in ("fsdp1", "fsdp2", "zero3")


def _sharding(zero: int | None, fsdp: str | None, version: int | None, world: int) -> tuple[str, bool, bool]:
    """``(kind, gradients sharded, parameters resharded after forward)``."""
    if zero:
        return f"zero{zero}", zero >= 2, True
    if fsdp in ("full_shard", "hybrid_shard", "shard_grad_op", "hybrid_shard_zero2"):
        kind = "fsdp2" if version == 2 else "fsdp1"
        return kind, True, fsdp in ("full_shard", "hybrid_shard")
    return ("ddp" if world > 1 else "none"), False, True
