"""One rank of an engine that is not vLLM: its share of the weights, a forward pass, a token of cache; and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cfglint.catalog.accelerators import Accelerator
from cfglint.catalog.architecture import Architecture, Layer
from cfglint.estimate.result import Component, Estimate, Interval, MemoryEstimate, ServingEstimate
from cfglint.estimate.serving.activations import attention_width, expert_workspace, mlp_width, recurrent_width
from cfglint.estimate.serving.host import host_memory
from cfglint.estimate.serving.kv_layout import (
    attention_bytes,
    cache_dtype_bytes,
    is_recurrent,
    state_bytes_per_layer,
)
from cfglint.estimate.serving.parallel import Sharding, pipeline_stages
from cfglint.estimate.serving.precision import (
    FP4_BITS,
    FP4_EXPERT_BITS,
    FP4_GROUP,
    model_element_bytes,
    weight_scheme,
)
from cfglint.estimate.serving.quantized import Scheme
from cfglint.estimate.serving.settings_in_force import SettingsInForce
from cfglint.estimate.serving.verdicts import worst
from cfglint.estimate.serving.weights import RankWeights, rank_weights
from cfglint.estimate.verdict import verdict_for
from cfglint.formulas import GIB

CONTEXT = 0.5 * GIB
"""CUDA context and loaded kernels (OVERHEADS.md section 2: 0.25 to 0.95 GiB)."""
RESIDUALS = 4
WINDOWED = ("sliding_attention", "chunked_attention")
CAP_ROUNDING = 0.05


@dataclass
class Rank:
    """What a rank of pipeline stage 0 holds."""

    settings: SettingsInForce
    arch: Architecture
    gpu: Accelerator | None
    sharding: Sharding
    element: float
    scheme: Scheme | None
    weights: RankWeights

    @property
    def capacity(self) -> int | None:
        return self.gpu.usable_bytes if self.gpu else None

    def forward_bytes(self, tokens: int) -> float:
        """Activations of one forward pass over ``tokens`` tokens, without the logits."""
        tp = self.sharding.tensor
        widest = 0.0
        for layer in self.arch.layers:
            if layer.feed_forward == "dense":
                widest = max(widest, mlp_width(self.arch, layer, tp))
            mixer = recurrent_width(self.arch, tp) if is_recurrent(layer) else attention_width(self.arch, layer, tp)
            widest = max(widest, mixer)
        split = tp if self.sharding.expert_ranks == 1 else 1
        experts = expert_workspace(self.arch, tokens, self.element, split, self.scheme)
        return max(tokens * widest * self.element, experts) + tokens * RESIDUALS * self.arch.hidden_size * self.element

    def cache_element(self, name: str | None) -> float:
        size = cache_dtype_bytes(name, self.element)
        if size is None:
            self.settings.assume(f"cache type {name} is not known here: taken as the model's dtype")
            return self.element
        return size

    def token_bytes(self, element: float, *, latent: bool = True, window_share: float = 1.0) -> float:
        """KV bytes of one token on this rank. Layers with a window keep ``window_share`` of the tokens others keep."""
        tp, total = self.sharding.tensor, 0.0
        for layer in self._layers():
            kept = window_share if layer.window and layer.mixer in WINDOWED else 1.0
            total += kept * attention_bytes(layer, self.arch, tp, element, latent=latent)
        return total

    def _layers(self) -> tuple[Layer, ...]:
        stage = self.sharding.stages[0]
        return self.arch.layers[stage.start : stage.stop]

    def sequence_state_bytes(self, state_element: float | None = None) -> float:
        """Recurrent state of one sequence on this rank; ``state_element`` bytes where the config does not say."""
        count = sum(1 for layer in self._layers() if is_recurrent(layer))
        return count * state_bytes_per_layer(self.arch, self.sharding.tensor, self.element, state_element=state_element)


def rank_of(
    settings: SettingsInForce,
    arch: Architecture,
    gpu: Accelerator | None,
    *,
    experts_spread: bool = False,
    fp4_scale_bits: int | None = None,
    no_rotary_tables: Sequence[str] = (),
) -> Rank:
    """The rank that the stated parallel sizes make. ``fp4_scale_bits``: of the scales an engine keeps for FP4 experts;
    ``no_rotary_tables``: families whose rotary embeddings it computes as it goes."""
    tp = settings.positive("tensor_parallel_size", "tp", "tp_size", "num_shard") or 1
    pp = settings.positive("pipeline_parallel_size", "pp", "pp_size") or 1
    sharding = Sharding(
        tensor=tp, expert_ranks=tp if experts_spread and arch.moe else 1, stages=pipeline_stages(len(arch.layers), pp)
    )
    element, scheme = model_element_bytes(settings, arch), weight_scheme(settings, arch)
    if fp4_scale_bits is not None and scheme is not None and scheme.expert_bits == FP4_EXPERT_BITS:
        scheme = replace(scheme, expert_bits=FP4_BITS + fp4_scale_bits / FP4_GROUP)
    tables = not arch.model_type.startswith(tuple(no_rotary_tables)) if no_rotary_tables else True
    weights = rank_weights(arch, sharding, parameter_bytes=element, scheme=scheme, rotary_tables=tables)
    return Rank(settings, arch, gpu, sharding, element, scheme, weights)


def heed_length(estimate: Estimate, settings: SettingsInForce, length: int | None, otherwise: str | None) -> None:
    """Let the verdict say whether one request of ``length`` tokens fits the pool.

    ``otherwise``: what the engine does where it does not fit and starts all the same; None where it refuses to start.
    """
    tokens = estimate.serving.kv_tokens if estimate.serving is not None else None
    if length is None or tokens is None or tokens.low >= length or estimate.memory.verdict not in ("fits", "tight"):
        return
    estimate.memory.verdict = "tight"
    if tokens.expected >= length:
        return
    if otherwise is not None:
        settings.assume(f"the pool holds fewer tokens than the context length {length}: {otherwise}")
    else:
        estimate.memory.verdict = "kv-too-small" if tokens.high < length else "likely-oom"


@dataclass
class Shares:
    """What a GPU's memory goes to, in bytes. ``cache`` is what is left or allotted."""

    activation: Interval
    graphs: Interval
    context: Interval
    cache: Interval
    cache_text: str
    cache_facts: Sequence[str]


