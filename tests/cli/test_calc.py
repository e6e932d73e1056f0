"""``cfglint calc``: figures, working, flags as people write them, and errors without a traceback."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from cfglint.catalog.architecture import Architecture, Layer, Mla, Tensor
from cfglint.cli import calc

LAYERS = tuple(
    Layer(index, "full_attention", "dense", intermediate_size=14336, heads=32, kv_heads=8, head_dim=128)
    for index in range(32)
)
ALL = tuple(range(32))
LLAMA = Architecture(
    model_type="llama",
    architecture="LlamaForCausalLM",
    hidden_size=4096,
    vocab_size=128256,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    intermediate_size=14336,
    layers=LAYERS,
    tensors=(
        Tensor("embed_tokens", (128256, 4096), "embedding"),
        Tensor("q_proj", (4096, 4096), "attention", layers=ALL, stack="decoder", linear=True),
        Tensor("v_proj", (1024, 4096), "attention", layers=ALL, stack="decoder", linear=True),
        Tensor("lm_head", (128256, 4096), "lm_head", linear=True),
    ),
    total_parameters=8_030_261_248,
)


def call(*words: str) -> int:
    parser = argparse.ArgumentParser(prog="cfglint")
    calc.add_parser(parser.add_subparsers())
    args = parser.parse_args(["calc", *words])
    code = args.run(args)
    assert isinstance(code, int)
    return code


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert call(*words, "--format", "json") == 0
    read: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert read["version"] == 1
    return read


def result(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return answer(capsys, *words)["calculations"][-1]["result"]


@pytest.fixture
def llama(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calc, "load_model", lambda name: (LLAMA, "catalogue"))


def test_weights_show_formula_numbers_units_source_and_caveat(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("weights", "--parameters", "8030261248") == 0
    assert capsys.readouterr().out.splitlines() == [
        "Memory of the weights",
        "  weight_bytes = parameters × bytes_per_parameter",
        "  = 8,030,261,248 × 2",
        "  = 16,060,522,496 bytes = 14.96 GiB = 16.06 GB",
        "  source: by definition; sizes from the precision table",
        "  caveat: Quantized checkpoints keep embeddings, norms and often the head in 16 bits; `cfglint estimate` counts"
        " them apart.",
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("weights --parameters 8.03B", 16_060_000_000),
        ("weights --parameters 1e9 --dtype nf4", 562_500_000),
        ("weights --parameters 8,030,261,248 --dtype float32", 32_121_044_992),
        ("training --parameters 1B", 16 * 10**9),
        ("training --parameters 1B --dtype fp32", 16 * 10**9),
        ("training --parameters 1B --activations 1GiB --overhead 1GB", 16 * 10**9 + 2**30 + 10**9),
        ("optimizer --parameters 1B --dtype fp32", 0),
        ("optimizer --parameters 1B", 4 * 10**9),
        ("lora --parameters 1B --adapter-parameters 10M", 2_160_000_000),
        ("lora --parameters 1B --rank 8 --matrix 4096x4096*32 --matrix 4096x1024*32", 2 * 10**9 + 16 * 3_407_872),
        ("kv-cache --sequence-length 1 --layers 32 --kv-heads 8 --head-dim 128", 131_072),
        ("kv-cache --sequence-length 4096 --layers 61 --kv-lora-rank 512 --qk-rope-head-dim 64", 4096 * 70_272),
        (
            "batch --micro-batch-size 2 --gradient-accumulation-steps 8 --data-parallel-size 8 --sequence-length 4096",
            524_288,
        ),
        ("batch --world-size 64 --tensor-parallel-size 8", 8),
        ("steps --dataset-tokens 1B --batch-tokens 524288", 1908),
        ("steps --dataset-tokens 1B --batch-tokens 524288 --drop-last", 1907),
        ("flops --parameters 7B", 42 * 10**9),
        ("zero --parameters 7.5B --data-parallel-size 64 --stage 1", 31_406_250_000),
        ("pipeline --pipeline-parallel-size 4 --micro-batches 12", 0.2),
        ("mfu --parameters 1B --tokens-per-second 1000 --peak-tflops 10 --gpus 2", 0.3),
        ("perplexity --perplexity 1", 0.0),
    ],
)
def test_results(capsys: pytest.CaptureFixture[str], words: str, expected: float) -> None:
    assert result(capsys, *words.split()) == pytest.approx(expected)


def test_activations_give_the_lower_bound_and_what_checkpointing_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("activations", "--sequence-length", "4096", "--hidden-size", "4096", "--layers", "32") == 0
    out = capsys.readouterr().out
    assert "= 1,073,741,824 bytes = 1.00 GiB = 1.07 GB" in out
    assert "cfglint estimate" in out
    assert "20–30 %" in out
    assert "= 0.3333 = 33.3%" in out


def test_perplexity_says_what_it_can_be_compared_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("perplexity", "--loss", "2.995732") == 0
    out = capsys.readouterr().out
    assert "= 20" in out
    assert "same test set and with the same tokenizer" in out


def test_perplexity_with_the_text_size_gives_bits_per_byte(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("perplexity", "--loss", "0.6931471805599453", "--tokens", "100", "--text-bytes", "400")
    assert result(capsys, *words) == pytest.approx(0.25)


def test_zero_gives_all_stages(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "zero", "--parameters", "7.5B", "--data-parallel-size", "64")["calculations"]
    assert [round(entry["gb"], 1) for entry in found] == [120.0, 31.4, 16.6, 1.9]
    assert [entry["label"] for entry in found] == ["stage 0", "stage 1", "stage 2", "stage 3"]


def test_hardware_flops_come_with_checkpointing(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["mfu", "--parameters", "1B", "--tokens-per-second", "1000", "--peak-tflops", "20", "--checkpointing"]
    found = answer(capsys, *words)["calculations"]
    used = {entry["label"]: entry["result"] for entry in found if entry["formula"] == "model_flops_utilization"}
    assert used == {"from hardware FLOPs: HFU": pytest.approx(0.4), None: pytest.approx(0.3)}


def test_flops_give_the_time_at_40_and_60_per_cent(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["flops", "--parameters", "1B", "--tokens", "1B", "--peak-tflops", "1000"]
    found = [entry["result"] for entry in answer(capsys, *words)["calculations"] if entry["formula"] == "step_seconds"]
    assert found == [pytest.approx(15000), pytest.approx(10000)]


def test_the_gpu_gives_the_dense_peak(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["mfu", "--parameters", "1B", "--tokens-per-second", "52000", "--gpu", "A100-80GB"]
    assert result(capsys, *words) == pytest.approx(52000 * 6e9 / 312e12)


# Models


@pytest.mark.usefixtures("llama")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("weights", 16_060_522_496),
        ("kv-cache --sequence-length 131072", 16 * 2**30),
        ("activations --sequence-length 4096", pytest.approx(1 / 3)),
        ("lora --rank 8 --target q_proj --target v_proj", 16_060_522_496 + 16 * 3_407_872),
        ("lora --rank 8", 16_060_522_496 + 16 * 3_407_872),
        ("flops --sequence-length 2048", 6 * 8_030_261_248 + 12 * 32 * 4096 * 2048),
        ("flops --sequence-length 2048 --causal", 6 * 8_030_261_248 + 6 * 32 * 4096 * 2048),
    ],
)
def test_dimensions_come_from_the_model(capsys: pytest.CaptureFixture[str], words: str, expected: Any) -> None:
    assert result(capsys, *words.split(), "--model", "meta-llama/Llama-3.1-8B") == expected


@pytest.mark.usefixtures("llama")
def test_a_target_that_is_no_linear_layer_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("lora", "--model", "x/y", "--target", "query_key_value") == 2
    assert "--target query_key_value is no linear layer" in capsys.readouterr().err


def test_sliding_layers_hold_their_window(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    layers = tuple(
        replace(layer, mixer="sliding_attention", window=1024) if layer.index % 2 else layer for layer in LAYERS
    )
    monkeypatch.setattr(calc, "load_model", lambda name: (replace(LLAMA, layers=layers), "catalogue"))
    found = answer(capsys, "kv-cache", "--model", "x/y", "--sequence-length", "4096")["calculations"]
    totals = [entry["result"] for entry in found if "per token" not in (entry["label"] or "")]
    assert totals == [4096 * 65_536, 1024 * 65_536]


def test_latent_attention_is_taken_from_the_model(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    layers = tuple(Layer(index, "mla", "dense") for index in range(61))
    model = replace(LLAMA, layers=layers, mla=Mla(512, 1536, 64, 128, 128))
    monkeypatch.setattr(calc, "load_model", lambda name: (model, "catalogue"))
    assert result(capsys, "kv-cache", "--model", "x/y", "--sequence-length", "1") == 70_272


# Errors


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("weights", "--parameters is needed"),
        ("weights --parameters 0", "parameters is 0, must be above 0"),
        ("weights --parameters 1B --dtype fp12", "dtype 'fp12' is not one of"),
        ("lora --parameters 1B", "--adapter-parameters, --matrix or --model is needed"),
        ("perplexity", "one of --loss and --perplexity is needed"),
        ("perplexity --loss 1 --perplexity 2", "one of --loss and --perplexity is needed"),
        ("perplexity --loss nan", "loss is nan"),
        ("batch --world-size 8 --tensor-parallel-size 3", "world_size 8 is not a multiple of 3"),
        ("batch --world-size 8 --data-parallel-size 4", "contradicts --world-size"),
        ("mfu --parameters 1B --tokens-per-second 1", "--gpu or --peak-tflops is needed"),
        ("zero --parameters 1B --data-parallel-size 8 --stage 7", "stage is 7"),
        ("steps --dataset-tokens 1B --batch-tokens 100 --epochs 0", "--epochs is 0"),
        ("weights --model missing.json", "missing.json"),
        ("weights --parameters " + "9" * 400, "beyond a 64-bit float"),
    ],
)
def test_missing_and_impossible_inputs_exit_2(capsys: pytest.CaptureFixture[str], words: str, message: str) -> None:
    assert call(*words.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


@pytest.mark.parametrize(
    "words",
    [
        "weights --parameters many",
        "weights --parameters 1.5",
        "weights --parameters 1e400",
        "kv-cache --sequence-length 4k",
        "training --parameters 1B --activations 12furlongs",
        "lora --parameters 1B --matrix 4096",
        "roots --of 2",
    ],
)
def test_unreadable_flags_are_usage_errors(capsys: pytest.CaptureFixture[str], words: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        call(*words.split())
    assert stopped.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[]", "{", "3", '{"model_type": 3}', "[" * 100_000], ids=range(5))
def test_a_broken_config_is_an_error_without_a_traceback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str
) -> None:
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    assert call("weights", "--model", str(tmp_path)) == 2
    assert capsys.readouterr().err.startswith("cfglint calc weights: ")


def test_every_subcommand_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    for subcommand in calc.SUBCOMMANDS:
        with pytest.raises(SystemExit) as stopped:
            call(subcommand.name, "--help")
        assert stopped.value.code == 0
        assert subcommand.help in capsys.readouterr().out
