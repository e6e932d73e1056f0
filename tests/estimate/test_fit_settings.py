"""Every change names keys that say it: written into the files and read again, the job needs what was promised."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cfglint.dialects.schema import load_schema, schema_names
from cfglint.estimate import estimate
from cfglint.estimate.fit import Change, fit
from cfglint.estimate.fit.keys import KEYS
from cfglint.estimate.fit.result import Setting, settings_words
from cfglint.jobs.job import Job
from cfglint.jobs.linker import HardwareOptions
from cfglint.lint.engine import understand
from cfglint.settings import SettingsResolver
from cfglint.source import parse_text

MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "max_position_embeddings": 8192, "hidden_act": "silu",
}  # fmt: skip

TRL = {
    "model_name_or_path": "./model", "torch_dtype": "bfloat16", "bf16": True, "per_device_train_batch_size": 6,
    "gradient_accumulation_steps": 2, "max_length": 4096, "gradient_checkpointing": False, "optim": "adamw_torch",
    "attn_implementation": "eager", "dataset_name": "our/data", "learning_rate": 2.0e-5,
}  # fmt: skip
TRL_LORA = {**TRL, "use_peft": True, "lora_r": 64, "lora_target_modules": "all-linear"}
AXOLOTL = {
    "base_model": "./model", "sequence_len": 4096, "sample_packing": True, "micro_batch_size": 8,
    "gradient_accumulation_steps": 1, "num_epochs": 1, "optimizer": "adamw_torch", "learning_rate": 2.0e-5, "bf16": True,
    "datasets": [{"path": "our/data", "type": "alpaca"}],
}  # fmt: skip
AXOLOTL_LORA = {**AXOLOTL, "adapter": "lora", "lora_r": 64, "lora_target_linear": True, "flash_attention": True}
AXOLOTL_FSDP = {
    **AXOLOTL, "micro_batch_size": 4, "gradient_accumulation_steps": 4, "fsdp_version": 1, "fsdp": ["full_shard", "auto_wrap"],
}  # fmt: skip
LLAMAFACTORY = {
    "model_name_or_path": "./model", "stage": "sft", "do_train": True, "finetuning_type": "full", "template": "llama3",
    "cutoff_len": 4096, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 4, "bf16": True,
    "disable_gradient_checkpointing": True, "optim": "adamw_torch", "learning_rate": 2.0e-5,
}  # fmt: skip
LLAMAFACTORY_LORA = {**LLAMAFACTORY, "finetuning_type": "lora", "lora_rank": 32}
TORCHTUNE = {
    "model": {"_component_": "torchtune.models.llama3_1.llama3_1_8b"},
    "tokenizer": {"_component_": "torchtune.models.llama3.llama3_tokenizer", "path": "model/tok", "max_seq_len": 4096},
    "checkpointer": {"_component_": "torchtune.training.FullModelHFCheckpointer", "checkpoint_dir": "./model"},
    "dataset": {"_component_": "torchtune.datasets.alpaca_dataset", "packed": True}, "batch_size": 8, "epochs": 1,
    "optimizer": {"_component_": "torch.optim.AdamW", "lr": 2e-5}, "loss": {"_component_": "torch.nn.CrossEntropyLoss"},
    "gradient_accumulation_steps": 1, "enable_activation_checkpointing": False, "dtype": "bf16",
}  # fmt: skip
HF = {
    "model_name_or_path": "./model", "per_device_train_batch_size": 4, "gradient_accumulation_steps": 4, "bf16": True,
    "max_seq_length": 4096, "optim": "adamw_torch", "learning_rate": 2.0e-5, "output_dir": "out", "num_train_epochs": 1,
    "torch_dtype": "bfloat16", "save_strategy": "epoch",
}  # fmt: skip
GRPO = {
    "model_name_or_path": "./model", "torch_dtype": "bfloat16", "bf16": True, "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 2, "max_prompt_length": 1024, "max_completion_length": 1024, "num_generations": 8,
    "gradient_checkpointing": True, "optim": "adamw_8bit", "attn_implementation": "flash_attention_2",
    "dataset_name": "our/data", "use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.6,
}  # fmt: skip
VERL = {
    "algorithm": {"adv_estimator": "grpo"},
    "data": {"train_files": "a.parquet", "max_prompt_length": 1024, "max_response_length": 1024, "train_batch_size": 64},
    "actor_rollout_ref": {
        "model": {"path": "./model", "enable_gradient_checkpointing": True},
        "actor": {
            "strategy": "fsdp", "ppo_mini_batch_size": 64, "ppo_micro_batch_size_per_gpu": 4,
            "fsdp_config": {"param_offload": False, "optimizer_offload": False},
        },
        "rollout": {"name": "vllm", "n": 8, "gpu_memory_utilization": 0.9, "free_cache_engine": True},
    },
    "trainer": {"nnodes": 1, "n_gpus_per_node": 8, "total_epochs": 1},
}  # fmt: skip
DEEPSPEED = {
    "zero_optimization": {"stage": 1}, "bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
}  # fmt: skip
ACCELERATE = {
    "compute_environment": "LOCAL_MACHINE", "distributed_type": "MULTI_GPU", "mixed_precision": "bf16",
    "num_machines": 1, "num_processes": 8,
}  # fmt: skip
FSDP = {
    **ACCELERATE, "distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategy": "SHARD_GRAD_OP", "fsdp_version": 1},
}  # fmt: skip

CASES: dict[str, dict[str, dict[str, Any]]] = {
    "trl": {"sft.yaml": TRL},
    "trl-lora": {"sft.yaml": TRL_LORA},
    "axolotl": {"sft.yaml": AXOLOTL},
    "axolotl-lora": {"sft.yaml": AXOLOTL_LORA},
    "llamafactory": {"sft.yaml": LLAMAFACTORY},
    "llamafactory-lora": {"sft.yaml": LLAMAFACTORY_LORA},
    "hf-training-args": {"args.yaml": HF},
    "torchtune": {"8B_full_single_device.yaml": TORCHTUNE},
    "hf + deepspeed": {"args.yaml": {**HF, "deepspeed": "ds.json"}, "ds.json": DEEPSPEED},
    "axolotl + deepspeed": {"sft.yaml": {**AXOLOTL, "deepspeed": "ds.json"}, "ds.json": DEEPSPEED},
    "trl + accelerate": {"sft.yaml": TRL, "accelerate.yaml": ACCELERATE},
    "trl + fsdp": {"sft.yaml": TRL, "accelerate.yaml": FSDP},
    "axolotl + fsdp": {"sft.yaml": AXOLOTL_FSDP},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(MODEL))


def job_of(files: dict[str, dict[str, Any]], gpu: str = "A100-SXM4-40GB", gpus: int = 8, nodes: int = 1) -> Job:
    sources = [
        parse_text(path, json.dumps(content) if path.endswith(".json") else yaml.safe_dump(content, sort_keys=False))
        for path, content in files.items()
    ]
    context, _ = understand(sources, SettingsResolver(None, True), HardwareOptions(gpu, gpus, nodes))
    (job,) = context.jobs
    assert job.documents == list(files)
    return job


def written(files: dict[str, dict[str, Any]], settings: tuple[Setting, ...]) -> dict[str, dict[str, Any]]:
    """The files with the settings in them; keys of a new file go to the one that its naming key names."""
    made: dict[str, dict[str, Any]] = json.loads(json.dumps(files))
    new = next((str(s.value) for s in settings if s.path and s.key == "deepspeed"), "")
    for setting in settings:
        path = setting.path or new
        content = made.setdefault(path, json.loads(json.dumps({**DEEPSPEED, "zero_optimization": {}})))
        *route, last = setting.key.split(".")
        for step in route:
            content = content.setdefault(step, {})
        content[last] = setting.value
    return made


def changes_of(job: Job) -> Iterator[Change]:
    found = fit(job)
    yield from found.changes
    yield from found.stacked
    yield from found.spare


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("gpu", ["A100-SXM4-40GB", "H200-SXM"])
def test_the_keys_say_the_change(name: str, gpu: str) -> None:
    files = CASES[name]
    seen = 0
    for change in changes_of(job_of(files, gpu)):
        assert change.settings, change.words
        other = job_of(written(files, change.settings), gpu)
        for fact, value in change.facts.items():
            assert other.value(fact) == value, (change.settings_words(), fact)
        used, promised = estimate(other).memory.used, change.used
        assert used is not None and promised is not None
        assert used.expected == pytest.approx(promised.expected, rel=0.02), change.settings_words()
        seen += 1
    assert seen >= 4


@pytest.mark.parametrize(("files", "gpu", "keys"), [
    ({"ppo.yaml": VERL}, "H100-SXM", {
        "actor_rollout_ref.rollout.gpu_memory_utilization", "actor_rollout_ref.actor.fsdp_config.param_offload",
    }),
    ({"grpo.yaml": GRPO}, "H100-SXM", {"vllm_gpu_memory_utilization", "vllm_enable_sleep_mode"}),
])  # fmt: skip
def test_the_keys_of_a_rollout_engine_say_the_change(
    files: dict[str, dict[str, Any]], gpu: str, keys: set[str]
) -> None:
    job = job_of(files, gpu)
    assert estimate(job).memory.verdict not in ("fits", "tight")
    seen: set[str] = set()
    for change in fit(job).changes:
        other = job_of(written(files, change.settings), gpu)
        used, promised = estimate(other).memory.used, change.used
        assert used is not None and promised is not None
        assert used.expected == pytest.approx(promised.expected, rel=0.02), change.settings_words()
        seen |= {setting.key for setting in change.settings}
    assert keys <= seen


@pytest.mark.parametrize("name", ["trl", "axolotl-lora", "llamafactory", "hf + deepspeed"])
def test_the_keys_say_what_an_accelerator_needs(name: str) -> None:
    files = CASES[name]
    found = fit(job_of(files)).accelerators
    batches = set()
    for on in found:
        settings = on.change.settings if on.change else ()
        other = job_of(written(files, settings), on.gpu, on.gpus_per_node, on.nodes)
        made = estimate(other)
        assert made.memory.used is not None and on.estimate.memory.used is not None
        assert made.memory.used.expected == pytest.approx(on.estimate.memory.used.expected, rel=0.02), on
        assert made.batch.sequences == on.sequences
        batches.add(on.sequences)
    assert len(found) >= 3
    assert batches == {estimate(job_of(files)).batch.sequences}


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_proposed_that_is_set_already(name: str) -> None:
    job = job_of(CASES[name])
    for change in changes_of(job):
        assert any(job.value(fact) != value for fact, value in change.facts.items()), change.words
        assert written(CASES[name], change.settings) != CASES[name], change.words


def test_every_key_is_one_that_the_format_knows() -> None:
    checked = 0
    for dialect in set(KEYS) & set(schema_names()):
        schema = load_schema(dialect)
        for row in KEYS[dialect].values():
            for key in [row] if isinstance(row, str) else [k for k in row if not k.startswith("@")]:
                name = key.split(".")[0]
                if (dialect, name) in SCRIPT_KEYS:
                    continue
                assert schema.known(name), (dialect, key)
                checked += 1
    assert checked > 60


SCRIPT_KEYS = {
    ("hf-training-args", "max_seq_length"), ("hf-training-args", "lora_r"), ("hf-training-args", "attn_implementation"),
}  # fmt: skip
"""Keys of the scripts around ``TrainingArguments``, not of the class."""


def test_a_new_file_is_shown_with_the_key_that_names_it() -> None:
    settings = (
        Setting("trl", "deepspeed", "ds_zero3.json", "a.yaml"),
        Setting("deepspeed", "zero_optimization.stage", 3),
        Setting("trl", "gradient_checkpointing", True, "a.yaml"),
    )
    shown = "deepspeed: ds_zero3.json (zero_optimization.stage: 3), gradient_checkpointing: true"
    assert settings_words(settings, "a.yaml") == shown
    assert settings_words((Setting("deepspeed", "zero_optimization.stage", 3, "ds.json"),), "a.yaml") == (
        "zero_optimization.stage: 3 (ds.json)"
    )


def test_flags_are_shown_as_flags() -> None:
    assert Setting("vllm", "--max-model-len", 8192, "serve.sh").words() == "--max-model-len 8192"
    assert Setting("vllm", "--enforce-eager", True, "serve.sh").words() == "--enforce-eager"


AUTOMODEL = {
    "recipe": "TrainFinetuneRecipeForNextTokenPrediction",
    "step_scheduler": {"global_batch_size": 64, "local_batch_size": 8, "max_steps": 100},
    "model": {
        "_target_": "nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained", "pretrained_model_name_or_path": "./model",
    },
    "distributed": {"strategy": "fsdp2", "dp_size": "none", "tp_size": 1, "activation_checkpointing": False},
    "packed_sequence": {"packed_sequence_size": 4096},
    "optimizer": {"_target_": "torch.optim.Adam", "lr": 1.0e-5},
}  # fmt: skip


def test_a_stated_effective_batch_needs_the_micro_batch_alone() -> None:
    found = fit(job_of({"auto.yaml": AUTOMODEL}))
    batch = next(c for c in (*found.changes, *found.stacked) if "micro_batch_size" in c.facts)
    sizes = {s.key: s.value for s in batch.settings if "batch" in s.key}
    assert list(sizes) == ["step_scheduler.local_batch_size"]
    size = sizes["step_scheduler.local_batch_size"]
    assert size * batch.facts["gradient_accumulation_steps"] == 64 // 8


def test_a_switch_of_checkpointing_is_turned_where_it_stands() -> None:
    found = fit(job_of({"auto.yaml": AUTOMODEL}))
    keys = {s.key: s.value for c in (*found.changes, *found.stacked) for s in c.settings}
    assert keys["distributed.activation_checkpointing"] is True


def test_gradients_reduced_in_every_micro_step_where_no_number_of_devices_carries_whole_ones() -> None:
    files = {
        "sft.yaml": {
            **TRL, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 64, "max_length": 1024,
            "gradient_checkpointing": True, "attn_implementation": "sdpa", "optim": "adamw_torch_fused",
        },
        "accelerate.yaml": FSDP,
    }  # fmt: skip
    found = {on.gpu: on for on in fit(job_of(files)).accelerators}
    on = found["A100-SXM4-40GB"]
    assert on.change is not None
    keys = {setting.key: setting.value for setting in on.change.settings}
    assert keys["accelerator_config.gradient_accumulation_kwargs.sync_each_batch"] is True
    assert all("sync_each_batch" not in setting.key for setting in getattr(found["H200-SXM"].change, "settings", ()))
