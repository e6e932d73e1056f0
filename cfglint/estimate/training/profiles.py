"""Framework profiles: what a framework does with memory that its settings do not say. Data, with where it was read.

Sources: transformers 5.24 and 4.5x, trl 0.2x, peft 0.21, accelerate 1.x, torchtune 0.6, torchtitan, litgpt 0.5,
Megatron-LM core 0.1x, DeepSpeed 0.17, Unsloth, Liger-Kernel, and others: the modules named in each comment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cfglint.estimate.training.objectives import Scoring
from cfglint.formulas import GIB


@dataclass(frozen=True, slots=True)
class Profile:
    """One framework's habits. ``None`` means that nothing is assumed and the fact is asked for."""

    name: str
    weight_dtype: str | None = None
    compute_dtype: str | None = "none"
    optimizer: str = "adamw_torch_fused"
    micro_batch_size: int | None = None
    sequence_length: int | None = None
    gradient_checkpointing: str = "none"
    attention: str = "sdpa"
    loss_kernel: str = "torch"
    adapter_dtype: str = "fp32"
    """``fp32``, or ``weight`` where adapters share the base model's dtype."""
    kbit_upcast: bool = False
    """``prepare_model_for_kbit_training``: what is not quantized becomes fp32."""
    widens_saved: bool = False
    """Modules trained whole beside adapters become fp32 as these do."""
    kbit_releases: str = ""
    """Releases that do so."""
    casts_outer_back: str = ""
    """Releases in which embeddings and head of 4-bit models become 16-bit again under bf16."""
    narrow_adapters: str = ""
    """Releases that convert adapters of quantized models to bf16."""
    old_bitsandbytes: str = ""
    """Releases that pin a bitsandbytes whose 4-bit product keeps its input for backward."""
    quantizes_fp16: bool = False
    """Weights are converted to fp16 before bitsandbytes packs them, and so unpacked as fp16."""
    norm_kernel: str = "modeling"
    """``modeling`` (as in transformers), ``fused`` (saves its input), ``float`` (all in fp32, cast at the end)."""
    modeling_norms: str = ""
    """Releases whose norms were as in transformers all the same."""
    torch_norms: bool = False
    """Norms are ``torch.nn.RMSNorm``, which is one kernel on CUDA since torch 2.9."""
    joins_qkv: bool = False
    """One projection makes queries, keys and values of any model, and keys and values are repeated to all heads (litgpt)."""
    composes_capped: bool = False
    """Attention with soft-capped scores is written out, whatever kernel is asked for (litgpt, torchtune)."""
    caps_before_head: bool = False
    """The cap on logits is laid on the hidden states before the head (torchtune's ``Gemma2FinalNorm``)."""
    splits_projections: bool = False
    """Projections that the family's checkpoint joins are modules of their own (torchtune)."""
    expands_kv: str = ""
    """Keys and values are copied to all query heads before attention: ``always``, or releases of the framework."""
    chunk_tokens: int = 0
    """Tokens of a sequence in one piece of the chunked loss; 0: eight pieces, whatever the length (torchtune)."""
    caps_chunks: str = ""
    """Releases in which logits made in pieces are capped as whole ones are; empty for all."""
    unpacks_in_steps: bool = False
    """NF4 weights are unpacked by torch operations, unless they are compiled into one (torchao)."""
    widens_in_model: bool = False
    """The model itself returns fp32 logits, so those in 16 bits are gone before the loss."""
    pads_dynamically: bool = True
    """Batches are as long as their longest sample; a plain loop is taken at its word."""
    may_fuse_backward: bool = False
    """Shipped recipes of full fine-tuning fuse the optimizer into backward (torchtune, one device)."""
    offloads_checkpoints: bool = False
    """Checkpointed block inputs are moved to the host (Unsloth)."""
    evaluation_batch_size: int | None = None
    """Sequences in a batch of evaluation unless the settings say otherwise; None: as many as in training."""
    evaluates_with_logits: str = ""
    """Releases in which a model that Liger patched makes all logits in evaluation: ``always``, or a range of the framework's own
    (trl) or of transformers."""
    quantizes_head: bool = False
    quantizes_adapted: frozenset[str] = frozenset()
    """Families of which only projections with adapters are quantized."""
    nf4_double: bool = False
    """NF4 always has its constants quantized again (torchao)."""
    loops_adam: bool = False
    """Adam is the framework's own loop over tensors unless the settings ask for torch's foreach (Composer)."""
    fused_adam: bool = False
    """Adam is one fused kernel whatever the settings call it (Megatron: TransformerEngine or apex)."""
    unties: bool = False
    """A tied head is loaded as a parameter of its own."""
    lora_dropout: float = 0.0
    defers_reduction: str = ""
    """Gradient accumulation skips reduction (``no_sync``), so FSDP keeps whole gradients between micro-steps.

    Their dtype: ``compute``, in which parameters are gathered, or ``fp32`` (FSDP2 with fp32 reduction). Measured:
    litgpt-hub-04, and fms-mp, whose peaks on 2, 4 and 8 GPUs are six bytes a sharded parameter and two a whole one.
    """
    mixes_units: str = ""
    """Releases that wrap adapters and frozen weights of a block as one unit of FSDP 1, whose gradient is the whole unit's."""
    defers_fsdp2: str = ""
    """Releases of accelerate from which the same holds for FSDP2; before, ``no_sync`` did nothing there."""
    rotary_kernel: str = "modeling"
    mlp_kernel: str = "modeling"
    weighs_activation: str = ""
    """Releases whose experts multiply by the router's weights in the activation's own kernel, which saves gate and up alone; else
    what the experts return is multiplied, and kept: ``always``, or releases of the framework."""
    leaves_whole_experts: bool = False
    """Experts that no other rank shares stay outside FSDP: plain tensors, whose gradients have their own dtype."""
    own_models: frozenset[str] = frozenset()
    """Model types of which the framework has classes of its own, with fused kernels; it runs transformers' for the others."""
    whole_blocks: frozenset[str] = frozenset()
    """Model types whose blocks are transformers' and are checkpointed by it, where ``checkpoints_sublayers`` holds for others."""
    own_norms: frozenset[str] = frozenset()
    """Model types in whose blocks it has norms and rotary embeddings of its own, each one kernel."""
    drops_outputs: bool = False
    """The step is a function of its own: what it names is gone before the next one."""
    hold_logits: bool = False
    """A plain loop keeps the model's output, so the 16-bit logits live through backward."""
    holds_wide_logits: bool = False
    """What is held is converted to fp32 first."""
    upcast_logits: bool = True
    whole_logits: str = ""
    """Releases whose loss is a Triton kernel on whole logits, where later ones make none."""
    loss_target: tuple[tuple[str, float], ...] = ()
    """Releases of a compiled fused loss, and bytes of fp32 logits that one of its pieces aims at; 0: half of what is free."""
    short_whole: str = ""
    """Releases that make whole logits, with that kernel, of batches of at most 1,024 tokens."""
    adapter_kernels: frozenset[str] = frozenset()
    """Model types whose projections run with their adapters in kernels, where these have no dropout and the base no bias."""
    loss_in_place: bool = True
    """The Triton cross entropy writes the logits' gradient over the logits (flash-attn: ``inplace_backward``)."""
    follows_tp_plan: bool = False
    """Tensor parallelism is by transformers' plans: every rank has the whole embedding, and all logits."""
    parallel_loss: bool = False
    """Under tensor parallelism the loss is torch's ``loss_parallel`` of DTensors."""
    fuses_loss: str = ""
    """Releases that never make whole logits unless the settings say so."""
    compiles_loss: bool = False
    """``compile`` covers the loss too."""
    checkpoints_inside_units: bool = False
    """FSDP's units hold the checkpointed blocks (torch's ``apply_activation_checkpointing``); elsewhere checkpointing calls the unit,
    whose hooks then hold what it makes anew."""
    checkpoints_sublayers: bool = False
    """Full checkpointing wraps norms, attention and MLP one by one, so each of the four keeps its input."""
    freezes_vision: bool = False
    """Vision towers and projectors are frozen unless the settings say otherwise."""
    offloads_reference: bool = False
    """The reference model's parameters wait on the host."""
    shift_copy: bool = False
    """Where the release of transformers is not known: the loss copies the shifted logits (fms-main, fms-liger)."""
    main_grads_fp32: bool = False
    """Gradients are accumulated in fp32 buffers made at start (Megatron ``main_grad``)."""
    fsdp_upcasts_trainable: bool = False
    """accelerate >= 0.30 casts trainable parameters to fp32 under FSDP with mixed precision."""
    quantized_autocast: bool = False
    """Quantized bases are trained under autocast unless the settings say otherwise (``bf16`` on in trl's configs)."""
    fuses_weight_gradients: bool = False
    """Products of a block add weights' gradients to the buffers themselves, and hand autograd an empty tensor in their
    place: one of each shape, which is kept."""
    distributed_optimizer: bool = False
    loss_outside: bool = False
    """The loss is computed outside the model, which reshards its outer unit as any other (``reshard_after_forward``)."""
    wraps_ends: str = ""
    """Untied embedding and head are units of their own under FSDP2: ``always``, or releases of the framework."""
    reduces_in_compute: bool = False
    """FSDP2 reduces gradients in the dtype that it gathers parameters in, whatever they are stored in."""
    sequence_parallel: bool = False
    """Tensor-parallel ranks divide the residual stream along the sequence unless the settings say otherwise."""
    norms_follow_autocast: bool = True
    reference_follows: bool = False
    """A reference scores each batch of preferences after the policy, whose graph waits; else before it, or before training.

    Megatron-SWIFT, NeMo-RL and NeMo-Aligner score first (``megatron/trainers/dpo_trainer.py``, ``algorithms/dpo.py``).
    """
    reentrant: bool = False
    """Checkpointed blocks run again before any of their backward does, not when it first needs what they save."""
    log_probabilities: str | Scoring | None = None
    """Whose preference and RL losses: ``trl`` of the release that runs, a release of TRL it pins, or one form for all."""
    modeling: bool = True
    """Runs transformers' modeling code."""


