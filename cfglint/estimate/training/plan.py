"""From a job's facts to a resolved plan: every value that memory depends on, with its origin or the assumption made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cfglint.catalog.architecture import Architecture
from cfglint.estimate.batch import derived_accumulation
from cfglint.estimate.result import Input
from cfglint.estimate.training.families import ALL_LINEAR, slots_of
from cfglint.estimate.training.objectives import REFERENCES, Scoring, held_in, scoring_of
from cfglint.estimate.training.pins import pinned
from cfglint.estimate.training.profiles import Profile, profile_of, shares_releases
from cfglint.estimate.training.reader import Reader
from cfglint.estimate.training.supervised import FLATTENS_PACKED, METRICS, TRANSFORMERS, WIDENS_WEIGHT
from cfglint.jobs.defaults import TRL_SFT_LOSS, in_force
from cfglint.jobs.facts import DefaultOrigin
from cfglint.jobs.job import TrainingJob, likely_architecture

RL_METHODS = ("grpo", "ppo", "rloo")
ADAPTERS = ("lora", "qlora", "dora", "qdora", "adapter", "rslora", "loraplus", "fa")

PAIRED = ("dpo", "orpo", "simpo", "cpo", "ipo", "reward", "rm")
"""Methods that put two sequences of each sample through the model at once, chosen and rejected.

KTO's shuffled sequences go through it without gradients, before its own.
"""

FROZEN_COPIES = {"ppo": 2, "distill": 1, "gkd": 1}
"""Whole models held beside the trained one and its reference: PPO's two; a teacher taken to be as large."""

HELPED = ("ppo", "distill", "gkd")
"""Methods with a reward model, value model or teacher of a size that the job does not say."""

PREFERENCE = ("dpo", "orpo", "kto", "simpo", "cpo", "ipo", "reward", "rm", "grpo", "ppo", "distill", "gkd", "rloo")


KEPT_INPUTS: Final = {"nf4": "<0.43.2", "fp4": "<0.43.2", "int8": "<0.45"}
"""Releases of bitsandbytes whose products keep their input for backward, by what the weights are stored as."""

LORA_KERNELS: Final = frozenset({"mlp", "qkv", "o"})

LOSS_FUNCTIONS: Final = frozenset(
    {
        "cohere", "gemma", "gemma2", "glm", "jamba", "jetmoe", "llama", "mistral", "mixtral", "nemotron", "olmo", "olmoe",
        "persimmon", "phi", "phi3", "phimoe", "qwen2", "qwen2_moe", "stablelm", "starcoder2", "zamba",
    }
)  # fmt: skip
"""Families whose loss is a function of its own since transformers 4.46 (``loss/loss_utils.py``)."""

LOSSES_IN_CLASS: Final = frozenset(
    {"gpt2", "gptj", "gpt_neox", "opt", "bloom", "falcon", "mpt", "codegen", "gpt_bigcode"}
)
"""Families whose class took the cross entropy of the logits as they are, until transformers 4.48 (``modeling_*.py``)."""

EARLIER_TRL: Final = "1.13"
"""The last TRL that made whole logits for every preference and RL method without a kernel of its own."""

