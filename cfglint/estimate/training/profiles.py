"""Framework profiles: what a framework does with memory that its settings do not say. Data, with where it was read.

Sources: transformers 5.24 and 4.5x, trl 0.2x, peft 0.21, accelerate 1.x, torchtune 0.6, torchtitan, litgpt 0.5,
Megatron-LM core 0.1x, DeepSpeed 0.17, Unsloth, Liger-Kernel: the modules named in each comment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final


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
    norm_kernel: str = "modeling"
    """``modeling`` (as in transformers), ``fused`` (saves its input), ``float`` (all in fp32, cast at the end)."""
    expand_keys: bool = False
    pads_dynamically: bool = True
    """Batches are as long as their longest sample; a plain loop is taken at its word."""
    may_fuse_backward: bool = False
    """Shipped recipes of full fine-tuning fuse the optimizer into backward (torchtune, one device)."""
    offloads_checkpoints: bool = False
    """Checkpointed block inputs are moved to the host (Unsloth)."""
    quantizes_head: bool = False
    nf4_double: bool = False
    """NF4 always has its constants quantized again (torchao)."""
    fused_adam: bool = False
    """Adam is one fused kernel whatever the settings call it (Megatron: TransformerEngine or apex)."""
    unties: bool = False
    """A tied head is loaded as a parameter of its own."""
    lora_dropout: float = 0.0
    defers_reduction: bool = False
    """Gradient accumulation skips reduction (``no_sync``), so FSDP keeps whole gradients between micro-steps.

    litgpt does (litgpt-hub-04). Hugging Face's Trainer does not: the rows of fms-mp, which accumulate two steps, shrink
    with the ranks as sharded gradients do.
    """
    rotary_kernel: str = "modeling"
    mlp_kernel: str = "modeling"
    hold_logits: bool = False
    """A plain loop keeps the model's output, so the 16-bit logits live through backward."""
    upcast_logits: bool = True
    shift_copy: bool = False
    """Where the release of transformers is not known: the loss copies the shifted logits (fms-main, fms-liger)."""
    padding_mask: bool = False
    main_grads_fp32: bool = False
    """Gradients are accumulated in fp32 buffers made at start (Megatron ``main_grad``)."""
    fsdp_upcasts_trainable: bool = False
    """accelerate >= 0.30 casts trainable parameters to fp32 under FSDP with mixed precision."""
    quantized_autocast: bool = False
    """Quantized bases are trained under autocast unless the settings say otherwise (``bf16`` on in trl's configs)."""
    distributed_optimizer: bool = False
    norms_follow_autocast: bool = True
    modeling: bool = True
    """Runs transformers' modeling code."""


_TRANSFORMERS: Final = Profile("transformers", micro_batch_size=8, fsdp_upcasts_trainable=True)

PROFILES: Final[Mapping[str, Profile]] = {
    # transformers/training_args.py: per_device_train_batch_size 8, no autocast unless bf16/fp16 is set
    "transformers": _TRANSFORMERS,
    # trl/trainer/sft_config.py: max_length 1024; gradient_checkpointing True and bf16 since 0.20
    "trl": replace(
        _TRANSFORMERS,
        name="trl",
        sequence_length=1024,
        kbit_upcast=True,
        shift_copy=True,
        quantized_autocast=True,
    ),
    # axolotl/utils/schemas: sequence_len 512, micro_batch_size 1; bf16 weights under autocast
    "axolotl": replace(_TRANSFORMERS, name="axolotl", micro_batch_size=1, kbit_upcast=True),
    # llamafactory/hparams: cutoff_len 2048; adapter.py and checkpointing.py upcast layernorms and adapters to fp32
    "llamafactory": replace(
        _TRANSFORMERS, name="llamafactory", sequence_length=2048, gradient_checkpointing="full", kbit_upcast=False
    ),
    "ms-swift": replace(
        _TRANSFORMERS, name="ms-swift", micro_batch_size=1, gradient_checkpointing="full", compute_dtype="bf16"
    ),
    "unsloth": replace(
        _TRANSFORMERS,
        name="unsloth",
        gradient_checkpointing="full",
        loss_kernel="fused_linear",
        norm_kernel="fused",
        rotary_kernel="fused",
        mlp_kernel="fused",
        offloads_checkpoints=True,
    ),
    "peft": replace(
        _TRANSFORMERS, name="peft", pads_dynamically=False, kbit_upcast=True, hold_logits=True, micro_batch_size=None
    ),
    "accelerate": replace(
        _TRANSFORMERS, name="accelerate", pads_dynamically=False, hold_logits=True, micro_batch_size=None
    ),
    "deepspeed": replace(
        _TRANSFORMERS, name="deepspeed", pads_dynamically=False, hold_logits=True, micro_batch_size=None
    ),
    "torchtune": Profile(
        "torchtune",
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
    ),
    "torchtitan": Profile(
        "torchtitan",
        weight_dtype="fp32",
        compute_dtype="bf16",
        optimizer="adamw_torch_fused",
        gradient_checkpointing="selective",
        norm_kernel="fused",
        rotary_kernel="modeling",
        modeling=False,
        norms_follow_autocast=False,
    ),
    # litgpt/model.py: RMSNorm in fp32 to its end, keys expanded to all heads; finetune/lora.py: the list of logit chunks
    # outlives the loss. Under bitsandbytes what is not quantized runs in fp32 (measured: litgpt-config-hub).
    "litgpt": Profile(
        "litgpt",
        weight_dtype=None,
        adapter_dtype="weight",
        loss_kernel="chunked",
        modeling=False,
        upcast_logits=False,
        norm_kernel="float",
        kbit_upcast=True,
        expand_keys=True,
        hold_logits=True,
        unties=True,
        quantizes_head=True,
        lora_dropout=0.05,
        defers_reduction=True,
    ),
    # llm-foundry ``models/mpt``: flash-attn's fused cross entropy and low-precision norms are the defaults
    "llm-foundry": Profile(
        "llm-foundry",
        weight_dtype="fp32",
        compute_dtype="bf16",
        attention="flash2",
        norm_kernel="fused",
        modeling=False,
        loss_kernel="triton",
        upcast_logits=False,
        norms_follow_autocast=False,
    ),
    "megatron": Profile(
        "megatron",
        weight_dtype="bf16",
        attention="flash2",
        norm_kernel="fused",
        rotary_kernel="fused",
        mlp_kernel="fused",
        main_grads_fp32=True,
        fused_adam=True,
        loss_kernel="triton",
        distributed_optimizer=True,
        modeling=False,
        upcast_logits=True,
    ),
    "generic": replace(_TRANSFORMERS, name="generic", micro_batch_size=None),
}

_SAME: Final[Mapping[str, str]] = {
    "nemo": "megatron",
    "megatron-deepspeed": "megatron",
    "megatron-lm": "megatron",
    "gpt-neox": "megatron",
    "transformers-loop": "peft",
    "llama-recipes": "accelerate",
    "fastchat": "transformers",
    "verl": "transformers",
    "openrlhf": "deepspeed",
    "torchao": "torchtune",
    "swift": "ms-swift",
    "colossalai": "generic",
}


def profile_of(framework: str | None) -> tuple[Profile, bool]:
    """The profile, and whether the framework is one we know."""
    if framework is None:
        return PROFILES["generic"], False
    name = framework.lower()
    name = _SAME.get(name, name)
    found = PROFILES.get(name)
    return (found, True) if found else (PROFILES["generic"], False)
