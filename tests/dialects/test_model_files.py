"""Files of a checkpoint: config.json, generation_config.json, adapter_config.json, quantization configs."""

from collections.abc import Callable

import pytest

from cfglint.jobs.facts import Reading

Read = Callable[..., Reading]


def test_a_model_config(read: Read) -> None:
    reading = read(
        """
        {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512,
         "num_hidden_layers": 4, "torch_dtype": "bfloat16",
         "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}
        """,
        "config.json",
    )
    assert (reading.dialect, reading.role, reading.kind) == ("hf-model-config", "model", "both")
    assert reading.context["native_dtype"] == "bf16"
    fact = reading.facts.fact("quantization")
    assert fact is not None and (fact.value, fact.describe()) == ("gptq-int4", "config.json:3")


def test_a_model_config_that_nests_its_text_part(read: Read) -> None:
    reading = read(
        '{"model_type": "gemma3", "architectures": ["G"], "text_config": {"model_type": "gemma3_text", "dtype": "float16"}}',
        "config.json",
    )
    assert reading.dialect == "hf-model-config"
    assert reading.context["native_dtype"] == "fp16"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ('{"quant_method": "awq", "bits": 4, "group_size": 128}', "awq-int4"),
        ('{"quant_method": "fp8", "weight_block_size": [128, 128]}', "fp8"),
        ('{"quant_method": "mxfp4"}', "mxfp4"),
        ('{"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4"}', "nf4"),
        ('{"load_in_4bit": true, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": true}', "nf4-double"),
        ('{"quant_method": "bitsandbytes", "load_in_8bit": true}', "int8"),
        (
            '{"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}}',
            "fp8",
        ),
        (
            '{"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}}}',
            "gptq-int4",
        ),
        ('{"quant_method": "modelopt", "quant_algo": "NVFP4"}', "nvfp4"),
        ('{"quant_method": "something_new"}', None),
        ('{"quant_method": [], "bits": {}}', None),
        ("[]", None),
    ],
)
def test_quantization_of_a_checkpoint(read: Read, settings: str, expected: str | None) -> None:
    text = '{"architectures": ["A"], "model_type": "llama", "quantization_config": ' + settings + "}"
    assert read(text, "config.json").facts.value("quantization") == expected


def test_quantization_files(read: Read) -> None:
    gptq = read('{"bits": 4, "group_size": 128, "desc_act": false, "sym": true}', "quantize_config.json")
    assert (gptq.dialect, gptq.facts.value("quantization")) == ("hf-quant-config", "gptq-int4")
    awq = read('{"zero_point": true, "q_group_size": 128, "w_bit": 4, "version": "GEMM"}', "quant_config.json")
    assert (awq.dialect, awq.facts.value("quantization")) == ("hf-quant-config", "awq-int4")
    modelopt = read(
        '{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": null}}',
        "hf_quant_config.json",
    )
    assert (modelopt.dialect, modelopt.facts.value("quantization")) == ("hf-quant-config", "fp8")
    fact = modelopt.facts.fact("quantization")
    assert fact is not None and fact.describe() == "hf_quant_config.json:1"


def test_an_adapter(read: Read) -> None:
    reading = read(
        """
        {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "org/m",
         "r": 16, "lora_alpha": 32, "target_modules": ["q_proj"], "modules_to_save": null}
        """,
        "adapter_config.json",
    )
    assert (reading.dialect, reading.role) == ("peft-adapter", "model")
    assert reading.facts.value("lora_rank") == 16
    assert reading.facts.value("lora_targets") == ["q_proj"]
    assert reading.facts.value("model_id") == "org/m"
    assert [(r.role, r.target) for r in reading.references] == [("model", "org/m")]
    rank = reading.facts.fact("lora_rank")
    assert rank is not None and rank.describe() == "adapter_config.json:2"


def test_an_adapter_of_another_kind_states_no_lora_facts(read: Read) -> None:
    reading = read(
        '{"peft_type": "IA3", "task_type": "CAUSAL_LM", "target_modules": ["k_proj"]}', "adapter_config.json"
    )
    assert reading.context["peft_type"] == "IA3"
    assert not reading.facts.stated("lora_rank")
    assert not reading.facts.stated("method")


def test_a_generation_config(recognised: Callable[..., object]) -> None:
    text = '{"bos_token_id": 1, "eos_token_id": [2, 3], "do_sample": true, "temperature": 0.6, "transformers_version": "4.44"}'
    assert recognised(text, "generation_config.json") == "hf-generation-config"
    assert recognised('{"temperature": 0.6, "top_p": 0.9, "model": "gpt"}', "request.json") is None


def test_what_is_not_a_checkpoints_file(recognised: Callable[..., object]) -> None:
    tokenizer = (
        '{"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "model_max_length": 4096, "add_bos_token": true}'
    )
    assert recognised(tokenizer, "tokenizer_config.json") is None
    assert recognised('{"bits": 8, "name": "image", "group_size": 3}', "x.json") is None
    assert recognised('{"model_type": "sedan", "dim": 3}', "car.json") is None
