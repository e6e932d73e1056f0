"""A model's architecture as its parameter tensors and layers, computed from a ``config.json``.

One description serves everyone: parameter counts, LoRA targets, quantization leftovers, tensor-parallel shares,
FSDP wrap units, activations and KV cache all read the same tensors and layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from cfglint.catalog.families.config import Config

Role = Literal[
    "embedding",
    "position_embedding",
    "lm_head",
    "norm",
    "attention",
    "mla",
    "mlp",
    "expert",
    "router",
    "shared_expert",
    "ssm",
    "linear_attention",
    "vision",
    "audio",
    "projector",
    "other",
]
Mixer = Literal[
    "full_attention",
    "sliding_attention",
    "chunked_attention",
    "mla",
    "mamba",
    "mamba2",
    "linear_attention",
    "conv",
    "none",
]
FeedForward = Literal["dense", "moe", "none"]
SOFTMAX: frozenset[Mixer] = frozenset({"full_attention", "sliding_attention", "chunked_attention", "mla"})
"""Mixers with a cache that grows with the sequence."""


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
    linear_before_5: bool = False
    """An ``nn.Linear`` of its own in transformers 4 (one module per expert), fused with the others in transformers 5."""

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
    kv_elements: int | None = None
    """Elements cached per token where that is not keys and values of every key-value head: MLA caches its latent,
    a layer that reuses another's cache (Gemma 3n, Gemma 4) nothing."""
    kv_compression: int = 1
    """Tokens that share one cache entry (DeepSeek-V4: 4 or 128)."""
    recurrent: bool = False
    """Keeps a recurrent state of fixed size (``Architecture.ssm``); in Falcon-H1 beside its attention cache."""
    index_elements: int = 0
    """Elements per token of a sparse attention's index keys (DeepSeek sparse attention), cached beside the rest."""

    @property
    def kv_cache_elements(self) -> int:
        """Elements cached per token, before ``window`` and ``kv_compression``; zero for recurrent mixers."""
        if self.kv_elements is not None:
            return self.kv_elements
        return 2 * self.kv_heads * self.head_dim if self.mixer in SOFTMAX else 0


@dataclass(frozen=True, slots=True)
class Moe:
    num_experts: int
    top_k: int
    intermediate_size: int
    shared_intermediate_size: int = 0
    layers_per_bank: int = 1
    """Layers that choose from the same experts (Intern-S2-Mobius: 10)."""


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
    missing: str = ""
    """What ``tensors`` leave out (a vision or audio part that is not described here); ``exact`` is False then."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The config the architecture was made from, as ``config.json`` spells it (text part flattened in)."""

    @property
    def num_hidden_layers(self) -> int:
        return len(self.layers)


class UnknownArchitecture(ValueError):
    """The config lacks a dimension, contradicts itself, or its family is not known; the message names what is missing."""


class ImpossibleArchitecture(UnknownArchitecture):
    """No model has these dimensions: no layers, heads that do not divide, more experts a token than there are."""


ROUTED: frozenset[Role] = frozenset({"expert"})

TEXT_KEYS = ("text_config", "llm_config", "language_config")
"""Where a larger config keeps the part of its language model."""


def architecture_from_config(config: Mapping[str, Any]) -> Architecture:
    """Read a ``config.json`` mapping.

    A known family gives the tensors, exactly; an unknown one gives the stated dimensions alone, ``exact`` False.

    Raises:
        UnknownArchitecture: a needed dimension is missing or impossible (named in the message).
    """
    from cfglint.catalog.families import family
    from cfglint.catalog.families.config import Config

    model_type = config.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise UnknownArchitecture("the config does not state model_type")
    describe = family(model_type)
    if describe is not None:
        body = describe(Config(config, model_type))
    else:
        inner = _text_part(config)
        named = inner.get("model_type") if inner is not None else None
        describe = family(named) if isinstance(named, str) else None
        if describe is None or inner is None or not isinstance(named, str):
            return _dimensions_alone(config, model_type)
        body = describe(Config(inner, named, nested=True))
        body.missing = "all parts but the language model"
    text = body.text or Config(config, model_type)
    total = sum(tensor.parameters for tensor in body.tensors)
    heads = body.heads
    return Architecture(
        model_type=model_type,
        architecture=_first_architecture(config),
        hidden_size=text.size("hidden_size"),
        vocab_size=text.size("vocab_size"),
        num_attention_heads=heads.heads if heads else 0,
        num_key_value_heads=heads.kv_heads if heads else 0,
        head_dim=heads.head_dim if heads else 0,
        intermediate_size=body.intermediate_size,
        layers=body.layers,
        encoder_layers=body.encoder_layers,
        tensors=tuple(body.tensors),
        tie_word_embeddings=body.tied,
        gated_mlp=body.gated,
        norm=body.norm,
        max_position_embeddings=_positive(text.get("max_position_embeddings")),
        moe=body.moe,
        mla=body.mla,
        ssm=body.ssm,
        native_dtype=native_dtype(config),
        quantization=_quantization(config),
        total_parameters=None if body.missing else total,
        active_parameters=None if body.missing else _active(body.tensors, total, body.moe),
        exact=not body.missing,
        missing=body.missing,
        config=_flattened(config),
    )


