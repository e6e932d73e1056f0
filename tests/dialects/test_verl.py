"""verl's configs and commands."""

from collections.abc import Callable

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import UNKNOWN, DefaultOrigin, Reading
from cfglint.source.shell import parse_shell

Read = Callable[..., Reading]
Named = Callable[..., str | None]

COMMAND = """
MODEL=org/m
python3 -m verl.trainer.main_ppo {config} \\
    algorithm.adv_estimator=grpo \\
    data.max_prompt_length=1024 data.max_response_length=$((1024 * 3)) \\
    actor_rollout_ref.model.path=$MODEL \\
    actor_rollout_ref.actor.optim.lr=1e-6 \\
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \\
    actor_rollout_ref.rollout.n=5 \\
    trainer.logger='["console","wandb"]' \\
    trainer.n_gpus_per_node=4 trainer.nnodes=2 {more} $@
"""


def readings_of(text: str) -> dict[str, Reading]:
    return {r.dialect: r for r in recognise_files([parse_shell("run.sh", text)])[0]}


def command(more: str = "", config: str = "") -> Reading:
    return readings_of(COMMAND.replace("{more}", more).replace("{config}", config))["verl"]


def test_a_command_with_overrides() -> None:
    facts = command().facts
    expected = {
        "model_id": "org/m", "method": "grpo", "sequence_length": 4096, "micro_batch_size": 4, "global_batch_size": 320,
        "gpus_per_node": 4, "nodes": 2, "learning_rate": 1e-6, "weight_dtype": "fp32", "compute_dtype": "bf16",
        "gradient_checkpointing": "full", "fsdp": "full_shard", "fsdp_version": 1, "framework": "verl",
    }  # fmt: skip
    assert {name: facts.value(name) for name in expected} == expected
    fact = facts.fact("global_batch_size")
    assert fact is not None
    assert fact.describe() == "ppo_mini_batch_size 64 × rollout.n 5"
    fact = facts.fact("micro_batch_size")
    assert fact is not None
    assert fact.describe() == "run.sh:9"
    defaulted = facts.fact("gradient_checkpointing")
    assert defaulted is not None
    assert isinstance(defaulted.origin, DefaultOrigin)


def test_dynamic_batches_leave_the_micro_batch_open() -> None:
    reading = command(
        "actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=9000"
    )
    assert [f.value for f in reading.facts.statements("micro_batch_size")] == [UNKNOWN]
    assert reading.context["tokens_per_micro_batch"] == 9000


def test_the_rollout_engine_shares_the_devices() -> None:
    facts = command().facts
    assert facts.value("rollout_gpu_memory_utilization") == 0.5
    assert facts.value("rollout_sleeps") is True
    assert facts.fact("trainer_sleeps") is None
    stated = command(
        "actor_rollout_ref.rollout.gpu_memory_utilization=0.7 actor_rollout_ref.rollout.free_cache_engine=False "
        "actor_rollout_ref.actor.fsdp_config.param_offload=True actor_rollout_ref.actor.fsdp_config.optimizer_offload=True"
    ).facts
    names = ("rollout_gpu_memory_utilization", "rollout_sleeps", "trainer_sleeps")
    assert [stated.value(name) for name in names] == [0.7, False, True]


def test_megatron_by_its_config_or_its_strategy() -> None:
    more = (
        "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 "
        "+actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity=full"
    )
    for reading in (
        command(more, "--config-name=ppo_megatron_trainer.yaml"),
        command(f"{more} actor_rollout_ref.actor.strategy=megatron"),
    ):
        facts = reading.facts
        assert (facts.value("framework"), facts.value("tensor_parallel_size")) == ("megatron", 2)
        assert (facts.value("gradient_checkpointing"), facts.value("weight_dtype")) == ("full", "bf16")
        assert facts.fact("fsdp") is None
    experts = (
        "actor_rollout_ref.actor.megatron.expert_model_parallel_size=4 "
        "+actor_rollout_ref.actor.optim.override_optimizer_config.optimizer_cpu_offload=True "
        "+actor_rollout_ref.actor.optim.override_optimizer_config.use_precision_aware_optimizer=True"
    )
    facts = command(f"{more} {experts}", "--config-name=ppo_megatron_trainer.yaml").facts
    expected = {"expert_tensor_parallel_size": 2, "offload_optimizer": "cpu", "precision_aware_optimizer": True}
    assert {name: facts.value(name) for name in expected} == expected


def test_adapters_and_real_offload() -> None:
    facts = command(
        "actor_rollout_ref.model.lora_rank=32 actor_rollout_ref.actor.strategy=fsdp2 "
        "actor_rollout_ref.actor.fsdp_config.offload_policy=True actor_rollout_ref.actor.fsdp_config.param_offload=True"
    ).facts
    assert (facts.value("method"), facts.value("lora_rank"), facts.value("lora_targets")) == (
        "grpo+lora",
        32,
        ["all-linear"],
    )
    assert (facts.value("fsdp_version"), facts.value("offload_parameters")) == (2, "cpu")
    assert command("actor_rollout_ref.actor.fsdp_config.param_offload=True").facts.fact("offload_parameters") is None


def test_supervised_fine_tuning_under_torchrun() -> None:
    found = readings_of(
        "torchrun --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer model.partial_pretrain=org/m "
        "data.micro_batch_size_per_gpu=4 data.train_batch_size=256 data.max_length=2048 optim.lr=1e-4\n"
    )
    facts = found["verl"].facts
    assert (facts.value("method"), facts.value("micro_batch_size"), facts.value("global_batch_size")) == (
        "full",
        4,
        256,
    )
    assert (facts.value("sequence_length"), facts.value("fsdp_version")) == (2048, 2)
    assert found["verl"].context["launched_by"] is found["launch"]


CONFIG = """
data: {max_prompt_length: 512, max_response_length: 512}
actor_rollout_ref:
  model: {path: org/m, enable_gradient_checkpointing: False}
  actor:
    strategy: fsdp
    ppo_mini_batch_size: 256
    ppo_micro_batch_size_per_gpu: ${batch}
    fsdp_config: {param_offload: False}
  rollout: {n: 1}
algorithm: {adv_estimator: gae}
trainer: {n_gpus_per_node: 8, nnodes: 1}
batch: 8
"""


def test_a_whole_config(read: Read) -> None:
    reading = read(CONFIG)
    facts = reading.facts
    expected = {
        "method": "ppo", "micro_batch_size": 8, "gradient_checkpointing": "none", "global_batch_size": 256, "fsdp_version": 1,
        "sequence_length": 1024, "weight_dtype": "fp32",
    }  # fmt: skip
    assert reading.role == "run"
    assert {name: facts.value(name) for name in expected} == expected


def test_files_that_complete_others_make_no_run(read: Read) -> None:
    for text in (
        "hydra: {searchpath: [file://verl/trainer/config]}\ndefaults: [ppo_trainer, _self_]\nactor_rollout_ref: {actor: {}}\n",
        "_target_: verl.workers.config.FSDPOptimizerConfig\nlr: 1e-3\n",
        'tools:\n  - class_name: "verl.tools.gsm8k_tool.Gsm8kTool"\n',
        "ppo_mini_batch_size: 256\nppo_micro_batch_size_per_gpu: 4\n",
    ):
        reading = read(text)
        assert (reading.dialect, reading.role) == ("verl", "part")


def test_other_files_are_left_alone(recognised: Named) -> None:
    for text in ("trainer: {a: 1}\nmodel: {path: x}\ndata: {}\n", "tools:\n  - class_name: my.Tool\n"):
        assert recognised(text) is None
