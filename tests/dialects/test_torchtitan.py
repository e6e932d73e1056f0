"""torchtitan's TOML and command, and Primus in its words."""

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import DefaultOrigin, Reading
from cfglint.source.shell import parse_shell
from cfglint.source.toml import parse_toml
from cfglint.source.yaml import parse_yaml

CONFIG = """
[job]
dump_folder = "./outputs"
[model]
name = "llama3"
flavor = "70B"
converters = ["float8"]
[optimizer]
name = "AdamW"
lr = 1.5e-4
[lr_scheduler]
warmup_steps = 200
[training]
local_batch_size = 8
global_batch_size = 512
seq_len = 8192
max_norm = 1.0
steps = 1000
[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
context_parallel_degree = 1
[activation_checkpoint]
mode = "full"
[compile]
enable = true
"""


def read(text: str) -> Reading:
    readings, _ = recognise_files([parse_toml("train.toml", text.lstrip("\n"))])
    assert len(readings) == 1
    return readings[0]


def test_pipeline_stages_take_a_local_batch_in_micro_batches() -> None:
    staged = CONFIG.replace("tensor_parallel_degree = 8", "pipeline_parallel_degree = 4")
    for more, found in (("", (1, None)), ("pipeline_parallel_microbatch_size = 2\n", (2, None))):
        facts = read(staged.replace("[parallelism]\n", "[parallelism]\n" + more)).facts
        assert (facts.value("micro_batch_size"), facts.value("gradient_accumulation_steps")) == found
    facts = read(staged.replace("global_batch_size = 512\n", "")).facts
    assert (facts.value("micro_batch_size"), facts.value("gradient_accumulation_steps")) == (1, 8)


def test_selective_checkpointing_by_operations_or_by_layers() -> None:
    for option, every in (("op", None), ("2", 2)):
        chosen = CONFIG.replace('mode = "full"', f'mode = "selective"\nselective_ac_option = "{option}"')
        facts = read(chosen).facts
        assert (facts.value("gradient_checkpointing"), facts.value("checkpoint_every")) == ("selective", every)


def test_facts_and_their_lines() -> None:
    reading = read(CONFIG)
    expected = {
        "model_id": ("meta-llama/Llama-3.1-70B", 5), "fp8_linear": (True, 6), "optimizer": ("adamw_torch_fused", 8),
        "learning_rate": (1.5e-4, 9), "warmup_steps": (200, 11), "micro_batch_size": (8, 13), "global_batch_size": (512, 14),
        "sequence_length": (8192, 15), "max_grad_norm": (1.0, 16), "max_steps": (1000, 17), "fsdp": ("full_shard", 20),
        "tensor_parallel_size": (8, 21), "context_parallel_size": (1, 22), "gradient_checkpointing": ("full", 24),
        "compile": (True, 26),
    }  # fmt: skip
    assert (reading.dialect, reading.role, reading.framework) == ("torchtitan", "run", "torchtitan")
    for name, (value, line) in expected.items():
        fact = reading.facts.fact(name)
        assert fact is not None, name
        assert (fact.value, fact.describe()) == (value, f"train.toml:{line}"), name
    for name, value in (
        ("weight_dtype", "fp32"),
        ("compute_dtype", "bf16"),
        ("fsdp_version", 2),
        ("method", "pretrain"),
    ):
        fact = reading.facts.fact(name)
        assert fact is not None
        assert fact.value == value
        assert isinstance(fact.origin, DefaultOrigin)


def test_old_places_of_the_degrees() -> None:
    text = CONFIG.replace(
        "local_batch_size = 8", "batch_size = 4\ndata_parallel_degree = 8\ntensor_parallel_degree = 2"
    )
    text = (
        text[: text.index("[parallelism]")]
        + "[experimental]\npipeline_parallel_degree = 4\n"
        + text[text.index("[activation") :]
    )
    facts = read(text).facts
    assert (facts.value("micro_batch_size"), facts.value("tensor_parallel_size")) == (4, 2)
    assert (facts.value("pipeline_parallel_size"), facts.value("data_parallel_size")) == (4, 8)


def test_replicas_and_a_single_shard() -> None:
    facts = read(CONFIG.replace("replicate_degree = 1", "replicate_degree = 2")).facts
    assert facts.value("fsdp") == "hybrid_shard"
    assert read(CONFIG.replace("shard_degree = -1", "shard_degree = 1")).facts.value("fsdp") == "none"


