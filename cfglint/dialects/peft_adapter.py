"""A PEFT adapter's ``adapter_config.json``: rank, targets, and the model it belongs to.

Names and defaults: peft/tuners/lora/config.py, 0.3 to 0.21.
"""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.base import Dialect, Recognition
from cfglint.dialects.values import FactReader, because, evidence, text
from cfglint.jobs.facts import Reading
from cfglint.source.node import Document, Mapping, Route, Scalar

_TELLING = ("peft_type", "task_type", "base_model_name_or_path", "inference_mode", "target_modules", "auto_mapping")


def read_adapter(document: Document, root: Mapping, *, base: Route = (), why: str = "") -> Reading:
    reading = Reading("peft-adapter", document, root, role="model", kind="both", base=base, why=why, framework="peft")
    facts = FactReader(reading)
    kind = text(facts.value("peft_type"))
    reading.context["peft_type"] = kind.upper() if kind else None
    if facts.text("model_id", "base_model_name_or_path") is not None:
        facts.reference("model", "base_model_name_or_path", base="cwd")
    if reading.context["peft_type"] in ("LORA", "ADALORA"):
        facts.integer("lora_rank", "r", low=1)
        facts.number("lora_alpha", "lora_alpha", low=0)
        facts.number("lora_dropout", "lora_dropout", low=0)
        if not facts.given("r"):
            facts.default("lora_rank", 8, "peft")
        if not facts.given("lora_dropout"):
            facts.default("lora_dropout", 0.0, "peft")
        if not facts.given("lora_alpha"):
            facts.default("lora_alpha", 8.0, "peft")
        facts.state(
            "method",
            "dora" if facts.on("use_dora") else "lora",
            *(("use_dora",) if facts.on("use_dora") else ("peft_type",)),
        )
    facts.names("lora_targets", "target_modules")
    facts.names("lora_modules_to_save", "modules_to_save")
    return reading


class PeftAdapter(Dialect):
    name = "peft-adapter"
    title = "PEFT adapter_config.json"
    kind = "both"
    summary = "A PEFT adapter's adapter_config.json: type, rank, targets, base model"
    schema = "peft-adapter"
    markers = frozenset({
        "peft_type", "task_type", "base_model_name_or_path", "inference_mode", "lora_alpha", "lora_dropout",
        "target_modules", "modules_to_save", "fan_in_fan_out", "init_lora_weights", "layers_to_transform",
    })  # fmt: skip

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        kind = root.get("peft_type")
        if not (isinstance(kind, Scalar) and isinstance(kind.value, str)):
            return None
        found = evidence(root, _TELLING)
        named = document.path.rpartition("/")[2] == "adapter_config.json"
        return Recognition(92, because(found)) if len(found) >= 2 or named else None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield read_adapter(document, root)


DIALECT = PeftAdapter()
