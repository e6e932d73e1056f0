"""The core formulas: known figures, their limits, and that each says where it comes from."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfglint import formulas, precision
from cfglint.formulas import GB, GIB

LLAMA_3_1_8B = 8_030_261_248

VALID: dict[str, dict[str, float]] = {
    "weight_bytes": {"parameters": 1000, "bytes_per_parameter": 2},
    "training_bytes": {"parameters": 1000},
    "optimizer_bytes": {"parameters": 1000},
    "master_weight_bytes": {"parameters": 1000},
    "lora_adapter_parameters": {"rank": 8, "in_features": 64, "out_features": 32},
    "lora_training_bytes": {"parameters": 1000, "adapter_parameters": 10},
    "zero_bytes": {"parameters": 1000, "stage": 1, "data_parallel_size": 4},
    "activation_bytes": {"batch": 1, "sequence_length": 128, "hidden_size": 64, "layers": 2},
    "checkpointing_extra_flops": {"recomputed": 0.5},
    "kv_cache_bytes": {"sequence_length": 128, "layers": 2, "kv_heads": 2, "head_dim": 16},
    "mla_kv_cache_bytes": {"sequence_length": 128, "layers": 2, "kv_lora_rank": 64, "qk_rope_head_dim": 16},
    "data_parallel_size": {"world_size": 8},
    "effective_batch_sequences": {"micro_batch_size": 2},
    "effective_batch_tokens": {"micro_batch_size": 2, "sequence_length": 128},
    "steps_per_epoch": {"dataset_tokens": 1000, "batch_tokens": 10},
    "pipeline_bubble_fraction": {"pipeline_parallel_size": 4, "micro_batches": 8},
    "forward_flops_per_token": {"parameters": 1000},
    "attention_forward_flops_per_token": {"layers": 2, "attention_width": 64, "sequence_length": 128},
    "training_flops_per_token": {"parameters": 1000},
    "hardware_flops_per_token": {"parameters": 1000},
    "achieved_flops_per_second": {"tokens_per_second": 100.0, "flops_per_token": 6000},
    "model_flops_utilization": {"actual_flops_per_second": 40.0, "peak_flops_per_second": 100.0},
    "step_seconds": {"flops_per_step": 1000, "peak_flops_per_second": 100.0, "mfu": 0.5},
    "perplexity": {"loss": 2.0},
    "loss_from_perplexity": {"perplexity": 20.0},
    "bits_per_byte": {"loss": 2.0, "tokens": 100, "text_bytes": 400},
}
FALLS_WITH = {
    ("zero_bytes", "stage"),
    ("zero_bytes", "data_parallel_size"),
    ("steps_per_epoch", "batch_tokens"),
    ("steps_per_epoch", "drop_last"),
    ("pipeline_bubble_fraction", "micro_batches"),
    ("model_flops_utilization", "peak_flops_per_second"),
    ("step_seconds", "peak_flops_per_second"),
    ("step_seconds", "mfu"),
    ("bits_per_byte", "text_bytes"),
    ("master_weight_bytes", "weight_size"),
    ("attention_forward_flops_per_token", "causal"),
}
"""Everything else rises, or stays, with each of its arguments."""
BOUNDED = {"stage": 3, "recomputed": 1.0, "mfu": 1.0, "drop_last": 1, "causal": 1}


# Known figures


def test_llama_3_1_8b_weights_are_14_96_gib_in_bf16() -> None:
    size = formulas.weight_bytes(LLAMA_3_1_8B, 2)
    assert size == 16_060_522_496
    assert round(size / GIB, 2) == 14.96
    assert round(size / GB, 2) == 16.06


def test_full_training_takes_16_bytes_per_parameter_in_bf16_and_in_fp32() -> None:
    assert formulas.training_bytes(10**9) == 16 * 10**9
    assert formulas.training_bytes(10**9, weight_size=4, master_size=0, gradient_size=4) == 16 * 10**9
    assert formulas.training_bytes(10**9, activations=3, overhead=4) == 16 * 10**9 + 7


def test_optimizer_and_master_copy() -> None:
    assert formulas.optimizer_bytes(10**9) == 8 * 10**9
    assert formulas.master_weight_bytes(10**9, 2) == 4 * 10**9
    assert formulas.master_weight_bytes(10**9, 4) == 0


def test_lora_adapter_of_a_square_projection() -> None:
    assert formulas.lora_adapter_parameters(16, 4096, 4096) == 131_072
    assert formulas.lora_parameters(16, [(4096, 4096), (4096, 1024)]) == 131_072 + 81_920


def test_lora_rank_8_on_q_and_v_of_llama_3_1_8b_is_the_3407872_that_peft_prints() -> None:
    assert formulas.lora_parameters(8, [(4096, 4096), (4096, 1024)] * 32) == 3_407_872


def test_lora_gradients_and_optimizer_are_of_the_adapters_only() -> None:
    assert formulas.lora_training_bytes(10**9, 10**7) == 2 * 10**9 + 16 * 10**7
    qlora = formulas.lora_training_bytes(10**9, 10**7, weight_size=0.5625)
    assert qlora == 562_500_000 + 16 * 10**7


@pytest.mark.parametrize(("stage", "gb"), [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_gives_the_figures_of_the_paper(stage: int, gb: float) -> None:
    """ZeRO, figure 1: a 7.5 B model on 64 ranks."""
    assert round(formulas.zero_bytes(7_500_000_000, stage, 64) / 1e9, 1) == pytest.approx(gb)


def test_zero_shards_are_rounded_up() -> None:
    assert formulas.zero_bytes(10, 3, 4) == 3 * 16


def test_kv_cache_of_llama_3_1_8b_is_131072_bytes_per_token() -> None:
    assert formulas.kv_cache_bytes(1, 32, 8, 128) == 131_072
    assert formulas.kv_cache_bytes(131_072, 32, 8, 128) == 16 * GIB
    assert formulas.kv_cache_bytes(1, 32, 8, 128, bytes_per_element=1) == 65_536


def test_mla_kv_cache_of_deepseek_v3_is_70272_bytes_per_token() -> None:
    assert formulas.mla_kv_cache_bytes(1, 61, 512, 64) == 70_272


def test_activations_lower_bound() -> None:
    assert formulas.activation_bytes(1, 4096, 4096, 32) == GIB


def test_checkpointing_costs_a_third_in_flops_and_20_to_30_per_cent_in_time() -> None:
    assert formulas.checkpointing_extra_flops() == pytest.approx(1 / 3)
    assert formulas.CHECKPOINTING_EXTRA_TIME == (0.20, 0.30)
    assert formulas.hardware_flops_per_token(10**9) == 8 * 10**9
    assert formulas.training_flops_per_token(10**9) == 6 * 10**9
    extra = formulas.hardware_flops_per_token(10**9, 10**6) / formulas.training_flops_per_token(10**9, 10**6) - 1
    assert extra == pytest.approx(formulas.checkpointing_extra_flops())


def test_training_flops_are_6n_and_12lhs() -> None:
    attention = formulas.attention_forward_flops_per_token(32, 4096, 2048)
    assert 3 * attention == 12 * 32 * 4096 * 2048
    assert formulas.training_flops_per_token(7 * 10**9, attention) == 6 * 7 * 10**9 + 12 * 32 * 4096 * 2048
    assert 2 * formulas.attention_forward_flops_per_token(32, 4096, 2048, causal=True) == attention
    assert formulas.training_flops_per_token(1000, trained_parameters=10) == 4020


def test_palm_540b_reaches_the_published_46_2_per_cent() -> None:
    """PaLM, table 3 and appendix B: 238.3 K tokens/s on 6144 TPU v4 of 275 TFLOPS; 118 layers, 48 heads of 256."""
    attention = formulas.attention_forward_flops_per_token(118, 48 * 256, 2048)
    per_token = formulas.training_flops_per_token(540_350_000_000, attention)
    reached = formulas.achieved_flops_per_second(238_300, per_token)
    assert formulas.model_flops_utilization(reached, 6144 * 275e12) == pytest.approx(0.462, abs=0.002)


def test_step_seconds_is_the_inverse_of_mfu() -> None:
    assert formulas.step_seconds(4e15, 1e16, 0.4) == pytest.approx(1.0)
    assert formulas.model_flops_utilization(4e15 / 1.0, 1e16) == pytest.approx(0.4)


def test_effective_batch_and_steps() -> None:
    ranks = formulas.data_parallel_size(64, 4, 2, 2)
    assert ranks == 4
    assert formulas.effective_batch_sequences(2, 8, ranks) == 64
    assert formulas.effective_batch_tokens(2, 4096, 8, 8) == 524_288
    assert formulas.steps_per_epoch(1_000_001, 1000) == 1001
    assert formulas.steps_per_epoch(1_000_001, 1000, drop_last=True) == 1000
    assert formulas.steps_per_epoch(1_000_000, 1000) == formulas.steps_per_epoch(1_000_000, 1000, drop_last=True)


def test_data_parallel_size_must_divide() -> None:
    with pytest.raises(ValueError, match="world_size 8 is not a multiple of 3"):
        formulas.data_parallel_size(8, 3)


def test_pipeline_bubble() -> None:
    assert formulas.pipeline_bubble_fraction(4, 4) == pytest.approx(3 / 7)
    assert formulas.pipeline_bubble_fraction(1, 4) == 0


def test_perplexity() -> None:
    assert formulas.perplexity(0) == 1
    assert formulas.perplexity(math.log(20)) == pytest.approx(20)
    assert formulas.bits_per_byte(math.log(2), 100, 400) == pytest.approx(0.25)


@given(st.floats(0, 700))
def test_perplexity_and_loss_are_inverse(loss: float) -> None:
    assert formulas.loss_from_perplexity(formulas.perplexity(loss)) == pytest.approx(loss, abs=1e-9)


# Nonsense


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, 10**400])
@pytest.mark.parametrize("formula", formulas.all_formulas(), ids=lambda formula: formula.name)
def test_every_number_of_every_formula_is_validated_by_name(formula: formulas.Formula, value: float) -> None:
    for variable in formula.variables:
        if variable.unit == "bool":
            continue
        with pytest.raises(ValueError, match=rf"\b{variable.name}\b"):
            formula.function(**{**VALID[formula.name], variable.name: value})


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (formulas.weight_bytes, {"parameters": 0}, "parameters is 0, must be above 0"),
        (
            formulas.zero_bytes,
            {"parameters": 1, "stage": 4, "data_parallel_size": 2},
            "stage is 4, must be 0, 1, 2 or 3",
        ),
        (formulas.step_seconds, {"flops_per_step": 1, "peak_flops_per_second": 1, "mfu": 40}, "mfu is 40"),
        (formulas.loss_from_perplexity, {"perplexity": 0.5}, "perplexity is 0.5, must be 1 or more"),
        (formulas.perplexity, {"loss": 1000}, "loss is 1000"),
        (formulas.checkpointing_extra_flops, {"recomputed": 2}, "recomputed is 2"),
    ],
)
def test_impossible_values_are_said(function: Callable[..., float], arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(**arguments)


# Properties


@given(st.data())
def test_every_formula_is_monotone_in_each_argument(data: st.DataObject) -> None:
    formula = data.draw(st.sampled_from(formulas.all_formulas()))
    variable = data.draw(st.sampled_from(formula.variables))
    name = variable.name
    start = VALID[formula.name].get(name, 0 if variable.default is None else variable.default)
    most = BOUNDED.get(name)
    if most is not None:
        low, high = sorted(data.draw(st.tuples(*[st.integers(0, int(most))] * 2)))
        if name == "mfu":
            low, high = 0.4, 0.6
        if variable.unit == "bool":
            low, high = bool(low), bool(high)
    elif formula.name == "data_parallel_size":
        low, high = (8, 16) if name == "world_size" else (1, 2)
    else:
        low = max(start, 1)
        high = low + data.draw(st.integers(0, 100))
    first = formula.function(**{**VALID[formula.name], name: low})
    second = formula.function(**{**VALID[formula.name], name: high})
    falls = (formula.name, name) in FALLS_WITH or (formula.name == "data_parallel_size" and name != "world_size")
    assert (first >= second) if falls else (first <= second)


@given(st.integers(1, 10**12), st.integers(0, 3), st.integers(1, 4096))
def test_zero_on_one_rank_is_full_training(parameters: int, stage: int, ranks: int) -> None:
    assert formulas.zero_bytes(parameters, stage, 1) == formulas.training_bytes(parameters)
    assert formulas.zero_bytes(parameters, stage, ranks) * ranks >= formulas.training_bytes(parameters)


@given(st.integers(1, 10**15), st.integers(1, 10**9))
def test_steps_cover_the_data(tokens: int, batch: int) -> None:
    assert formulas.steps_per_epoch(tokens, batch) * batch >= tokens
    assert formulas.steps_per_epoch(tokens, batch, drop_last=True) * batch <= tokens


# The registry


def test_every_public_formula_has_a_whole_record() -> None:
    for formula in formulas.all_formulas():
        assert formula.expression.startswith(f"{formula.name} = "), formula.name
        assert formula.title and formula.result and formula.unit and formula.source and formula.caveat, formula.name
        for variable in formula.variables:
            assert variable.meaning and variable.unit, f"{formula.name}: {variable.name}"
            if variable.unit != "bool" or formula.name in ("steps_per_epoch", "attention_forward_flops_per_token"):
                optional = formula.name in ("checkpointing_extra_flops",)
                assert variable.name in formula.expression or optional, f"{formula.name}: {variable.name}"
    assert set(VALID) == {formula.name for formula in formulas.all_formulas()}


def test_working_puts_numbers_in_and_decides_conditions() -> None:
    zero = formulas.describe(formulas.zero_bytes)
    assert (
        zero.working(
            parameters=1000,
            stage=2,
            data_parallel_size=8,
            weight_size=2,
            master_size=4,
            gradient_size=2,
            optimizer_size=8,
        )
        == "1,000 × (2 ÷ 1 + 2 ÷ 8 + (4 + 8) ÷ 8)"
    )
    steps = formulas.describe(formulas.steps_per_epoch)
    assert steps.working(dataset_tokens=10, batch_tokens=3, drop_last=True) == "floor(10 ÷ 3)"
    assert steps.working(dataset_tokens=10, batch_tokens=3, drop_last=False) == "ceil(10 ÷ 3)"
    master = formulas.describe(formulas.master_weight_bytes)
    assert master.working(parameters=10, weight_size=4) == "10 × 0"


# Precision


def bits_to_float(code: str, bits: int) -> float:
    return float(struct.unpack(code, bits.to_bytes(struct.calcsize(code), "little"))[0])


def test_precision_limits() -> None:
    table = {entry.name: entry for entry in precision.PRECISIONS}
    assert table["FP32"].maximum == bits_to_float("<f", 0x7F7FFFFF)
    assert table["FP32"].smallest_normal == bits_to_float("<f", 0x00800000)
    assert table["BF16"].maximum == bits_to_float("<f", 0x7F7F0000) == pytest.approx(3.3895e38, rel=1e-4)
    assert table["TF32"].maximum == bits_to_float("<f", 0x7F7FE000)
    assert table["FP16"].maximum == bits_to_float("<e", 0x7BFF) == 65504
    assert table["FP16"].smallest_normal == bits_to_float("<e", 0x0400)
    assert table["FP8 E4M3"].maximum == 448
    assert table["FP8 E5M2"].maximum == bits_to_float("<e", 0x7B00) == 57344
    assert table["INT8"].maximum == 127
    assert table["INT4"].maximum == 7
    assert table["FP4 E2M1"].maximum == table["MXFP4"].maximum == table["NVFP4"].maximum == 6


def test_precision_bits_add_up() -> None:
    for entry in precision.PRECISIONS:
        assert 1 + (entry.exponent_bits or 0) + entry.mantissa_bits == entry.bits, entry.name
        assert all(key in precision.SOURCES for key in entry.sources)
    assert all(entry.source in precision.SOURCES for entry in precision.STORAGE_FORMATS)


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("float32", 32),
        ("torch.bfloat16", 16),
        ("fp8_e4m3", 8),
        ("nf4", 4.5),
        ("mxfp4", 4.25),
        ("NVFP4", 4.5),
        ("int4", 4),
    ],
)
def test_bits_per_parameter(name: str, bits: float) -> None:
    assert precision.storage_format(name).bits_per_parameter == bits


def test_double_quantization_takes_the_0_127_bits_of_the_qlora_paper() -> None:
    double = precision.storage_format("nf4-double")
    assert double.bits_per_parameter == pytest.approx(4.127, abs=5e-4)
    assert double.size(4096 * 4096) == 4096 * 4096 // 2 + 4096 * 4096 // 64 + 4096 * 4096 // 64 // 256 * 4


def test_a_block_that_is_not_full_has_a_whole_scale() -> None:
    assert precision.storage_format("nf4").size(65) == 33 + 2 * 4
    assert precision.storage_format("mxfp4").size(1) == 1 + 1
    assert precision.storage_format("nf4").size(0) == 0
    with pytest.raises(ValueError, match="elements"):
        precision.storage_format("nf4").size(-1)


def test_an_unknown_dtype_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"dtype 'fp12' is not one of fp32, .*nvfp4"):
        precision.bytes_per_parameter("fp12")