_TRAINER: Final = Profile(
    "transformers",
    # ``base_model_tp_plan`` names the layers' projections alone, ``_tp_plan`` lm_head: colwise_rep, since 5.0 colwise_gather_output
    follows_tp_plan=True,
    micro_batch_size=8,
    evaluation_batch_size=8,
    evaluates_with_logits="<5.15",
    fsdp_upcasts_trainable=True,
    defers_reduction="compute",
    defers_fsdp2=">=1.11",
)
"""Trainer: ``Accelerator.no_sync`` around all micro-steps but the last (transformers ``trainer.py``, accelerate ``accelerator.py``)."""
_TRANSFORMERS: Final = replace(
    _TRAINER, evaluation_batch_size=None, evaluates_with_logits="", defers_reduction="", defers_fsdp2=""
)
"""transformers' models in a loop of another kind."""
_LOOP: Final[Mapping[str, Any]] = {
    "pads_dynamically": False,
    "hold_logits": True,
    "micro_batch_size": None,
    "evaluation_batch_size": None,
    "evaluates_with_logits": "",
}
"""A training loop that a user writes around the model."""
_OWN_SHARDING: Final = replace(_TRANSFORMERS, fsdp_upcasts_trainable=False, micro_batch_size=None)
"""transformers' models under FSDP that the framework itself sets up, or under none."""

