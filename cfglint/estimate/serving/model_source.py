"""The model a server loads: the job's own, or the one a quantized re-publication is named after."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from cfglint.catalog.architecture import Architecture
from cfglint.jobs.job import ModelFacts, ServingJob

_FORMAT = re.compile(
    r"[-_.](quantized|quant|w[48]a(8|16)|fp8|fp4|dynamic|block|channel|awq|gptq|int[48]|nvfp4(a16)?|mxfp[48]|gguf|bnb|nf4|marlin"
    r"|autoround|auto[-_]round|inc|hqq|[48][-_]?bits?|gs?(32|64|128)g?|128g|kv|asym|sym|unsloth|dq|mixed|calib\w*)$",
    re.IGNORECASE,
)
"""Endings that name how a checkpoint was quantized."""
PUBLISHERS = (
    "meta-llama", "Qwen", "mistralai", "google", "deepseek-ai", "microsoft", "openai", "ibm-granite", "nvidia", "01-ai",
    "tiiuae", "zai-org", "THUDM", "moonshotai", "MiniMaxAI", "CohereLabs", "CohereForAI", "allenai", "HuggingFaceTB",
    "internlm", "OpenGVLab", "baichuan-inc", "bigcode", "codellama", "NousResearch", "lmsys", "xai-org", "LiquidAI", "ai21labs",
    "stabilityai", "databricks", "EleutherAI", "upstage", "openbmb", "LGAI-EXAONE", "ByteDance-Seed", "XiaomiMiMo", "baidu",
    "tencent", "llava-hf", "liuhaotian",
)  # fmt: skip
"""Organisations whose models others re-publish quantized."""


@dataclass(frozen=True)
class ServedModel:
    """``problem`` names what is missing; ``format`` is the quantization that a re-publication's name states."""

    architecture: Architecture | None
    id: str
    problem: str = ""
    format: str | None = None
    assumption: str = ""
    certain: bool = True
    """False where a bare name or a path is all there is: then no verdict is final."""


def served_model(job: ServingJob) -> ServedModel:
    """The job's model, or for a quantized re-publication that is not in the catalogue the model it is named after."""
    named = job.value("model_id")
    name = named if isinstance(named, str) else ""
    model = job.model
    if model is not None and model.architecture is not None:
        return ServedModel(model.architecture, model.id, certain=not _may_be_published_smaller(job, model))
    base, label = without_format(name)
    plain = base if label is None else f"{base}-{label}"
    if is_bare(name):
        found = _by_name(plain)
        if found is not None:
            return ServedModel(
                found.architecture, found.id, "", None, f"{name} is taken as {found.id}, as its name says"
            )
    if label is not None:
        found = _by_name(base)
        if found is not None:
            text = f"{name} is taken as {found.id} with quantized weights, as its name says"
            return ServedModel(found.architecture, found.id, "", label, text, not is_bare(name))
    if model is None:
        return ServedModel(None, name, "model")
    return ServedModel(None, model.id, model.problem or f"dimensions of {model.id}")


def _may_be_published_smaller(job: ServingJob, model: ModelFacts) -> bool:
    """A mixture of experts whose checkpoint's dtype nobody read: many are published in FP8 or INT4."""
    row, architecture = model.row, model.architecture
    if row is None or architecture is None or architecture.moe is None or architecture.quantization:
        return False
    stated = job.value("dtype") not in (None, "auto") or job.value("quantization") is not None
    return not stated and not row.native_dtype_sourced


def is_bare(name: str) -> bool:
    """A path or a name without an owner, which no Hub id is."""
    return "/" not in name or name.startswith(("/", ".", "~")) or name.count("/") > 1


def without_format(name: str) -> tuple[str, str | None]:
    """Split a Hub id into the base model's name and the quantization its ending states, None where it states none.

    ``RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8`` is ``Llama-3.3-70B-Instruct`` and ``quantized.w8a8``.
    """
    base = name.rstrip("/").rsplit("/", 1)[-1].strip().replace(" ", "-")
    rest = base
    while match := _FORMAT.search(rest):
        rest = rest[: match.start()]
    return (rest, base[len(rest) + 1 :]) if rest and rest != base else (base, None)


def named_model(name: str) -> Architecture | None:
    """A model named by a setting, a draft model for one; None where the catalogue does not have it."""
    from cfglint.catalog.models import architecture_of, find_model

    row = find_model(name)
    return architecture_of(row) if row is not None else None


@lru_cache(maxsize=256)
def _by_name(base: str) -> ServedModel | None:
    from cfglint.catalog.models import architecture_of, find_model, models_named

    for name in dict.fromkeys((base, base.removeprefix("Meta-"))):
        owned = {key.rsplit("/", 1)[0]: key for key in models_named(name)}
        publisher = next((owner.lower() for owner in PUBLISHERS if owner.lower() in owned), None)
        row = find_model(owned[publisher]) if publisher is not None else None
        if row is not None:
            return ServedModel(architecture_of(row), row.id)
    return None
