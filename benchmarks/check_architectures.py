"""Compare our tensors with transformers' own, name by name and shape by shape. Run by hand where torch and transformers are:

    python benchmarks/check_architectures.py [MODEL_TYPE…]

Every architecture of the catalogue is instantiated on the meta device from its config class's defaults (SETTINGS where these
cannot be instantiated), and its parameters are compared with those of ``architecture_from_config`` over the same config. Modules
of one name and shape are counted together. The names of parameters that are no ``nn.Linear`` may differ
in a few families; totals and linear layers must agree.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.filterwarnings("ignore")

SETTINGS: dict[str, dict[str, Any]] = {
    "dots1": {"n_routed_experts": 8, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1},
    "hunyuan_v1_moe": {"head_dim": 128, "num_experts": 8, "moe_topk": [8] * 32},
    "hunyuan_v1_dense": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 8, "head_dim": 128},
    "dbrx": {
        "attn_config": {"kv_n_heads": 8, "clip_qkv": 8, "rope_theta": 5e5},
        "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
    },
    "deepseek_v2": {"num_experts_per_tok": 6},
    "glm4_moe": {"head_dim": 128},
    "lfm2": {"layer_types": ["conv"] * 20 + ["full_attention"] * 12},
    "granitemoehybrid": {"layer_types": ["mamba"] * 20 + ["attention"] * 12},
    "lfm2_moe": {"layer_types": ["conv"] * 20 + ["full_attention"] * 12},
    "lfm2_vl": {"text_config": {"layer_types": ["conv"] * 20 + ["full_attention"] * 12}},
    "glm4v_moe": {"text_config": {"head_dim": 128}},
    "cohere2_moe": {"num_key_value_heads": 8},
    "gemma4": {"vision_config": {}, "audio_config": {}},
    "gemma4_unified": {"vision_config": {}, "audio_config": {}},
    "qwen4_exp": {
        "text_config": {
            "ple_layer_ids": [2],
            "eos_token_id": 0,
            "indexer_n_heads": 4,
            "indexer_kv_heads": 1,
            "indexer_head_dim": 128,
            "indexer_budget": 2048,
            "indexer_compress_ratio": 4,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
        }
    },
}

Table = Counter[tuple[str, tuple[int, ...], bool]]


def theirs(name: str, config: Any) -> tuple[Table, int]:
    """Parameters of transformers' model; fused experts taken apart into one matrix per expert and projection."""
    import torch
    import transformers

    with torch.device("meta"):
        model = getattr(transformers, name)(config)
    model.tie_weights()
    linear = {
        key
        for key, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D"
    }
    table: Table = Counter()
    for key, parameter in model.named_parameters():
        path = key.split(".")
        shape = tuple(parameter.shape)
        if len(shape) == 3 and "experts" in path:
            halves = ("gate_proj", "up_proj") if path[-1] == "gate_up_proj" else (path[-1],)
            for half in halves:
                table[(half, (), False)] += shape[0]
            continue
        leaf = path[-2] if path[-1] in ("weight", "bias") else path[-1]
        table[(leaf, shape, path[-1] == "weight" and key.rsplit(".", 1)[0] in linear)] += 1
    return table, sum(parameter.numel() for parameter in model.parameters())


def ours(architecture: Any) -> Table:
    table: Table = Counter()
    for tensor in architecture.tensors:
        count = tensor.count * (len(tensor.layers) if tensor.stack else 1)
        if tensor.role == "expert" and not tensor.bias:
            table[(tensor.module, (), False)] += count
        else:
            table[(tensor.module, tensor.shape, tensor.linear)] += count
    return table


def class_of(model_type: str) -> str:
    """The class that transformers makes of a config, with a head where there is one; empty where there is none."""
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    for kind in ("IMAGE_TEXT_TO_TEXT", "CAUSAL_LM", ""):
        mapping = getattr(modeling_auto, f"MODEL_FOR_{kind}_MAPPING" if kind else "MODEL_MAPPING")
        if CONFIG_MAPPING[model_type] in mapping:
            return str(mapping[CONFIG_MAPPING[model_type]].__name__)
    return ""


def main(only: list[str]) -> int:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    from cfglint.catalog.architecture import architecture_from_config
    from cfglint.catalog.models import architecture_of, models

    counted = {(m.model_type, m.config["architectures"][0]) for m in models() if m.counted}
    known = {model_type for model_type, _ in counted}
    others = {m.model_type for m in models() if m.model_type not in known and architecture_of(m).exact}
    named = {(model_type, class_of(model_type)) for model_type in others if model_type in CONFIG_MAPPING}
    pairs = sorted(counted | {(model_type, name) for model_type, name in named if name})
    wrong = 0
    for model_type, name in pairs:
        if model_type not in CONFIG_MAPPING or (only and model_type not in only):
            continue
        config = CONFIG_MAPPING[model_type](**SETTINGS.get(model_type, {}))
        raw = json.loads(json.dumps(config.to_dict(), default=str))
        architecture = architecture_from_config({**raw, "architectures": [name]})
        try:
            table, total = theirs(name, config)
        except (AttributeError, ImportError, KeyError, RuntimeError, TypeError, ValueError) as error:
            if (model_type, name) in counted:
                raise
            print(f"{'no defaults':<14} {model_type} {name}: {str(error).strip().splitlines()[0]}")
            continue
        own = ours(architecture)
        linear_agree = {k: v for k, v in table.items() if k[2]} == {k: v for k, v in own.items() if k[2]}
        verdict = (
            "same" if table == own else "names differ" if total == architecture.total_parameters else "TOTAL DIFFERS"
        )
        print(f"{verdict:<14} {'' if linear_agree else 'linear layers differ '}{model_type} {name} {total:,}")
        wrong += total != architecture.total_parameters
        if only:
            for key in sorted(table.keys() | own.keys(), key=str):
                if table[key] != own[key]:
                    print(f"    {key}: transformers {table[key]}, ours {own[key]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