def test_flags_beside_the_file_bring_no_defaults() -> None:
    text = "torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file ./a.toml --training.local_batch_size 2\n"
    launch, flags = recognise_files([parse_shell("run.sh", text)])[0]
    assert [(r.role, r.target) for r in launch.references] == [("config", "./a.toml")]
    assert (flags.role, flags.facts.value("micro_batch_size"), flags.facts.fact("weight_dtype")) == (
        "arguments",
        2,
        None,
    )


def test_primus_in_its_words() -> None:
    text = (
        "work_group: amd\nmodules:\n  pre_trainer:\n    framework: torchtitan\n    config: pre_trainer.yaml\n"
        "    model: llama3.1_8B-fp8.yaml\n    overrides:\n      training: {local_batch_size: 6, seq_len: 4096}\n"
        "      activation_checkpoint: {mode: none}\n"
    )
    reading = recognise_files([parse_yaml("a.yaml", text)])[0][0]
    facts = reading.facts
    assert (reading.dialect, facts.value("model_id")) == ("torchtitan", "meta-llama/Llama-3.1-8B")
    assert (facts.value("micro_batch_size"), facts.value("gradient_checkpointing")) == (6, "none")


def test_other_toml_is_left_alone() -> None:
    for text in (
        "[training]\nsteps = 3\n[model]\nname = 'x'\n",
        "[job]\na = 1\n[metrics]\n[checkpoint]\n[profiling]\n",
    ):
        assert recognise_files([parse_toml("a.toml", text)])[0] == []


def test_tensor_parallelism_shards_activations_along_the_sequence() -> None:
    from cfglint.testing import lint_files

    text = (
        '[job]\ndump_folder = "o"\n[model]\nname = "llama2"\nflavor = "70B"\n[optimizer]\nname = "AdamW"\nlr = 1e-4\n'
        "[training]\nbatch_size = 16\nseq_len = 4096\nsteps = 10\ntensor_parallel_degree = 8\n"
        '[activation_checkpoint]\nmode = "full"\n'
    )
    result = lint_files({"llama2_70b.toml": text}, gpu="A100-80GB", gpus=64)
    (job,) = result.context.jobs.training
    assert job.value("sequence_parallel") is True
    assert result.context.estimate(job).memory.verdict == "fits"


def test_its_own_script_takes_the_config_from_the_environment() -> None:
    from pathlib import Path

    from cfglint.jobs.linker import HardwareOptions, Surroundings, link
    from cfglint.source.shell import parse_shell
    from cfglint.source.toml import parse_toml

    toml = (
        '[job]\ndump_folder = "o"\n[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n'
        '[parallelism]\ntensor_parallel_degree = 1\n[activation_checkpoint]\nmode = "full"\n'
    )
    script = (
        "NGPU=4 CONFIG_FILE=./a.toml ./run_train.sh --training.local_batch_size 2\n"
        "NGPU=8 MODULE=llama3 CONFIG=llama3_70b ./run_train.sh --training.seq_len 4096\n"
    )
    readings, _ = recognise_files([parse_shell("run.sh", script), parse_toml("a.toml", toml)])
    by_model = {
        job.value("model_id"): job for job in link(readings, HardwareOptions(), Surroundings(root=Path("."))).training
    }
    first, second = by_model["meta-llama/Llama-3.1-8B"], by_model["meta-llama/Llama-3.1-70B"]
    assert (first.value("gpus_per_node"), first.value("micro_batch_size"), first.value("sequence_length")) == (
        4,
        2,
        8192,
    )
    assert (second.value("gpus_per_node"), second.value("sequence_length")) == (8, 4096)
    assert second.readings[0].context["held_elsewhere"][0] == "config", "a config of the registry is Python"


def test_compile_covers_the_loss_unless_the_components_leave_it_out() -> None:
    table = "[job]\n[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nlocal_batch_size = 1\nseq_len = 4096\n[activation_checkpoint]\nmode = 'full'\n"
    on = read(table + "[compile]\nenable = true\n").facts.fact("loss_kernel")
    assert on is not None and on.value == "compiled"
    assert read(table + '[compile]\nenable = true\ncomponents = ["model"]\n').facts.fact("loss_kernel") is None
    assert read(table + "[compile]\nenable = false\n").facts.fact("loss_kernel") is None
