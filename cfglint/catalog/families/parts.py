"""The pieces families are put together from: each yields its tensors for the layers it stands in.

Shapes are those of the modeling code in transformers 5.24.0 (checked name by name against models instantiated on the
meta device by ``benchmarks/check_architectures.py``). Remote-code families follow their own modeling files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from cfglint.catalog.architecture import (
    FeedForward,
    Layer,
    Mixer,
    Mla,
    Moe,
    Role,
    StateSpace,
    Tensor,
    UnknownArchitecture,
)
from cfglint.catalog.families.config import Config, Flag, divide, whole

Stack = Literal["decoder", "encoder", "vision", "audio", ""]


class Where(NamedTuple):
    """Which layers of which stack; no stack: outside of all."""

    stack: Stack = ""
    layers: tuple[int, ...] = ()


OUTSIDE = Where()


def linear(
    module: str, out: int, inner: int, role: Role, where: Where = OUTSIDE, *, bias: bool = False, count: int = 1
) -> Iterator[Tensor]:
    """An ``nn.Linear`` of weight ``(out, inner)``."""
    yield Tensor(module, (out, inner), role, count, where.layers, where.stack, linear=True)
    if bias:
        yield Tensor(module, (out,), role, count, where.layers, where.stack, bias=True)


def matrix(
    module: str, shape: tuple[int, ...], role: Role, where: Where = OUTSIDE, *, count: int = 1
) -> Iterator[Tensor]:
    """A weight that is not an ``nn.Linear``: embeddings, convolutions, fused experts, ``Conv1D``."""
    yield Tensor(module, shape, role, count, where.layers, where.stack)


def vector(
    module: str, size: int, role: Role, where: Where = OUTSIDE, *, count: int = 1, bias: bool = False
) -> Iterator[Tensor]:
    yield Tensor(module, (size,), role, count, where.layers, where.stack, bias=bias)


def norm(
    module: str, size: int, where: Where = OUTSIDE, *, bias: bool = False, role: Role = "norm"
) -> Iterator[Tensor]:
    """RMSNorm (weight) or LayerNorm (weight and bias)."""
    yield Tensor(module, (size,), role, 1, where.layers, where.stack)
    if bias:
        yield Tensor(module, (size,), role, 1, where.layers, where.stack, bias=True)


class Part(Protocol):
    """A mixer or a feed-forward."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]: ...

    def facts(self, c: Config) -> dict[str, Any]:
        """Fields of ``Layer`` this part decides."""
        ...


class Heads(NamedTuple):
    heads: int
    kv_heads: int
    head_dim: int


def read_heads(
    c: Config,
    heads: str = "num_attention_heads",
    kv_heads: str = "num_key_value_heads",
    head_dim: str = "head_dim",
    hidden: str = "hidden_size",
) -> Heads:
    """Attention heads.

    An empty key for ``kv_heads`` or ``head_dim`` means that the family has no such setting.

    Raises:
        UnknownArchitecture: the hidden size does not divide by the heads, or these by the key-value heads.
    """
    count = c.size(heads)
    groups = c.size(kv_heads, count) if kv_heads else count
    divide(c.spelled(heads), count, c.spelled(kv_heads), groups)
    width = c.get(head_dim) if head_dim else None
    if width is None:
        width = divide(c.spelled(hidden), c.size(hidden), c.spelled(heads), count)
    return Heads(count, groups, whole(head_dim, width, at_least=1))


