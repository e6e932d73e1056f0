"""OLMo-core's commands."""

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import Reading
from cfglint.source.shell import parse_shell


def readings_of(text: str) -> dict[str, Reading]:
    return {r.dialect: r for r in recognise_files([parse_shell("run.sh", text)])[0]}


def test_batches_count_tokens() -> None:
    found = readings_of(
        "torchrun --nproc-per-node=8 src/scripts/train/OLMo2-7B.py train run01 local --dataset.sequence_length=4096 "
        "--train_module.rank_microbatch_size=8192 --data_loader.global_batch_size=4194304 --train_module.optim.lr=3e-4 "
        "--train_module.dp_config.name=hsdp --train_module.dp_config.param_dtype=bfloat16 "
        "--train_module.ac_config.mode=full --trainer.max_duration.value=100 --trainer.max_duration.unit=steps\n"
    )
    facts = found["olmo-core"].facts
    expected = {
        "sequence_length": 4096, "micro_batch_size": 2, "global_batch_size": 1024, "learning_rate": 3e-4,
        "fsdp": "hybrid_shard", "compute_dtype": "bf16", "gradient_checkpointing": "full", "max_steps": 100,
    }  # fmt: skip
    assert {name: facts.value(name) for name in expected} == expected
    assert found["launch"].facts.value("gpus_per_node") == 8


def test_overrides_of_another_trainer_are_not_its() -> None:
    assert "olmo-core" not in readings_of("python train.py trainer.devices=8 model.micro_batch_size=1\n")
