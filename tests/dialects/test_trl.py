"""TRL configs."""

from collections.abc import Callable

import pytest

from cfglint.dialects.trl import read_trl
from cfglint.jobs.facts import UNKNOWN, DefaultOrigin, Reading
from cfglint.source.node import Mapping
from cfglint.source.yaml import parse_yaml

Read = Callable[..., Reading]

BASE = "model_name_or_path: org/m\ndataset_name: org/data\nper_device_train_batch_size: 2\nlearning_rate: 1.0e-5\n"


@pytest.mark.parametrize(
    ("keys", "trainer", "method"),
    [
        ("packing: true\n", "sft", "full"),
        ("beta: 0.1\nmax_prompt_length: 512\n", "dpo", "dpo"),
        ("beta: 0.1\noutput_dir: out/model-orpo\n", "orpo", "orpo"),
        ("beta: 0.1\noutput_dir: out/dpo-run\n", "dpo", "dpo"),
        ("num_generations: 8\nmax_completion_length: 256\nbeta: 0.0\n", "grpo", "grpo"),
        ("desirable_weight: 1.0\nbeta: 0.1\n", "kto", "kto"),
        ("cpo_alpha: 0.5\nbeta: 2.0\n", "cpo", "cpo"),
        ("center_rewards_coefficient: 0.01\n", "reward", "reward"),
        ("teacher_model_name_or_path: org/big\n", "distillation", "distill"),
        ("rloo_k: 4\n", "rloo", "rloo"),
    ],
)
def test_the_trainer_from_its_keys(read: Read, keys: str, trainer: str, method: str) -> None:
    reading = read(BASE + keys)
    assert reading.dialect == "trl"
    assert reading.context["trainer"] == trainer
    assert reading.facts.value("method") == method


def test_a_command_names_the_trainer() -> None:
    document = parse_yaml("config.yaml", BASE).documents[0]
    assert isinstance(document.root, Mapping)
    reading = read_trl(document, document.root, hint="dpo")
    assert reading.context["trainer"] == "dpo"
    assert reading.facts.value("method") == "dpo"
    assert reading.facts.value("sequence_length") == 1024


@pytest.mark.parametrize(("keys", "since"), [("", "0.26"), ("beta: 0.1\n", "0.29"), ("rloo_k: 4\n", "0.27")])
def test_until_which_release_a_quantized_model_is_prepared(read: Read, keys: str, since: str) -> None:
    """The first release of each trainer that no longer calls ``prepare_model_for_kbit_training``."""
    facts = read(BASE + "use_peft: true\nload_in_4bit: true\n" + keys).facts
    found = [(fact.value, fact.origin) for fact in facts.statements("upcast_unquantized")]
    assert found == [
        (False, DefaultOrigin("trl", f">={since}")),
        (True, DefaultOrigin("trl", f"<{since}")),
    ]


def test_adapters_only_with_use_peft(read: Read) -> None:
    off = read(BASE + "lora_r: 32\nlora_alpha: 16\n").facts
    assert off.value("method") == "full"
    assert not off.stated("lora_rank")
    on = read(
        BASE + "use_peft: true\nload_in_4bit: true\nlora_r: 32\nlora_target_modules: all-linear\nbeta: 0.1\n"
    ).facts
    assert on.value("method") == "dpo+qlora"
    assert on.value("quantization") == "nf4"
    assert on.value("lora_rank") == 32
    assert on.value("lora_targets") == ["all-linear"]
    default = read(BASE + "use_peft: true\n").facts
    assert default.value("method") == "lora"
    assert (default.value("lora_rank"), default.value("lora_alpha")) == (16, 32.0)


def test_prompt_and_completion_make_the_sequence(read: Read) -> None:
    fact = read(BASE + "num_generations: 4\nmax_prompt_length: 512\nmax_completion_length: 1024\n").facts.fact(
        "sequence_length"
    )
    assert fact is not None
    assert (fact.value, fact.describe()) == (1536, "512 prompt + 1024 completion tokens")