@dataclass(frozen=True)
class Attention:
    """Softmax attention with separate or fused projections."""

    q: str = "q_proj"
    k: str = "k_proj"
    v: str = "v_proj"
    o: str = "o_proj"
    fused: str = ""
    """One module for query, key and value."""
    is_linear: bool = True
    """False for GPT-2's ``Conv1D``, whose weight is ``(in, out)``."""
    bias: Flag = False
    k_bias: Flag | None = None
    """Where the key projection differs from the others (Whisper has none)."""
    output_bias: Flag = False
    qk_norm: Literal["", "head", "full", "per_head", "list"] = ""
    """Norm over one head (shared by all), over all heads together, one weight per head in one tensor, or one module per head."""
    qk_norm_if: Flag = True
    qk_norm_bias: Flag = False
    q_norm: str = "q_norm"
    k_norm: str = "k_norm"
    sinks: bool = False
    gated: bool = False
    """The query projection is doubled: its second half gates the output."""
    multi_query: str = ""
    """Config key that leaves a single key-value head."""
    heads: str = "num_attention_heads"
    kv_heads: str = "num_key_value_heads"
    head_dim: str = "head_dim"
    hidden: str = "hidden_size"
    role: Role = "attention"
    shared_kv: bool = False
    """Values are the keys: no value projection."""

    def read(self, c: Config) -> Heads:
        read = read_heads(c, self.heads, self.kv_heads, self.head_dim, self.hidden)
        return read._replace(kv_heads=1) if self.multi_query and c.flag(self.multi_query) else read

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        heads, kv_heads, width = self.read(c)
        hidden = c.size(self.hidden)
        query, key = heads * width, kv_heads * width
        bias = c.flag(self.bias)
        project = linear if self.is_linear else transposed
        if self.fused:
            yield from project(self.fused, query + 2 * key, hidden, self.role, where, bias=bias)
        else:
            k_bias = bias if self.k_bias is None else c.flag(self.k_bias)
            yield from project(self.q, query * (2 if self.gated else 1), hidden, self.role, where, bias=bias)
            yield from project(self.k, key, hidden, self.role, where, bias=k_bias)
            if not self.shared_kv:
                yield from project(self.v, key, hidden, self.role, where, bias=bias)
        yield from project(self.o, hidden, query, self.role, where, bias=c.flag(self.output_bias))
        if self.qk_norm and c.flag(self.qk_norm_if):
            for module, count in ((self.q_norm, heads), (self.k_norm, kv_heads)):
                yield from self.head_norm(module, count, width, where, c.flag(self.qk_norm_bias))
        if self.sinks:
            yield from vector("sinks", heads, self.role, where)

    def head_norm(self, module: str, heads: int, width: int, where: Where, bias: bool) -> Iterator[Tensor]:
        shape = {"head": (width,), "full": (heads * width,), "per_head": (heads, width), "list": (width,)}[self.qk_norm]
        repeat = heads if self.qk_norm == "list" else 1
        yield Tensor(module, shape, "norm", repeat, where.layers, where.stack)
        if bias:
            yield Tensor(module, shape, "norm", repeat, where.layers, where.stack, bias=True)

    def facts(self, c: Config) -> dict[str, Any]:
        return self.read(c)._asdict()


def transposed(
    module: str, out: int, inner: int, role: Role, where: Where = OUTSIDE, *, bias: bool = False
) -> Iterator[Tensor]:
    """GPT-2's ``Conv1D``: a linear layer with its weight the other way round, which PEFT adapts all the same."""
    yield Tensor(module, (inner, out), role, 1, where.layers, where.stack, linear=True)
    if bias:
        yield Tensor(module, (out,), role, 1, where.layers, where.stack, bias=True)


@dataclass(frozen=True)
class Mlp:
    """A dense feed-forward: ``down(act(gate(x)) * up(x))``, or ``down(act(up(x)))`` where ``gate`` is empty."""

    gate: str = "gate_proj"
    up: str = "up_proj"
    down: str = "down_proj"
    fused: str = ""
    """One module for gate and up."""
    bias: Flag = False
    down_bias: Flag | None = None
    width: str = "intermediate_size"
    times_hidden: int = 0
    """Width as a multiple of the hidden size where the config does not state one."""
    halved: bool = False
    """Qwen 1 states the width of gate and up together."""
    is_linear: bool = True
    role: Role = "mlp"
    hidden: str = "hidden_size"

    def read(self, c: Config) -> int:
        usual = self.times_hidden * c.size(self.hidden) if self.times_hidden else None
        width = c.size(self.width, usual) if self.width else usual or 0
        return width // 2 if self.halved else width

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        yield from self.of_width(c, where, self.read(c))

    def of_width(self, c: Config, where: Where, width: int) -> Iterator[Tensor]:
        hidden, bias = c.size(self.hidden), c.flag(self.bias)
        project = linear if self.is_linear else transposed
        if self.fused:
            yield from project(self.fused, 2 * width, hidden, self.role, where, bias=bias)
        else:
            if self.gate:
                yield from project(self.gate, width, hidden, self.role, where, bias=bias)
            yield from project(self.up, width, hidden, self.role, where, bias=bias)
        down_bias = bias if self.down_bias is None else c.flag(self.down_bias)
        yield from project(self.down, hidden, width, self.role, where, bias=down_bias)

    def facts(self, c: Config) -> dict[str, Any]:
        return {"intermediate_size": self.read(c)}

    @property
    def is_gated(self) -> bool:
        return bool(self.gate or self.fused)


class Slot(NamedTuple):
    """What stands in one layer."""

    mixer: Mixer
    feed_forward: FeedForward = "dense"
    window: int | None = None
    part: str = ""
    """Key of ``Decoder.mixers`` where it is not the mixer's own name."""
    ffn: str = ""
    """Key of ``Decoder.feed_forwards`` where it is not ``feed_forward``."""


Plan = Callable[[Config], tuple[Slot, ...]]


