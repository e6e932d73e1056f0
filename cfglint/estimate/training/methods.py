"""What is trained: everything or adapters, on which objective, over which storage of the base, in which dtypes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cfglint.catalog.architecture import Architecture
from cfglint.estimate.training.families import ALL_LINEAR, slots_of
from cfglint.estimate.training.plan import LORA_KERNELS, PREFERENCE
from cfglint.estimate.training.profiles import Profile
from cfglint.estimate.training.ranks import Ranks
from cfglint.estimate.training.reader import Reader
from cfglint.estimate.training.releases import library_release, peft_release_of, release_of, stated_release_of
from cfglint.jobs.defaults import in_force
from cfglint.jobs.job import likely_architecture

ADAPTERS = ("lora", "qlora", "dora", "qdora", "adapter", "rslora", "loraplus", "fa")


KEPT_INPUTS: Final = {"nf4": "<0.43.2", "fp4": "<0.43.2", "int8": "<0.45"}
"""Releases of bitsandbytes whose products keep their input for backward, by what the weights are stored as."""


_WORDS: Final = re.compile(r"[a-z]*\d*[a-z]*")


_DTYPES = {
    "float32": "fp32",
    "fp32": "fp32",
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "fp16",
    "fp16": "fp16",
    "half": "fp16",
    "fp8": "fp8",
    "float8": "fp8",
    "tf32": "fp32",
}


@dataclass(frozen=True, slots=True)
class Method:
    objective: str
    pretrains: bool
    adapter: bool
    dora: bool
    quantization: str | None


def method_of(read: Reader, profile: Profile) -> Method:
    """What is trained: everything or adapters, on which objective, over which storage of the base."""
    stated = read.text("method") or ""
    lora_stated = read.job.fact("lora_rank") is not None or read.job.fact("lora_targets") is not None
    quantization = read.text("quantization")
    if quantization in ("none", ""):
        quantization = None
    elif quantization is None and read.job.value("quantization") is None:
        adapts = any(word in stated for word in ("lora", "dora", "adapter"))
        adapts = adapts or (lora_stated and (not stated or any(word in PREFERENCE for word in stated.split("-"))))
        quantization = _checkpoint_format(read, profile, adapts)
    parts = stated.replace("_", "-").replace("+", "-").split("-") if stated else []
    if not parts:
        parts = ["qlora"] if quantization and lora_stated else ["lora"] if lora_stated or quantization else ["full"]
        read.assumptions.append(f"method is not stated: {parts[0]}")
    objective = next((part for part in parts if part in PREFERENCE), "sft")
    adapter = any(part in ADAPTERS for part in parts) or (objective != "sft" and lora_stated)
    if quantization is not None and quantization not in ("fp8", "mxfp8") and not adapter:
        adapter = True
        read.assumptions.append(f"weights stored as {quantization} are not trained: adapters are")
        read.loose.add("method")
    if "qlora" in parts and quantization is None:
        quantization = "nf4"
        read.note("quantization", "nf4", "qlora default")
        read.assumptions.append("quantization is not stated: nf4 (the qlora default)")
    if quantization == "nf4" and profile.nf4_double:
        quantization = "nf4-double"
    return Method(
        objective=objective,
        pretrains="pretrain" in parts or "pt" in parts,
        adapter=adapter,
        dora="dora" in parts or "qdora" in parts,
        quantization=quantization,
    )


UNTRAINED_FORMATS: Final = {
    "mxfp4": "transformers trains no mxfp4 weights",
    "nvfp4": "no trainer reads ModelOpt's weights",
    "modelopt": "no trainer reads ModelOpt's weights",
}
"""Storage of checkpoints that is undone before training (transformers 5.24 ``quantizers/``: ``is_trainable``)."""


def _checkpoint_format(read: Reader, profile: Profile, adapts: bool) -> str | None:
    """The quantization that a checkpoint's weights are trained in, by its config or its name.

    What GPTQ, AWQ, bitsandbytes and compressed-tensors packed stays so, and FP8 under adapters in transformers; everything
    else becomes 16-bit, which the estimate says.
    """
    model = read.job.model
    if model is None:
        return None
    architecture = likely_architecture(read.job)
    own = architecture.quantization if architecture is not None else None
    named = model.format or (model.guess.format if model.guess is not None else None)
    found = _config_format(own) if own is not None else _name_format(named)
    if found is None:
        return None
    origin = "the checkpoint's own" if own is not None else "the checkpoint's name"
    why = UNTRAINED_FORMATS.get(found)
    if found == "fp8" and not (adapts and profile.modeling):
        why = "FP8 weights carry adapters at most" if profile.modeling else f"{profile.name} converts them"
    if why is not None:
        read.assumptions.append(f"the checkpoint holds {found} weights ({origin}): trained as 16-bit ones, since {why}")
        return None
    read.note("quantization", found, origin)
    read.assumptions.append(f"quantization is not stated: {found} ({origin})")
    return found


def _config_format(own: Mapping[str, Any]) -> str | None:
    """What a ``quantization_config`` says the weights are."""
    method, algorithm = str(own.get("quant_method") or "").lower(), str(own.get("quant_algo") or "").lower()
    bits = own.get("bits") or own.get("w_bit") or 4
    if method == "bitsandbytes":
        return "nf4" if own.get("load_in_4bit") or own.get("_load_in_4bit") else "int8"
    if method == "compressed-tensors":
        groups = own.get("config_groups")
        weights = [group.get("weights") for group in groups.values()] if isinstance(groups, Mapping) else []
        kinds = {(w.get("type"), w.get("num_bits")) for w in weights if isinstance(w, Mapping)}
        known: dict[object, str] = {("int", 4): "int4", ("int", 8): "int8", ("float", 8): "fp8"}
        return known.get(min(kinds, key=str, default=None))
    if method == "modelopt" or (not method and algorithm):
        return "nvfp4" if "fp4" in algorithm else "modelopt"
    kinds_of = {"gptq": f"gptq-int{bits}", "awq": "awq-int4", "fp8": "fp8", "mxfp4": "mxfp4", "hqq": "hqq-int4"}
    return kinds_of.get(method)


def _name_format(format_: str | None) -> str | None:
    """What a name that ends in ``-GPTQ``, ``-bnb-4bit``, ``-FP8`` says the weights are."""
    if format_ is None:
        return None
    words = set(_WORDS.findall(format_.lower()))
    bits = 8 if words & {"int8", "8bit", "8"} else 4
    kinds = {"gptq": f"gptq-int{bits}", "awq": "awq-int4", "bnb": "nf4" if bits == 4 else "int8", "nf4": "nf4"}
    kinds.update({"nvfp4": "nvfp4", "mxfp4": "mxfp4", "fp8": "fp8"})
    return next((kind for word, kind in kinds.items() if word in words), "int4" if "int4" in words else None)


@dataclass(frozen=True, slots=True)
class Adapter:
    rank: int = 0
    dropout: float = 0.0
    names: tuple[str, ...] = ()
    slots: frozenset[str] = frozenset()
    all_linear: bool = False
    modules_to_save: tuple[str, ...] = ()


def adapter_of(read: Reader, profile: Profile, method: Method, default: str) -> Adapter:
    if not method.adapter:
        return Adapter()
    rank = read.count("lora_rank", 8, default) or 8
    stated = read.get("lora_targets")
    stated = [stated] if isinstance(stated, str) else stated
    if isinstance(stated, (list, tuple)) and stated:
        names = tuple(map(str, stated))
    else:
        names = ("q_proj", "v_proj") if profile.name in ("transformers", "peft", "trl") else ("all-linear",)
        read.assumptions.append(f"lora_targets is not stated: {', '.join(names)} ({default})")
        read.loose.add("lora_targets")
    everything = any(name in ("all-linear", "all", "all_linear", "linear") for name in names)
    saved = read.get("lora_modules_to_save")
    return Adapter(
        rank=rank,
        dropout=_share(read.get("lora_dropout", profile.lora_dropout)),
        names=names,
        slots=ALL_LINEAR if everything else slots_of(names),
        all_linear=everything,
        modules_to_save=tuple(map(str, saved)) if isinstance(saved, (list, tuple)) else (),
    )


def lora_kernels_of(
    read: Reader,
    profile: Profile,
    method: Method,
    adapter: Adapter,
    ranks: Ranks,
    architecture: Architecture | None,
) -> frozenset[str] | None:
    """LoRA kernels of Unsloth and Axolotl; None where only the low end has them.

    unsloth ``models/llama.py``, ``patch_peft_model``: where adapters have no dropout and projections no bias. Where no
    release is stated, the expected figure is that of PEFT's chain, which is what the eight lengths of lf-wiki hold.

    Axolotl's: those stated, or all where it switches them on; None where that depends on its release.
    axolotl ``check_auto_enable_lora_kernels`` (``utils/schemas/config.py``), since 0.10 (June 2025): not with ``rl``,
    remote code, LoRA on 8 bit, FSDP1 or a kernel switch stated; before 0.16 (April 2026) only with ``lora_dropout: 0``,
    and ``monkeypatch/lora_kernels.py`` patched nothing with a dropout.
    """
    if not method.adapter or method.dora:
        return frozenset()
    if architecture is not None and architecture.model_type in profile.adapter_kernels:
        if adapter.dropout:
            return frozenset()
        if release_of(read, profile) is None:
            return None
        biased = any(tensor.bias and tensor.module == "q_proj" for tensor in architecture.tensors)
        return LORA_KERNELS - {"qkv"} if biased else LORA_KERNELS
    if profile.name != "axolotl":
        return frozenset()
    release = stated_release_of(read) or read.job.versions.get("axolotl")
    takes_dropout = in_force(">=0.16", release) and (release is not None or not adapter.dropout)
    stated = read.get("lora_kernels")
    if isinstance(stated, (list, tuple)):
        found = frozenset(map(str, stated)) & LORA_KERNELS
        if not adapter.dropout or takes_dropout or not found:
            return found
        return None if release is None else frozenset()
    fits = method.objective == "sft" and read.get("trust_remote_code") is not True and ranks.sharding != "fsdp1"
    if not fits or (method.quantization == "int8" and read.text("method") == "lora"):
        return frozenset()
    if release is None:
        return None
    stated_zero = read.get("lora_dropout") == 0
    return LORA_KERNELS if in_force(">=0.16" if not stated_zero else ">=0.10", release) else frozenset()


def compute_dtype_of(read: Reader, profile: Profile, method: Method, default: str) -> str | None:
    """The autocast or engine dtype; None for none."""
    stated = read.text("compute_dtype")
    if stated is not None or read.job.stated("compute_dtype"):
        found = _DTYPES.get(stated or "none")
        return None if found == "fp32" else found
    found = _DTYPES.get(profile.compute_dtype or "none")
    if found is None and method.quantization and profile.quantized_autocast:
        weight = read.job.value("weight_dtype")
        found = _DTYPES.get(weight, "bf16") if isinstance(weight, str) else "bf16"
        read.assumptions.append(f"compute_dtype is not stated: autocast in {found} over the quantized base ({default})")
    return None if found == "fp32" else found


def stored_dtype_of(read: Reader, fact: str) -> str | None:
    found = read.text(fact)
    return _DTYPES.get(found) if found is not None else None


def weight_dtype_of(read: Reader, profile: Profile, method: Method, compute: str | None, default: str) -> str:
    """The dtype parameters are stored in: stated, the framework's, the checkpoint's, or what is common."""
    stated = read.text("weight_dtype")
    if stated is not None:
        weight = _DTYPES.get(stated, stated)
        if weight not in ("fp32", "bf16", "fp16", "fp8"):
            read.problems.append(f"weight_dtype is {weight!r}: not a dtype known here")
            return "bf16"
        return weight
    read.loose.add("weight_dtype")
    found = profile.weight_dtype or (compute if method.adapter else None)
    if found is not None:
        read.note("weight_dtype", found, default)
        read.assumptions.append(f"weight_dtype is not stated: {found} ({default})")
        return found
    architecture = likely_architecture(read.job)
    native = _DTYPES.get(architecture.native_dtype or "") if architecture is not None else None
    if native is not None:
        read.note("weight_dtype", native, "the checkpoint's own dtype")
        read.assumptions.append(f"weight_dtype is not stated: {native} (the checkpoint's own)")
        return native
    found = "bf16" if method.quantization or method.adapter else "fp32"
    read.assumptions.append(f"weight_dtype is not stated: {found} ({default})")
    return found


def _share(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1 else 0.0


def upcasts_unquantized(read: Reader, quantization: str | None, profile: Profile, sharding: str) -> bool:
    """Whether what is not quantized is held in fp32 (PEFT ``prepare_model_for_kbit_training``).

    Only bitsandbytes models are cast (``peft/utils/other.py``), and trainers leave it out where parameters are sharded,
    since a flat parameter has one dtype (``trl``: ``is_sharded_qlora``).
    """
    bitsandbytes = quantization is not None and quantization.startswith(("nf4", "fp4", "int8"))
    upcasts = bitsandbytes and profile.kbit_upcast
    upcasts = upcasts and in_force(profile.kbit_releases, release_of(read, profile))
    stated = read.flag("upcast_unquantized", upcasts)
    return stated and sharding not in ("fsdp1", "fsdp2", "zero3")


def outer_is_cast_back(read: Reader, quantization: str | None, profile: Profile, compute: str | None) -> bool:
    """Whether embeddings and head of a 4-bit model are 16-bit again, and norms alone in fp32 (trl ``peft_module_casting_to_bf16``)."""
    four_bit = quantization is not None and quantization.startswith(("nf4", "fp4"))
    if not profile.casts_outer_back or not four_bit or compute != "bf16":
        return False
    return in_force(profile.casts_outer_back, release_of(read, profile))


def adapter_dtype_of(read: Reader, profile: Profile, quantization: str | None, weight: str) -> str:
    """Dtype of adapters: since PEFT 0.12 fp32 beside 16-bit weights (``autocast_adapter_dtype``) unless a trainer converts them."""
    if profile.adapter_dtype != "fp32":
        return weight
    if quantization is None:
        release = peft_release_of(read, profile)
        return weight if release is not None and not in_force(">=0.12", release) else "fp32"
    release = release_of(read, profile) if quantization.startswith(("nf4", "fp4", "int8")) else None
    narrow = profile.narrow_adapters and release is not None and in_force(profile.narrow_adapters, release)
    return "bf16" if narrow else "fp32"


def packed_inputs_kept(read: Reader, quantization: str | None, profile: Profile) -> bool | None:
    """Whether bitsandbytes' products keep their input though the weight is frozen.

    ``MatMul4Bit`` up to 0.43.1 (0.43.3: ``ctx.tensors = (None, B)``), ``MatMul8bitLt`` up to 0.44 (``autograd/_functions.py``).
    A framework that pins the library says its release.
    """
    kept = next((releases for kind, releases in KEPT_INPUTS.items() if (quantization or "").startswith(kind)), None)
    if kept is None:
        return False
    release = library_release(read, profile, "bitsandbytes")
    if release is not None:
        return in_force(kept, release)
    if not profile.old_bitsandbytes:
        return False
    own = stated_release_of(read)
    return None if own is None else in_force(profile.old_bitsandbytes, own)
