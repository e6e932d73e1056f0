"""What the training rules read across files: precedence, defaults, guesses, placeholders."""

from __future__ import annotations

import pytest
from cfglint_rules.checkpointing.intervals import evaluating, saving
from cfglint_rules.consistency.mismatch import compared_settings
from cfglint_rules.evaluation.metric_direction import lower_is_better
from cfglint_rules.parallel.wrapped_layer import layer_classes
from cfglint_rules.trainer import (
    argument_number,
    data_parallel_ranks,
    deepspeed_settings,
    is_default,
    placeholder,
    trainer_fact,
    trainer_readings,
    trains_adapters,
)

from cfglint.jobs.job import TrainingJob
from cfglint.testing import lint_files

ARGUMENTS = """model_name_or_path: Qwen/Qwen2.5-0.5B
per_device_train_batch_size: 2
learning_rate: 2e-5
num_train_epochs: 1
"""


def job_of(files: dict[str, str], **hardware: int) -> TrainingJob:
    jobs = lint_files(files, select=("BAT001",), **hardware).context.jobs.training  # type: ignore[arg-type]
    assert len(jobs) == 1, [job.name for job in jobs]
    return jobs[0]


def test_text_that_is_a_number_counts_as_the_parser_reads_it() -> None:
    rate = argument_number(job_of({"sft.yaml": ARGUMENTS}), "learning_rate")
    assert rate is not None and rate.value == 2e-5


def test_command_line_wins_over_the_file() -> None:
    job = job_of(
        {
            "sft.yaml": ARGUMENTS,
            "run.sh": "torchrun --nproc_per_node 4 train.py --config sft.yaml --per_device_train_batch_size 8\n",
        }
    )
    assert [r.role for r in trainer_readings(job)] == ["arguments", "run"]
    micro = trainer_fact(job, "micro_batch_size")
    assert micro is not None and micro.value == 8


def test_trainer_default_is_known_as_one() -> None:
    norm = trainer_fact(job_of({"sft.yaml": ARGUMENTS}), "max_grad_norm")
    assert norm is not None and norm.value == 1.0 and is_default(norm)


def test_neighbours_are_not_compared() -> None:
    alone = {
        "sft.yaml": ARGUMENTS,
        "ds.json": '{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 4}',
    }
    job = job_of(alone)
    settings = deepspeed_settings(job)
    assert settings is not None and not settings.certain
    assert compared_settings(job) is None
    named = job_of({**alone, "sft.yaml": ARGUMENTS + "deepspeed: ds.json\n"})
    assert compared_settings(named) is not None


def test_data_parallel_ranks_leave_out_the_gpus_of_one_replica() -> None:
    text = ARGUMENTS + "parallelism_config:\n  tp_size: 2\n"
    assert data_parallel_ranks(job_of({"sft.yaml": text}, gpus=8)) == 4
    assert data_parallel_ranks(job_of({"sft.yaml": ARGUMENTS})) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("${STEPS}", True), ("{{ steps }}", True), ("$STEPS", True), ("auto", False), ("100", False), (100, False)],
)
def test_placeholders(text: object, expected: bool) -> None:
    assert placeholder(text) is expected


def test_adapters_are_seen_in_combined_methods() -> None:
    assert trains_adapters(job_of({"sft.yaml": ARGUMENTS})) is False
    assert trains_adapters(job_of({"sft.yaml": ARGUMENTS + "use_peft: true\nlora_r: 8\n"})) is True


def test_intervals_take_defaults_and_fall_back_to_logging_steps() -> None:
    job = job_of({"sft.yaml": ARGUMENTS + "eval_strategy: steps\nlogging_steps: 25\n"})
    save, evaluate = saving(job), evaluating(job)
    assert save is not None and (save.strategy, save.steps, save.stated) == ("steps", 500, False)
    assert evaluate is not None and (evaluate.strategy, evaluate.steps, evaluate.stated) == ("steps", 25, True)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("perplexity", True), ("eval_wiki_perplexity", True), ("eval_loss", True), ("bits_per_byte", True), ("wer", True),
        ("accuracy", False), ("eval_f1", False), ("rougeLsum", False), ("mean_token_accuracy", False),
        ("score", None), ("accuracy_loss", None), ("map_error", None), ("", None),
    ],
)  # fmt: skip
def test_direction_of_a_metric(metric: str, expected: bool | None) -> None:
    assert lower_is_better(metric) is expected


def test_layer_classes_hold_each_family_apart() -> None:
    classes = layer_classes()
    assert "Qwen2DecoderLayer" in classes["qwen2"]
    assert "LlamaDecoderLayer" in classes["llama"] and "LlamaDecoderLayer" not in classes["qwen2"]
    assert len(classes) > 100
