"""Model families by ``model_type``: each is a short description of its tensors as functions of the config."""

from __future__ import annotations

from importlib import import_module

from cfglint.catalog.families.parts import Family

MODULES: dict[str, str] = {
    **dict.fromkeys(
        [
            "llama",
            "qwen2",
            "qwen3",
            "mistral",
            "ministral",
            "ministral3",
            "gemma",
            "gemma2",
            "gemma3_text",
            "phi",
            "phi3",
            "gpt2",
            "gpt_neo",
            "gpt_neox",
            "gptj",
            "gpt_bigcode",
            "opt",
            "bloom",
            "falcon",
            "mpt",
            "starcoder2",
            "cohere",
            "cohere2",
            "olmo",
            "olmo2",
            "olmo3",
            "granite",
            "glm",
            "glm4",
            "stablelm",
            "apertus",
            "arcee",
            "exaone4",
            "helium",
            "smollm3",
            "seed_oss",
            "nemotron",
            "ernie4_5",
            "hunyuan_v1_dense",
            "internlm2",
            "internlm3",
            "baichuan",
            "qwen",
            "mimo",
            "codegen",
            "biogpt",
            "persimmon",
        ],
        "dense",
    ),
}
"""Which module describes a ``model_type``. Modules are imported one at a time, when first asked for."""


def family(model_type: str) -> Family | None:
    """The description of a ``model_type``, None where the family is not known."""
    module = MODULES.get(model_type)
    if module is None:
        return None
    families: dict[str, Family] = import_module(f"cfglint.catalog.families.{module}").FAMILIES
    return families.get(model_type)
