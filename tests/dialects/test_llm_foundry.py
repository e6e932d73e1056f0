"""llm-foundry's YAML, platform runs and ``composer``."""

from collections.abc import Callable

from cfglint.catalog.architecture import architecture_from_config
from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import UNKNOWN, Reading
from cfglint.source.shell import parse_shell

Read = Callable[..., Reading]
Named = Callable[..., str | None]

RUN = """
variables: {length: 2048}
max_seq_len: ${variables.length}
model:
  name: mpt_causal_lm
  d_model: 512
  n_heads: 8
  n_layers: 4
  vocab_size: 50368
  max_seq_len: ${max_seq_len}
  attn_config: {attn_impl: flash}
train_loader:
  name: text
  dataset: {split: train, max_seq_len: '${max_seq_len}'}
scheduler: {name: cosine_with_warmup, t_warmup: 100ba}
optimizer: {name: decoupled_adamw, lr: 6.0e-4, weight_decay: 0.0}
algorithms: {gradient_clipping: {clipping_type: norm, clipping_threshold: 1.0}}
max_duration: 4800ba
global_train_batch_size: 256
device_train_microbatch_size: 4
precision: amp_bf16
fsdp_config: {sharding_strategy: FULL_SHARD, mixed_precision: PURE, activation_checkpointing: true}
"""


def test_facts_and_their_lines(read: Read) -> None:
    reading = read(RUN)
    expected = {
        "sequence_length": (2048, 2), "attention": ("flash2", 10), "method": ("pretrain", 12), "packing": (True, 12),
        "lr_scheduler": ("cosine", 14), "warmup_steps": (100, 14), "optimizer": ("adamw_loop", 15),
        "learning_rate": (6e-4, 15), "max_grad_norm": (1.0, 16), "max_steps": (4800, 17), "global_batch_size": (256, 18),
        "micro_batch_size": (4, 19), "compute_dtype": ("bf16", 20), "weight_dtype": ("fp32", 20), "fsdp": ("full_shard", 21),
        "gradient_checkpointing": ("full", 21), "model_id": ("MPT 4 layers of 512", 7),
    }  # fmt: skip
    assert (reading.dialect, reading.role, reading.framework) == ("llm-foundry", "run", "llm-foundry")
    for name, (value, line) in expected.items():
        fact = reading.facts.fact(name)
        assert fact is not None, name
        assert (fact.value, fact.describe()) == (value, f"config.yaml:{line}"), name
    made = architecture_from_config(reading.context["model_config"])
    assert (made.num_hidden_layers, made.hidden_size, made.vocab_size) == (4, 512, 50368)


def test_mpt_of_another_shape_is_not_guessed_at(read: Read) -> None:
    reading = read(RUN.replace("attn_impl: flash", "attn_impl: flash, attn_type: grouped_query_attention"))
    assert reading.facts.fact("model_id") is None


def test_automatic_micro_batches_are_unknown_and_adapters_are_read(read: Read) -> None:
    text = RUN.replace("device_train_microbatch_size: 4", "device_train_microbatch_size: auto").replace(
        "  name: mpt_causal_lm\n", "  name: hf_causal_lm\n  pretrained_model_name_or_path: org/m\n"
        "  peft_config: {r: 16, peft_type: LORA, lora_alpha: 32, target_modules: [q_proj]}\n"
    )  # fmt: skip
    facts = read(text.replace("name: text", "name: finetuning")).facts
    assert [f.value for f in facts.statements("micro_batch_size")] == [UNKNOWN]
    assert (facts.value("method"), facts.value("lora_rank"), facts.value("model_id")) == ("lora", 16, "org/m")


def test_a_platform_run_brings_its_gpus(read: Read) -> None:
    inner = "".join(f"  {line}\n" for line in RUN.strip().splitlines())
    reading = read(
        "integrations: [{integration_type: git_repo}]\ncommand: composer train.py /mnt/config/parameters.yaml\n"
        f"image: x\ncompute: {{gpus: 16, gpu_type: a100_80gb}}\nparameters:\n{inner}"
    )
    facts = reading.facts
    assert (facts.value("gpus_per_node"), facts.value("nodes"), facts.value("gpu")) == (8, 2, "a100-80gb")
    assert (facts.value("sequence_length"), facts.value("micro_batch_size")) == (2048, 4)
    fact = facts.fact("micro_batch_size")
    assert fact is not None
    assert fact.describe() == "config.yaml:24"


def test_composer_names_the_file_and_overrides_it() -> None:
    text = "composer -n 8 train/train.py yamls/mpt.yaml max_duration=10ba model.init_device=cpu\n"
    readings, _ = recognise_files([parse_shell("run.sh", text)])
    launch, arguments = readings
    assert (launch.role, launch.facts.value("gpus_per_node")) == ("launch", 8)
    assert [(r.role, r.target) for r in launch.references] == [("config", "yamls/mpt.yaml")]
    assert (arguments.role, arguments.facts.value("max_steps")) == ("arguments", 10)


def test_evaluations_make_no_run_and_other_files_are_left_alone(read: Read, recognised: Named) -> None:
    reading = read(
        "max_seq_len: 2048\nmodels: [{model_name: x}]\ndevice_eval_batch_size: 4\nicl_tasks: eval/tasks.yaml\n"
    )
    assert (reading.dialect, reading.role) == ("llm-foundry", "part")
    assert recognised("train_loader: 4\nmax_duration: 3\ncallbacks: []\nmax_seq_len: 8\n") is None
    assert recognised("command: make\nimage: x\n") is None


def test_models_of_the_hub_return_their_own_loss(read: Callable[..., Reading]) -> None:
    text = "max_seq_len: 2048\nmodel:\n  name: {}\n  pretrained: true\n  pretrained_model_name_or_path: o/m\ntokenizer:\n  name: o/m\n"
    text += "train_loader:\n  name: finetuning\noptimizer:\n  name: decoupled_adamw\nmax_duration: 1ep\nprecision: amp_bf16\n"
    assert read(text.format("hf_causal_lm")).facts.value("loss_kernel") == "torch"
    assert read(text.format("mpt_causal_lm")).facts.value("loss_kernel") is None
