"""PFT001."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from cfglint.jobs.job import TrainingJob
from cfglint.jobs.named_models import stated_name
from cfglint.jobs.versions import always_at_least
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .adapter_facts import hugging_face

_PLAIN: Final = re.compile(r"[A-Za-z_][\w.]*")
_WORDS: Final = frozenset({"all-linear", "all", "linear", "auto"})

_CHATGLM: Final = re.compile(
    r"(^|[/_-])(chatglm\d?|codegeex\d?|glm-?4-9b(?!.*(hf|0414))|long(writer|cite|reward)-glm4)(?![a-z])", re.IGNORECASE
)
"""Models of GLM's shape that bring their own code. ``glm-4-9b-hf`` and ``GLM-4-9B-0414`` are transformers' own."""

_CHATGLM_LINEAR: Final = ("dense", "dense_4h_to_h", "dense_h_to_4h", "query_key_value")
_CHATGLM_MODULES: Final = frozenset({*_CHATGLM_LINEAR, "word_embeddings", "output_layer"})
"""Names of ``modeling_chatglm.py`` in THUDM/chatglm3-6b, which chatglm2-6b and glm-4-9b have too."""

_OWN_NAMES: Final = re.compile(r"exaone-(3\.|deep)", re.IGNORECASE)
"""Models of Llama's shape whose own code has other names (``c_fc_0``, ``out_proj``)."""

_EXPERTS_BEFORE_5: Final = {name: frozenset({"w1", "w2", "w3"}) for name in ("mixtral", "phimoe", "minimax")}
"""Linear modules of each expert in transformers 4, which 5 holds as one tensor (``modeling_mixtral.py`` of 4.57)."""


class TargetModules(Rule):
    """LoRA targets that the model has no module of.

    PEFT raises "Target modules … not found in the base model" where none of the names is a module's. Where some are, the
    others are passed over without a word and those layers are not adapted: ``query_key_value`` is GPT-NeoX's name,
    ``q_proj`` Llama's.

    How sure: the module names are those of the model's own architecture, as transformers builds it; for ChatGLM, as its own
    code does. Only models whose whole architecture is known are judged; regular expressions and ``all-linear`` are left
    alone.
    """

    code = "PFT001"
    name = "target-modules"
    family = "peft"
    severity = "error"
    evidence = (
        "https://github.com/huggingface/peft/blob/v0.21.2/src/peft/tuners/tuners_utils.py",
        "https://github.com/huggingface/peft/blob/v0.21.2/src/peft/tuners/lora/config.py",
        "https://github.com/hiyouga/LlamaFactory/issues/750",
    )
    catalogue = ("peft.target-missing",)
    good = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 2
            adapter: lora
            lora_r: 16
            lora_target_modules: [q_proj, v_proj]
            """,
        ),
        example(
            "axolotl.yaml",
            """
            base_model: our-company/new-architecture
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 2
            adapter: lora
            lora_r: 16
            lora_target_modules: [query_key_value]
            """,
            note="the model is not known",
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: THUDM/glm-4-9b-chat
            stage: sft
            finetuning_type: lora
            lora_target: query_key_value,dense_h_to_4h
            template: glm4
            dataset: identity
            output_dir: out
            """,
            note="names of the model's own code",
        ),
        example(
            "axolotl.yaml",
            """
            base_model: mistralai/Mixtral-8x7B-v0.1
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 1
            adapter: lora
            lora_r: 16
            lora_target_modules: [w1, w2, w3]
            """,
            note="the experts' linear layers in transformers 4",
        ),
    )
    bad = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 2
            adapter: lora
            lora_r: 16
            lora_target_modules: [query_key_value, dense]
            """,
            at="lora_target_modules",
            count=1,
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct
            stage: sft
            finetuning_type: lora
            lora_target: q_proj,v_proj,gate_proj,up_proj,dwn_proj
            template: qwen
            dataset: identity
            output_dir: out
            """,
            at="lora_target",
            count=1,
            note="four of the five are there: the fifth is passed over",
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: THUDM/chatglm3-6b
            stage: sft
            finetuning_type: lora
            lora_target: q_proj,v_proj
            template: chatglm3
            dataset: identity
            output_dir: out
            """,
            at="lora_target",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        targets, architecture = job.lora_targets, job.architecture
        if not hugging_face(job):
            return  # torchtune and others name modules in their own way
        if targets is None or architecture is None or not architecture.exact or not isinstance(targets.value, list):
            return
        wanted = [name for name in targets.value if isinstance(name, str)]
        if not wanted or any(name in _WORDS or not _PLAIN.fullmatch(name) for name in wanted):
            return
        modules = {tensor.module for tensor in architecture.tensors}
        linear = sorted({t.module for t in architecture.tensors if t.linear and t.stack in ("decoder", "encoder")})
        family = architecture.model_type
        if _OWN_NAMES.search(stated_name(job)):
            return
        if family in ("glm", "glm4", "chatglm") and _CHATGLM.search(stated_name(job)):
            modules, linear, family = set(_CHATGLM_MODULES), list(_CHATGLM_LINEAR), "chatglm"
        if always_at_least(context.version(job, "transformers"), "5") is not True:
            modules |= _EXPERTS_BEFORE_5.get(family, frozenset())
        missing = [name for name in wanted if name.rpartition(".")[2] not in modules]
        if not missing:
            return
        none_left = len(missing) == len(wanted)
        words = ", ".join(missing)
        yield self.finding(
            f"{family} has no module named {words}: PEFT finds nothing to adapt"
            if none_left
            else f"{family} has no module named {words}: PEFT passes over it",
            targets,
            (job.model_id, f"a {family} model"),
            help=f"its linear layers are {', '.join(linear[:12])}",
            severity="error" if none_left else "warning",
            job=job,
        )