_AUTOMODEL_MIXTURES: Final = frozenset({
    "deepseek_v3", "deepseek_v32", "ernie4_5_moe", "glm4_moe", "glm4_moe_lite", "gpt_oss", "kimi_k2", "minimax_m2", "nemotron_h",
    "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_moe", "qwen3_next", "qwen3_vl_moe", "step3p5",
})  # fmt: skip
"""Mixtures with classes of NeMo Automodel's own: ``components/models`` (Jun 2026), run with TransformerEngine and grouped products."""

PROFILES: Final[Mapping[str, Profile]] = {
    # transformers/training_args.py: per_device_train_batch_size 8, no autocast unless bf16/fp16 is set
    "transformers": _TRAINER,
    # trl/trainer/sft_config.py: max_length 1024; gradient_checkpointing True and bf16 since 0.20
    "trl": replace(
        _TRAINER,
        name="trl",
        log_probabilities="trl",
        reference_follows=True,
        sequence_length=1024,
        evaluates_with_logits="<0.29",
        # 0.7.5 to 0.25 call peft_module_casting_to_bf16 after prepare_model_for_kbit_training (trainer/utils.py), later ones neither
        kbit_upcast=True,
        kbit_releases="<0.26",
        casts_outer_back=">=0.7.5",
        narrow_adapters=">=0.26",
        shift_copy=True,
        quantized_autocast=True,
    ),
    # axolotl/utils/schemas: sequence_len 512, micro_batch_size 1; bf16 weights under autocast;
    # axolotl/utils/config: eval_batch_size is micro_batch_size where it is not given
    "axolotl": replace(
        _TRAINER,
        name="axolotl",
        log_probabilities="1.8",  # pyproject.toml, Nov 2026
        reference_follows=True,
        micro_batch_size=1,
        evaluation_batch_size=None,
        evaluates_with_logits="always",
        # loaders/model.py, _configure_embedding_dtypes: norms, embeddings and head of adapters' bases are cast back to 16 bit
        kbit_upcast=False,
    ),
    # llamafactory/hparams: cutoff_len 2048; adapter.py and checkpointing.py upcast layernorms and adapters to fp32
    "llamafactory": replace(
        _TRAINER,
        name="llamafactory",
        reentrant=True,  # hparams/model_args.py: use_reentrant_gc
        # train/trainer_utils.py get_batch_logps, train/{dpo,kto}/trainer.py: log-softmax of fp32 logits
        log_probabilities=Scoring("log_softmax", widens=True),
        reference_follows=True,
        evaluates_with_logits="always",
        sequence_length=2048,
        gradient_checkpointing="full",
        kbit_upcast=False,
        widens_saved=True,
        freezes_vision=True,
    ),
    "ms-swift": replace(
        _TRAINER,
        name="ms-swift",
        micro_batch_size=1,
        # rlhf_trainers/rlhf_mixin.py, grpo_trainer.py: TRL's selective_log_softmax on whole logits
        log_probabilities="1.13",
        reference_follows=True,
        evaluation_batch_size=1,
        gradient_checkpointing="full",
        compute_dtype="bf16",
        freezes_vision=True,
    ),
    "unsloth": replace(
        _TRAINER,
        name="unsloth",
        reference_follows=True,  # TRL's trainers, patched
        reentrant=True,  # unsloth_zoo gradient_checkpointing.py: an autograd function of its own
        evaluates_with_logits="",  # its loss stays fused outside training
        gradient_checkpointing="full",
        loss_kernel="fused_linear",
        # models/llama.py: ``fast_cross_entropy_loss`` on logits in 16 bits; since 2024.11.8 cut cross entropy, since 2025.8.5
        # unsloth_zoo fused_losses/cross_entropy_loss.py, ``_get_chunk_multiplier``
        whole_logits="<2024.11.8",
        short_whole=">=2024.11.8,<2025.10",
        loss_target=((">=2025.9.1", 0.0), (">=2025.8.5,<2025.9.1", GIB)),
        upcast_logits=False,
        # models/llama.py, patch_peft_model (2024.1 to 2025.12): ``apply_lora_mlp``, ``apply_lora_qkv``, ``apply_lora_o``
        adapter_kernels=frozenset({"llama", "mistral", "gemma", "gemma2", "qwen2", "qwen3", "cohere", "granite"}),
        norm_kernel="fused",
        rotary_kernel="fused",
        mlp_kernel="fused",
        offloads_checkpoints=True,
    ),
    "peft": replace(_TRAINER, name="peft", kbit_upcast=True, **_LOOP),
    # Answer.AI ``fsdp_qlora/train.py``: the whole model in one dtype, adapters too
    "fsdp-qlora": replace(_TRAINER, name="fsdp-qlora", adapter_dtype="weight", checkpoints_inside_units=True, **_LOOP),
    "accelerate": replace(_TRAINER, name="accelerate", **_LOOP),
    "deepspeed": replace(_TRANSFORMERS, name="deepspeed", **_LOOP),
    "torchtune": Profile(
        "torchtune",
        reference_follows=True,  # recipes/full_dpo_distributed.py
        weight_dtype="bf16",
        gradient_checkpointing="none",
        loss_kernel="chunked",
        adapter_dtype="weight",
        norm_kernel="float",
        rotary_kernel="modeling",
        micro_batch_size=2,
        upcast_logits=True,
        modeling=False,
        norms_follow_autocast=False,
        nf4_double=True,
        may_fuse_backward=True,
        # modules/attention.py, models/phi3, models/gemma2; modules/transformer.py ``unembed``
        expands_kv="always",
        loss_outside=True,
        splits_projections=True,
        composes_capped=True,
        caps_before_head=True,
        unpacks_in_steps=True,
        quantizes_adapted=frozenset({"qwen2"}),  # models/qwen2/_component_builders.py (0.6.1)
        widens_in_model=True,
    ),
    # torchtitan/models/llama3/infra/parallelize.py, apply_tp: norms are SequenceParallel, blocks get and give Shard(1)
    "torchtitan": Profile(
        "torchtitan",
        sequence_parallel=True,
        parallel_loss=True,
        wraps_ends=">=0.2",
        expands_kv="<0.2.2",  # models/llama3/model/model.py ``repeat_kv``, then ``enable_gqa``
        loss_outside=True,
        weight_dtype="fp32",
        compute_dtype="bf16",
        optimizer="adamw_torch_fused",
        gradient_checkpointing="selective",
        norm_kernel="fused",
        torch_norms=True,
        rotary_kernel="modeling",
        modeling=False,
        norms_follow_autocast=False,
        fuses_loss=">=0.3",
        compiles_loss=True,
    ),
    # litgpt/model.py: RMSNorm in fp32 to its end, one projection of queries, keys and values; finetune/lora.py: the list of logit chunks
    # outlives the loss, in fp32, to which lightning's precision plugins convert what a module returns (lightning_fabric
    # ``plugins/precision/{half,bitsandbytes}.py``, where weights become fp16 before they are packed). bitsandbytes 0.41 and
    # 0.42 until 0.5.5 (Dec 2024)
    "litgpt": Profile(
        "litgpt",
        weight_dtype=None,
        adapter_dtype="weight",
        loss_kernel="chunked",
        modeling=False,
        norm_kernel="float",
        modeling_norms=">=0.3,<0.4.6",  # cast before the scale, Feb to July 2024
        old_bitsandbytes="<0.5.5",
        quantizes_fp16=True,
        checkpoints_inside_units=True,
        mixes_units="<0.5.8",  # finetune/lora.py, the auto_wrap_policy; March 2025
        chunk_tokens=128,
        caps_chunks=">=0.5.5",  # model.py ``clamp_head``; before, lora.py's own forward capped whole logits alone
        holds_wide_logits=True,
        joins_qkv=True,
        composes_capped=True,
        hold_logits=True,
        unties=True,
        quantizes_head=True,
        lora_dropout=0.05,
        defers_reduction="compute",
    ),
    # llm-foundry ``models/mpt``: flash-attn's fused cross entropy and low-precision norms are the defaults
    "llm-foundry": Profile(
        "llm-foundry",
        optimizer="adamw_loop",
        loops_adam=True,
        weight_dtype="fp32",
        compute_dtype="bf16",
        attention="flash2",
        norm_kernel="fused",
        modeling=False,
        loss_kernel="triton",
        upcast_logits=False,
        norms_follow_autocast=False,
    ),
    # TransformerEngine ``pytorch/module/base.py`` (2.x): ``get_dummy_wgrad``; Megatron's gradient_accumulation_fusion is on by default.
    # Core 0.13 ``transformer/moe/experts.py``: ``weighted_bias_swiglu_impl``; before, ``unpermute`` multiplied by the weights
    "megatron": Profile(
        "megatron",
        weight_dtype="bf16",
        attention="flash2",
        norm_kernel="fused",
        rotary_kernel="fused",
        mlp_kernel="fused",
        weighs_activation=">=0.13",
        main_grads_fp32=True,
        fused_adam=True,
        loss_kernel="triton",
        fuses_weight_gradients=True,
        distributed_optimizer=True,
        sequence_parallel=True,
        modeling=False,
        upcast_logits=True,
    ),
    # verl ``workers/fsdp_workers.py`` and ``trainer/config/engine/fsdp.yaml`` (Jan 2026): the actor in fp32, gathered in bf16 and
    # reduced in fp32 by FSDP's own mixed precision, torch.optim.AdamW; ``workers/actor/dp_actor.py``: no labels, so no fp32
    # logits, and flash-attn's cross entropy in place; the reference with ``CPUOffload(offload_params=True)``
    "verl": replace(
        _OWN_SHARDING,
        name="verl",
        weight_dtype="fp32",
        compute_dtype="bf16",
        optimizer="adamw_torch",
        attention="flash2",
        gradient_checkpointing="full",
        loss_kernel="triton",
        upcast_logits=False,
        offloads_reference=True,
    ),
    # OpenRLHF ``models/actor.py`` (Aug 2026): logits converted to fp32 after the model, flash-attn's cross entropy on them, not
    # in place (``models/utils.py``); DeepSpeed's own Adam, buckets "auto" (``utils/deepspeed/deepspeed_utils.py``)
    "openrlhf": replace(
        _OWN_SHARDING,
        name="openrlhf",
        reference_follows=True,  # trainer/dpo_trainer.py
        weight_dtype="bf16",
        compute_dtype="bf16",
        attention="flash2",
        loss_kernel="triton",
        loss_in_place=False,
    ),
    # NeMo-RL ``models/dtensor/parallelize.py`` and ``models/policy/workers/dtensor_policy_worker.py`` (Aug 2026): loaded in fp32,
    # FSDP2 with bf16 parameters, fp32 reduction and fp32 outputs; checkpoints around each norm, attention and MLP
    "nemo-rl": replace(
        _OWN_SHARDING,
        name="nemo-rl",
        follows_tp_plan=False,
        weight_dtype="fp32",
        compute_dtype="bf16",
        optimizer="adamw_torch",
        checkpoints_sublayers=True,
    ),
    # NeMo Automodel ``components/distributed/{config,parallelizer}.py``, ``components/loss/masked_ce.py`` (Aug 2026); mixtures:
    # ``components/moe/experts.py`` (``weighted_bias_swiglu_impl``, ``quick_geglu_deepep``), ``components/moe/parallelizer.py``;
    # ``components/models/llama/model.py`` (since Jan 2026: ``_float32_rms_norm_fwd``, compiled); ``recipes/llm/train_ft.py`` names
    # the model's output through backward
    "nemo-automodel": replace(
        _OWN_SHARDING,
        name="nemo-automodel",
        follows_tp_plan=False,
        compute_dtype="bf16",
        optimizer="adamw_torch",
        checkpoints_sublayers=True,
        adapter_dtype="weight",
        defers_reduction="fp32",
        hold_logits=True,
        drops_outputs=True,
        weighs_activation="always",
        leaves_whole_experts=True,
        own_models=_AUTOMODEL_MIXTURES,
        own_norms=frozenset({"llama", "qwen2"}),
        # _should_use_hf_native_gradient_checkpointing, of transformers' classes of which no vision layers are named
        whole_blocks=frozenset({"gemma2", "gemma3_text", "gemma4", "gemma4_text", "mistral", "phi3"}),
    ),
    # ROLL ``distributed/strategy/fsdp2_strategy.py`` and ``models/model_providers.py`` (Aug 2026): trained models in fp32 under
    # FSDP2, in the compute dtype under DeepSpeed; logits of the model as they are
    "roll": replace(
        _OWN_SHARDING,
        name="roll",
        compute_dtype="bf16",
        attention="flash2",
        defers_reduction="fp32",
    ),
    # prime-rl ``configs/trainer.py`` (Aug 2026): optimization_dtype and reduce_dtype float32, gathered in bf16, ``ac`` and
    # ``fused_lm_head_token_chunk_size`` on, AdamW of torch.optim
    "prime-rl": Profile(
        "prime-rl",
        weight_dtype="fp32",
        compute_dtype="bf16",
        optimizer="adamw_torch",
        gradient_checkpointing="full",
        attention="flash2",
        norm_kernel="fused",
        loss_kernel="fused_linear",
        modeling=False,
        norms_follow_autocast=False,
        wraps_ends="always",
    ),
    # OLMo ``olmo/{config,train,model,optim}.py`` (Sep 2025): fp32 parameters under FSDP 1 and autocast; its AdamW is torch.optim's
    "olmo": Profile(
        "olmo",
        weight_dtype="fp32",
        compute_dtype="bf16",
        optimizer="adamw_torch",
        norm_kernel="fused",
        rotary_kernel="modeling",
        modeling=False,
    ),
    # nanotron ``helpers.py``, ``optim/gradient_accumulator.py``, ``parallel/tensor_parallel/functional.py`` (Apr 2026): bf16
    # parameters with fp32 copies, whole fp32 gradient buffers, states sharded by stage 1, cross entropy in place on fp32 logits
    "nanotron": Profile(
        "nanotron",
        weight_dtype="bf16",
        optimizer="adamw_torch_fused",
        attention="flash2",
        norm_kernel="fused",
        main_grads_fp32=True,
        loss_kernel="triton",
        distributed_optimizer=True,
        modeling=False,
        norms_follow_autocast=False,
    ),
    # MaxText ``configs/base.yml`` (Aug 2026): fp32 parameters and gradients, bf16 compute, remat 'full', logits cast to fp32. XLA
    # fuses elementwise chains, and takes most of the device at start whatever is needed (``XLA_PYTHON_CLIENT_MEM_FRACTION``)
    "maxtext": Profile(
        "maxtext",
        weight_dtype="fp32",
        compute_dtype="bf16",
        gradient_checkpointing="full",
        attention="flash2",
        norm_kernel="fused",
        rotary_kernel="fused",
        mlp_kernel="fused",
        loss_kernel="triton",
        loss_in_place=False,
        modeling=False,
        norms_follow_autocast=False,
    ),
    # PyTorch Lightning: ``training_step`` keeps the loss alone, so no logits live on
    "lightning": replace(_OWN_SHARDING, name="lightning"),
    # llama-cookbook ``utils/train_utils.py`` and xtuner ``engine``: loops of their own, which reduce in every micro-step
    "llama-cookbook": replace(_TRANSFORMERS, name="llama-cookbook", checkpoints_inside_units=True, **_LOOP),
    # xtuner ``v1/config/fsdp.py`` and ``v1/model/dense/dense.py`` (Aug 2026)
    "xtuner": replace(_TRANSFORMERS, name="xtuner", wraps_ends="always", reduces_in_compute=True),
    "generic": replace(_TRANSFORMERS, name="generic", micro_batch_size=None),
}