def report(
    engine: str, rank: Rank, shares: Shares | None, token_bytes: float, *, cap_tokens: int | None = None
) -> Estimate:
    """Put a rank's shares together; without ``shares`` the accelerator's memory is missing."""
    settings, arch, weights = rank.settings, rank.arch, rank.weights
    memory = MemoryEstimate(capacity=rank.capacity)
    memory.host = host_memory(settings, arch, weights, rank.sharding.tensor * rank.sharding.pipeline)
    serving = ServingEstimate(engine, kv_bytes_per_token=token_bytes, weights=weights.bytes)
    names = ("dtype", "quantization", "tensor_parallel_size", "pipeline_parallel_size")
    bits = f", quantized weights at {rank.scheme.text}" if rank.scheme else ""
    text = " + ".join(f"{role} {size / GIB:.2f}" for role, size in weights.parts.items() if size > 0.005 * GIB)
    memory.components.append(Component("weights", weights.bytes, f"{text} GiB{bits}", settings.inputs(*names), names))
    estimate = Estimate(memory, serving=serving, assumptions=settings.assumptions, parameters=arch.total_parameters)
    if shares is None or rank.capacity is None:
        memory.missing.append("gpu")
        if cap_tokens is not None and token_bytes:
            # The engine takes what is asked for where the device has it, and a page more.
            serving.kv_tokens = Interval(0.0, float(cap_tokens), float(cap_tokens))
            size = cap_tokens * token_bytes
            serving.kv_cache = Interval(0.0, size, size * (1 + CAP_ROUNDING))
        return estimate
    cache = shares.cache
    if cap_tokens is not None and token_bytes:
        limit = cap_tokens * token_bytes
        cache = Interval(min(cache.low, limit), min(cache.expected, limit), min(cache.high, limit))
    serving.activation_peak, serving.graph = shares.activation.expected, shares.graphs.expected
    serving.non_torch = shares.context.expected
    serving.kv_cache = cache
    if token_bytes:
        serving.kv_tokens = Interval(
            *(max(0.0, float(int(size / token_bytes))) for size in (cache.low, cache.expected, cache.high))
        )
    length = settings.positive("max_model_len") or arch.max_position_embeddings
    if serving.kv_tokens is not None and length:
        serving.max_concurrency = serving.kv_tokens.expected / length
        serving.max_model_len = int(min(serving.kv_tokens.expected, arch.max_position_embeddings or length))
    facts = tuple(shares.cache_facts)
    memory.components += [
        Component("activation peak", shares.activation.expected, "forward pass and logits", settings.inputs("max_num_batched_tokens"), ("max_num_batched_tokens",)),
        Component("CUDA graphs", shares.graphs.expected, "captured graphs", settings.inputs("enforce_eager"), ("enforce_eager",)),
        Component("context and communication", shares.context.expected, "CUDA context, NCCL buffers", (), ()),
        Component("KV cache", max(0.0, cache.expected), shares.cache_text, settings.inputs(*facts), facts),
    ]  # fmt: skip
    held = Interval(weights.low, weights.bytes, weights.high) + Interval(
        max(0.0, cache.low), max(0.0, cache.expected), max(0.0, cache.expected)
    )
    memory.used = held + shares.activation + shares.graphs + shares.context
    memory.allocated = held + shares.activation
    memory.reserved = memory.allocated
    memory.phases = {
        "load": weights.bytes,
        "profile": weights.bytes + shares.activation.expected,
        "serve": held.expected,
    }
    verdicts = [verdict_for(memory.used, rank.capacity)]
    verdicts.append(
        "oom" if cache.high <= 0 else "likely-oom" if cache.expected <= 0 else "tight" if cache.low <= 0 else "fits"
    )
    memory.verdict = worst(*verdicts)
    return estimate
