"""Models named after a known one: quantized re-publications, mirrors, frameworks' own names, versions cut to fewer layers.

None of them is a catalogue id, yet the name says what the dimensions are. Whoever takes a model from here says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any

from cfglint.catalog.architecture import TEXT_KEYS, Architecture, UnknownArchitecture, architecture_from_config

if TYPE_CHECKING:
    from cfglint.catalog.models import Model
    from cfglint.jobs.job import Job

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
    "tencent", "llava-hf", "liuhaotian", "stepfun-ai", "inclusionAI", "arcee-ai", "BAAI", "bigscience", "mosaicml",
    "TinyLlama", "rednote-hilab", "HuggingFaceH4", "ServiceNow-AI", "swiss-ai",
)  # fmt: skip
"""Organisations whose models others re-publish."""

MIRRORS = frozenset(
    {"unsloth", "nousresearch", "llm-research", "ai-modelscope", "zhipuai", "openbmb", "openai-mirror", "modelscope"}
    | {"thudm", "cohereforai"}
)
"""Owners that re-publish models of others under the same name: on the Hub ``unsloth`` and ``NousResearch``; on ModelScope the
rest of the first line, each paired with its Hub id in ms-swift's model tables (``swift/model/models``, ``Model(ms_model_id,
hf_model_id)``). The last two are former names of publishers, ``zai-org`` and ``CohereLabs``, whose ids lead on."""

_REMARK = re.compile(r"\s*\([^()]*\)$|\s+shape$", re.IGNORECASE)
_CUT = re.compile(r"^(.+?)\s+(?:cut|reduced|truncated)\s+to\s+(\d{1,4})\s+layers?$", re.IGNORECASE)
_LAYER_COUNTS = ("num_hidden_layers", "n_layer", "n_layers")


@dataclass(frozen=True)
class NamedModel:
    """``id`` is the known model's; ``format`` the quantization that the name states, as it is spelled there."""

    architecture: Architecture
    id: str
    config: Mapping[str, Any]
    source: str
    format: str | None = None
    layers_of: int | None = None
    """Layers of the whole model, where this one is cut."""


_HUB_CACHE = re.compile(r"(?:^|/)models--([^/]+?)--([^/]+?)(?:/|$)")


def hub_id(name: str) -> str:
    """The Hub id that a path in the Hugging Face cache spells (``…/models--Qwen--Qwen3-8B/snapshots/…``); else the name itself."""
    found = _HUB_CACHE.search(name)
    return f"{found[1]}/{found[2]}" if found is not None else name


def stated_name(job: Job) -> str:
    """What the files say of the model's name: the Hub id or path, on the host where a container mounts it from there."""
    name = job.value("model_id")
    for reading in job.readings:
        place = reading.context.get("model_place")
        if isinstance(place, str):
            name = place
    return hub_id(name) if isinstance(name, str) else ""


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


def is_mirror(name: str) -> bool:
    """An id whose owner re-publishes models of others under their own name."""
    return name.count("/") == 1 and name.split("/")[0].lower() in MIRRORS


@lru_cache(maxsize=256)
def published_as(name: str) -> NamedModel | None:
    """The publisher's model of that name, without an owner: ``Llama-2-70b-hf``; with or without ``Meta-`` and ``-hf``."""
    from cfglint.catalog.models import find_model, models_named

    for spelling in dict.fromkeys((name, name.removeprefix("Meta-"), f"Meta-{name}", f"{name}-hf")):
        owned = {key.rsplit("/", 1)[0]: key for key in models_named(spelling)}
        publisher = next((owner.lower() for owner in PUBLISHERS if owner.lower() in owned), None)
        row = find_model(owned[publisher]) if publisher is not None else None
        if row is not None:
            return _of_row(row)
    return None


def trained_model(name: str, framework: str | None = None) -> NamedModel | None:
    """The model that a training job names, where it is no catalogue id.

    In turn: a remark in brackets or the word ``shape`` is left out; ``X cut to N layers`` is X with fewer layers
    (:func:`cut`); the framework's own name of a model; a re-publication that names its quantization; a mirror. Paths are
    no names: what lies there may be anything.
    """
    plain = name.strip()
    while match := _REMARK.search(plain):
        plain = plain[: match.start()]
    if shortened := _CUT.match(plain):
        whole = _whole(shortened[1], framework)
        return cut(whole, int(shortened[2])) if whole is not None else None
    return _whole(plain, framework)


def guessed_model(name: str) -> NamedModel | None:
    """The publisher's model whose name a path ends in, or which stands without an owner; None for Hub ids of others."""
    if not is_bare(name):
        return None
    base, label = without_format(name)
    found = published_as(base)
    return replace(found, format=label) if found is not None else None


def _whole(name: str, framework: str | None) -> NamedModel | None:
    from cfglint.catalog.models import find_model
    from cfglint.catalog.presets import shape

    row = find_model(name)
    if row is None and framework:
        named = shape(framework, name.lower())
        if isinstance(named, Mapping):
            return NamedModel(architecture_from_config(named), name, named, framework)
        row = find_model(named) if named else None
    if row is not None:
        return _of_row(row)
    if is_bare(name):
        return None
    base, label = without_format(name)
    if label is None and not is_mirror(name):
        return None
    found = published_as(base)
    return replace(found, format=label) if found is not None else None


def _of_row(row: Model) -> NamedModel | None:
    from cfglint.catalog.models import architecture_of, row_to_config

    architecture = architecture_of(row)
    return NamedModel(architecture, row.id, row_to_config(row), row.source) if architecture is not None else None


def cut(model: NamedModel, layers: int) -> NamedModel | None:
    """``model`` with fewer layers, as people make stand-ins for large ones: same widths, embedding and head.

    Leading dense layers of a mixture of experts are kept in proportion, one at least (SimuMax's DeepSeek-V3 of 4 layers
    has one of three). None where the family's layers are not counted in one number.
    """
    config = dict(model.config)
    part = next((key for key in TEXT_KEYS if isinstance(config.get(key), Mapping)), None)
    inner = dict(config[part]) if part else config
    key = next((key for key in _LAYER_COUNTS if isinstance(inner.get(key), int)), None)
    if key is None or not 1 <= layers <= inner[key]:
        return None
    total = inner[key]
    dense = inner.get("first_k_dense_replace")
    if isinstance(dense, int) and dense > 0:
        inner["first_k_dense_replace"] = ceil(dense * layers / total)
    inner.update(
        {name: value[:layers] for name, value in inner.items() if isinstance(value, list) and len(value) == total}
    )
    inner[key] = layers
    if part:
        config[part] = inner
    try:
        return replace(model, architecture=architecture_from_config(config), config=config, layers_of=total)
    except UnknownArchitecture:
        return None


def overlaid(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """A config that states no ``model_type`` but a known model's ``_name_or_path``: what it states, over that model's."""
    from cfglint.catalog.models import find_model, row_to_config

    named = config.get("_name_or_path")
    row = find_model(named) if "model_type" not in config and isinstance(named, str) else None
    return config if row is None else {**row_to_config(row), **config}
