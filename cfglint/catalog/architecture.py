"""A model's architecture as its parameter tensors and layers, computed from a ``config.json``.

One description serves everyone: parameter counts, LoRA targets, quantization leftovers, tensor-parallel shares,
FSDP wrap units, activations and KV cache all read the same tensors and layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

Role = Literal[
    "embedding", "position_embedding", "lm_head", "norm", "attention", "mla", "mlp", "expert", "router",
    "shared_expert", "ssm", "linear_attention", "vision", "audio", "projector", "other",
]
Mixer = Literal[
    "full_attention", "sliding_attention", "chunked_attention", "mla", "mamba", "mamba2", "linear_attention",
    "conv", "none",
]
FeedForward = Literal["dense", "moe", "none"]


@dataclass(frozen=True, slots=True)
class Tensor:
    """Parameter tensors of one name and shape.

    ``shape`` is the tensor's own, as ``torch.nn.Linear.weight`` has it: ``(out_features, in_features)``; biases and norms
    are one-dimensional. ``count`` is how many such tensors each of the ``layers`` holds (experts times one, usually).
    ``layers`` lists layer indexes of the stack named by ``stack``; it is empty for tensors outside the stacks.
    ``module`` is the PEFT-visible module name (``q_proj``, ``down_proj``, ``lm_head``); ``linear`` marks the weight of an
    ``nn.Linear`` (what ``all-linear`` and bitsandbytes see). Experts stored fused in one 3-D parameter
    (transformers 5) are given as separate matrices with ``linear`` False.
    """

    module: str
    shape: tuple[int, ...]
    role: Role
    count: int = 1
    layers: tuple[int, ...] = ()
    stack: Literal["decoder", "encoder", "vision", "audio", ""] = ""
    linear: bool = False
    bias: bool = False

    @property
    def elements(self) -> int:
        """Elements of one such tensor."""
        return prod(self.shape)

    @property
    def parameters(self) -> int:
        """Elements of all of them together."""
        return self.elements * self.count * (len(self.layers) if self.stack else 1)


@dataclass(frozen=True, slots=True)
class Layer:
    """One block of the decoder stack (or the encoder stack of an encoder-decoder model)."""

    index: int
    mixer: Mixer
    feed_forward: FeedForward
    intermediate_size: int = 0
    """Width of the dense MLP, or of one routed expert."""
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    window: int | None = None
    """Sliding window or chunk length in tokens, where the mixer has one."""
    cross_attention: bool = False


@dataclass(frozen=True, slots=True)
class Moe:
    num_experts: int
    top_k: int
    intermediate_size: int
    shared_intermediate_size: int = 0


@dataclass(frozen=True, slots=True)
class Mla:
    kv_lora_rank: int
    q_lora_rank: int | None
    qk_rope_head_dim: int
    qk_nope_head_dim: int
    v_head_dim: int


@dataclass(frozen=True, slots=True)
class StateSpace:
    """Recurrent mixers: elements of state kept per sequence in each such layer."""

    kind: str
    conv_state_elements: int
    recurrent_state_elements: int
    inner_size: int


@dataclass(frozen=True)
class Architecture:
    """Everything the estimators need to know about a model. Sizes are in elements."""

    model_type: str
    architecture: str | None
    hidden_size: int
    vocab_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    layers: tuple[Layer, ...]
    encoder_layers: tuple[Layer, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    """Unique parameter tensors (a tied head is not repeated). Empty where the family is not known to us."""
    tie_word_embeddings: bool = False
    gated_mlp: bool = True
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    max_position_embeddings: int | None = None
    moe: Moe | None = None
    mla: Mla | None = None
    ssm: StateSpace | None = None
    native_dtype: str | None = None
    quantization: Mapping[str, Any] | None = None
    """The checkpoint's own ``quantization_config``."""
    total_parameters: int | None = None
    """Published or computed count; None where neither is known."""
    active_parameters: int | None = None
    exact: bool = False
    """True where ``tensors`` add up to ``total_parameters`` by construction."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The config the architecture was made from, as ``config.json`` spells it (text part flattened in)."""

    @property
    def num_hidden_layers(self) -> int:
        return len(self.layers)


class UnknownArchitecture(ValueError):
    """The config lacks a dimension, contradicts itself, or its family is not known; the message names what is missing."""


def architecture_from_config(config: Mapping[str, Any]) -> Architecture:
    """Read a ``config.json`` mapping.

    Raises:
        UnknownArchitecture: a needed dimension is missing or impossible (named in the message).
    """
    raise NotImplementedError
