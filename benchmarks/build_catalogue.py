"""Write the data files of ``cfglint/catalog/data`` from ``../shared/catalog``. Run by hand: ``python benchmarks/build_catalogue.py``.

Only facts are taken over, each row with its source and the day it was taken (``checked``). ``config_defaults.json`` is made by
``build_config_defaults.py``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from row_configs import besides, config_of, no_count, switched

from cfglint.catalog.architecture import architecture_from_config

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "catalog"
DATA = ROOT / "cfglint" / "catalog" / "data"
CHECKED = "2026-11-30"
"""The day the rows were taken from ``../shared/catalog`` and looked through."""


def load(name: str) -> Any:
    return json.loads((SHARED / name).read_text("utf-8"))


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def lines(rows: list[Any]) -> str:
    """A JSON list, one row a line: small, and a change of one row is a change of one line."""
    return "[\n" + ",\n".join(compact(row) for row in rows) + "\n]"


def write(name: str, text: str) -> None:
    json.loads(text)
    (DATA / name).write_text(text + "\n", "utf-8")
    print(f"{name}: {len(text.encode()):,} bytes")


# --- accelerators ---------------------------------------------------------------------------------------------------

DEVICES = {"MI250": 2, "MI250X": 2, "Data-Center-GPU-Max-1550": 2}
"""Boards that torch sees as several devices (OVERHEADS.md, section 1)."""

MORE_ALIASES = {
    "B200-SXM": ["B200-192GB"],  # sold as 192 GB, 180 GB in HGX and DGX
    "GB200": ["GB200-192GB"],
    "Jetson-AGX-Orin-64GB": ["Jetson AGX Orin"],
    "Jetson-AGX-Orin-32GB": ["Jetson AGX Orin"],
    # the ROCm name of a chip covers every card that carries it
    "MI250": ["gfx90a"],
    "MI250X": ["gfx90a"],
    "MI300X": ["gfx942"],
    "MI300A": ["gfx942"],
    "MI325X": ["gfx942"],
    "MI350X": ["gfx950"],
    "MI355X": ["gfx950"],
}


def accelerators() -> None:
    rows = []
    for row in load("accelerators.json"):
        kept = {
            "id": row["id"],
            "aliases": [name for name in row["aliases"] + MORE_ALIASES.get(row["id"], []) if name != row["id"]],
            "vendor": row["vendor"],
            "arch": row["arch"],
            "cc": row["compute_capability"],
            "memory_gb": row["memory_gb"],
            "usable_gib": row["memory_gib_usable"],
            "range": row.get("memory_gib_usable_range"),
            "devices": DEVICES.get(row["id"]),
            "bandwidth": row["bandwidth_gb_s"],
            "nvlink": row["nvlink_gb_s"],
            "interconnect": row["interconnect"],
            "tflops": {key: value for key, value in row["tflops_dense"].items() if value is not None},
            "supports": [key for key, value in row["supports"].items() if value],
            "unsupported": [key for key, value in row["supports"].items() if value is False],
            "note": "; ".join(row[key] for key in ("note", "memory_note", "derived") if row.get(key)),
            "sources": row["sources"] + row.get("memory_gib_usable_sources", []),
            "checked": CHECKED,
        }
        rows.append({key: value for key, value in kept.items() if value not in (None, [], "")})
    write("accelerators.json", lines(rows))


# --- models ---------------------------------------------------------------------------------------------------------


MORE_NAMES = {
    # chat models keep the shape of the base models: Qwen's README ("Profiling of Memory and Time Usage", one table for both)
    "Qwen/Qwen-1_8B": ["Qwen/Qwen-1_8B-Chat"],
    "Qwen/Qwen-72B": ["Qwen/Qwen-72B-Chat"],
    # Base and Chat have one modeling file and one table of sizes (README of baichuan-inc/Baichuan2)
    "baichuan-inc/Baichuan2-7B-Chat": ["baichuan-inc/Baichuan2-7B-Base"],
    "baichuan-inc/Baichuan2-13B-Chat": ["baichuan-inc/Baichuan2-13B-Base"],
    # fine-tuned from the row's model with its tokenizer (their model cards)
    "meta-llama/Llama-2-7b-hf": ["lmsys/vicuna-7b-v1.5"],
    "meta-llama/Llama-2-13b-hf": ["lmsys/vicuna-13b-v1.5"],
    "huggyllama/llama-7b": ["lmsys/vicuna-7b-v1.3", "decapoda-research/llama-7b-hf"],
    "huggyllama/llama-13b": ["lmsys/vicuna-13b-v1.3", "decapoda-research/llama-13b-hf"],
    "bigscience/bloom-7b1": ["bigscience/bloomz-7b1-mt"],
    # the organisation THUDM is called zai-org since 2025, old ids redirect
    "THUDM/glm-4-9b-chat-hf": ["zai-org/glm-4-9b-chat"],
}
"""Other ids of a row's shape, beyond those in ``../shared/catalog/models.json``."""