def test_an_open_prompt_leaves_the_sequence_unknown(read: Read) -> None:
    assert read(BASE + "num_generations: 4\nmax_completion_length: 1024\n").facts.undecided("sequence_length")


def test_lengths_by_both_names_and_null(read: Read) -> None:
    assert read(BASE + "packing: true\nmax_length: 2048\n").facts.value("sequence_length") == 2048
    assert read(BASE + "max_seq_length: 8192\n").facts.value("sequence_length") == 8192
    assert read(BASE + "packing: false\nmax_length: null\n").facts.undecided("sequence_length")


def test_defaults_by_version(read: Read) -> None:
    facts = read("model_name_or_path: org/m\ndataset_name: d\nper_device_train_batch_size: 1\n").facts
    found = {
        name: [(f.value, f.describe()) for f in facts.statements(name)]
        for name in ("learning_rate", "gradient_checkpointing", "compute_dtype", "loss_kernel", "weight_dtype")
    }
    assert found["learning_rate"] == [(2e-5, "trl >=0.12 default"), (5e-5, "trl <0.12 default")]
    assert found["gradient_checkpointing"] == [("full", "trl >=0.22 default"), ("none", "trl <0.22 default")]
    assert found["compute_dtype"] == [("bf16", "trl >=0.19 default"), ("none", "trl <0.19 default")]
    assert found["loss_kernel"] == [
        ("fused_linear", "trl >=1.15 default"), ("checkpointed", "trl >=1.7 default"), ("torch", "trl <1.7 default"),
    ]  # fmt: skip
    assert found["weight_dtype"] == [
        ("fp32", "trl >=0.27 default"), (UNKNOWN, "transformers >=5 default"), ("fp32", "transformers <5 default"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "kernels"),
    [
        ("loss_type: nll\n", ["fused_linear", "torch", "torch"]),
        ("loss_type: dft\n", ["fused_linear", "selective", "selective"]),
        ("loss_type: chunked_nll\n", ["checkpointed"]),
        ("use_liger_kernel: true\n", ["fused_linear"]),
        ("label_smoothing_factor: 0.1\nuse_liger_kernel: true\n", ["smoothed", "fused_linear"]),
        ("label_smoothing_factor: 0.0\n", ["fused_linear", "checkpointed", "torch"]),
    ],
)
def test_which_loss_supervised_fine_tuning_takes(read: Read, keys: str, kernels: list[str]) -> None:
    """By release where the settings leave it to TRL: since 1.15 every ``loss_type`` goes through the fused head."""
    facts = read(BASE + "packing: false\n" + keys).facts
    assert [fact.value for fact in facts.statements("loss_kernel")] == kernels
    assert facts.value("loss_kernel") == kernels[0]


def test_packing_is_free_of_padding_unless_it_wraps(read: Read) -> None:
    packed = [(f.value, f.describe()) for f in read(BASE + "packing: true\n").facts.statements("padding_free")]
    assert packed == [(True, "trl >=0.19 default"), (False, "trl <0.19 default")]
    wrapped = read(BASE + "packing: true\npacking_strategy: wrapped\n").facts
    assert [fact.value for fact in wrapped.statements("padding_free")] == [False, False]
    assert read(BASE + "packing: false\n").facts.fact("padding_free") is None
    stated = read(BASE + "packing: false\npadding_free: true\n").facts.fact("padding_free")
    assert stated is not None and stated.value is True


def test_bf16_off_stays_off(read: Read) -> None:
    assert read(BASE + "packing: true\nbf16: false\n").facts.value("compute_dtype") == "none"


def test_dtype_of_model_init_kwargs(read: Read) -> None:
    facts = read(BASE + "model_init_kwargs: {dtype: bfloat16, attn_implementation: sdpa}\n").facts
    assert facts.value("weight_dtype") == "bf16"
    assert facts.value("attention") == "sdpa"


def test_open_instruct_files_are_trainer_arguments(recognised: Callable[..., object]) -> None:
    text = BASE + "dataset_mixer_list: [a, 1.0]\nuse_slow_tokenizer: true\nwith_tracking: true\nnum_train_epochs: 2\n"
    assert recognised(text) == "hf-training-args"


