"""PFT016."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.fixes import replace_value, value_text
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Route

_SHORT: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "half16": "float16"}
_KEYS: Final = ("bnb_4bit_compute_dtype", "bnb_4bit_quant_storage")
PLACES: Final[tuple[Route, ...]] = (
    ("bnb_config_kwargs",),
    ("quantization_config",),
    ("model_init_kwargs", "quantization_config"),
)


class BitsandbytesDtype(Rule):
    """A dtype of bitsandbytes is written in Accelerate's short form (bf16) where torch's name is looked up.

    ``BitsAndBytesConfig`` calls ``getattr(torch, "bf16")``: "module 'torch' has no attribute 'bf16'". For the storage it
    allows torch's names alone.

    How sure: read in transformers 4.44 to 5.24. It is an error in mappings that go to ``BitsAndBytesConfig`` as they are, and a
    warning for a script's own argument of the name, which most scripts look up in torch in the same way.
    """

    code = "PFT016"
    name = "bitsandbytes-dtype"
    family = "peft"
    severity = "error"
    fixable = "safe"
    kinds = ("train", "serve")
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/utils/quantization_config.py",
    )
    catalogue = ("bnb.dtype-shorthand",)
    good = (
        example(
            "bnb.json",
            """
            {
              "load_in_4bit": true,
              "bnb_4bit_quant_type": "nf4",
              "bnb_4bit_compute_dtype": "bfloat16"
            }
            """,
        ),
    )
    bad = (
        example(
            "bnb.json",
            """
            {
              "load_in_4bit": true,
              "bnb_4bit_quant_type": "nf4",
              "bnb_4bit_compute_dtype": "bf16"
            }
            """,
            at="bnb_4bit_compute_dtype",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        own = reading.dialect == "hf-training-args"
        for place in ((),) if reading.dialect == "hf-quant-config" else (*PLACES, *(((),) if own else ())):
            for key in _KEYS:
                route: Route = (*place, key)
                short = reading.value(*route)
                if not isinstance(short, str) or short not in _SHORT:
                    continue
                text = value_text(reading.document.file.format, _SHORT[short])
                edit = replace_value(reading, route, text)
                yield self.finding(
                    f"{key}: torch has no dtype {short}",
                    reading.origin(*route),
                    help=f"write {_SHORT[short]}",
                    fixes=(Fix(f"write {_SHORT[short]}", (edit,)),) if edit else (),
                    severity="warning" if own and not place else "error",
                    confidence="medium" if own and not place else "high",
                )
