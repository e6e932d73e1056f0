"""GPT-NeoX's files."""

from collections.abc import Callable

import pytest

from cfglint.jobs.facts import Reading

Read = Callable[..., Reading]
Named = Callable[..., str | None]

MODEL = """
{
  # comments are fine here
  "pipe-parallel-size": 0,
  "model-parallel-size": 2,
  "num-layers": 24,
  "hidden-size": 1024,
  "num-attention-heads": 16,
  "seq-length": 2048,
  "max-position-embeddings": 2048,
  "pos-emb": "rotary",
  "norm": "NORM",
  "no-weight-tying": true,
  "attention_config": [[["flash"], 24]],
  "optimizer": {"type": "Adam", "params": {"lr": 0.0003}},
  "zero_optimization": {"stage": 1},
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 2,
  "checkpoint-activations": true,
  "gradient_clipping": 1.0,
  "fp16": {"enabled": true, "fp16": true},
  "train-iters": 1000,
  "lr-decay-style": "cosine",
  "warmup": 0.01,
  "vocab_file": "x/20B_tokenizer.json",
  "tokenizer_type": "HFTokenizer",
  EXTRA
}
"""


def model(extra: str = "", norm: str = "layernorm") -> str:
    return MODEL.replace("EXTRA", extra).replace("NORM", norm)


def test_facts_and_their_lines(read: Read) -> None:
    reading = read(model())
    expected = {
        "pipeline_parallel_size": (1, 3), "tensor_parallel_size": (2, 4), "sequence_length": (2048, 8),
        "attention": ("flash2", 13), "optimizer": ("adamw_torch_fused", 14), "learning_rate": (3e-4, 14),
        "zero_stage": (1, 15), "micro_batch_size": (4, 16), "gradient_accumulation_steps": (2, 17),
        "gradient_checkpointing": ("full", 18), "weight_dtype": ("fp16", 20), "compute_dtype": ("fp16", 20),
        "max_steps": (1000, 21), "lr_scheduler": ("cosine", 22), "warmup_ratio": (0.01, 23),
    }  # fmt: skip
    assert (reading.dialect, reading.role, reading.framework) == ("gpt-neox", "run", "gpt-neox")
    for name, (value, line) in expected.items():
        fact = reading.facts.fact(name)
        assert fact is not None, name
        assert (fact.value, fact.describe()) == (value, f"config.yaml:{line}"), name
    config = reading.context["model_config"]
    assert (config["model_type"], config["intermediate_size"], config["vocab_size"]) == ("gpt_neox", 4096, 50432)


@pytest.mark.parametrize(
    ("extra", "width"),
    [
        # LLaMA-2 70B as GPT-NeoX writes it: two thirds of it, in two halves
        ('"intermediate_size": 86016, "mlp_multiple_of": 256,', 28672),
        ('"intermediate_size": 14336, "mlp_multiple_of": 14336,', 14336),
    ],
)
def test_gated_layers_are_narrower(read: Read, extra: str, width: int) -> None:
    more = (
        f'{extra} "activation": "swiglu", "use_bias_in_mlp": false, "use_bias_in_attn_linear": false, "num_kv_heads": 8'
    )
    config = read(model(more, "rmsnorm")).context["model_config"]
    assert (config["model_type"], config["intermediate_size"], config["num_key_value_heads"]) == ("llama", width, 8)


def test_precision_may_be_written_three_ways(read: Read) -> None:
    assert read(model('"precision": "bfloat16"')).facts.value("weight_dtype") == "bf16"
    typed = model().replace('"fp16": true}', '"type": "bfloat16"}')
    assert read(typed).facts.value("compute_dtype") == "bf16"


def test_other_mixers_make_no_model_and_tasks_are_read(read: Read) -> None:
    assert "model_config" not in read(model().replace('"flash"', '"mamba"')).context
    assert read(model('"train_impl": "dpo"')).facts.value("method") == "dpo"
    assert read(model('"finetune": true')).facts.value("method") == "full"


def test_deepspeed_files_stay_deepspeeds(recognised: Named) -> None:
    text = '{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 1}, "fp16": {"enabled": true}}'
    assert recognised(text, "ds.json") == "deepspeed"
    assert recognised("num_layers: 2\nhidden_size: 64\nnorm: layer\n") is None