def models() -> None:
    """One JSON object, one row a line, so that a single row is found by its key and parsed alone.

    ``"@texts"`` holds the long texts that many rows share; rows name them by number.
    """
    rows = load("models.json")
    configs = with_siblings(rows)
    texts: list[str] = []
    table: dict[str, str] = {}
    aliases: dict[str, str] = {}
    for row in rows:
        row["aliases"] = sorted({*row["aliases"], *MORE_NAMES.get(row["id"], ())})
        aliases.update({alias.lower(): row["id"] for alias in row["aliases"]})
        table[row["id"].lower()] = compact(model_row(row, configs[row["id"]], texts))
    lines_out = [f'"@texts":{compact(texts)}', f'"@checked":{compact(CHECKED)}']
    lines_out += [f"{compact(key)}:{table[key]}" for key in sorted(table)]
    lines_out += [
        f"{compact(alias)}:{compact(target)}" for alias, target in sorted(aliases.items()) if alias not in table
    ]
    write("models.json", "{\n" + ",\n".join(lines_out) + "\n}")


def with_siblings(rows: list[Any]) -> dict[str, Any]:
    """Configs by id. A row known by its total alone takes the config of a counted row that it equals in sizes and total,
    or whose total it exceeds by draft layers."""
    counted: dict[Any, Any] = {}
    shapes: dict[Any, list[Any]] = {}
    for row in rows:
        if row["params_source"] == "computed":
            counted.setdefault(likeness(row), row)
            shapes.setdefault(shape_of(row), []).append(row)
    configs = {}
    for row in rows:
        if row["params_source"] == "computed":
            config = config_of(row)
            configs[row["id"]] = {**config, **published_format(row, config)}
            continue
        sibling, extra = counted.get(likeness(row)), 0
        untied = sibling is None and untied_from(row, counted)
        if untied:
            config = {**unquantized(config_of(untied)), **own_format(row), "tie_word_embeddings": False}
            configs[row["id"]] = {**config, "@like": untied["id"], "@active": untied.get("params_active")}
            continue
        if sibling is None and row["model_type"] in DRAFT_FAMILIES:
            sibling, extra = with_draft_layers(row, shapes.get(shape_of(row), []))
        if sibling is None:
            config = config_of(row)
            config.update(published_format(row, config))
            extra = besides(row, config)
            if extra:
                config["@extra"] = extra
        else:
            config = config_of(sibling)
            if not published_in_fp8(row):
                config = unquantized(config)
            config.update(own_format(row))
            config = switched(row, config)
            config.update(published_format(row, config))
            config["@like"] = sibling["id"]
            config["@active"] = sibling.get("params_active")
            if extra:
                config["@extra"] = extra
        configs[row["id"]] = config
    return configs


def unquantized(config: dict[str, Any]) -> dict[str, Any]:
    """Without the format, which is the checkpoint's own and not that of a model with the same sizes."""
    return {key: value for key, value in config.items() if key not in ("dtype", "quantization_config")}


def own_format(row: Any) -> dict[str, Any]:
    own = config_of(row)
    return {key: own[key] for key in ("dtype", "quantization_config") if key in own}


def untied_from(row: Any, counted: dict[Any, Any]) -> Any:
    """The counted row with a tied head that this one exceeds by a head of its own."""
    if not row.get("vocab_size") or not row.get("hidden_size"):
        return None
    head = row["vocab_size"] * row["hidden_size"]
    found = counted.get(likeness({**row, "params_total": row["params_total"] - head}))
    return found if found is not None and found.get("tie_word_embeddings") else None