_SAME: Final[Mapping[str, str]] = {
    "nemo": "megatron",
    "nemo-aligner": "megatron",
    "megatron-deepspeed": "megatron",
    "megatron-lm": "megatron",
    "megatron-core": "megatron",
    "megatron-bridge": "megatron",
    "pai-megatron-patch": "megatron",
    "primus": "megatron",
    "slime": "megatron",
    "gpt-neox": "megatron",
    "transformers-loop": "peft",
    "llama-recipes": "llama-cookbook",
    "fastchat": "transformers",
    "open-instruct": "transformers",
    "lmflow": "transformers",
    "alignment-handbook": "trl",
    "open-r1": "trl",
    "automodel": "nemo-automodel",
    "olmo-core": "torchtitan",
    "torchao": "torchtune",
    "lit-gpt": "litgpt",
    "lit-llama": "litgpt",
    "composer": "llm-foundry",
    "swift": "ms-swift",
    "colossalai": "generic",
}


_SAME_PROJECT: Final = frozenset(
    {
        "megatron-lm",
        "megatron-core",
        "transformers-loop",
        "llama-recipes",
        "automodel",
        "lit-gpt",
        "lit-llama",
        "swift",
    }
)
"""Other names of one project; the rest of those above are projects of their own, with releases of their own."""


