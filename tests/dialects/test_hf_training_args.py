"""TrainingArguments in YAML, JSON and flags."""

from collections.abc import Callable

import pytest

from cfglint.dialects.hf_training_args import read_arguments
from cfglint.jobs.facts import UNKNOWN, DefaultOrigin, Reading
from cfglint.source.node import Mapping
from cfglint.source.yaml import parse_yaml

Read = Callable[..., Reading]

RUN = """
model_name_or_path: org/model-7b
torch_dtype: bfloat16
attn_implementation: flash_attention_2
per_device_train_batch_size: 4
gradient_accumulation_steps: 8
learning_rate: 2e-5
lr_scheduler_type: cosine
warmup_ratio: 0.03
num_train_epochs: 2
bf16: true
tf32: true
gradient_checkpointing: true
optim: adamw_bnb_8bit
max_seq_length: 4096
deepspeed: configs/ds_z3.json
use_liger_kernel: true
"""


def test_facts_and_their_lines(read: Read) -> None:
    reading = read(RUN)
    assert (reading.dialect, reading.role, reading.framework) == ("hf-training-args", "run", "transformers")
    expected = {
        "model_id": ("org/model-7b", 1), "weight_dtype": ("bf16", 2), "attention": ("flash2", 3),
        "micro_batch_size": (4, 4), "gradient_accumulation_steps": (8, 5), "learning_rate": (2e-5, 6),
        "lr_scheduler": ("cosine", 7), "warmup_ratio": (0.03, 8), "epochs": (2.0, 9), "compute_dtype": ("bf16", 10),
        "tf32": (True, 11), "gradient_checkpointing": ("full", 12), "optimizer": ("adamw_8bit", 13),
        "sequence_length": (4096, 14), "loss_kernel": ("fused_linear", 16), "block_kernels": (["norm", "rotary", "mlp"], 16),
    }  # fmt: skip
    for name, (value, line) in expected.items():
        fact = reading.facts.fact(name)
        assert fact is not None, name
        assert (fact.value, fact.describe()) == (value, f"config.yaml:{line}"), name
    assert [(r.role, r.target, r.base) for r in reading.references] == [
        ("model", "org/model-7b", "cwd"),
        ("deepspeed", "configs/ds_z3.json", "cwd"),
    ]


def test_defaults_come_last_and_name_their_versions(read: Read) -> None:
    facts = read("model_name_or_path: org/m\noutput_dir: out\nnum_train_epochs: 1\n").facts
    assert facts.value("micro_batch_size") == 8
    assert facts.value("gradient_accumulation_steps") == 1
    assert facts.value("max_grad_norm") == 1.0
    assert facts.value("compute_dtype") == "none"
    assert facts.value("gradient_checkpointing") == "none"
    assert facts.value("method") == "full"
    optimizers = [(f.value, f.describe()) for f in facts.statements("optimizer")]
    assert optimizers == [
        ("adamw_torch_fused", "transformers >=4.54 default"),
        ("adamw_torch", "transformers <4.54 default"),
    ]
    dtypes = [f.value for f in facts.statements("weight_dtype")]
    assert dtypes == [UNKNOWN, "fp32"]
    assert all(isinstance(f.origin, DefaultOrigin) for f in facts.statements("weight_dtype"))


def test_a_stated_fact_has_no_default_behind_it(read: Read) -> None:
    facts = read("model_name_or_path: org/m\nper_device_train_batch_size: ${BATCH}\nlearning_rate: 1.0e-4\n").facts
    assert facts.undecided("micro_batch_size")
    assert len(facts.statements("micro_batch_size")) == 1


def test_auto_dtype_is_the_checkpoints_own(read: Read) -> None:
    reading = read("model_name_or_path: org/m\ntorch_dtype: auto\nper_device_train_batch_size: 1\n")
    assert reading.facts.undecided("weight_dtype")
    assert reading.context["weight_dtype"] == "auto"


def test_fp16_wins_where_both_are_on_and_false_says_nothing(read: Read) -> None:
    both = read("model_name_or_path: m\nper_device_train_batch_size: 1\nbf16: true\nfp16: true\n").facts
    assert [f.value for f in both.statements("compute_dtype")] == ["fp16", "bf16"]
    off = read("model_name_or_path: m\nper_device_train_batch_size: 1\nbf16: false\n").facts
    fact = off.fact("compute_dtype")
    assert fact is not None and isinstance(fact.origin, DefaultOrigin)


def test_lora_and_quantization(read: Read) -> None:
    facts = read(
        """
        model_name_or_path: org/m
        per_device_train_batch_size: 1
        use_lora: true
        lora_r: 16
        lora_alpha: 32
        lora_target_modules: [q_proj, v_proj]
        load_in_4bit: true
        bnb_4bit_use_double_quant: true
        """
    ).facts
    assert facts.value("method") == "qlora"
    assert facts.value("quantization") == "nf4-double"
    assert facts.value("lora_rank") == 16
    assert facts.value("lora_alpha") == 32.0
    assert facts.value("lora_targets") == ["q_proj", "v_proj"]


def test_adapters_switched_off(read: Read) -> None:
    facts = read("model_name_or_path: m\nper_device_train_batch_size: 1\nuse_lora: false\nlora_r: 16\n").facts
    assert facts.value("method") == "full"
    assert not facts.stated("lora_rank")