def test_example_scripts_of_transformers_name_their_data_alike(recognised: Callable[..., object]) -> None:
    assert recognised(BASE) == "trl"
    assert recognised(BASE + "block_size: 1024\ndo_train: true\n") == "hf-training-args"


@pytest.mark.parametrize(
    ("keys", "reference"),
    [
        ("beta: 0.1\nprecompute_ref_log_probs: true\n", "precomputed"),
        ("beta: 0.1\nuse_peft: true\nforce_use_ref_model: true\n", "model"),
        ("num_generations: 8\nbeta: 0.04\n", "model"),
        ("num_generations: 8\nbeta: 0.04\nuse_peft: true\n", "adapter"),
        ("num_generations: 8\nbeta: 0.0\n", "none"),
        ("num_generations: 8\n", None),
        ("beta: 0.1\nsync_ref_model: true\n", None),
    ],
)
def test_where_the_reference_comes_from(read: Read, keys: str, reference: str | None) -> None:
    """What no key says is a default of the release, which the estimate knows."""
    assert read(BASE + keys).facts.value("reference") == reference


def test_tokens_that_are_scored(read: Read) -> None:
    assert read(BASE + "num_generations: 8\nmax_completion_length: 1024\n").facts.value("completion_length") == 1024
    defaults = read(BASE + "num_generations: 8\n").facts.statements("completion_length")
    assert [(fact.value, fact.describe()) for fact in defaults] == [
        (512, "trl >=1.10 default"),
        (256, "trl <1.10 default"),
    ]


@pytest.mark.parametrize("trainer", ["dpo", "kto", "grpo", "rloo"])
def test_since_when_tokens_are_scored_without_logits(trainer: str) -> None:
    document = parse_yaml("config.yaml", BASE).documents[0]
    assert isinstance(document.root, Mapping)
    kernels = read_trl(document, document.root, hint=trainer).facts.statements("loss_kernel")
    found = [(fact.value, fact.origin) for fact in kernels if fact.origin.framework == "trl"]  # type: ignore[attr-defined]
    assert found == [("fused_linear", DefaultOrigin("trl", ">=1.15")), ("torch", DefaultOrigin("trl", "<1.15"))]


def test_what_a_sampling_trainer_holds_is_in_the_context(read: Read) -> None:
    settings = read(BASE + "num_generations: 8\nuse_vllm: true\nvllm_mode: colocate\n").context["trainer_settings"]
    assert settings["num_generations"] == 8
    assert settings["vllm_mode"] == "colocate"


def test_a_preference_script_with_a_train_file_is_not_trls() -> None:
    from cfglint.testing import lint_files

    arguments = (
        '{"output_dir": "o", "model_name_or_path": "Qwen/Qwen1.5-7B-Chat", "train_file": "dpo.jsonl", "task_type": "dpo", "beta": 0.1,'
        ' "num_train_epochs": 1, "per_device_train_batch_size": 1, "learning_rate": 5e-7, "max_prompt_length": 300}'
    )
    result = lint_files({"dpo.json": arguments, "requirements.txt": "trl==0.7.11\n"})
    assert result.files["dpo.json"].dialects == ["hf-training-args"]
    assert not [f for f in result.findings if f.severity == "error"]


def test_a_script_that_names_its_trainer() -> None:
    """Its own keys are no faults; the trainer's default length holds."""
    from cfglint.testing import lint_files

    result = lint_files({"train.yaml": "trainer: SFT\nmodel_max_seq_length: 8192\npacking: false\n"}, strict=False)
    assert [(f.code, f.severity) for f in result.shown] == [("DAT002", "warning")]
    assert "model_max_seq_length says 8192" in result.shown[0].message


def test_a_lightning_trainer_is_not_trl() -> None:
    from cfglint.testing import lint_files

    result = lint_files({"train.yaml": "trainer: ddp\npacking: false\nmax_steps: 10\n"})
    assert result.files["train.yaml"].dialects == []
