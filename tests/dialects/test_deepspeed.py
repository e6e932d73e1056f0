"""DeepSpeed JSON."""

from collections.abc import Callable

from cfglint.jobs.facts import Reading

Read = Callable[..., Reading]

ZERO3 = """
{
  "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 3,
    "offload_optimizer": {"device": "cpu", "pin_memory": true},
    "offload_param": {"device": "none"}
  },
  "gradient_clipping": 0.5,
  "train_micro_batch_size_per_gpu": 2,
  "gradient_accumulation_steps": 4,
  "train_batch_size": 64,
  "optimizer": {"type": "AdamW", "params": {"lr": "2e-5", "weight_decay": 0.01}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 100}}
}
"""


def test_facts_and_their_lines(read: Read) -> None:
    reading = read(ZERO3, "ds.json")
    assert (reading.dialect, reading.role) == ("deepspeed", "part")
    facts = reading.facts
    expected = {
        "zero_stage": (3, 4), "offload_optimizer": ("cpu", 5), "offload_parameters": ("none", 6),
        "compute_dtype": ("bf16", 2), "weight_dtype": ("bf16", 2), "master_weights": (True, 2),
        "max_grad_norm": (0.5, 8), "micro_batch_size": (2, 9), "gradient_accumulation_steps": (4, 10),
        "global_batch_size": (64, 11), "optimizer": ("adamw_torch_fused", 12), "learning_rate": (2e-5, 12),
        "weight_decay": (0.01, 12), "lr_scheduler": ("linear", 13), "warmup_steps": (100, 13),
    }  # fmt: skip
    for name, (value, line) in expected.items():
        fact = facts.fact(name)
        assert fact is not None, name
        assert (fact.value, fact.describe()) == (value, f"ds.json:{line}"), name


def test_auto_is_unknown(read: Read) -> None:
    reading = read(
        """
        {
          "fp16": {"enabled": "auto"},
          "zero_optimization": {"stage": 2},
          "train_micro_batch_size_per_gpu": "auto",
          "gradient_accumulation_steps": "auto",
          "gradient_clipping": "auto"
        }
        """,
        "ds.json",
    )
    for name in ("compute_dtype", "micro_batch_size", "gradient_accumulation_steps", "max_grad_norm"):
        assert reading.facts.undecided(name), name
    assert reading.facts.value("zero_stage") == 2


def test_optimizers_in_hugging_face_words(read: Read) -> None:
    def optimizer(section: str) -> object:
        text = '{"zero_optimization": {"stage": 1}, "steps_per_print": 10, "optimizer": ' + section + "}"
        return read(text, "ds.json").facts.value("optimizer")

    assert optimizer('{"type": "Adam", "params": {"torch_adam": true}}') == "adamw_torch"
    assert optimizer('{"type": "SGD", "params": {"momentum": 0.9}}') == "sgd_momentum"
    assert optimizer('{"type": "SGD"}') == "sgd"
    assert optimizer('{"type": "Lion"}') == "lion"
    assert optimizer('{"type": 3}') is None


def test_master_weights_can_be_left_out(read: Read) -> None:
    text = (
        '{"zero_optimization": {"stage": 2}, "steps_per_print": 1,'
        ' "bf16": {"enabled": true, "bf16_master_weights_and_grads": true}}'
    )
    assert read(text, "ds.json").facts.value("master_weights") is False


def test_the_boolean_and_the_keys_of_old_releases(read: Read) -> None:
    text = '{"zero_optimization": {"stage": 2, "cpu_offload": true}, "train_batch_size": 8}'
    assert read(text, "ds.json").facts.value("offload_optimizer") == "cpu"
    text = '{"zero_optimization": true, "train_batch_size": 8, "fp16": {"enabled": true}}'
    facts = read(text, "ds.json").facts
    assert facts.value("zero_stage") == 1
    assert facts.value("compute_dtype") == "fp16"


def test_odd_values_are_not_facts(read: Read) -> None:
    text = """
    {"zero_optimization": {"stage": [3], "offload_optimizer": []}, "train_micro_batch_size_per_gpu": {"a": 1},
     "optimizer": [], "fp16": 3, "bf16": {"enabled": "perhaps"}, "gradient_clipping": true, "steps_per_print": 1}
    """
    assert list(read(text, "ds.json").facts.names()) == []


def test_a_trainer_with_deepspeed_keys_of_its_own_is_not_a_deepspeed_file(recognised: Callable[..., object]) -> None:
    text = """
    pipe_parallel_size: 1
    model_parallel_size: 2
    num_layers: 12
    hidden_size: 768
    seq_length: 2048
    train_micro_batch_size_per_gpu: 4
    zero_optimization: {stage: 1}
    attention_config: []
    lr_decay_style: cosine
    """
    assert recognised(text) == "gpt-neox"