def shares_releases(framework: str | None) -> bool:
    """Whether a version of this framework is one of the framework whose profile stands for it."""
    name = (framework or "").lower()
    return name not in _SAME or name in _SAME_PROJECT


def for_model(profile: Profile, model_type: str | None) -> Profile:
    """The profile of a framework's own class of this model, where it has one: fused kernels, blocks checkpointed as wholes."""
    if model_type in profile.own_norms:
        return replace(profile, norm_kernel="fused", rotary_kernel="fused")
    if model_type in profile.whole_blocks:
        return replace(profile, checkpoints_sublayers=False, reentrant=True)
    if model_type not in profile.own_models:
        return profile
    return replace(
        profile,
        norm_kernel="fused",
        rotary_kernel="fused",
        mlp_kernel="fused",
        checkpoints_sublayers=False,
        modeling=False,
        norms_follow_autocast=False,
    )


def with_kernels(profile: Profile, kernels: object) -> Profile:
    """The profile with Liger's kernels in the blocks (liger_kernel ``transformers/{rms_norm,rope,swiglu}.py``), named by what each does."""
    named = frozenset(map(str, kernels)) if isinstance(kernels, list) else frozenset()
    if "norm" in named:
        profile = replace(profile, norm_kernel="fused")
    if "rotary" in named:
        profile = replace(profile, rotary_kernel="fused")
    return replace(profile, mlp_kernel="in_place") if "mlp" in named else profile


def profile_of(framework: str | None) -> tuple[Profile, bool]:
    """The profile, and whether the framework is one we know."""
    if framework is None:
        return PROFILES["generic"], False
    name = framework.lower()
    name = _SAME.get(name, name).replace("_", "-")
    found = PROFILES.get(name)
    return (found, True) if found else (PROFILES["generic"], False)