DRAFT_FAMILIES = frozenset(
    {
        "deepseek_v3",
        "deepseek_v32",
        "deepseek_v4",
        "glm_moe_dsa",
        "qwen3_5",
        "qwen3_5_moe",
        "nemotron_h",
        "mimo_v2_flash",
    }
)
"""Families whose checkpoints hold multi-token-prediction layers (README.md, checks)."""
DRAFT_LAYERS = 3
"""Most draft layers that a checkpoint of the catalogue holds (DeepSeek-V4's later ones)."""
DRAFT_TOLERANCE = 0.16
"""Share by which a draft layer may differ from the decoder layer it copies: projections, its own embedding, scales."""


def with_draft_layers(row: Any, alike: list[Any]) -> tuple[Any, int]:
    """The counted row of the same shape that this one exceeds by one to three of its decoder layers, and by how much.

    Multi-token-prediction heads are stored in the checkpoint and not instantiated (README.md, checks).
    """
    for other in sorted(alike, key=lambda other: (other["id"].split("/")[0] != row["id"].split("/")[0], other["id"])):
        arch = architecture_from_config(config_of(other))
        last = len(arch.layers) - 1
        layer = sum(t.elements * t.count for t in arch.tensors if t.stack == "decoder" and last in t.layers)
        tables = sum(t.parameters for t in arch.tensors if t.role in ("embedding", "lm_head"))
        extra = row["params_total"] - other["params_total"]
        for count in range(1, DRAFT_LAYERS + 1):
            low, high = count * layer * (1 - DRAFT_TOLERANCE / 2), count * layer * (1 + DRAFT_TOLERANCE)
            if layer and (low <= extra <= high or low <= extra - tables <= high):
                return other, extra
    return None, 0


def published_in_fp8(row: Any) -> bool:
    """DeepSeek publishes its checkpoints in FP8 since V3 (DeepSeek-V3's README, section 6)."""
    return row["id"].startswith("deepseek-ai/") and row["model_type"] in ("deepseek_v3", "deepseek_v32", "deepseek_v4")


BLOCK_FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128]}
EXPERTS_INT4 = {
    "quant_method": "compressed-tensors", "format": "pack-quantized",
    "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32, "symmetric": True}}},
    "ignore": ["lm_head", r"re:.*self_attn.*", r"re:.*shared_experts.*", r"re:.*mlp\\.(gate|up|down)_proj$"],
}  # fmt: skip
FORMATS: dict[str, tuple[str, Any]] = {
    "moonshotai/Kimi-K2-Instruct": ("block FP8: model card of Kimi-K2, section on deployment", BLOCK_FP8),
    "MiniMaxAI/MiniMax-M2": (
        "FP8: 220 GB of weights, docs/vllm_deploy_guide.md of its repository; files as large as M2.7's",
        BLOCK_FP8,
    ),
    "MiniMaxAI/MiniMax-M2.1": ("FP8: as MiniMax-M2, to the last element", BLOCK_FP8),
    "moonshotai/Kimi-K2.5": ("routed experts in INT4, groups of 32: rtp-llm#942", EXPERTS_INT4),
    "moonshotai/Kimi-K2.6": (
        "routed experts in INT4, groups of 32: rtp-llm#942, card of wafer-ai/Kimi-K2.6-NVFP4",
        EXPERTS_INT4,
    ),
    "moonshotai/Kimi-K2.7-Code": ("the size of Kimi-K2.6 to the last element", EXPERTS_INT4),
}
"""Formats of checkpoints whose rows do not state one, with where they are said."""


ALIAS_FORMATS = {"moonshotai/Kimi-K2-Thinking": EXPERTS_INT4}
"""Aliases of a row's shape that are published in another format (model card of Kimi-K2-Thinking: native INT4)."""


def published_format(row: Any, config: dict[str, Any]) -> dict[str, Any]:
    if row["id"] not in FORMATS or "quantization_config" in config:
        return {}
    return {"quantization_config": FORMATS[row["id"]][1]}