_WORDS: Final = re.compile(r"[a-z]*\d*[a-z]*")
_RELEASE: Final = re.compile(r"[=>~^ ]*(\d+)(?:\.(\d+))?")


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
    lora_kernels: frozenset[str]
    """What one kernel computes with its adapters: ``mlp``, ``qkv``, ``o`` (Axolotl)."""
    may_use_lora_kernels: bool
    """The framework may switch these kernels on by itself; which release runs is not known."""
    quantization: str | None
    upcast_unquantized: bool
    upcast_outer: bool
    """Embeddings and head are among what is held in fp32."""
    adapter_dtype: str
    upcasts_trainable: bool
    """FSDP with mixed precision holds what is trained in fp32 (accelerate since 0.30)."""
    norm_kernel: str
    checkpoint_every: int | None
    """Of so many layers one is checkpointed; None where operations are selected."""
    wraps_ends: bool
    """Untied embedding and head are units of their own under FSDP2."""
    expands_kv: bool
    """Keys and values are copied to all query heads before attention."""
    caps_chunks: bool
    """Logits made in pieces are capped as whole ones are."""
    keeps_packed_inputs: bool | None
    """Quantized linears keep their input for backward; None where that depends on a release that is not known."""
    weight_dtype: str
    compute_dtype: str | None
    master_weights: bool
    optimizer: str
    foreach: bool | None
    gradient_dtype: str | None
    """Of Megatron's gradient buffers, where it is stated."""
    state_dtype: str | None
    """Of the optimizer's moments, where it is stated."""
    precision_aware: bool | None
    """Megatron's optimizer holds the low 16 bits beside 16-bit weights, and no fp32 copies of what it keeps on the host."""
    in_backward: bool
    micro_batch: int | None
    accumulation: int
    sequence: int | None
    packing: bool
    flattens: bool
    """A batch goes through the model as one row, with positions in place of a mask of padding."""
    checkpointing: str
    recompute_modules: frozenset[str]
    """Parts of a block that are checkpointed by themselves (Megatron)."""
    recompute_layers: int | None
    """Layers of a stage that are checkpointed whole; None: all of them."""
    attention: str
    loss_kernel: str
    compile: bool
    fp8: bool
    offloads_activations: bool
    """What backward needs of the blocks waits on the host."""
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
    expert_tensor_parallel: int
    """Ranks that split each expert."""
    sequence_parallel: bool
    offload_optimizer: str
    offload_parameters: str
    carries: bool = True
    """A loop's ``loss`` keeps what it can of the graph before, of a batch as long as this one."""
    mixes_units: bool = False
    """Adapters share a flat parameter with the frozen weights of their block, and its gradient is as large."""
    whole_gradients: str = ""
    """Dtype of the gradients that FSDP keeps whole between micro-steps: ``compute``, ``fp32``; empty where it keeps none."""
    trains_vision: bool = True
    """Vision and audio towers are trained with the language model; beside adapters they never are."""
    images: bool = True
    """Samples bring images, where the model has a vision tower."""
    composes_attention: bool = False
    """sdpa has no fused kernel for bf16 on this device."""
    evaluates: bool = False
    """The run stops to evaluate: forward over other samples, without gradients, beside weights and states."""
    evaluation_batch: int | None = None
    evaluation_sequence: int | None = None
    evaluation_loss_kernel: str = "torch"
    keeps_cache: bool = False
    """A model that is evaluated keeps keys and values of all layers until its output is dropped."""
    evaluating: bool = False
    """This is the plan of the evaluation itself (:func:`evaluation_of`)."""
    adapters_off: bool = False
    """This is the plan of a pass through the base model under adapters."""
    state_dict: str = "none"
    """How sharded parameters are handed to a checkpoint: ``full``, ``sharded``, ``none`` where nothing is gathered."""
    saves_optimizer: bool = True
    transformers_version: str | None = None
    quantizes_experts: bool = False
    """Fused experts are quantized too (Axolotl's ``quantize_moe_experts``)."""
    inputs: dict[str, Input] = field(default_factory=dict)
    scoring: Scoring | None = None
    """How log-probabilities come about; None where the loss is the model's own or a kernel's."""
    earlier_scoring: Scoring | None = None
    """The same in earlier releases, where which one runs is not known."""
    completion: int | None = None
    """Tokens of a sequence that are scored, where some are not."""
    metrics: str = ""
    """What the trainer reads of the returned logits (``supervised.METRICS``)."""
    earlier_kernel: str = ""
    """The loss of earlier releases, where which one runs is not known."""
    widens_head: bool = False
    """Checkpointed pieces of the head are projected in fp32."""
    reference: str = "none"
    """Where the reference's log-probabilities come from: ``model``, ``adapter``, ``precomputed``, ``none``."""
    small_helpers: bool = False
    """The models beside the trained one that are of any size (``HELPED``) take nothing."""
    assumptions: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    loose: set[str] = field(default_factory=set)
    """Facts that were assumed and move the result: they widen the interval."""

    @property
    def transformers_5(self) -> bool:
        """Known to run on transformers 5."""
        return self.transformers_since(5)

    def transformers_since(self, *release: int) -> bool:
        """Known to run on this release of transformers or a later one."""
        found = self.transformers_release
        return found is not None and found >= release

    @property
    def transformers_release(self) -> tuple[int, int] | None:
        found = _RELEASE.match(self.transformers_version or "")
        return (int(found[1]), int(found[2] or 0)) if found else None

    @property
    def shifts_copy(self) -> bool:
        """The loss copies the shifted logits: until transformers 4.48 (``loss/loss_utils.py``)."""
        if not self.profile.modeling or self.transformers_release is None:
            return self.profile.shift_copy
        return not self.transformers_since(4, 49)

    @property
    def loss_holds_logits(self) -> bool:
        """``forward`` holds the 16-bit logits while the loss is computed.

        Since the loss is a function of its own: transformers 4.46 for some families, 4.48 for the others.
        """
        early = self.architecture is not None and self.architecture.model_type in LOSS_FUNCTIONS
        return not self.shifts_copy or self.transformers_since(4, 46 if early else 48)

    @property
    def keeps_loss_narrow(self) -> bool:
        """The loss is not computed in fp32 unless autocast does so."""
        found = self.transformers_release
        family = self.architecture.model_type if self.architecture is not None else ""
        return self.profile.modeling and found is not None and found < (4, 48) and family in LOSSES_IN_CLASS

    @property
    def repeats_keys(self) -> bool:
        """sdpa gets keys and values repeated to all heads: until transformers 4.54 (``integrations/sdpa_attention.py``)."""
        found = self.transformers_release
        return self.profile.modeling and found is not None and found < (4, 54)

    @property
    def finds_packed(self) -> bool:
        """Packed samples are told apart by their positions: not before transformers 4.53."""
        found = self.transformers_release
        return found is None or found >= (4, 53)

    @property
    def contiguous_queries(self) -> bool:
        """sdpa gets contiguous queries: in transformers 4.48 to 4.55 (``integrations/sdpa_attention.py``)."""
        found = self.transformers_release
        return self.profile.modeling and found is not None and (4, 48) <= found < (4, 56)

    @property
    def keeps_gradient_buffer(self) -> bool:
        """Gradients are written into a buffer made at start, which is there between steps too.

        Megatron's ``main_grad``; DeepSpeed's stage 3 (``runtime/zero/stage3.py``: ``grad_partitions_flat_buffer``).
        """
        return self.profile.main_grads_fp32 or self.sharding == "zero3"

    @property
    def expert_shard_degree(self) -> int:
        """Ranks that share the states of the same experts: those of a stage that hold no other ones."""
        return max(1, self.shard_degree * self.tensor_parallel // (self.expert_parallel * self.expert_tensor_parallel))

    @property
    def model_widens_logits(self) -> bool:
        """Models convert their logits to fp32 with or without labels: until transformers 4.45 (``modeling_llama.py``)."""
        release = self.transformers_release
        return release is not None and release < (4, 46)

    @property
    def reentrant(self) -> bool:
        """Checkpointing is of the reentrant kind: Trainer's default until transformers 4 (``trainer.py``, 5: not)."""
        release = self.transformers_release
        before_5 = self.profile.name == "transformers" and release is not None and release < (5, 0)
        return self.profile.reentrant or before_5

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
        if self.reference == "model":
            return 0 if self.profile.offloads_reference else 1
        copies = FROZEN_COPIES.get(self.objective, 0)
        if self.profile.offloads_reference:
            return 0  # rewards come from a function or a model of its own that the job does not say
        if self.small_helpers and self.objective in HELPED:
            copies -= 1
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
    def shards_weights(self) -> bool:
        return self.sharding in ("zero3", "fsdp1", "fsdp2")

    @property
    def engine_casts(self) -> bool:
        """Parameters themselves are held or gathered in the compute dtype (DeepSpeed, FSDP mixed precision, Megatron)."""
        return self.sharding in ("zero1", "zero2", "zero3", "fsdp1", "fsdp2") or self.profile.name == "megatron"

    @property
    def local_sequence(self) -> int:
        return -(-(self.sequence or 0) // self.context_parallel)


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
    read = Reader(job)
    framework = read.text("framework")
    if framework is not None and framework.lower() == "nemo" and read.count("fsdp_version", None) == 2:
        framework = (
            "nemo-automodel"  # Megatron Core shards by its optimizer; NeMo runs FSDP2 on transformers' models alone
        )
    profile, known = profile_of(framework)
    if framework is not None and not known:
        read.assumptions.append(f"framework {framework} is not known: computed as a plain Hugging Face loop")
    if not known:
        read.loose.add("framework")
    default = f"{profile.name} default" if known else "common default"
    architecture = likely_architecture(job)
    if architecture is None:
        read.missing.append("model")
    method = _method(read, profile)
    adapter = _adapter(read, profile, method, default)
    compute = _compute_dtype(read, profile, method, default)
    weight = _weight_dtype(read, profile, method, compute, default)
    ranks = _ranks(read, profile)
    checkpointing = _checkpointing(read, profile, default)
    lora_kernels = _lora_kernels(read, profile, method, adapter, ranks)
    tokens = _tokens_per_micro_batch(read)
    micro_batch = 1 if tokens else _needed(read, "micro_batch_size", profile.micro_batch_size, default)
    _check_division(read, architecture, ranks)
    accumulation = _accumulation(read, micro_batch, ranks.data)
    sequence = tokens or _needed(read, "sequence_length", profile.sequence_length, default)
    evaluation = _evaluation(read, profile, method, micro_batch, sequence, default)
    loss_kernel = _loss_kernel(read, profile, method, default)
    upcasts = _upcasts(read, method.quantization, profile, ranks.sharding)
    mixes_units = method.adapter and ranks.sharding == "fsdp1" and _mixes_units(read, profile)
    megatron = profile.name == "megatron"
    return Plan(
        architecture=architecture,
        profile=profile,
        objective=method.objective,
        pretrains=method.pretrains,
        adapter=method.adapter,
        dora=method.dora,
        lora_rank=adapter.rank,
        lora_dropout=adapter.dropout,
        lora_slots=adapter.slots,
        lora_all_linear=adapter.all_linear,
        lora_names=adapter.names,
        modules_to_save=adapter.modules_to_save,
        lora_kernels=frozenset() if lora_kernels is None else lora_kernels,
        may_use_lora_kernels=lora_kernels is None,
        quantization=method.quantization,
        upcast_unquantized=upcasts,
        upcast_outer=upcasts and not _casts_outer_back(read, method.quantization, profile, compute),
        adapter_dtype=_adapter_dtype(read, profile, method.quantization, weight),
        upcasts_trainable=profile.fsdp_upcasts_trainable and in_force(">=0.30", _library(read, profile, "accelerate")),
        norm_kernel=_norm_kernel(read, profile),
        checkpoint_every=read.count("checkpoint_every", None) if checkpointing == "selective" else None,
        wraps_ends=_in_release(read, profile, profile.wraps_ends),
        expands_kv=_in_release(read, profile, profile.expands_kv),
        caps_chunks=_caps_chunks(read, profile),
        keeps_packed_inputs=_keeps_packed_inputs(read, method.quantization, profile),
        weight_dtype=weight,
        compute_dtype=compute,
        master_weights=read.flag("master_weights", megatron or ranks.sharding.startswith("zero")),
        optimizer=read.text("optimizer", profile.optimizer, default, loose=True) or profile.optimizer,
        foreach=read.get("optimizer_foreach"),
        gradient_dtype=_stored_dtype(read, "gradient_dtype"),
        state_dtype=_stored_dtype(read, "optimizer_state_dtype"),
        precision_aware=read.get("precision_aware_optimizer"),
        in_backward=read.flag("optimizer_in_backward", False),
        micro_batch=micro_batch,
        accumulation=accumulation,
        sequence=sequence,
        packing=read.flag("packing", bool(tokens)),
        flattens=read.flag("padding_free", _flattens(read, profile, method)),
        checkpointing=checkpointing,
        recompute_modules=_recompute_modules(read, checkpointing) if megatron else frozenset(),
        recompute_layers=read.count("recompute_layers", None) if megatron and checkpointing == "full" else None,
        attention=read.text("attention", profile.attention, default, loose=True) or "sdpa",
        composes_attention=_composes_attention(read, weight, compute),
        loss_kernel=loss_kernel,
        compile=read.flag("compile", False),
        fp8=read.flag("fp8_linear", False),
        offloads_activations=read.flag(
            "activation_offloading", profile.offloads_checkpoints and checkpointing == "full"
        ),
        sharding=ranks.sharding,
        shards_gradients=ranks.shards_gradients,
        reshard=ranks.reshard,
        shard_degree=ranks.shard_degree,
        world=ranks.world,
        data_parallel=ranks.data,
        tensor_parallel=ranks.tensor,
        pipeline_parallel=ranks.pipeline,
        context_parallel=ranks.context,
        expert_parallel=ranks.expert,
        expert_tensor_parallel=ranks.expert_tensor,
        sequence_parallel=read.flag("sequence_parallel", profile.sequence_parallel and ranks.tensor > 1),
        offload_optimizer=read.text("offload_optimizer") or "none",
        offload_parameters=read.text("offload_parameters") or "none",
        mixes_units=mixes_units,
        whole_gradients=""
        if method.adapter and not mixes_units
        else _whole_gradients(read, profile, ranks.sharding, accumulation),
        evaluates=evaluation.batch is not None,
        evaluation_batch=evaluation.batch,
        evaluation_sequence=evaluation.sequence,
        evaluation_loss_kernel=_evaluation_loss_kernel(read, profile, loss_kernel),
        keeps_cache=evaluation.keeps_cache,
        state_dict=_state_dict(read, profile, ranks.sharding),
        saves_optimizer=read.flag("saves_optimizer", True),
        **_scored(read, profile, method, loss_kernel),
        transformers_version=_transformers_version(read, profile),
        trains_vision=read.flag("trains_vision", not profile.freezes_vision) and not method.adapter,
        quantizes_experts=read.flag("quantize_experts", False),
        inputs=read.inputs,
        assumptions=read.assumptions,
        missing=read.missing,
        problems=read.problems,
        loose=read.loose,
    )


@dataclass(frozen=True, slots=True)
class _Method:
    objective: str
    pretrains: bool
    adapter: bool
    dora: bool
    quantization: str | None


def _method(read: Reader, profile: Profile) -> _Method:
    """What is trained: everything or adapters, on which objective, over which storage of the base."""
    stated = read.text("method") or ""
    lora_stated = read.job.fact("lora_rank") is not None or read.job.fact("lora_targets") is not None
    quantization = read.text("quantization")
    if quantization in ("none", ""):
        quantization = None
    elif quantization is None and read.job.value("quantization") is None:
        adapts = any(word in stated for word in ("lora", "dora", "adapter"))
        adapts = adapts or (lora_stated and (not stated or any(word in PREFERENCE for word in stated.split("-"))))
        quantization = _checkpoint_format(read, profile, adapts)
    parts = stated.replace("_", "-").replace("+", "-").split("-") if stated else []
    if not parts:
        parts = ["qlora"] if quantization and lora_stated else ["lora"] if lora_stated or quantization else ["full"]
        read.assumptions.append(f"method is not stated: {parts[0]}")
    objective = next((part for part in parts if part in PREFERENCE), "sft")
    adapter = any(part in ADAPTERS for part in parts) or (objective != "sft" and lora_stated)
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
    return _Method(
        objective=objective,
        pretrains="pretrain" in parts or "pt" in parts,
        adapter=adapter,
        dora="dora" in parts or "qdora" in parts,
        quantization=quantization,
    )


UNTRAINED_FORMATS: Final = {
    "mxfp4": "transformers trains no mxfp4 weights",
    "nvfp4": "no trainer reads ModelOpt's weights",
    "modelopt": "no trainer reads ModelOpt's weights",
}
"""Storage of checkpoints that is undone before training (transformers 5.24 ``quantizers/``: ``is_trainable``)."""


def _checkpoint_format(read: Reader, profile: Profile, adapts: bool) -> str | None:
    """The quantization that a checkpoint's weights are trained in, by its config or its name.

    What GPTQ, AWQ, bitsandbytes and compressed-tensors packed stays so, and FP8 under adapters in transformers; everything
    else becomes 16-bit, which the estimate says.
    """
    model = read.job.model
    if model is None:
        return None
    architecture = likely_architecture(read.job)
    own = architecture.quantization if architecture is not None else None
    named = model.format or (model.guess.format if model.guess is not None else None)
    found = _config_format(own) if own is not None else _name_format(named)
    if found is None:
        return None
    origin = "the checkpoint's own" if own is not None else "the checkpoint's name"
    why = UNTRAINED_FORMATS.get(found)
    if found == "fp8" and not (adapts and profile.modeling):
        why = "FP8 weights carry adapters at most" if profile.modeling else f"{profile.name} converts them"
    if why is not None:
        read.assumptions.append(f"the checkpoint holds {found} weights ({origin}): trained as 16-bit ones, since {why}")
        return None
    read.note("quantization", found, origin)
    read.assumptions.append(f"quantization is not stated: {found} ({origin})")
    return found


def _config_format(own: Mapping[str, Any]) -> str | None:
    """What a ``quantization_config`` says the weights are."""
    method, algorithm = str(own.get("quant_method") or "").lower(), str(own.get("quant_algo") or "").lower()
    bits = own.get("bits") or own.get("w_bit") or 4
    if method == "bitsandbytes":
        return "nf4" if own.get("load_in_4bit") or own.get("_load_in_4bit") else "int8"
    if method == "compressed-tensors":
        groups = own.get("config_groups")
        weights = [group.get("weights") for group in groups.values()] if isinstance(groups, Mapping) else []
        kinds = {(w.get("type"), w.get("num_bits")) for w in weights if isinstance(w, Mapping)}
        known: dict[object, str] = {("int", 4): "int4", ("int", 8): "int8", ("float", 8): "fp8"}
        return known.get(min(kinds, key=str, default=None))
    if method == "modelopt" or (not method and algorithm):
        return "nvfp4" if "fp4" in algorithm else "modelopt"
    kinds_of = {"gptq": f"gptq-int{bits}", "awq": "awq-int4", "fp8": "fp8", "mxfp4": "mxfp4", "hqq": "hqq-int4"}
    return kinds_of.get(method)


def _name_format(format_: str | None) -> str | None:
    """What a name that ends in ``-GPTQ``, ``-bnb-4bit``, ``-FP8`` says the weights are."""
    if format_ is None:
        return None
    words = set(_WORDS.findall(format_.lower()))
    bits = 8 if words & {"int8", "8bit", "8"} else 4
    kinds = {"gptq": f"gptq-int{bits}", "awq": "awq-int4", "bnb": "nf4" if bits == 4 else "int8", "nf4": "nf4"}
    kinds.update({"nvfp4": "nvfp4", "mxfp4": "mxfp4", "fp8": "fp8"})
    return next((kind for word, kind in kinds.items() if word in words), "int4" if "int4" in words else None)


@dataclass(frozen=True, slots=True)
class _Adapter:
    rank: int = 0
    dropout: float = 0.0
    names: tuple[str, ...] = ()
    slots: frozenset[str] = frozenset()
    all_linear: bool = False
    modules_to_save: tuple[str, ...] = ()


def _adapter(read: Reader, profile: Profile, method: _Method, default: str) -> _Adapter:
    if not method.adapter:
        return _Adapter()
    rank = read.count("lora_rank", 8, default) or 8
    stated = read.get("lora_targets")
    stated = [stated] if isinstance(stated, str) else stated
    if isinstance(stated, (list, tuple)) and stated:
        names = tuple(map(str, stated))
    else:
        names = ("q_proj", "v_proj") if profile.name in ("transformers", "peft", "trl") else ("all-linear",)
        read.assumptions.append(f"lora_targets is not stated: {', '.join(names)} ({default})")
        read.loose.add("lora_targets")
    everything = any(name in ("all-linear", "all", "all_linear", "linear") for name in names)
    saved = read.get("lora_modules_to_save")
    return _Adapter(
        rank=rank,
        dropout=_share(read.get("lora_dropout", profile.lora_dropout)),
        names=names,
        slots=ALL_LINEAR if everything else slots_of(names),
        all_linear=everything,
        modules_to_save=tuple(map(str, saved)) if isinstance(saved, (list, tuple)) else (),
    )


def _lora_kernels(
    read: Reader, profile: Profile, method: _Method, adapter: _Adapter, ranks: _Ranks
) -> frozenset[str] | None:
    """Axolotl's LoRA kernels: those stated, or all where it switches them on; None where that depends on its release.

    axolotl ``check_auto_enable_lora_kernels`` (``utils/schemas/config.py``), since 0.10 (June 2025): not with ``rl``,
    remote code, LoRA on 8 bit, FSDP1 or a kernel switch stated; before 0.16 (April 2026) only with ``lora_dropout: 0``,
    and ``monkeypatch/lora_kernels.py`` patched nothing with a dropout.
    """
    if profile.name != "axolotl" or not method.adapter or method.dora:
        return frozenset()
    release = _stated_release(read) or read.job.versions.get("axolotl")
    takes_dropout = in_force(">=0.16", release) and (release is not None or not adapter.dropout)
    stated = read.get("lora_kernels")
    if isinstance(stated, (list, tuple)):
        found = frozenset(map(str, stated)) & LORA_KERNELS
        if not adapter.dropout or takes_dropout or not found:
            return found
        return None if release is None else frozenset()
    fits = method.objective == "sft" and read.get("trust_remote_code") is not True and ranks.sharding != "fsdp1"
    if not fits or (method.quantization == "int8" and read.text("method") == "lora"):
        return frozenset()
    if release is None:
        return None
    stated_zero = read.get("lora_dropout") == 0
    return LORA_KERNELS if in_force(">=0.16" if not stated_zero else ">=0.10", release) else frozenset()


def _compute_dtype(read: Reader, profile: Profile, method: _Method, default: str) -> str | None:
    """The autocast or engine dtype; None for none."""
    stated = read.text("compute_dtype")
    if stated is not None or read.job.stated("compute_dtype"):
        found = _DTYPES.get(stated or "none")
        return None if found == "fp32" else found
    found = _DTYPES.get(profile.compute_dtype or "none")
    if found is None and method.quantization and profile.quantized_autocast:
        weight = read.job.value("weight_dtype")
        found = _DTYPES.get(weight, "bf16") if isinstance(weight, str) else "bf16"
        read.assumptions.append(f"compute_dtype is not stated: autocast in {found} over the quantized base ({default})")
    return None if found == "fp32" else found


def _stored_dtype(read: Reader, fact: str) -> str | None:
    found = read.text(fact)
    return _DTYPES.get(found) if found is not None else None


def _weight_dtype(read: Reader, profile: Profile, method: _Method, compute: str | None, default: str) -> str:
    """The dtype parameters are stored in: stated, the framework's, the checkpoint's, or what is common."""
    stated = read.text("weight_dtype")
    if stated is not None:
        weight = _DTYPES.get(stated, stated)
        if weight not in ("fp32", "bf16", "fp16", "fp8"):
            read.problems.append(f"weight_dtype is {weight!r}: not a dtype known here")
            return "bf16"
        return weight
    read.loose.add("weight_dtype")
    found = profile.weight_dtype or (compute if method.adapter else None)
    if found is not None:
        read.note("weight_dtype", found, default)
        read.assumptions.append(f"weight_dtype is not stated: {found} ({default})")
        return found
    architecture = likely_architecture(read.job)
    native = _DTYPES.get(architecture.native_dtype or "") if architecture is not None else None
    if native is not None:
        read.note("weight_dtype", native, "the checkpoint's own dtype")
        read.assumptions.append(f"weight_dtype is not stated: {native} (the checkpoint's own)")
        return native
    found = "bf16" if method.quantization or method.adapter else "fp32"
    read.assumptions.append(f"weight_dtype is not stated: {found} ({default})")
    return found


def _needed(read: Reader, name: str, usual: int | None, default: str) -> int | None:
    """A count without which there are no activations; missing where neither stated nor a framework's default."""
    value = read.count(name, usual, default, loose=True)
    if value is None and name not in read.missing:
        read.missing.append(name)
    return value


def _tokens_per_micro_batch(read: Reader) -> int | None:
    """Tokens of a micro-batch that is filled up to a number of them, in one row without padding (verl's dynamic batches)."""
    if read.job.value("micro_batch_size") is not None:
        return None
    for reading in read.job.readings:
        tokens = reading.context.get("tokens_per_micro_batch")
        if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0:
            read.note("micro_batch_size", f"{tokens} tokens", f"{reading.document.path}")
            read.assumptions.append(f"micro-batches are filled up to {tokens} tokens: counted as one row of them")
            return tokens
    return None


def _accumulation(read: Reader, micro_batch: int | None, data: int) -> int:
    """Micro-steps of an optimizer step: stated, or what a stated global batch comes to."""
    derived = derived_accumulation(read.job, micro_batch, data)
    if derived is None:
        return read.count("gradient_accumulation_steps", 1) or 1
    total = read.job.value("global_batch_size")
    read.note(
        "gradient_accumulation_steps", derived, f"global batch {total} / (micro-batch {micro_batch} × {data} ranks)"
    )
    return derived


@dataclass(frozen=True, slots=True)
class _Evaluation:
    batch: int | None = None
    sequence: int | None = None
    keeps_cache: bool = False


def _evaluation(
    read: Reader, profile: Profile, method: _Method, micro_batch: int | None, sequence: int | None, default: str
) -> _Evaluation:
    """What one batch of evaluation is, where the run evaluates. RL evaluates by generating: that is the rollout's memory."""
    if not read.flag("evaluates", False) or method.objective in RL_METHODS:
        return _Evaluation()
    own = profile.evaluation_batch_size
    if own is None:
        batch = read.count("eval_micro_batch_size", micro_batch)
    else:
        batch = read.count("eval_micro_batch_size", own, default)
    return _Evaluation(
        batch,
        read.count("eval_sequence_length", sequence),
        # transformers 5's Trainer switches the cache off (``use_cache`` of TrainingArguments); before, the model's config has it
        read.flag("use_cache", profile.name == "transformers" and _before_5(_transformers_version(read, profile))),
    )


def _evaluation_loss_kernel(read: Reader, profile: Profile, loss_kernel: str) -> str:
    """Models that Liger patched make all logits outside training, unless they are told to skip them (``skip_logits``)."""
    stated = read.text("eval_loss_kernel")
    if stated is not None or loss_kernel != "fused_linear" or not profile.evaluates_with_logits:
        return stated or loss_kernel
    release = _stated_release(read) if profile.name == "trl" else _transformers_version(read, profile)
    made = profile.evaluates_with_logits == "always" or (
        release is not None and in_force(profile.evaluates_with_logits, release)
    )
    if made:
        read.note("eval_loss_kernel", "torch", "models that Liger patched make all logits outside training")
    return "torch" if made else loss_kernel


def _before_5(version: str | None) -> bool:
    found = _RELEASE.match(version or "")
    return found is not None and int(found[1]) < 5


def _state_dict(read: Reader, profile: Profile, sharding: str) -> str:
    """How sharded parameters are handed to a checkpoint; accelerate's default is full for FSDP 1, sharded for FSDP 2."""
    if not read.flag("saves", True):
        return "none"
    by_default = {"fsdp1": "full", "fsdp2": "sharded"} if profile.fsdp_upcasts_trainable else {}
    stated = read.text("state_dict", by_default.get(sharding, "none")) or "none"
    return stated if sharding in ("fsdp1", "fsdp2", "zero3") else "none"


def _check_division(read: Reader, architecture: Architecture | None, ranks: _Ranks) -> None:
    """Heads, layers and experts that cannot be dealt out to the ranks: no framework starts so."""
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


def _checkpointing(read: Reader, profile: Profile, default: str) -> str:
    stated = read.text("gradient_checkpointing", profile.gradient_checkpointing, default, loose=True) or "none"
    return {"true": "full", "unsloth": "full", "false": "none"}.get(stated, stated)


def _recompute_modules(read: Reader, checkpointing: str) -> frozenset[str]:
    stated = read.get("recompute_modules")
    return frozenset(map(str, stated)) if checkpointing == "selective" and isinstance(stated, list) else frozenset()


def _composes_attention(read: Reader, weight: str, compute: str | None) -> bool:
    """Whether every device the job may mean is older than Ampere while sdpa computes in bf16.

    Flash attention needs compute capability 8.0, and below it the memory-efficient kernel takes fp16 and fp32 alone
    (``less_than_sm80_mem_efficient_dtypes``, torch ``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp``).
    """
    known = [a.compute_capability for a in read.job.hardware.candidates]
    return (compute or weight) == "bf16" and bool(known) and all(c is not None and c < (8, 0) for c in known)


def _loss_kernel(read: Reader, profile: Profile, method: _Method, default: str) -> str:
    """Stated, or the framework's.

    torchtitan compiled the loss with the model from 22 October to 18 December 2024, and does since 2 April 2025 and so in
    every release (``train.py``, ``components/loss.py``); measured runs of an unknown state are from between.

    TRL's default for supervised fine-tuning depends on its release, and is its stock loss where none is known.
    """
    if profile.compiles_loss and read.flag("compile", False) and read.job.value("loss_kernel") is None:
        if _stated_release(read) is not None:
            read.note("loss_kernel", "compiled", default)
            return "compiled"
        read.loose.add("loss_kernel")
    kernel = profile.loss_kernel
    release = _trl_release(read, profile)
    if release is not None and method.objective == "sft":
        kernel = held_in(TRL_SFT_LOSS, release)
        default = f"trl {release}"
    return read.text("loss_kernel", kernel, default if kernel != profile.loss_kernel else "") or "torch"


def _trl_release(read: Reader, profile: Profile) -> str | None:
    """The release of TRL, where the job runs TRL's trainers and says which."""
    if profile.name != "trl":
        return None
    return _stated_release(read) or read.job.versions.get("trl")


def _flattens(read: Reader, profile: Profile, method: _Method) -> bool:
    """TRL's default packing keeps whole samples and is free of padding."""
    release = _trl_release(read, profile)
    packs = method.objective == "sft" and read.flag("packing", False)
    return packs and release is not None and in_force(FLATTENS_PACKED, release)


def _scored(read: Reader, profile: Profile, method: _Method, loss_kernel: str) -> dict[str, Any]:
    """How tokens are scored, and where the reference's scores come from.

    With a stated fused kernel TRL before 1.15 takes Liger's preference losses, which make no logits either.
    """
    release = read.job.versions.get("trl")
    if profile.name == "trl":
        release = _stated_release(read) or release
    objective, scoring, earlier = method.objective, None, None
    trains = profile.name == "trl" and objective == "sft" and release is not None
    if profile.log_probabilities == "trl":
        scoring = scoring_of(objective, release)
        whole = scoring_of(objective, EARLIER_TRL)
        if scoring is not None and scoring.tiles and objective != "sft" and loss_kernel == "torch":
            fact = read.job.fact("loss_kernel")
            if fact is not None and not isinstance(fact.origin, DefaultOrigin):
                scoring = whole  # a stated loss over all logits
        if release is None and scoring is not None and objective != "sft":
            earlier = whole
    elif isinstance(profile.log_probabilities, str):
        release = release or profile.log_probabilities
        scoring = scoring_of(objective, release)
    elif objective in PREFERENCE and objective not in ("reward", "rm"):
        scoring = profile.log_probabilities
    if scoring is not None and objective == "sft":
        # ``chunked_nll`` is another name for the fused head; a stated cross entropy is over logits
        scoring = scoring if loss_kernel in ("fused_linear", "checkpointed") else None
    if loss_kernel == "selective":
        scoring = Scoring("selective")
    elif scoring is not None and loss_kernel == "fused_linear" and not scoring.tiles:
        scoring = None  # Liger's losses
    reference = read.text("reference")
    if reference is None:
        by_default = REFERENCES.get(objective, ())
        # frameworks with engines of their own say whether samples are held to a reference
        known = profile.log_probabilities or objective not in RL_METHODS
        reference = held_in(by_default, release) if by_default and known else "none"
        if reference == "model" and method.adapter:
            reference = "adapter"
        if by_default and known:
            read.note("reference", reference, f"{profile.name} default")
    return {
        "scoring": scoring,
        "earlier_scoring": earlier,
        "completion": read.count("completion_length", None),
        "reference": reference,
        "metrics": held_in(METRICS, release) if trains and loss_kernel == "torch" else "",
        "earlier_kernel": _earlier_kernel(read, profile, method, release, loss_kernel),
        "widens_head": bool(trains and held_in(WIDENS_WEIGHT, release)),
    }


def _earlier_kernel(read: Reader, profile: Profile, method: _Method, release: str | None, loss_kernel: str) -> str:
    """The loss that another release of TRL takes by default, where no file says which runs."""
    fact = read.job.fact("loss_kernel")
    if profile.name != "trl" or method.objective != "sft" or release is not None or fact is None:
        return ""
    releases, earlier = TRL_SFT_LOSS[-1]
    if not isinstance(fact.origin, DefaultOrigin) or loss_kernel == earlier:
        return ""
    read.assumptions.append(
        f"no file names the release of trl: the loss is that of {TRL_SFT_LOSS[0][0]}, the high end that of {releases}"
    )
    return earlier


def _whole_gradients(read: Reader, profile: Profile, sharding: str, accumulation: int) -> str:
    """What FSDP keeps whole between the micro-steps of an accumulation (:attr:`Profile.defers_reduction`)."""
    if accumulation < 2 or not sharding.startswith("fsdp") or read.flag("reduces_each_micro_step", False):
        return ""
    if sharding == "fsdp2" and profile.defers_fsdp2:
        release = _library(read, profile, "accelerate")
        if release is None:
            read.loose.add("reduces_each_micro_step")
        elif not in_force(profile.defers_fsdp2, release):
            return ""
    if profile.defers_reduction:
        read.assumptions.append("gradients are reduced in the last micro-step only: FSDP keeps them whole until then")
    return profile.defers_reduction


def _transformers_version(read: Reader, profile: Profile) -> str | None:
    """The version of transformers: the framework's own where it is that, else as requirements or images say."""
    stated = _stated_release(read)
    if profile.name == "peft" and stated == _peft_release(read, profile):
        stated = None
    if profile.name in ("transformers", "peft"):
        return stated or read.job.versions.get("transformers")
    found = _library(read, profile, "transformers")
    release = _trl_release(read, profile)
    return found or (held_in(TRANSFORMERS, release) or None if release is not None else None)


@dataclass(frozen=True, slots=True)
class _Ranks:
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


def _ranks(read: Reader, profile: Profile) -> _Ranks:
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
    data = stated or max(1, world // model_ranks)
    sharding, shards_gradients, reshard = _sharding(zero, fsdp, read.count("fsdp_version", 1), world)
    if zero == 0 and profile.name == "megatron":
        sharding = "ddp"
    degree = data * context
    if fsdp == "hybrid_shard":
        degree = min(degree, hardware.gpus_per_node or degree)
    return _Ranks(
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


def _share(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1 else 0.0


def _upcasts(read: Reader, quantization: str | None, profile: Profile, sharding: str) -> bool:
    """Whether what is not quantized is held in fp32 (PEFT ``prepare_model_for_kbit_training``).

    Only bitsandbytes models are cast (``peft/utils/other.py``), and trainers leave it out where parameters are sharded,
    since a flat parameter has one dtype (``trl``: ``is_sharded_qlora``).
    """
    bitsandbytes = quantization is not None and quantization.startswith(("nf4", "fp4", "int8"))
    upcasts = bitsandbytes and profile.kbit_upcast
    upcasts = upcasts and in_force(profile.kbit_releases, _own_release(read, profile))
    stated = read.flag("upcast_unquantized", upcasts)
    return stated and sharding not in ("fsdp1", "fsdp2", "zero3")


def _library(read: Reader, profile: Profile, name: str) -> str | None:
    """The release of a library: as requirements or images say, else what the framework's own release pins."""
    return read.job.versions.get(name) or pinned(profile.name, _own_release(read, profile)).get(name)


def _peft_release(read: Reader, profile: Profile) -> str | None:
    """PEFT's release; a plain loop's version is that of transformers unless it is below 1."""
    stated = _stated_release(read) if profile.name == "peft" else None
    return stated if stated is not None and stated.startswith("0.") else _library(read, profile, "peft")


def _mixes_units(read: Reader, profile: Profile) -> bool:
    release = _own_release(read, profile)
    return bool(profile.mixes_units) and release is not None and in_force(profile.mixes_units, release)


def _norm_kernel(read: Reader, profile: Profile) -> str:
    release = _own_release(read, profile)
    composed = profile.modeling_norms and release is not None and in_force(profile.modeling_norms, release)
    return "modeling" if composed else profile.norm_kernel


def _stated_release(read: Reader) -> str | None:
    """The framework's version where it is that of the framework whose profile stands for it."""
    return read.text("framework_version") if shares_releases(read.text("framework")) else None


def _own_release(read: Reader, profile: Profile) -> str | None:
    return _stated_release(read) or read.job.versions.get(profile.name)


def _casts_outer_back(read: Reader, quantization: str | None, profile: Profile, compute: str | None) -> bool:
    """Whether embeddings and head of a 4-bit model are 16-bit again, and norms alone in fp32 (trl ``peft_module_casting_to_bf16``)."""
    four_bit = quantization is not None and quantization.startswith(("nf4", "fp4"))
    if not profile.casts_outer_back or not four_bit or compute != "bf16":
        return False
    return in_force(profile.casts_outer_back, _own_release(read, profile))


def _adapter_dtype(read: Reader, profile: Profile, quantization: str | None, weight: str) -> str:
    """Dtype of adapters: since PEFT 0.12 fp32 beside 16-bit weights (``autocast_adapter_dtype``) unless a trainer converts them."""
    if profile.adapter_dtype != "fp32":
        return weight
    if quantization is None:
        release = _peft_release(read, profile)
        return weight if release is not None and not in_force(">=0.12", release) else "fp32"
    release = _own_release(read, profile) if quantization.startswith(("nf4", "fp4", "int8")) else None
    narrow = profile.narrow_adapters and release is not None and in_force(profile.narrow_adapters, release)
    return "bf16" if narrow else "fp32"


def _keeps_packed_inputs(read: Reader, quantization: str | None, profile: Profile) -> bool | None:
    """Whether bitsandbytes' products keep their input though the weight is frozen.

    ``MatMul4Bit`` up to 0.43.1 (0.43.3: ``ctx.tensors = (None, B)``), ``MatMul8bitLt`` up to 0.44 (``autograd/_functions.py``).
    A framework that pins the library says its release.
    """
    kept = next((releases for kind, releases in KEPT_INPUTS.items() if (quantization or "").startswith(kind)), None)
    if kept is None:
        return False
    release = _library(read, profile, "bitsandbytes")
    if release is not None:
        return in_force(kept, release)
    if not profile.old_bitsandbytes:
        return False
    own = _stated_release(read)
    return None if own is None else in_force(profile.old_bitsandbytes, own)


def _in_release(read: Reader, profile: Profile, releases: str) -> bool:
    """Whether what holds ``always`` or in some releases of the framework does here; the newest where none is known."""
    if releases in ("", "always"):
        return bool(releases)
    release = _own_release(read, profile)
    return in_force(releases, release) if release is not None else not releases.startswith("<")


def _caps_chunks(read: Reader, profile: Profile) -> bool:
    """As in releases before the change where the release is not known: those are the ones measured."""
    own = _stated_release(read)
    return not profile.caps_chunks or (own is not None and in_force(profile.caps_chunks, own))


def _sharding(zero: int | None, fsdp: str | None, version: int | None, world: int) -> tuple[str, bool, bool]:
    """``(kind, gradients sharded, parameters resharded after forward)``."""
    if zero:
        return f"zero{zero}", zero >= 2, True
    if fsdp in ("full_shard", "hybrid_shard", "shard_grad_op", "hybrid_shard_zero2"):
        kind = "fsdp2" if version == 2 else "fsdp1"
        return kind, True, fsdp in ("full_shard", "hybrid_shard")
    return ("ddp" if world > 1 else "none"), False, True
