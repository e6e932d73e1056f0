"""MDL011."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import dtype
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example


class DtypeTwice(Rule):
    """`dtype` and `torch_dtype` of one model config differ: which one counts depends on the reader.

    transformers from 4.56 on takes `dtype`, older releases and several engines know `torch_dtype` alone. The weights are then
    loaded in one type by one program and in another by the next.

    How sure: both are in the file; the order is read in transformers 5.24 (configuration_utils.py). `torch_dtype` alone is
    fine everywhere.
    """

    code = "MDL011"
    name = "dtype-twice"
    family = "model"
    severity = "warning"
    kinds = ("train", "serve")
    catalogue = ("dtype-config-legacy-key",)
    evidence = ("https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/configuration_utils.py",)
    good = (
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 16,
             "num_attention_heads": 32, "vocab_size": 32000, "torch_dtype": "bfloat16"}
            """,
        ),
    )
    bad = (
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 16,
             "num_attention_heads": 32, "vocab_size": 32000, "dtype": "bfloat16", "torch_dtype": "float16"}
            """,
            at="torch_dtype",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "hf-model-config":
            return
        newer, older = dtype(reading.value("dtype")), dtype(reading.value("torch_dtype"))
        if newer is None or older is None or newer == older:
            return
        yield self.finding(
            f"dtype is {newer} and torch_dtype {older}: transformers from 4.56 on takes the first, older readers the second",
            reading.origin("torch_dtype"),
            (reading.origin("dtype"), "newer readers take this one"),
            help="give both the same value, or keep torch_dtype alone",
        )
