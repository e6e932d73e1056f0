"""Write ``cfglint/catalog/data/config_defaults.json``: what transformers' config classes default to.

Run by hand, in an environment with transformers (no torch needed): ``python benchmarks/build_config_defaults.py``.
A published ``config.json`` leaves out what equals its class's default, above all inside ``text_config`` and
``vision_config``; the shapes of its tensors cannot be known without them. Only facts are kept: sizes and switches.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "cfglint" / "catalog" / "data" / "config_defaults.json"

IRRELEVANT = (
    "use_cache",
    "pretraining_tp",
    "output_router_logits",
    "return_dict",
    "slow_but_exact",
    "is_decoder",
    "_token_id",
    "_range",
    "dropout",
    "_eps",
    "_coef",
    "_factor",
    "_std",
    "theta",
    "_epsilon",
    "_index",
)


def scalar(key: str, value: Any) -> bool:
    if key.startswith("_") or any(part in key for part in IRRELEVANT):
        return False
    if isinstance(value, (bool, int)):
        return True
    if isinstance(value, (list, tuple)):
        return 0 < len(value) <= 64 and all(isinstance(item, (int, str)) for item in value)
    return isinstance(value, str) and key in {"position_embedding_type", "feed_forward_proj", "mlp_type", "norm_type"}


def main(families: list[str]) -> None:
    import transformers
    from transformers import PreTrainedConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    base = PreTrainedConfig().to_dict()
    classes: dict[str, dict[str, Any]] = {}

    def add(name: str, made: Any) -> None:
        if name in classes:
            return
        # The fields' own defaults, not the instance's: what __post_init__ derives from other sizes is no default.
        fields = dataclasses.fields(made)
        values = {
            field.name: list(field.default) if isinstance(field.default, tuple) else field.default
            for field in fields
            if scalar(field.name, field.default)
            and (base.get(field.name, "absent") != field.default or field.name == "tie_word_embeddings")
        }
        row: dict[str, Any] = {"defaults": values}
        names = {key: spelled for key, spelled in made.attribute_map.items() if key != spelled}
        if names:
            row["names"] = names
        parts = {}
        for key in made.sub_configs or {}:
            inner = getattr(made, key, None)
            if inner is not None and getattr(inner, "model_type", ""):
                parts[key] = inner.model_type
                nested.append((inner.model_type, inner))
        if parts:
            row["parts"] = parts
        classes[name] = row

    nested: list[tuple[str, Any]] = []
    for name in families:
        if name not in CONFIG_MAPPING:
            continue
        add(name, CONFIG_MAPPING[name]())
    while nested:
        name, made = nested.pop()
        add(name, CONFIG_MAPPING[name]() if name in CONFIG_MAPPING else type(made)())
    document = {
        "source": f"config classes of transformers {transformers.__version__} (Apache-2.0), instantiated without arguments",
        "checked": datetime.date.today().isoformat(),
        "classes": {name: classes[name] for name in sorted(classes)},
    }
    TARGET.write_text(
        json.dumps(document, separators=(",", ":"), sort_keys=True)
        .replace('"classes":', '\n"classes":')
        .replace('},"', '},\n"')
        + "\n",
        "utf-8",
    )
    print(len(classes), TARGET.stat().st_size)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    rows = json.loads((ROOT.parent / "shared" / "catalog" / "models.json").read_text("utf-8"))
    also = {
        "codegen",
        "gemma3n",
        "clip_vision_model",
        "siglip_vision_model",
        "pixtral",
        "smolvlm",
        "phi4_multimodal",
        "qwen2_audio",
    }
    main(sorted({row["model_type"] for row in rows} | also | set(sys.argv[1:])))