def typed(c: Config, usual: Callable[[int], str], *, window: str = "sliding_window") -> tuple[Slot, ...]:
    """Layers by ``layer_types``, or where the config has none by the family's usual pattern.

    Raises:
        UnknownArchitecture: the list does not fit the number of layers, or names a type the family does not have.
    """
    count = c.size("num_hidden_layers")
    named = c.sequence("layer_types")
    if named is not None and len(named) != count:
        raise UnknownArchitecture(f"layer_types names {len(named)} layers, num_hidden_layers is {count}")
    size = c.get(window)
    slots = []
    for index in range(count):
        kind = named[index] if named is not None else usual(index)
        if kind == "sliding_attention" and size:
            slots.append(Slot("sliding_attention", window=whole(window, size, at_least=1)))
        elif kind == "chunked_attention":
            slots.append(
                Slot(
                    "chunked_attention",
                    window=whole("attention_chunk_size", c.get("attention_chunk_size", 0), at_least=0) or None,
                )
            )
        elif kind in ("full_attention", "sliding_attention"):
            slots.append(Slot("full_attention"))
        else:
            raise UnknownArchitecture(f"layer_types names {kind!r}, which {c.model_type} does not have")
    return tuple(slots)


def every_nth_full(n: int, key: str = "sliding_window_pattern") -> Plan:
    """Sliding windows, every n-th layer full; ``key`` states another n."""

    def plan(c: Config) -> tuple[Slot, ...]:
        period = c.raw.get(key) or n
        period = whole(key, period, at_least=1)
        return typed(c, lambda index: "sliding_attention" if (index + 1) % period else "full_attention")

    return plan


def every_layer(c: Config) -> tuple[Slot, ...]:
    """Full attention and a dense feed-forward throughout."""
    return (Slot("full_attention"),) * c.size("num_hidden_layers")


@dataclass
class Body:
    """What a family makes of a config; ``Architecture`` without the totals."""

    tensors: list[Tensor] = field(default_factory=list)
    layers: tuple[Layer, ...] = ()
    encoder_layers: tuple[Layer, ...] = ()
    text: Config | None = None
    """The config of the text model, where it is nested in a larger one."""
    heads: Heads | None = None
    intermediate_size: int = 0
    tied: bool = False
    gated: bool = True
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    moe: Moe | None = None
    mla: Mla | None = None
    ssm: StateSpace | None = None
    missing: str = ""
    """What the tensors leave out, where a part of the model is not described here."""


Family = Callable[[Config], Body]


