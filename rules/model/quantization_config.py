"""MDL010."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean, scalar
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

WIDTH_KEYS = {"gptq": ("bits",), "awq": ("bits", "w_bit")}
"""Methods whose readers ask for the number of bits, with the names it goes by."""


class QuantizationConfig(Rule):
    """A checkpoint's `quantization_config` does not say what loaders need: the method, or the number of bits.

    transformers stops with "The model's quantization config from the arguments has no `quant_method` attribute"; vLLM takes
    the checkpoint for an unquantized one, or fails at the first packed weight. GPTQ and AWQ need their number of bits.

    How sure: transformers' quantizers/auto.py (5.24) and vLLM's readers (0.33). The old `load_in_4bit` and `load_in_8bit`
    of bitsandbytes stand for the method.
    """

    code = "MDL010"
    name = "quantization-config"
    family = "model"
    severity = "error"
    kinds = ("train", "serve")
    catalogue = ("quant-config-missing-method",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/quantizers/auto.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/model.py",
    )
    good = (
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 16,
             "num_attention_heads": 32, "vocab_size": 32000,
             "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}
            """,
        ),
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 16,
             "num_attention_heads": 32, "vocab_size": 32000, "quantization_config": {"load_in_4bit": true}}
            """,
            note="bitsandbytes of before quant_method",
        ),
    )
    bad = (
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 16,
             "num_attention_heads": 32, "vocab_size": 32000, "quantization_config": {"bits": 4, "group_size": 128}}
            """,
            at="quantization_config",
            count=1,
        ),
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 16,
             "num_attention_heads": 32, "vocab_size": 32000, "quantization_config": {"quant_method": "gptq"}}
            """,
            at="quant_method",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        block = reading.at("quantization_config")
        if reading.dialect != "hf-model-config" or not isinstance(block, Mapping) or not block.index:
            return
        if any(boolean(scalar(block.get(key))) for key in ("load_in_4bit", "load_in_8bit", "_load_in_4bit")):
            return
        if any(key in block for key in ("quant_algo", "producer", "config_groups", "quantization")):
            return  # ModelOpt and compressed-tensors say the method by their own keys
        stated = scalar(block.get("quant_method"))
        method = None if stated is None else str(stated)
        if method is None:
            yield self.finding(
                "quantization_config has no quant_method: transformers stops with a ValueError",
                reading.origin("quantization_config"),
                help="name the method the checkpoint was quantized with (gptq, awq, fp8, compressed-tensors …)",
            )
            return
        wanted = WIDTH_KEYS.get(method.lower())
        if wanted is not None and not any(key in block for key in wanted):
            yield self.finding(
                f"quantization_config of {method} has no {wanted[0]}",
                reading.origin("quantization_config", "quant_method"),
                help=f"add {wanted[0]}: 4, or what the checkpoint has",
            )
