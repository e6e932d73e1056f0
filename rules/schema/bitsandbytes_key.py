"""SCH012."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.schema import load_schema
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix, route_text
from cfglint.lint.fixes import rename_key
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Route

from ..peft.bitsandbytes_dtype import PLACES

_SAVED: Final = frozenset({"_load_in_4bit", "_load_in_8bit", "quant_method", "modules_to_not_convert", "quant_type"})
"""Keys that ``BitsAndBytesConfig.to_dict`` writes besides its arguments, and Accelerate's name for skipped modules."""


class BitsandbytesKey(Rule):
    """A key that BitsAndBytesConfig does not have: it is dropped, and the default is in force.

    Unknown arguments are logged at level INFO, which nobody sees. With ``bnb_4bit_compute_type`` for
    ``bnb_4bit_compute_dtype`` the matrix products run in float32, and without a right ``bnb_4bit_quant_storage`` the
    weights are stored as uint8, which FSDP cannot shard.

    How sure: the arguments have been the same in every release since 4-bit came. Mappings of another quantization method are
    left alone.
    """

    code = "SCH012"
    name = "bitsandbytes-key"
    family = "schema"
    severity = "warning"
    fixable = "unsafe"
    kinds = ("train", "serve")
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/utils/quantization_config.py",
    )
    catalogue = ("bnb.unknown-kwarg-ignored",)
    good = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 4096
            micro_batch_size: 2
            adapter: qlora
            load_in_4bit: true
            bnb_config_kwargs:
              bnb_4bit_use_double_quant: false
              llm_int8_skip_modules: [lm_head]
            """,
        ),
        example(
            "quantize_config.json",
            """
            {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": false, "damp_percent": 0.1}
            """,
            note="another method's keys",
        ),
    )
    bad = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 4096
            micro_batch_size: 2
            adapter: qlora
            load_in_4bit: true
            bnb_config_kwargs:
              bnb_4bit_compute_type: bfloat16
            """,
            at="bnb_4bit_compute_type",
            count=1,
        ),
        example(
            "bnb.json",
            """
            {
              "load_in_4bit": true,
              "bnb_4bit_quant_type": "nf4",
              "bnb_4bit_compute_dtype": "bfloat16",
              "bnb_4bit_double_quant": true
            }
            """,
            at="bnb_4bit_double_quant",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        places: tuple[Route, ...] = ((),) if reading.dialect == "hf-quant-config" else PLACES
        for place in places:
            mapping = reading.at(*place)
            if isinstance(mapping, Mapping) and _is_bitsandbytes(mapping, place):
                yield from self._check(reading, place, mapping)

    def _check(self, reading: Reading, place: Route, mapping: Mapping) -> Iterator[Finding]:
        schema = load_schema("hf-quant-config", "BitsAndBytesConfig")
        for name in mapping.index:
            if name in schema.keys or name in _SAVED or name.startswith("_"):
                continue
            meant = _meant(name, list(schema.keys))
            edit = rename_key(reading, (*place, name), meant) if meant else None
            yield self.finding(
                f"BitsAndBytesConfig has no {route_text((*place, name))}: it is dropped and the default is in force",
                reading.origin(*place, name),
                help=f"is {meant} meant?" if meant else "remove it",
                fixes=(Fix(f"rename to {meant}", (edit,), safe=False),) if edit else (),
            )


def _is_bitsandbytes(mapping: Mapping, place: Route) -> bool:
    method = mapping.get("quant_method")
    if method is not None:
        return getattr(method, "value", None) == "bitsandbytes"
    own = [name for name in mapping.index if name.startswith(("bnb_", "llm_int8_", "load_in_"))]
    return bool(own) and (place == ("bnb_config_kwargs",) or len(own) * 2 >= len(mapping.index))


def _meant(name: str, known: list[str]) -> str | None:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1, cutoff=0.75)
    return near[0] if near else None
