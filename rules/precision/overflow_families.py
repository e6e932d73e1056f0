"""Model families known to leave fp16's range (largest finite value 65,504) in training, each with its evidence.

The list is data, not a rule: it is dated, and a family moves when evidence does. A low maximum in the forward pass does
not prove that fp16 training is safe: Qwen3-MoE stays near 350 going forward and still gets NaN gradients.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from cfglint.jobs.job import TrainingJob

CHECKED: Final = "2026-11-30"
"""Day the rows were taken from their sources."""

FP16_MAX: Final = 65504.0
"""Largest finite fp16 value (IEEE 754-2019)."""

T5_SMALL_HIDDEN_SIZE: Final = 512
"""``d_model`` of t5-small, the one first-generation T5 without overflow (transformers issue 9295)."""

Level = Literal["measured", "reported", "isolated"]
"""``measured``: values beyond the range were shown, by several people or by maintainers. ``reported``: maintainers or a
training library list the family, or a single measurement. ``isolated``: some runs, while others of the family train well."""

Place = Literal["linear", "residual", "backward"]
"""Where it overflows. ``linear``: in the output of a matrix product, so under autocast too, whatever the weights are
stored in. ``residual``: where the residual stream itself is fp16, that is where weights are fp16. ``backward``: in gradients."""


@dataclass(frozen=True, slots=True)
class Family:
    model_types: tuple[str, ...]
    level: Level
    place: Place
    seen: str
    """What was seen, in words."""
    sources: tuple[str, ...]
    from_sequence_length: int = 0
    """Shorter sequences gave no overflow."""
    not_bf16: bool = False
    """The reports are of checkpoints that were not trained in bf16."""
    without_deepspeed: bool = False
    """An isolated family that failed in fp16 without DeepSpeed as well."""


_ISSUE: Final = "https://github.com/huggingface/transformers/issues/"
_UNSLOTH: Final = "https://github.com/unslothai/unsloth-zoo/blob/main/unsloth_zoo/model_lists.py"
_UNSLOTH_866: Final = "https://github.com/unslothai/unsloth-zoo/pull/866"

FAMILIES: Final = (
    Family(
        ("t5",), "measured", "linear",
        "66,246 in a T5 feed-forward output after 34 steps of t5-base; every size but t5-small gives inf there",
        (f"{_ISSUE}5651", f"{_ISSUE}9295", f"{_ISSUE}14189", f"{_ISSUE}11461"),
    ),
    Family(
        ("mt5",), "measured", "linear",
        "inf in the first batch of mt5-small",
        ("https://github.com/huggingface/transformers/pull/10956", f"{_ISSUE}9295"),
    ),
    Family(
        ("umt5", "longt5", "switch_transformers", "udop", "pop2piano"), "reported", "linear",
        "the feed-forward block of T5 and mT5, which overflows there",
        (f"{_ISSUE}9295", "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/models/umt5/modeling_umt5.py"),
    ),
    Family(
        ("pegasus",), "measured", "linear",
        "68,600 into encoder layer 10 and inf out of it",
        (f"{_ISSUE}12225", f"{_ISSUE}9257"),
    ),
    Family(
        ("gemma3", "gemma3_text"), "measured", "residual",
        "activations up to 800,000; the residual sum alone passes 65,504",
        (f"{_ISSUE}36822", "https://github.com/unslothai/unsloth/pull/4014", "https://github.com/vllm-project/vllm/pull/17364"),
    ),
    Family(
        ("gemma3n", "gemma3n_text"), "reported", "residual",
        "listed as beyond fp16 by a training library, as Gemma 3 is",
        (_UNSLOTH,),
    ),
    Family(
        ("gemma4", "gemma4_text"), "reported", "backward",
        "gate and up projections saturate in GRPO and gradient norms turn NaN; a short SFT run was fine",
        ("https://github.com/unslothai/unsloth/pull/5092", _UNSLOTH_866, "https://github.com/unslothai/unsloth/pull/4875"),
    ),
    Family(
        ("gpt_oss",), "measured", "residual",
        "58,820 + 33,760 in the residual stream at layer 35 of gpt-oss-120b; reduced activations of 333,824",
        ("https://github.com/ROCm/hip-ep/pull/168", "https://github.com/sgl-project/sglang/issues/34473", _UNSLOTH),
    ),
    Family(
        ("qwen3_moe", "glm4_moe", "glm4_moe_lite"), "reported", "backward",
        "forward values stay near 350, but the gradient norm turns NaN, mostly on the first step",
        (_UNSLOTH_866,),
    ),
    Family(
        ("qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"), "reported", "linear",
        "its linear-attention layers give NaN",
        (_UNSLOTH,),
    ),
    Family(
        ("deepseek_v2",), "reported", "residual",
        "expert outputs overflow once the routing factor is applied",
        ("https://github.com/vllm-project/vllm/pull/13232", "https://github.com/deepseek-ai/DeepSeek-V2/issues/93"),
    ),
    Family(
        ("gpt_neo",), "reported", "linear",
        "overflow of gpt-neo-1.3B at 2,048 tokens, none at 512",
        (f"{_ISSUE}11076",),
        from_sequence_length=2048,
    ),
    Family(
        ("qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl"), "isolated", "linear",
        "NaN in fp16 fine-tuning of Qwen2-7B, which its authors expect of a model trained in bf16",
        ("https://github.com/QwenLM/Qwen3/issues/670", "https://github.com/QwenLM/Qwen3/issues/868", "https://github.com/QwenLM/Qwen3/issues/826"),
    ),
    Family(
        ("bloom",), "isolated", "backward",
        "the loss scale fell to its minimum with bloomz-560m under DeepSpeed",
        ("https://github.com/deepspeedai/DeepSpeedExamples/issues/418",),
        not_bf16=True,
    ),
    Family(
        ("llama",), "isolated", "backward",
        "the loss scale fell to its minimum with Llama-2-7B under DeepSpeed",
        ("https://github.com/deepspeedai/DeepSpeed/issues/4017",),
    ),
    Family(
        ("baichuan",), "isolated", "backward",
        "the loss scale fell to its minimum with Baichuan under DeepSpeed, and LoRA of Baichuan2 had a loss of zero",
        (
            "https://github.com/hiyouga/LlamaFactory/issues/251", "https://github.com/hiyouga/LlamaFactory/issues/986",
            "https://github.com/hiyouga/LlamaFactory/issues/950",
        ),
        without_deepspeed=True,
    ),
)  # fmt: skip

BY_MODEL_TYPE: Final = {name: family for family in FAMILIES for name in family.model_types}

_NAMES: Final = (
    (re.compile(r"(?:^|[-_.])umt5(?:[-_.]|$)"), "umt5"),
    (re.compile(r"(?:^|[-_.])(?:mt5|mt0)(?:[-_.]|$)"), "mt5"),
    (re.compile(r"(?:^|[-_.])long-?t5(?:[-_.]|$)"), "longt5"),
    (re.compile(r"^switch-(?:base|large|xxl|c)"), "switch_transformers"),
    (re.compile(r"(?:^|[-_.])(?:flan-|code)?(?:t5|byt5)(?:[-_.]|$)"), "t5"),
    (re.compile(r"(?:^|[-_.])pegasus-(?!x-)"), "pegasus"),
    (re.compile(r"(?:^|[-_.])gemma-3n-"), "gemma3n"),
    (re.compile(r"(?:^|[-_.])(?:gemma-3-|embeddinggemma)"), "gemma3_text"),
    (re.compile(r"(?:^|[-_.])gpt-oss-"), "gpt_oss"),
    (re.compile(r"(?:^|[-_.])gpt-neo-(?!x)"), "gpt_neo"),
    (re.compile(r"(?:^|[-_.])gemma-4-"), "gemma4"),
    (re.compile(r"^qwen3-(?:coder-)?\d+b-a\d+b"), "qwen3_moe"),
    (re.compile(r"^qwen3\.5-"), "qwen3_5"),
    (re.compile(r"^deepseek-(?:coder-)?v2"), "deepseek_v2"),
    (re.compile(r"^glm-4\.[5-7]"), "glm4_moe"),
    (re.compile(r"(?:^|[-_.])bloomz?(?:[-_.]|$)"), "bloom"),
    (re.compile(r"^baichuan2?(?:-\d+b|$)"), "baichuan"),
)
"""Names that say the family where no config is known. Only the owners below use them for nothing else."""
_OWNERS: Final = (
    "google/", "google-t5/", "openai/", "eleutherai/", "qwen/", "deepseek-ai/", "zai-org/", "bigscience/", "baichuan-inc/",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Match:
    family: Family
    model_type: str
    certain: bool
    """False where only the model's name says the family."""


