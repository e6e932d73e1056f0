"""llama.cpp: model buffer, KV cache of ``n_ctx`` tokens shared by the slots, and a compute buffer for one micro-batch.

Layers, not heads, are split over devices.
"""

from __future__ import annotations

from dataclasses import dataclass

from cfglint.catalog.accelerators import Accelerator
from cfglint.catalog.architecture import Architecture, Layer
from cfglint.estimate.result import Component, Estimate, Interval, MemoryEstimate, ServingEstimate
from cfglint.estimate.serving.host import host_memory
from cfglint.estimate.serving.kv_layout import attention_bytes, cache_dtype_bytes, is_recurrent, state_bytes_per_layer
from cfglint.estimate.serving.precision import weight_scheme
from cfglint.estimate.serving.rank import CONTEXT
from cfglint.estimate.serving.settings_in_force import SettingsInForce
from cfglint.estimate.serving.versions import EngineLaws, EngineVersion, engine_laws
from cfglint.estimate.serving.weights import RankWeights
from cfglint.estimate.verdict import verdict_for
from cfglint.formulas import MIB

SCORE_BYTES = 4
STATE_BYTES = 4
"""Recurrent states are kept in fp32 (llama-memory-recurrent)."""
OFF = ("off", "false", "0", "no")


@dataclass(frozen=True)
class _Cache:
    """KV cache of one context over all layers: what each token adds, and what does not grow with the context."""

    laws: EngineLaws
    version: EngineVersion
    arch: Architecture
    key: float
    value: float
    slots: int
    ubatch: int
    whole_windows: bool

    def _layer_token(self, layer: Layer) -> float:
        if layer.mixer == "mla" and self.arch.mla is not None:
            law = self.laws.value("latent_cache", self.version)
            if law["latent"]:
                value = self.arch.mla.kv_lora_rank * self.value if law["value"] else 0.0
                return attention_bytes(layer, self.arch, 1, self.key) + value
        return attention_bytes(layer, self.arch, 1, (self.key + self.value) / 2, latent=False)

    def token_bytes(self) -> float:
        """Bytes a token takes in all layers while no window is full."""
        return sum(self._layer_token(layer) for layer in self.arch.layers)

    def bytes(self, length: int) -> float:
        """Bytes of a context of ``length`` cells."""
        pad = int(self.laws.constant("cell_padding"))
        windows = bool(self.laws.value("window_cache", self.version)) and not self.whole_windows
        total = 0.0
        for layer in self.arch.layers:
            cells = length
            if windows and layer.window and layer.mixer in ("sliding_attention", "chunked_attention"):
                cells = min(length, -(-(layer.window * self.slots + self.ubatch) // pad) * pad)
            total += cells * self._layer_token(layer)
            if is_recurrent(layer):
                total += self.slots * state_bytes_per_layer(self.arch, 1, STATE_BYTES)
        return total


def estimate_llamacpp(
    settings: SettingsInForce, arch: Architecture, version: EngineVersion, gpu: Accelerator | None
) -> Estimate:
    """Memory of the fullest device, with the layers offloaded split evenly."""
    laws = engine_laws("llama.cpp")
    devices = max(1, settings.job.hardware.gpus_per_node or 1)
    scheme = weight_scheme(settings, arch)
    bits = scheme.bits if scheme is not None else 16.0
    parameters = arch.total_parameters or 0
    offloaded = _offloaded(settings, arch, laws, version)
    weights = parameters * bits / 8 / devices * offloaded
    if scheme is None and settings.raw("quantization") is None:
        settings.assume("no quantization stated: weights taken as 16 bits")
    spread = float(laws.constant("mix_error")) if scheme is not None else 0.01
    slots, shared = settings.positive("max_num_seqs", "parallel", "np"), settings.boolean("kv_unified", "kvu")
    if slots is None:
        law = laws.value("slots", version)
        slots, shared = int(law["count"]), bool(law["shared"])
        settings.note_default("parallel", slots, version.text)
    ubatch = settings.positive("ub", "n_ubatch", "ubatch_size") or int(laws.constant("ubatch"))
    stated = settings.raw("flash_attn", "fa")
    # ``--flash-attn`` was a switch before it took on, off and auto.
    flash = laws.value("flash_attention", version) if stated is None else str(stated).lower() not in OFF
    kept = _Cache(
        laws, version, arch, _element(settings, "cache_type_k", "ctk"), _element(settings, "cache_type_v", "ctv"),
        slots, ubatch, settings.boolean("swa_full"),
    )  # fmt: skip
    compute: float = ubatch * SCORE_BYTES * (arch.vocab_size + 6 * arch.hidden_size + 3 * (arch.intermediate_size or arch.hidden_size))  # fmt: skip
    room = None if gpu is None else (gpu.usable_bytes - weights - compute - CONTEXT) * devices / max(offloaded, 0.01)
    length = _context(settings, arch, laws, version, kept, room)
    cell, cache = kept.token_bytes(), kept.bytes(length) / devices * offloaded
    if not flash:
        compute += float(ubatch * length * arch.num_attention_heads * SCORE_BYTES)
    copies = int(laws.constant("pipeline_copies")) if devices > 1 else 1
    # Slots over one cache may take the whole of it, up to the model's own length; else each has its part.
    longest = min(length, arch.max_position_embeddings or length) if shared else length // slots
    memory = MemoryEstimate(capacity=gpu.usable_bytes if gpu else None)
    shape = RankWeights(weights, weights * (1 - spread), weights * (1 + spread), {"all": weights})
    memory.host = host_memory(settings, arch, shape, 1)
    serving = ServingEstimate(
        "llama.cpp", kv_bytes_per_token=cell, weights=weights, activation_peak=compute, graph=0.0, non_torch=CONTEXT,
        kv_cache=Interval(cache * 0.98, cache, cache * 1.02), kv_tokens=Interval.exactly(float(length)),
        max_model_len=longest, max_concurrency=length / max(1, longest),
    )  # fmt: skip
    memory.components = [
        Component("weights", weights, f"{parameters / 1e9:.2f} B × {bits:g} bits / {devices} devices", settings.inputs("quantization"), ("quantization",)),
        Component("KV cache", cache, f"{length} tokens × {cell:.0f} bytes / {devices} devices", settings.inputs("max_model_len", "cache_type_k", "cache_type_v"), ("max_model_len",)),
        Component("compute buffer", compute, f"{ubatch} tokens × vocabulary {arch.vocab_size} and activations", settings.inputs("ub"), ()),
        Component("context and communication", CONTEXT, "CUDA context", (), ()),
    ]  # fmt: skip
    used = weights + cache + compute + CONTEXT
    memory.used = Interval(
        weights * (1 - spread) + cache + compute * 0.7 + CONTEXT / 2,
        used,
        weights * (1 + spread) + cache + compute * copies + 2 * CONTEXT,
    )
    memory.allocated = memory.reserved = memory.used + (-CONTEXT)
    estimate = Estimate(memory, serving=serving, assumptions=settings.assumptions, parameters=arch.total_parameters)
    if memory.capacity is None:
        memory.missing.append("gpu")
    else:
        memory.verdict = verdict_for(memory.used, memory.capacity)
    return estimate


def _offloaded(settings: SettingsInForce, arch: Architecture, laws: EngineLaws, version: EngineVersion) -> float:
    """Share of the layers that stand on devices."""
    named = settings.integer("ngl", "n_gpu_layers", "gpu_layers")
    if named is None:
        named = int(laws.value("gpu_layers", version))
        settings.note_default("n_gpu_layers", named, version.text)
        if not named:
            settings.assume("releases of this time offload no layer unless --n-gpu-layers says so")
    return 1.0 if named < 0 or named > len(arch.layers) else named / max(1, len(arch.layers))


def _context(
    settings: SettingsInForce,
    arch: Architecture,
    laws: EngineLaws,
    version: EngineVersion,
    cache: _Cache,
    room: float | None,
) -> int:
    """``n_ctx``: as stated, or the release's default, or the model's length cut to ``room`` bytes for the cache."""
    length = settings.positive("max_model_len", "n_ctx", "ctx_size", "c")
    if length is not None:
        return length
    law = laws.value("context", version)
    own = arch.max_position_embeddings or int(laws.constant("unknown_context"))
    tokens = int(law["tokens"] or own * (cache.slots if law.get("per_slot") else 1))
    fit = law.get("fit")
    if fit and room is not None and not _fit_is_off(settings):
        low, high = min(int(fit["least"]), tokens), tokens
        while low < high:
            middle = (low + high + 1) // 2
            if cache.bytes(middle) <= room - fit["margin_mib"] * MIB:
                low = middle
            else:
                high = middle - 1
        if low < tokens:
            settings.assume(f"no context stated: the model's {tokens} tokens are cut to what fits, {low}")
        tokens = low
    settings.note_default("n_ctx", tokens, version.text)
    return tokens


def _fit_is_off(settings: SettingsInForce) -> bool:
    """Whether ``--fit off`` was asked for."""
    return str(settings.raw("fit", "fit_params") or "on").lower() in OFF


def _element(settings: SettingsInForce, *names: str) -> float:
    return cache_dtype_bytes(settings.text(*names) or settings.text("kv_cache_dtype") or "f16", 2.0) or 2.0
