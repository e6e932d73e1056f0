"""PAR003."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import deepspeed_settings, trainer_readings

LOOPED = {
    "mixtral": "MixtralSparseMoeBlock", "qwen2_moe": "Qwen2MoeSparseMoeBlock", "qwen3_moe": "Qwen3MoeSparseMoeBlock",
    "deepseek_v2": "DeepseekV2Moe", "deepseek_v3": "DeepseekV3MoE", "jamba": "JambaSparseMoeBlock",
    "olmoe": "OlmoeSparseMoeBlock", "phimoe": "PhimoeSparseMoeBlock", "dbrx": "DbrxFFN", "glm4_moe": "Glm4MoeMoE",
}  # fmt: skip
"""Model types whose experts transformers 4 runs one by one, with the block to be made a leaf."""

DEEPSPEED_KNOWS = frozenset({"mixtral", "qwen2_moe", "qwen3_moe"})
"""Blocks DeepSpeed makes leaves of its own accord (runtime/zero/leaf_module_config.py, 0.19.8)."""
KNOWN_FROM = "0.18"
"""First DeepSpeed release with that list; 0.17.6 has none."""


class Zero3ExpertsHang(Rule):
    """A mixture of experts under ZeRO-3 hangs where ranks choose different experts.

    transformers 4 runs the experts of these models one by one and skips those no token chose. ZeRO-3 gathers each expert's
    parameters from all ranks when it runs, so ranks that choose differently wait for each other until NCCL's timeout. The
    block must be one unit ("leaf") for ZeRO-3: `deepspeed_moe_layer_cls_names` in Accelerate's file,
    `zero_optimization.leaf_module` in DeepSpeed's, or `set_z3_leaf_modules` in code.

    How sure: reported many times, fixed case by case. LLaMA-Factory and Axolotl set the leaf themselves, transformers 5
    fuses the experts, and DeepSpeed from 0.18 on knows Mixtral's and Qwen's blocks: then nothing is said. Where no release is
    stated and DeepSpeed's list has the block, it is information. A script may set the leaf in code, so it is no more than a
    warning of medium confidence.
    """

    code = "PAR003"
    name = "zero3-experts-hang"
    family = "parallel"
    severity = "warning"
    confidence = "medium"
    catalogue = ("par.zero3-hf-moe-leaf",)
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/pull/4966",
        "https://github.com/hiyouga/LlamaFactory/pull/2283",
        "https://github.com/huggingface/open-r1/pull/701",
    )
    good = (
        example(
            {
                "run.sh": "accelerate launch --config_file zero3.yaml train.py --config sft.yaml",
                "zero3.yaml": """
                compute_environment: LOCAL_MACHINE
                distributed_type: DEEPSPEED
                num_processes: 8
                mixed_precision: bf16
                deepspeed_config:
                  zero_stage: 3
                  deepspeed_moe_layer_cls_names: Glm4MoeMoE
                """,
                "sft.yaml": """
                model_name_or_path: zai-org/GLM-4.5-Air
                per_device_train_batch_size: 1
                num_train_epochs: 1
                """,
            },
        ),
        example(
            {
                "sft.yaml": """
                model_name_or_path: mistralai/Mixtral-8x7B-v0.1
                per_device_train_batch_size: 1
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}}
                """,
                "requirements.txt": "transformers>=5.1",
            },
            note="transformers 5 fuses the experts",
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: mistralai/Mixtral-8x7B-v0.1
                per_device_train_batch_size: 1
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}}
                """,
                "requirements.txt": "deepspeed==0.16.4",
            },
            at="stage",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        stage = job.zero_stage
        if stage is None or stage.value != 3 or job.architecture is None:
            return
        model_type = job.architecture.model_type
        block = LOOPED.get(model_type)
        readings = trainer_readings(job)
        if block is None or not readings or any(r.dialect in ("axolotl", "llamafactory") for r in readings):
            return
        transformers, deepspeed = job.versions.get("transformers"), job.versions.get("deepspeed")
        if always_at_least(transformers, "5"):
            return
        listed = model_type in DEEPSPEED_KNOWS
        if listed and always_at_least(deepspeed, KNOWN_FROM):
            return
        open_release = listed and not always_below(deepspeed, KNOWN_FROM)
        before = f" with DeepSpeed before {KNOWN_FROM} and transformers 4" if open_release else ""
        settings = deepspeed_settings(job)
        if settings is not None and settings.has("zero_optimization", "leaf_module"):
            return
        if any(
            r.at(*route) is not None
            for r in job.readings
            for route in (("deepspeed_config", "deepspeed_moe_layer_cls_names"), ("deepspeed_moe_layer_cls_names",))
        ):
            return
        yield self.finding(
            f"{model_type} under ZeRO-3 hangs{before} when ranks choose different experts, unless {block} is a leaf module",
            (stage, "gathers parameters module by module"),
            (job.model_id, "a mixture of experts"),
            help=f"deepspeed_moe_layer_cls_names: {block} in Accelerate's file, or zero_optimization.leaf_module",
            severity="info" if open_release else "warning",
            job=job,
        )
