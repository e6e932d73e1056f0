"""What each framework's files say about evaluation and about checkpoints."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import UNKNOWN, DefaultOrigin, Reading
from cfglint.source.shell import parse_shell
from cfglint.source.toml import parse_toml

Read = Callable[..., Reading]

TRAINER = "model_name_or_path: org/m\nper_device_train_batch_size: 1\nlearning_rate: 1e-5\nnum_train_epochs: 1\n"
AXOLOTL = "base_model: org/m\nsequence_len: 4096\nmicro_batch_size: 2\nnum_epochs: 1\nlearning_rate: 2e-5\n"
LLAMAFACTORY = (
    "model_name_or_path: org/m\nstage: sft\ndo_train: true\nfinetuning_type: full\ntemplate: qwen\ndataset: d\n"
)
ACCELERATE = "distributed_type: {}\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\n"
TITAN = '[job]\ndump_folder = "out"\n[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\nsteps = 10\n[parallelism]\ntensor_parallel_degree = 1\n'


@pytest.mark.parametrize(
    ("keys", "evaluates"),
    [
        ("eval_strategy: steps\n", True),
        ("evaluation_strategy: epoch\n", True),
        ("eval_strategy: IntervalStrategy.NO\n", False),
        ("eval_strategy: no\n", False),  # YAML's false
        ("eval_strategy: ${STRATEGY}\n", UNKNOWN),
        ("do_eval: true\n", True),
        ("eval_strategy: 'no'\neval_on_start: true\n", True),
        ("do_eval: false\n", None),
        ("", None),
    ],
)
def test_transformers_trainer_evaluates(read: Read, keys: str, evaluates: object) -> None:
    statements = read(TRAINER + keys).facts.statements("evaluates")
    assert [fact.value for fact in statements][:1] == ([] if evaluates is None else [evaluates])


def test_transformers_batch_of_evaluation_and_checkpoints(read: Read) -> None:
    facts = read(
        TRAINER + "per_device_eval_batch_size: 4\nuse_cache: true\nsave_strategy: no\nsave_only_model: true\n"
    ).facts
    found = {name: facts.value(name) for name in ("eval_micro_batch_size", "use_cache", "saves", "saves_optimizer")}
    assert found == {"eval_micro_batch_size": 4, "use_cache": True, "saves": False, "saves_optimizer": False}
    origin = facts.fact("eval_micro_batch_size")
    assert origin is not None and origin.describe() == "config.yaml:5"


def test_llamafactory_spells_them_as_transformers_does(read: Read) -> None:
    facts = read(LLAMAFACTORY + "eval_strategy: steps\nval_size: 0.1\nper_device_eval_batch_size: 2\n").facts
    assert (facts.value("evaluates"), facts.value("eval_micro_batch_size")) == (True, 2)


@pytest.mark.parametrize(
    ("keys", "evaluates"),
    [
        ("val_set_size: 0.05\n", True),
        ("val_set_size: 0\n", None),
        ("val_set_size: 0.05\neval_strategy: 'no'\n", False),
        ("test_datasets:\n  - path: org/d\n", True),
        ("", None),
    ],
)
def test_axolotl_evaluates_where_it_has_data_for_it(read: Read, keys: str, evaluates: object) -> None:
    assert read(AXOLOTL + keys).facts.value("evaluates") == evaluates


def test_axolotl_sizes_and_kernels(read: Read) -> None:
    facts = read(AXOLOTL + "eval_batch_size: 1\neval_sequence_len: 2048\ncut_cross_entropy: true\n").facts
    assert (facts.value("eval_micro_batch_size"), facts.value("eval_sequence_length")) == (1, 2048)
    assert facts.value("eval_loss_kernel") == "fused_linear"
    liger = read(AXOLOTL + "liger_fused_linear_cross_entropy: true\n").facts
    assert (liger.value("loss_kernel"), liger.value("eval_loss_kernel")) == ("fused_linear", None)


@pytest.mark.parametrize(
    ("flags", "evaluates"),
    [
        ("--val_dataset d", True),
        ("--split_dataset_ratio 0.01", True),
        ("--split_dataset_ratio 0", None),
        ("--val_dataset d --eval_strategy no", False),
        ("", None),
    ],
)
def test_ms_swift_evaluates_on_a_split_or_a_set(flags: str, evaluates: object) -> None:
    text = f"swift sft --model org/m --per_device_train_batch_size 1 --max_length 4096 --dataset a {flags}\n"
    (reading,) = [r for r in recognise_files([parse_shell("run.sh", text)])[0] if r.dialect == "ms-swift"]
    assert reading.facts.value("evaluates") == evaluates


def titan(more: str) -> Reading:
    readings, _ = recognise_files([parse_toml("train.toml", TITAN + more)])
    return readings[0]


def test_torchtitan_validates_with_sizes_of_its_own() -> None:
    assert titan("").facts.value("evaluates") is None
    facts = titan("[validation]\nenable = true\n").facts
    assert facts.value("evaluates") is True
    batch = facts.fact("eval_micro_batch_size")
    assert batch is not None and isinstance(batch.origin, DefaultOrigin)
    assert (batch.value, facts.value("eval_sequence_length")) == (8, 2048)
    stated = titan("[validation]\nenable = true\nlocal_batch_size = 2\nseq_len = 4096\n").facts
    assert (stated.value("eval_micro_batch_size"), stated.value("eval_sequence_length")) == (2, 4096)


def test_torchtune_validates_where_both_keys_are_there(read: Read) -> None:
    recipe = """
    model:
      _component_: torchtune.models.llama3_1.llama3_1_8b
    tokenizer:
      _component_: torchtune.models.llama3.llama3_tokenizer
      max_seq_len: 2048
    dataset:
      _component_: torchtune.datasets.alpaca_dataset
    optimizer:
      _component_: torch.optim.AdamW
    loss:
      _component_: torchtune.modules.loss.LinearCrossEntropyLoss
    batch_size: 2
    epochs: 1
    batch_size_val: 4
    run_val_every_n_steps: {}
    dataset_val:
      _component_: torchtune.datasets.alpaca_dataset
    """
    assert read(recipe.format("null")).facts.value("evaluates") is None
    facts = read(recipe.format("100")).facts
    assert (facts.value("evaluates"), facts.value("eval_micro_batch_size")) == (True, 4)


def test_llm_foundry_evaluates_where_it_has_a_loader(read: Read) -> None:
    facts = read(
        """
        max_seq_len: 2048
        model: {name: hf_causal_lm, pretrained_model_name_or_path: org/m}
        train_loader: {name: text, dataset: {max_seq_len: 2048}}
        eval_loader: {name: text, dataset: {max_seq_len: 1024}}
        device_train_microbatch_size: 4
        device_eval_batch_size: 16
        max_duration: 10ba
        """
    ).facts
    assert facts.value("evaluates") is True
    assert (facts.value("eval_micro_batch_size"), facts.value("eval_sequence_length")) == (16, 1024)


@pytest.mark.parametrize(
    ("value", "kind"),
    [("FULL_STATE_DICT", "full"), ("SHARDED_STATE_DICT", "sharded"), ("LOCAL_STATE_DICT", "sharded"), ("1", "full")],
)
def test_fsdp_state_dicts(read: Read, value: str, kind: str) -> None:
    text = ACCELERATE.format("FSDP") + f"fsdp_config:\n  fsdp_version: 1\n  fsdp_state_dict_type: {value}\n"
    assert read(text).facts.value("state_dict") == kind


def test_deepspeed_gathers_16_bit_weights_where_it_is_told_to(read: Read) -> None:
    text = '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3%s}}'
    assert read(text % "", "ds.json").facts.value("state_dict") is None
    asked = read(text % ', "stage3_gather_16bit_weights_on_model_save": true', "ds.json")
    assert asked.facts.value("state_dict") == "full"
    text = ACCELERATE.format("DEEPSPEED") + "deepspeed_config:\n  zero_stage: 3\n  zero3_save_16bit_model: true\n"
    assert read(text).facts.value("state_dict") == "full"
