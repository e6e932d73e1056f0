"""Config files inside others: heredocs of scripts, ConfigMaps."""

from __future__ import annotations

from pathlib import Path

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.linker import HardwareOptions, Surroundings, link
from cfglint.source import parse_text
from cfglint.testing import lint_files

TRAIN = "train.py --model_name_or_path org/m --per_device_train_batch_size 1 --learning_rate 1e-5 --output_dir o --bf16 True\n"
WITH_DEEPSPEED = TRAIN.replace("--bf16", "--deepspeed ds.json --bf16")


def training(text: str, path: str = "run.sh") -> list[TrainingJob]:
    readings, _ = recognise_files([parse_text(path, text)])
    return link(readings, HardwareOptions(), Surroundings(root=Path("."))).training


DEEPSPEED = """#!/bin/bash
STAGE=3
DS=./ds.json
cat > $DS <<EOF
{
  "zero_optimization": {
    "stage": $STAGE
  },
  "bf16": {"enabled": true},
  "note": "$STAGE"
}
EOF
"""


def test_a_deepspeed_file_that_the_script_writes() -> None:
    (job,) = training(f"{DEEPSPEED}deepspeed --num_gpus 8 {WITH_DEEPSPEED}")
    assert job.dialects == ["hf-training-args", "launch", "deepspeed"]
    fact = job.fact("zero_stage")
    assert fact is not None
    assert isinstance(fact.origin, FileOrigin)
    assert (fact.value, fact.origin.document.path, fact.origin.position.line) == (3, "run.sh", 7)
    assert "$STAGE" in fact.origin.document.file.text.splitlines()[6], "the outer file's own text is shown"


def test_a_variable_that_is_not_known_makes_it_a_template() -> None:
    text = DEEPSPEED.replace("STAGE=3", "STAGE=$1")
    (job,) = training(text + f"deepspeed --num_gpus 8 {WITH_DEEPSPEED}")
    assert "deepspeed" not in job.dialects
    assert job.sharding_open


def test_a_variable_that_is_set_again_later_is_not_put_in() -> None:
    text = f"{DEEPSPEED}STAGE=1\ndeepspeed --num_gpus 8 {WITH_DEEPSPEED}"
    (job,) = training(text)
    assert "deepspeed" not in job.dialects


def test_an_accelerate_file_by_tee_and_quoted_heredoc() -> None:
    text = (
        "tee acc.yaml <<'YAML'\ncompute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\n"
        "num_machines: 1\nnum_processes: 4\nfsdp_config: {fsdp_sharding_strategy: FULL_SHARD}\nYAML\n"
        f"accelerate launch --config_file acc.yaml {TRAIN}"
    )
    (job,) = training(text)
    assert (job.hardware.gpus_per_node, job.value("fsdp")) == (4, "full_shard")


def test_findings_stand_at_the_script_s_own_lines() -> None:
    text = DEEPSPEED.replace('"note"', '"train_micro_batch_size_per_gpu": 4, "note"')
    result = lint_files({"run.sh": text + f"deepspeed --num_gpus 8 {WITH_DEEPSPEED}"})
    (finding,) = [f for f in result.findings if f.code == "CON001"]
    assert finding.primary is not None
    assert finding.primary.document.file.position(finding.primary.span.start).line == 10


def test_a_text_that_is_no_config_is_nothing() -> None:
    assert training('cat > notes.json <<EOF\n{"a": 1}\nEOF\ncat > x.txt <<EOF\nnum_processes: 4\nEOF\n') == []


CONFIG_MAP = """apiVersion: v1
kind: ConfigMap
metadata: {name: x}
data:
  accelerate.yaml: |
    compute_environment: LOCAL_MACHINE
    distributed_type: MULTI_GPU
    mixed_precision: bf16
    num_machines: 1
    num_processes: 8
  ds.json: |
    {"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 1}
  prometheus.yaml: |
    global: {scrape_interval: 15s}
"""


def test_files_of_a_config_map() -> None:
    readings, reports = recognise_files([parse_text("cm.yaml", CONFIG_MAP)])
    assert [(r.dialect, r.context["inside"]) for r in readings] == [
        ("accelerate", "accelerate.yaml"),
        ("deepspeed", "ds.json"),
    ]
    assert (reports["cm.yaml"].dialects, reports["cm.yaml"].carrier) == (["accelerate", "deepspeed"], "kubernetes")
    fact = readings[0].facts.fact("gpus_per_node")
    assert fact is not None
    assert isinstance(fact.origin, FileOrigin)
    assert (fact.value, fact.origin.position.line) == (8, 10)


def test_an_evaluation_under_deepspeed_trains_nothing() -> None:
    text = (
        'cat > ds.json <<EOF\n{"train_batch_size": 1, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 0}}\nEOF\n'
        "deepspeed --num_gpus 8 tasks/evaluate.py --tensor-model-parallel-size 1 --pipeline-model-parallel-size 8 "
        "--micro-batch-size 1 --num-layers 4 --hidden-size 64 --deepspeed --deepspeed_config ds.json\n"
    )
    assert training(text) == []


def test_a_file_that_a_task_s_script_writes() -> None:
    text = (
        'resources: {accelerators: \'A100-80GB:8\'}\nrun: |\n  cat > ds.json <<EOF\n  {\n    "zero_optimization": {"stage": 3}\n  }\n  EOF\n'
        f"  deepspeed --num_gpus 8 {WITH_DEEPSPEED}"
    )
    (job,) = training(text, "task.yaml")
    fact = job.fact("zero_stage")
    assert fact is not None
    assert isinstance(fact.origin, FileOrigin)
    assert (fact.value, fact.origin.position.line, job.hardware.name) == (3, 5, "A100-80GB")


def test_options_that_a_script_writes_for_a_server() -> None:
    text = (
        "cat <<EOF > /tmp/extra.yaml\nkv_cache_config: {dtype: fp8}\nenable_attention_dp: false\ncuda_graph_config: {max_batch_size: 64}\nEOF\n"
        "trtllm-serve org/m --tp_size 8 --extra_llm_api_options /tmp/extra.yaml\n"
    )
    readings, _ = recognise_files([parse_text("serve.sh", text)])
    (job,) = link(readings, HardwareOptions(), Surroundings(root=Path("."))).serving
    assert (job.value("tensor_parallel_size"), job.value("kv_cache_dtype")) == (8, "fp8")