def family_of(job: TrainingJob) -> Match | None:
    """The listed family of a job's model, from its config, else from a script's ``model_type`` key, else from its name."""
    model = job.model
    if model is not None and (model.row is not None or model.architecture is not None):
        types = [getattr(model.row, "model_type", None), model.architecture.model_type if model.architecture else None]
        for name in types:
            if isinstance(name, str) and name in BY_MODEL_TYPE:
                return None if _is_t5_small(job, name) else Match(BY_MODEL_TYPE[name], name, True)
        return None
    reading = job.reading("hf-training-args")
    if job.model_id is None and reading is not None:
        stated = reading.value("model_type")
        if isinstance(stated, str) and stated in BY_MODEL_TYPE:
            return Match(BY_MODEL_TYPE[stated], stated, True)
    fact = job.model_id
    if fact is None or not isinstance(fact.value, str):
        return None
    name = fact.value.strip().rstrip("/").lower()
    last = name.rsplit("/", 1)[-1]
    for pattern, model_type in _NAMES:
        if pattern.search(last):
            if model_type == "t5" and "t5-small" in last and not re.search(r"v1|flan|by|code", last):
                return None
            return Match(BY_MODEL_TYPE[model_type], model_type, name.startswith(_OWNERS))
    return None


def _is_t5_small(job: TrainingJob, model_type: str) -> bool:
    architecture = job.architecture
    return (
        model_type == "t5"
        and architecture is not None
        and architecture.hidden_size == T5_SMALL_HIDDEN_SIZE
        and not architecture.gated_mlp
    )