def shape_of(row: Any) -> Any:
    """Every dimension that a row known by its total states."""
    keys = (
        "model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size",
    )  # fmt: skip
    experts = row.get("moe") or {}
    return (
        *(row.get(key) for key in keys),
        *(experts.get(key) for key in ("num_experts", "top_k", "moe_intermediate_size")),
    )


def likeness(row: Any) -> Any:
    return tuple(
        row.get(key) for key in ("model_type", "hidden_size", "num_hidden_layers", "vocab_size", "params_total")
    )


def model_row(row: Any, config: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    def text(value: str | None) -> int | None:
        if not value:
            return None
        if value not in texts:
            texts.append(value)
        return texts.index(value)

    like, like_active, extra = (config.pop(key, None) for key in ("@like", "@active", "@extra"))
    source = row.get("native_dtype_source") or ""
    kept = {
        "id": row["id"],
        "aliases": row["aliases"],
        "config": config,
        "formats": {alias.lower(): ALIAS_FORMATS[alias] for alias in row["aliases"] if alias in ALIAS_FORMATS},
        "like": like,
        "params": row["params_total"],
        "active": row.get("params_active") or like_active,
        "counted": row["params_source"] == "computed",
        "extra": extra or row.get("params_extra_in_checkpoint"),
        "no_count": no_count(row) or None,
        "dtype_source": text(source),
        "dtype_sourced": bool(source) and "recalled" not in source,
        "trained_in": row["trained_in"],
        "trained_in_evidence": text(row.get("trained_in_evidence")),
        "fp16_safe": row["fp16_safe"] if row["fp16_safe"] != "unknown" else None,
        "fp16_evidence": text(row.get("fp16_safe_evidence")),
        "license": row["license"],
        "gated": row.get("gated"),
        "exact_check": row.get("published_check", {}).get("vs_hf") == "exact" or None,
        "note": text(row.get("note")),
        "source": text(row["source"]),
    }
    return {
        key: value for key, value in kept.items() if value is not None and value is not False and value not in ([], {})
    }


# --- instances and labels -------------------------------------------------------------------------------------------


def instances() -> None:
    rows = []
    for row in load("instances.json")["instances"]:
        kept = {
            "name": row["instance"], "cloud": row["cloud"], "gpu": row["gpu"], "count": row["count"],
            "sagemaker": row.get("sagemaker"), "host_gib": row.get("host_mem_gib"), "vcpus": row.get("vcpu"),
            "gpu_mib": row.get("gpu_mem_mib"), "confidence": row.get("confidence"), "source": row["source"], "checked": CHECKED,
        }  # fmt: skip
        rows.append({key: value for key, value in kept.items() if value is not None})
    write("instances.json", lines(rows))


def labels() -> None:
    rows = []
    for row in load("gpu_labels.json")["labels"]:
        if "value" not in row:  # patterns (time slicing, MIG, SLURM gres) are code in labels.py
            continue
        kept = {
            "key": row["key"], "value": row["value"], "gpu": row["gpu"].split("|"), "note": row.get("note"),
            "confidence": row["confidence"], "source": row["source"], "checked": CHECKED,
        }  # fmt: skip
        rows.append({key: value for key, value in kept.items() if value is not None})
    write("gpu_labels.json", lines(rows))


# --- engines --------------------------------------------------------------------------------------------------------

DTYPES = {"half": "float16", "torch.float16": "float16", "torch.bfloat16": "bfloat16", "torch.float32": "float32"}


def engine(name: str) -> None:
    """Arguments with their life by sampled version; defaults that are computed at run time are marked, not quoted."""
    now = load(f"{name}_args.json")
    life = {row["name"]: row for row in load(f"{name}_args_lifecycle.json")}
    versions = sorted({version for row in life.values() for version in row["present_in"]}, key=version_key)
    current = {row["name"]: row for row in now["args"]}
    for row in current.values():  # a name of older versions that is an alias today shares the argument's life
        for alias in row["aliases"]:
            if alias in life and alias not in current:
                older, own = life.pop(alias), life.setdefault(row["name"], {"present_in": [], "default_changes": []})
                own["present_in"] = sorted({*own["present_in"], *older["present_in"]}, key=version_key)
                if not own["default_changes"]:
                    own["default_changes"] = older["default_changes"]
    rows = []
    for argument in sorted(current.keys() | life.keys()):
        rows.append(argument_row(argument, current.get(argument), life.get(argument), versions))
    document = {
        "engine": name,
        "versions": versions,
        "source": f"arguments read from the wheels of {name} {', '.join(versions)}; types and choices from {now['version']}",
        "checked": CHECKED,
    }
    if name == "vllm":
        document["env"] = {
            row["name"]: [versions.index(version) for version in row["present_in"]]
            for row in load("vllm_env_lifecycle.json")
        }
        document["quantization"] = quantization()
        document["attention_backends"] = backends()
    body = compact(document)[:-1] + ',\n"arguments":' + lines(rows) + "}"
    write(f"engine_{name}.json", body)


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.replace("post", "").split("."))


