"""The dtype a server computes in and the quantization its weights are in."""

from __future__ import annotations

from dataclasses import replace

from cfglint.catalog.architecture import Architecture
from cfglint.estimate.serving.quantized import Exceptions, Scheme, scheme_from_config, scheme_from_name
from cfglint.estimate.serving.settings_in_force import SettingsInForce
from cfglint.estimate.serving.versions import quantization_data
from cfglint.jobs.named_models import stated_name, without_format

_BYTES = {
    "bf16": 2.0, "bfloat16": 2.0, "fp16": 2.0, "float16": 2.0, "half": 2.0, "fp32": 4.0, "float32": 4.0, "float": 4.0,
}  # fmt: skip
EIGHT_BITS = 8
FP4_BITS, FP4_GROUP = 4, 32
FP4_EXPERT_BITS = FP4_BITS + 8 / FP4_GROUP
"""MXFP4: a shared 8-bit scale for 32 weights (OCP Microscaling 1.0), as ``expert_dtype: fp4`` means."""
FP4_UNLESS_STATED = "deepseek_v4"
"""Families whose FP8 checkpoints hold FP4 experts where the config does not say otherwise (vLLM 0.33,
models/deepseek_v4/quant_config.py)."""
_NO_SCHEME = frozenset({"", "none", "null", "bf16", "fp16", "bfloat16", "float16"})
_CONTAINERS = (
    "compressed-tensors",
    "compressed_tensors",
    "modelopt",
    "quark",
    "auto",
    "bitsandbytes",
    "torchao",
    "gguf",
)
_RUNTIME = frozenset({"fp8", "bitsandbytes", "fp8_per_tensor", "fp8_per_block", "fp8_per_channel", "experts_int8"})


def model_element_bytes(settings: SettingsInForce, arch: Architecture) -> float:
    """Bytes of an unquantized weight: ``dtype``, else the checkpoint's own with fp32 taken down to 16 bits."""
    named = settings.text("dtype")
    if named is not None and named.lower() != "auto":
        return _BYTES.get(named.lower(), 2.0)
    return 2.0


def checkpoint_scheme(arch: Architecture) -> Scheme | None:
    """The quantization a checkpoint itself states."""
    own = scheme_from_config(arch.quantization) if arch.quantization else None
    if own is None:
        return None
    return replace(own, expert_bits=FP4_EXPERT_BITS) if own.expert_bits is None and _fp4_experts(arch, own) else own


def _fp4_experts(arch: Architecture, own: Scheme) -> bool:
    stated = arch.config.get("expert_dtype") or (arch.quantization or {}).get("expert_dtype")
    if stated is None:
        return own.name == "fp8" and arch.model_type.startswith(FP4_UNLESS_STATED)
    return "fp4" in str(stated).lower()


def weight_scheme(settings: SettingsInForce, arch: Architecture) -> Scheme | None:
    """The checkpoint's own quantization, else the one the engine is told to load or make."""
    # A re-publication replaces the base model's own quantization.
    republished = settings.format_in_name is not None
    own = None if republished else checkpoint_scheme(arch)
    named = settings.text("quantization", "quantize", "load_in_4bit")
    if own is not None:
        # The catalogue has the method of a published checkpoint, not always the list of what it leaves in 16 bits.
        kept = _left_by_publisher(settings, arch, own) if own.keep == Exceptions() and _in_catalogue(settings) else None
        return own if kept is None else replace(own, keep=kept)
    label = settings.format_in_name
    if arch.quantization and not republished:
        label = without_format(stated_name(settings.job))[1]
        taken = "16 bits" if label is None else f"{label}, as its name says"
        settings.assume(f"the checkpoint's quantization method is not known here: weights are taken as {taken}")
    if named is None or named.lower() in _NO_SCHEME:
        found = scheme_from_name(label) if label else None
        if label and found is None:
            settings.assume(f"{label} does not say how many bits: weights are taken as 16 bits")
            settings.unreadable["quantization"] = label
        return _as_published(settings, arch, found, label)
    found = scheme_from_name(named)
    if label and (found is None or named.lower() in label.lower()):
        found = scheme_from_name(label) or found
    if found is None and named.lower() == "bitsandbytes":
        found = scheme_from_name("nf4")
    if found is None:
        if named.lower() not in _CONTAINERS:
            settings.assume(f"quantization {named} is not known here: weights are taken as 16 bits")
        else:
            settings.assume(f"quantization {named} does not say how many bits: weights are taken as 16 bits")
        if named.lower() != "auto":
            settings.unreadable["quantization"] = named
        return None
    return _as_published(settings, arch, replace(found, runtime=label is None and named.lower() in _RUNTIME), label)


def _fp4(scheme: Scheme) -> str:
    """``FP4`` in a checkpoint's name is NVFP4's."""
    return "nvfp4" if scheme.name == "fp4" else scheme.name


def _as_published(
    settings: SettingsInForce, arch: Architecture, scheme: Scheme | None, label: str | None
) -> Scheme | None:
    """The scheme of a re-publication, which its name states, with what its publisher is known to leave in 16 bits."""
    if scheme is None:
        return None
    if label:
        doubts = quantization_data()["doubt"]
        scheme = replace(scheme, doubt=float(doubts.get(scheme.name, doubts["other"])))
    if scheme.experts_only and arch.moe is None:
        scheme = replace(scheme, experts_only=False)
    kept = _left_by_publisher(settings, arch, scheme) if label else None
    if kept is not None:
        return replace(scheme, keep=kept)
    recipes = quantization_data()["kept_by_recipes"]
    if any(name in (label or "").lower() for name in recipes["schemes"]) and scheme.bits < EIGHT_BITS:
        return replace(scheme, keep=Exceptions(frozenset(recipes["roles"])), drafts=False)
    return scheme


def _in_catalogue(settings: SettingsInForce) -> bool:
    model = settings.job.model
    return model is not None and model.row is not None


def _left_by_publisher(settings: SettingsInForce, arch: Architecture, scheme: Scheme) -> Exceptions | None:
    """What the model's publisher is known to leave in 16 bits in this format."""
    owner = str(settings.job.value("model_id") or "").split("/")[0]
    for rule in quantization_data()["publishers"]:
        types = rule.get("model_types")
        if types and arch.model_type not in types:
            continue
        if owner == rule["owner"] and rule["scheme"] in (scheme.name, _fp4(scheme)):
            ends = {"layers.0", f"layers.{arch.num_hidden_layers - 1}"} if rule["keep_ends"] else set()
            return Exceptions(frozenset({*rule["keep"], *ends}))
    return None