def test_fsdp_words_and_settings(read: Read) -> None:
    facts = read(
        """
        model_name_or_path: org/m
        per_device_train_batch_size: 1
        fsdp: shard_grad_op auto_wrap offload
        fsdp_config: {version: 2, activation_checkpointing: true}
        """
    ).facts
    assert facts.value("fsdp") == "shard_grad_op"
    assert facts.value("offload_parameters") == "cpu"
    assert facts.value("fsdp_version") == 2
    assert facts.value("gradient_checkpointing") == "full"
    switch = read("model_name_or_path: m\nper_device_train_batch_size: 1\nfsdp: true\n").facts
    assert switch.value("fsdp") == "full_shard"
    assert [f.value for f in switch.statements("fsdp_version")] == [2, 1]
    off = read("model_name_or_path: m\nper_device_train_batch_size: 1\nfsdp: ''\nfsdp_config: {version: 2}\n").facts
    assert not off.stated("fsdp")
    assert not off.stated("fsdp_version")


def test_deepspeed_in_place(read: Read) -> None:
    reading = read(
        """
        {"per_device_train_batch_size": 2, "output_dir": "out", "num_train_epochs": 1,
         "deepspeed": {"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto",
                       "bf16": {"enabled": true}}}
        """,
        "args.json",
    )
    assert reading.facts.value("zero_stage") == 2
    assert reading.facts.value("compute_dtype") == "bf16"
    assert reading.facts.value("micro_batch_size") == 2
    assert reading.context["deepspeed"] is reading.at("deepspeed")
    stage = reading.facts.fact("zero_stage")
    assert stage is not None and stage.describe() == "args.json:2"


def test_checkpointing_by_its_new_name(read: Read) -> None:
    facts = read(
        """
        model_name_or_path: org/m
        per_device_train_batch_size: 1
        activation_checkpointing: true
        activation_checkpointing_kwargs: {every_n_layers: 2}
        warmup_steps: 0.05
        """
    ).facts
    assert (facts.value("gradient_checkpointing"), facts.value("checkpoint_every")) == ("selective", 2)
    assert facts.value("warmup_ratio") == 0.05
    assert not facts.stated("warmup_steps")


def test_flags_are_read_with_the_same_code() -> None:
    document = parse_yaml(
        "flags", "per_device_train_batch_size: '2'\nbf16: 'True'\nmodel_name_or_path: org/m\n"
    ).documents[0]
    assert isinstance(document.root, Mapping)
    reading = read_arguments(document, document.root)
    assert reading.facts.value("micro_batch_size") == 2
    assert reading.facts.value("compute_dtype") == "bf16"


def test_odd_values_are_not_facts(read: Read) -> None:
    facts = read(
        """
        model_name_or_path: [a, b]
        per_device_train_batch_size: [8]
        num_train_epochs: {a: 1}
        learning_rate: fast
        deepspeed: []
        fsdp: {}
        lora_r: many
        gradient_checkpointing: sometimes
        """
    ).facts
    assert not facts.stated("model_id")
    for name in ("micro_batch_size", "epochs", "learning_rate", "gradient_checkpointing"):
        assert all(isinstance(f.origin, DefaultOrigin) for f in facts.statements(name)), name
    assert not facts.stated("lora_rank")


def test_short_files_by_their_keys_alone(recognised: Callable[..., object]) -> None:
    assert (
        recognised("model_name_or_path: org/m\nattn_implementation: eager\ntorch_dtype: float16\n")
        == "hf-training-args"
    )
    assert recognised("output_dir: out\nseed: 1\nrun_name: x\n") is None
    assert recognised("learning_rate: 0.1\noutput_dir: out\nconv_layers: 3\nfp16: true\n") is None
    assert recognised("deepspeed: ds.json\n") == "hf-training-args"


def test_an_fsdp_settings_file_completes_a_run(read: Read) -> None:
    reading = read('{"fsdp": "full_shard auto_wrap", "fsdp_config": {"fsdp_version": 2}}', "fsdp.json")
    assert reading.role == "part"
    assert reading.facts.value("fsdp") == "full_shard"
    assert reading.facts.value("fsdp_version") == 2
    assert not reading.facts.stated("micro_batch_size")


def test_a_script_with_its_own_loop_has_no_trainer_defaults(read: Read) -> None:
    reading = read(
        """
        model_name_or_path: org/m
        dataset_mixer_list: [data, 1.0]
        use_slow_tokenizer: true
        per_device_train_batch_size: 1
        max_seq_length: 2048
        dpo_beta: 0.1
        """
    )
    assert reading.context["script"] == "open-instruct"
    assert reading.facts.value("method") == "dpo"
    assert reading.facts.value("micro_batch_size") == 1
    assert not reading.facts.stated("weight_dtype")
    assert not reading.facts.stated("compute_dtype")


@pytest.mark.parametrize("on", [True, False])
def test_a_reduction_in_every_micro_step(read: Read, on: bool) -> None:
    reading = read(f"""
        output_dir: out
        per_device_train_batch_size: 2
        gradient_accumulation_steps: 4
        learning_rate: 1.0e-5
        num_train_epochs: 1
        accelerator_config: {{gradient_accumulation_kwargs: {{sync_each_batch: {str(on).lower()}}}}}
    """)
    assert reading.facts.value("reduces_each_micro_step") is on
