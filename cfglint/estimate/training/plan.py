"""A resolved plan: what one rank of a run does, with the origin of every value. Made by :mod:`.resolve`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from cfglint.catalog.architecture import Architecture
from cfglint.estimate.result import Input
from cfglint.estimate.training.objectives import Scoring
from cfglint.estimate.training.profiles import Profile

RL_METHODS = ("grpo", "ppo", "rloo")


PAIRED = ("dpo", "orpo", "simpo", "cpo", "ipo", "reward", "rm")
"""Methods that put two sequences of each sample through the model at once, chosen and rejected.

KTO's shuffled sequences go through it without gradients, before its own.
"""


FROZEN_COPIES = {"ppo": 2, "distill": 1, "gkd": 1}
"""Whole models held beside the trained one and its reference: PPO's two; a teacher taken to be as large."""


HELPED = ("ppo", "distill", "gkd")
"""Methods with a reward model, value model or teacher of a size that the job does not say."""


PREFERENCE = ("dpo", "orpo", "kto", "simpo", "cpo", "ipo", "reward", "rm", "grpo", "ppo", "distill", "gkd", "rloo")


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


RELEASE: Final = re.compile(r"[=>~^ ]*(\d+)(?:\.(\d+))?")


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
    tiled_mlp: bool
    """The MLP runs on pieces of the sequence."""
    mlp_pieces: int | None
    upcasts_logits: bool
    """The loss converts 16-bit logits to fp32."""
    weighs_activation: bool
    """Experts multiply by the router's weights in the activation's own kernel."""
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
    short_whole: bool = False
    """Batches of at most 1,024 tokens make whole logits, longer ones none."""
    loss_room: float | None = None
    """Bytes that a compiled fused loss finds free: it makes pieces whose fp32 logits are half of that."""
    loss_fills: bool = False
    """They are those of the device, of which the states are still to be taken."""
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
        found = RELEASE.match(self.transformers_version or "")
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
    def leaves_experts_alone(self) -> bool:
        """FSDP does not know the experts, which no other rank holds (:attr:`Profile.leaves_whole_experts`)."""
        return self.profile.leaves_whole_experts and self.expert_parallel > 1 and self.expert_shard_degree == 1

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