def literal(value: Any) -> Any:
    """A default, or None with a mark where the engine computes it."""
    if isinstance(value, str) and value.startswith(("factory:", "expr:")):
        return {"computed": True}
    return value


def argument_row(name: str, now: Any, life: Any, versions: list[str]) -> dict[str, Any]:
    now, life = now or {}, life or {}
    note = " ".join(str(now.get(key, "")) for key in ("note", "deprecation_note", "fallback") if now.get(key))
    row = {
        "name": name,
        "aliases": now.get("aliases"),
        "group": now.get("group"),
        "type": now.get("type"),
        "choices": now.get("choices"),
        "constraint": now.get("constraint"),
        "required": now.get("required"),
        "resolved": now.get("resolved_at_start"),
        "deprecated": now.get("deprecated"),
        "replaced_by": replacement(name, note),
        "present": [versions.index(version) for version in life["present_in"]] if life else [len(versions) - 1],
        "deprecated_in": [versions.index(version) for version in life.get("deprecated_in", ())],
        "defaults": [[versions.index(version), literal(value)] for version, value in life.get("default_changes", ())],
    }
    return {key: value for key, value in row.items() if value not in (None, [], {}, False, "")}


def replacement(name: str, note: str) -> str | None:
    """The argument that a deprecation note points to."""
    import re

    named = [found for found in re.findall(r"--[a-z0-9][a-z0-9-]+", note) if found != name and found[-1] != "-"]
    return named[0] if named and "eprecated" in note and "eplaces the" not in note else None


def quantization() -> dict[str, Any]:
    """By version: method to lowest compute capability (times ten) and activation dtypes; null where a method states none."""
    result: dict[str, Any] = {}
    for version, facts in load("vllm_quant_caps_by_version.json").items():
        methods: dict[str, Any] = dict.fromkeys(facts["methods"])
        for method, caps in facts["caps"].items():
            lowest = caps.get("min_cap")
            kinds = [
                DTYPES.get(kind.strip(), kind.strip())
                for kind in (caps.get("act_dtypes") or "[]").strip("[]").split(",")
            ]
            methods[method] = [
                int(lowest) if str(lowest).lstrip("-").isdigit() else None,
                [kind for kind in kinds if kind],
            ]
        result[version] = methods
    return result


def backends() -> dict[str, Any]:
    """Attention backends of the newest version: dtypes, cache dtypes, lowest compute capability where one number states it."""
    import re

    facts = load("vllm_attention_backends.json")
    rows: dict[str, Any] = {"version": facts["version"]}
    for name, row in facts["backends"].items():
        rule = row.get("supports_compute_capability") or ""
        lowest = re.fullmatch(r"return capability >= DeviceCapability\((\d+), (\d+)\)", rule.strip())
        names = re.findall(r"[\w.]+", row.get("supported_dtypes") or "")
        caches = re.findall(r"'(\w+)'", row.get("supported_kv_cache_dtypes") or "")
        rows[name] = {
            "dtypes": [DTYPES.get(kind, kind) for kind in names],
            "kv_cache_dtypes": caches,
            "capability": [int(lowest[1]), int(lowest[2])] if lowest else None,
        }
    return rows


if __name__ == "__main__":
    accelerators()
    models()
    instances()
    labels()
    engine("vllm")
    engine("sglang")
    sys.exit(0)
