"""llama.cpp: model buffer, KV cache of ``n_ctx`` tokens shared by the slots, and a compute buffer for one micro-batch.

Layers, not heads, are split over devices.
"""

from __future__ import annotations

from cfglint.catalog.accelerators import Accelerator
from cfglint.catalog.architecture import Architecture
from cfglint.estimate.result import Component, Estimate, Interval, MemoryEstimate, ServingEstimate
from cfglint.estimate.serving.host import host_memory
from cfglint.estimate.serving.kv_layout import attention_bytes, cache_dtype_bytes
from cfglint.estimate.serving.precision import weight_scheme
from cfglint.estimate.serving.rank import CONTEXT
from cfglint.estimate.serving.settings_in_force import SettingsInForce
from cfglint.estimate.serving.verdicts import memory_verdict
from cfglint.estimate.serving.versions import EngineVersion
from cfglint.estimate.serving.weights import RankWeights

DEFAULT_CONTEXT = 4096
DEFAULT_UBATCH = 512
PIPELINE_COPIES = 4
"""Copies of the inputs the scheduler keeps when several devices work as a pipeline (ggml-backend.cpp GGML_SCHED_MAX_COPIES)."""
SCORE_BYTES = 4
MIX_ERROR = 0.06
"""Bits per weight of a k-quant mix differ from model to model by this much (llama.cpp quantize README)."""


def estimate_llamacpp(
    settings: SettingsInForce, arch: Architecture, version: EngineVersion, gpu: Accelerator | None
) -> Estimate:
    """Memory of the fullest device where all layers are offloaded, split by layers."""
    devices = max(1, settings.job.hardware.gpus_per_node or 1)
    scheme = weight_scheme(settings, arch)
    bits = scheme.bits if scheme is not None else 16.0
    parameters = arch.total_parameters or 0
    named = settings.integer("ngl", "n_gpu_layers", "gpu_layers")
    offloaded = 1.0 if named is None or named > len(arch.layers) else max(0, named) / max(1, len(arch.layers))
    weights = parameters * bits / 8 / devices * offloaded
    if scheme is None and settings.raw("quantization") is None:
        settings.assume("no quantization stated: weights taken as 16 bits")
    spread = MIX_ERROR if scheme is not None else 0.01
    length = settings.positive("max_model_len", "n_ctx", "ctx_size", "c")
    if length is None:
        length = min(DEFAULT_CONTEXT, arch.max_position_embeddings or DEFAULT_CONTEXT)
        settings.note_default("n_ctx", length)
    slots = settings.positive("max_num_seqs", "parallel", "np") or 1
    key = _element(settings, "cache_type_k", "ctk")
    value = _element(settings, "cache_type_v", "ctv")
    latent = arch.mla is not None and settings.raw("mla") is not None
    cell = sum(
        attention_bytes(layer, arch, 1, 1.0, latent=latent)
        * (key if layer.mixer == "mla" and latent else (key + value) / 2)
        for layer in arch.layers
    )
    cache = length * cell / devices * offloaded
    ubatch = settings.positive("ub", "n_ubatch", "ubatch_size") or DEFAULT_UBATCH
    flash = str(settings.raw("flash_attn", "fa") or "auto").lower() not in ("off", "false", "0")
    scores = 0.0 if flash else float(ubatch * length * arch.num_attention_heads * SCORE_BYTES)
    logits = ubatch * arch.vocab_size * SCORE_BYTES
    compute = (
        logits
        + scores
        + ubatch * SCORE_BYTES * (6 * arch.hidden_size + 3 * (arch.intermediate_size or arch.hidden_size))
    )
    copies = PIPELINE_COPIES if devices > 1 else 1
    memory = MemoryEstimate(capacity=gpu.usable_bytes if gpu else None)
    shape = RankWeights(weights, weights * (1 - spread), weights * (1 + spread), {"all": weights})
    memory.host = host_memory(settings, arch, shape, 1)
    serving = ServingEstimate(
        "llama.cpp", kv_bytes_per_token=cell, weights=weights, activation_peak=compute, graph=0.0, non_torch=CONTEXT,
        kv_cache=Interval(cache * 0.98, cache, cache * 1.02), kv_tokens=Interval.exactly(float(length)),
        max_model_len=length // slots, max_concurrency=float(slots),
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
        memory.verdict = memory_verdict(memory.used, memory.capacity)
    return estimate


def _element(settings: SettingsInForce, *names: str) -> float:
    return cache_dtype_bytes(settings.text(*names) or settings.text("kv_cache_dtype") or "f16", 2.0) or 2.0
