"""MaxText's files and command."""

from collections.abc import Callable

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import UNKNOWN, Reading
from cfglint.source.shell import parse_shell

Read = Callable[..., Reading]
Named = Callable[..., str | None]

RUN = """
base_config: base.yml
model_name: llama3.1-8b
per_device_batch_size: 4
max_target_length: 8192
steps: 100
remat_policy: minimal_flash
ici_tensor_parallelism: 2
dcn_tensor_parallelism: 1
ici_expert_parallelism: -1
dtype: bfloat16
weight_dtype: float32
"""


def test_facts_and_their_lines(read: Read) -> None:
    reading = read(RUN)
    expected = {
        "model_id": ("meta-llama/Llama-3.1-8B", 2), "micro_batch_size": (4, 3), "sequence_length": (8192, 4),
        "max_steps": (100, 5), "gradient_checkpointing": ("selective", 6), "tensor_parallel_size": (2, 7),
        "compute_dtype": ("bf16", 10), "weight_dtype": ("fp32", 11),
    }  # fmt: skip
    assert (reading.dialect, reading.role) == ("maxtext", "run")
    for name, (value, line) in expected.items():
        fact = reading.facts.fact(name)
        assert fact is not None, name
        assert (fact.value, fact.describe()) == (value, f"config.yaml:{line}"), name
    assert [f.value for f in reading.facts.statements("expert_parallel_size")] == [UNKNOWN]


def test_presets_and_servers_make_no_run(read: Read) -> None:
    preset = "base_emb_dim: 4096\nbase_num_query_heads: 32\nbase_num_kv_heads: 8\nbase_mlp_dim: 14336\ndecoder_block: llama2\n"
    for text in (preset, "base_config: base.yml\nmodel_name: llama2-70b\nattention: dot_product\n"):
        reading = read(text)
        assert (reading.dialect, reading.role) == ("maxtext", "part")


def test_a_command_with_overrides() -> None:
    text = "python3 -m maxtext.trainers.pre_train.train configs/base.yml run_name=a model_name=gemma2-9b per_device_batch_size=2\n"
    found = {r.dialect: r for r in recognise_files([parse_shell("run.sh", text)])[0]}
    facts = found["maxtext"].facts
    assert (facts.value("model_id"), facts.value("micro_batch_size"), facts.value("method")) == (
        "google/gemma-2-9b",
        2,
        "pretrain",
    )
    assert found["maxtext"].role == "run"


def test_other_files_are_left_alone(recognised: Named) -> None:
    assert recognised("base_config: defaults\nname: x\nvalue: 3\nother: 4\nmore: 5\n") is None
    assert recognised("steps: 3\nattention: x\n") is None