def native_dtype(config: Mapping[str, Any]) -> str | None:
    """The checkpoint's dtype: ``dtype`` (transformers 5) or ``torch_dtype``, at the top or in the text part."""
    parts = [config, *(config[key] for key in TEXT_KEYS if isinstance(config.get(key), Mapping))]
    for part in parts:
        for key in ("dtype", "torch_dtype"):
            value = part.get(key)
            if isinstance(value, str) and value:
                return value.removeprefix("torch.")
    return None


def _active(tensors: list[Tensor], total: int, moe: Moe | None) -> int:
    """Parameters that one token passes: of the routed experts only ``top_k``, of a layer's own tables next to nothing."""
    total -= sum(tensor.parameters for tensor in tensors if tensor.role == "embedding" and tensor.stack == "decoder")
    if moe is None:
        return total
    routed = sum(tensor.parameters for tensor in tensors if tensor.role in ROUTED)
    chosen = min(moe.num_experts, moe.top_k * moe.layers_per_bank)
    return total - routed * (moe.num_experts - chosen) // moe.num_experts


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((config[key] for key in TEXT_KEYS if isinstance(config.get(key), Mapping)), None)


def _dimensions_alone(config: Mapping[str, Any], model_type: str) -> Architecture:
    """What a config of an unknown family states in the standard names; no tensors, no totals."""
    from cfglint.catalog.families.config import Config

    c = Config({**config, **(_text_part(config) or {})}, model_type)
    hidden, count = c.size("hidden_size"), c.size("num_hidden_layers")
    mla = _stated_mla(c)
    heads = c.count("num_attention_heads")
    kv_heads = c.count("num_key_value_heads", heads)
    head_dim = c.count("head_dim", hidden // heads if heads and hidden % heads == 0 else 0)
    if mla:
        head_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim
    width = c.count("intermediate_size")
    moe = _stated_moe(c, width)
    mixer: Mixer = "mla" if mla else "full_attention" if heads else "none"
    feed_forward: FeedForward = "moe" if moe else "dense" if width else "none"
    layer = Layer(
        index=0,
        mixer=mixer,
        feed_forward=feed_forward,
        intermediate_size=moe.intermediate_size if moe else width,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        kv_elements=mla.kv_lora_rank + mla.qk_rope_head_dim if mla else None,
    )
    return Architecture(
        model_type=model_type,
        architecture=_first_architecture(config),
        hidden_size=hidden,
        vocab_size=c.size("vocab_size"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        intermediate_size=width,
        layers=tuple(replace(layer, index=index) for index in range(count)),
        tie_word_embeddings=c.flag("tie_word_embeddings"),
        max_position_embeddings=_positive(c.get("max_position_embeddings")),
        moe=moe,
        mla=mla,
        native_dtype=native_dtype(config),
        quantization=_quantization(config),
        missing="all tensors: the family is not known",
        config=_flattened(config),
    )


def _stated_moe(c: Config, width: int) -> Moe | None:
    experts = next(
        (key for key in ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts") if c.get(key)), None
    )
    top_k = next(
        (key for key in ("num_experts_per_tok", "moe_top_k", "moe_k", "num_experts_per_token") if c.get(key)), None
    )
    if experts is None or top_k is None:
        return None
    count = c.size(experts)
    return Moe(count, min(c.size(top_k), count), c.size("moe_intermediate_size", width or None))


def _stated_mla(c: Config) -> Mla | None:
    names = ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
    if any(c.get(name) is None for name in names):
        return None
    kv_rank, rope, nope, value = (c.size(name) for name in names)
    return Mla(kv_rank, c.count("q_lora_rank") or None, rope, nope, value)


def _first_architecture(config: Mapping[str, Any]) -> str | None:
    named = config.get("architectures")
    return named[0] if isinstance(named, (list, tuple)) and named and isinstance(named[0], str) else None


def _positive(value: Any) -> int | None:
    from cfglint.catalog.families.config import LARGEST

    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST else None


def _quantization(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    parts = [config, *(config[key] for key in TEXT_KEYS if isinstance(config.get(key), Mapping))]
    for part in parts:
        value = part.get("quantization_config")
        if isinstance(value, Mapping) and value:
            return value
    return None


def _flattened(config: Mapping[str, Any]) -> Mapping[str, Any]:
    flat = dict(config)
    for key in TEXT_KEYS:
        inner = config.get(key)
        if isinstance(inner, Mapping):
            flat.update({name: value for name, value in inner.items() if name not in ("model_type", "architectures")})
    return flat