@dataclass(frozen=True)
class Decoder:
    """A causal decoder: an embedding, layers of a mixer and a feed-forward with their norms, a final norm, a head."""

    mixers: Mapping[str, Part] = field(default_factory=lambda: {"full_attention": Attention()})
    feed_forwards: Mapping[str, Part] = field(default_factory=lambda: {"dense": Mlp()})
    plan: Plan = every_layer
    norms: tuple[str, ...] | Callable[[Config], tuple[str, ...]] = ("input_layernorm", "post_attention_layernorm")
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    norm_weight: Flag = True
    """OLMo 1's LayerNorm has no parameters."""
    norm_bias: Flag = False
    embedding: str = "embed_tokens"
    embedding_size: str = "hidden_size"
    extra_rows: int = 0
    """Rows of the embedding that the head does not have (Llama 3.2 Vision: 8)."""
    positions: str = ""
    """Module of learned absolute positions."""
    positions_if: Flag = True
    positions_offset: int = 0
    positions_size: str = "max_position_embeddings"
    positions_width: str = ""
    """Config key of their width where it is not the embedding's."""
    embedding_norm: str = ""
    final_norm: str = "norm"
    final_norm_if: Flag = True
    head: str = "lm_head"
    head_bias: Flag = False
    vocabulary: Callable[[Config], int] = lambda c: c.size("vocab_size")
    tie_default: bool = True
    """What an absent ``tie_word_embeddings`` means where the config class's default is not known."""
    extra: Callable[[Config, Where], Iterator[Tensor]] | None = None
    """Tensors of every layer, or outside of them, that no other field describes."""
    stack: Stack = "decoder"

    def __call__(self, c: Config) -> Body:
        slots = self.plan(c)
        hidden, vocabulary = c.size("hidden_size"), self.vocabulary(c)
        embedded = c.size(self.embedding_size, hidden)
        body = Body(text=c, norm=self.norm)
        tensors = body.tensors
        tensors += matrix(self.embedding, (vocabulary + self.extra_rows, embedded), "embedding")
        norm_bias = c.flag(self.norm_bias)
        if self.positions and c.flag(self.positions_if):
            length = c.size(self.positions_size) + self.positions_offset
            width = c.size(self.positions_width) if self.positions_width else embedded
            tensors += matrix(self.positions, (length, width), "position_embedding")
        if self.embedding_norm:
            tensors += norm(self.embedding_norm, embedded, bias=norm_bias)
        body.layers = self.stack_layers(c, slots, tensors, norm_bias)
        everywhere = Where(self.stack, tuple(range(len(slots))))
        if c.flag(self.norm_weight):
            for module in self.norms(c) if callable(self.norms) else self.norms:
                tensors += norm(module, hidden, everywhere, bias=norm_bias)
            if self.final_norm and c.flag(self.final_norm_if):
                tensors += norm(self.final_norm, hidden, bias=norm_bias)
        if self.extra is not None:
            tensors += self.extra(c, everywhere)
        self.add_head(c, body, vocabulary, embedded)
        self.summarise(c, body, slots)
        return body

    def stack_layers(
        self, c: Config, slots: tuple[Slot, ...], tensors: list[Tensor], norm_bias: bool
    ) -> tuple[Layer, ...]:
        """Tensors of mixers and feed-forwards, grouped over the layers that are alike; the layers themselves."""
        mixers: dict[str, list[int]] = {}
        feeds: dict[str, list[int]] = {}
        for index, slot in enumerate(slots):
            mixers.setdefault(self.mixer_key(slot), []).append(index)
            feeds.setdefault(slot.ffn or slot.feed_forward, []).append(index)
        facts: list[dict[str, Any]] = [{} for _ in slots]
        for table, groups in ((self.mixers, mixers), (self.feed_forwards, feeds)):
            for key, indexes in groups.items():
                if key == "none":
                    continue
                part = table[key]
                tensors += part.tensors(c, Where(self.stack, tuple(indexes)))
                shared = part.facts(c)
                for index in indexes:
                    facts[index].update(shared)
        return tuple(
            Layer(index=index, mixer=slot.mixer, feed_forward=slot.feed_forward, window=slot.window, **facts[index])
            for index, slot in enumerate(slots)
        )

    def mixer_key(self, slot: Slot) -> str:
        """Sliding and chunked attention have the tensors of full attention unless said otherwise."""
        key = slot.part or slot.mixer
        if key not in self.mixers and key in ("sliding_attention", "chunked_attention"):
            return "full_attention"
        return key

    def add_head(self, c: Config, body: Body, vocabulary: int, embedded: int) -> None:
        """The language-model head, a classification head, or none, by the name of the architecture."""
        body.tied = c.flag("tie_word_embeddings", self.tie_default)
        architecture = architecture_name(c)
        if architecture.endswith("ForSequenceClassification"):
            body.tensors += linear("score", labels(c), c.size("hidden_size"), "other")
        elif architecture.endswith("ForTokenClassification"):
            body.tensors += linear("score", labels(c), c.size("hidden_size"), "other", bias=True)
        elif self.head and (architecture.endswith("LMHeadModel") or not architecture.endswith("Model")):
            for tensor in linear(self.head, vocabulary, embedded, "lm_head", bias=c.flag(self.head_bias)):
                if tensor.bias or not body.tied:
                    body.tensors.append(tensor)

    def summarise(self, c: Config, body: Body, slots: tuple[Slot, ...]) -> None:
        """The sizes that a reader of the architecture asks for first."""
        for layer in body.layers:
            if layer.heads:
                body.heads = Heads(layer.heads, layer.kv_heads, layer.head_dim)
                break
        dense = self.feed_forwards.get("dense")
        if isinstance(dense, Mlp):
            body.gated = dense.is_gated
        widths = [layer.intermediate_size for layer in body.layers if layer.feed_forward == "dense"]
        body.intermediate_size = widths[0] if widths else c.get("intermediate_size", 0) or 0
        for table in (self.mixers, self.feed_forwards):
            for key, part in table.items():
                describe = getattr(part, "describe", None)
                if describe is not None and self.stands(key, slots):
                    describe(c, body)

    def stands(self, key: str, slots: tuple[Slot, ...]) -> bool:
        return any(key in (self.mixer_key(slot), slot.ffn or slot.feed_forward) for slot in slots)


def architecture_name(c: Config) -> str:
    named = c.raw.get("architectures")
    return named[0] if isinstance(named, (list, tuple)) and named and isinstance(named[0], str) else ""


def labels(c: Config) -> int:
    """Number of classes of a classification head: ``id2label``, ``num_labels``, else transformers' default of 2."""
    named = c.raw.get("id2label")
    if isinstance(named, Mapping) and named:
        return len(named)
    return whole("num_labels", c.raw.get("num_labels", 2), at_least=1)


def impossible(message: str) -> UnknownArchitecture:
    return UnknownArchitecture(message)
