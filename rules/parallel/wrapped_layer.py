"""PAR005."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import texts
from cfglint.jobs.facts import Fact, Reading
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import guessed, trainer_readings

ROUTES = (
    ("fsdp_config", "fsdp_transformer_layer_cls_to_wrap"),
    ("fsdp_config", "transformer_layer_cls_to_wrap"),
    ("fsdp_transformer_layer_cls_to_wrap",),
)


@lru_cache(maxsize=1)
def layer_classes() -> dict[str, frozenset[str]]:
    """Model type to the layer and block classes of its modules (data file, with source and date)."""
    data = json.loads((Path(__file__).parent / "layer_classes.json").read_text("utf-8"))
    return {model_type: frozenset(names) for model_type, names in data["layers"].items()}


class WrappedLayerOfOtherModel(Rule):
    """FSDP is to wrap a layer class that the model does not have.

    `fsdp_transformer_layer_cls_to_wrap` names the class of the model's repeated layer. With a class of another family,
    left over from the config this one was copied from, Accelerate stops with "Could not find the transformer layer class
    LlamaDecoderLayer in the model".

    How sure: the check is in Accelerate's source; the classes of each family are read from transformers 4.45 to 5.24. Said
    only where the named class is known to belong to other families, or is one of the model's own in other capitals
    (``LLaMADecoderLayer``), the model's own family is known, and the model is no composition of several and brings no code
    of its own.
    """

    code = "PAR005"
    name = "wrapped-layer-of-other-model"
    family = "parallel"
    severity = "error"
    catalogue = ("par.fsdp-wrap-class",)
    evidence = (
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/dataclasses.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/docs/faq.qmd",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            fsdp: full_shard auto_wrap
            fsdp_config:
              transformer_layer_cls_to_wrap: Qwen2DecoderLayer
            """,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            fsdp: full_shard auto_wrap
            fsdp_config:
              transformer_layer_cls_to_wrap: OurPatchedBlock
            """,
            note="a class of the project's own",
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            fsdp: full_shard auto_wrap
            fsdp_config:
              transformer_layer_cls_to_wrap: LlamaDecoderLayer
            """,
            at="transformer_layer_cls_to_wrap",
            count=1,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            fsdp: full_shard auto_wrap
            fsdp_config:
              transformer_layer_cls_to_wrap: QWen2DecoderLayer
            """,
            at="transformer_layer_cls_to_wrap",
            count=1,
            note="the model's own class in other capitals: names are matched as they are written",
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        architecture = job.architecture
        if architecture is None or job.model is None or job.value("trust_remote_code") is True:
            return
        named = next(iter(self._named(job)), None)
        if named is None:
            return
        row = job.model.row
        config = row.config if row is not None else architecture.config
        if any(key in config for key in ("text_config", "vision_config", "auto_map", "llm_config", "audio_config")):
            return
        own = layer_classes().get(architecture.model_type)
        if not own:
            return
        reading, route, names = named
        everyone = frozenset().union(*layer_classes().values())
        spelled = {name.casefold(): name for name in own}
        strangers = [n for n in names if n not in own and (n in everyone or n.casefold() in spelled)]
        if not strangers:
            return
        usual = sorted((name for name in own if name.endswith("DecoderLayer")), key=len) or sorted(own, key=len)
        yield self.finding(
            f"{', '.join(strangers)} is no layer of {job.model.id} ({architecture.model_type}): Accelerate stops with a "
            "ValueError",
            (Fact(names, reading.origin(*route), not guessed(job, reading)), ""),
            (job.model_id, f"a {architecture.model_type} model"),
            help="; ".join(f"it is spelled {spelled[n.casefold()]}" for n in strangers if n.casefold() in spelled)
            or f"its layers are {' or '.join(usual[:3])}",
            job=job,
        )

    def _named(self, job: TrainingJob) -> Iterator[tuple[Reading, tuple[str, ...], list[str]]]:
        for reading in [*trainer_readings(job), *(r for r in job.readings if r.dialect == "accelerate")]:
            if reading.dialect == "accelerate" and reading.context.get("distributed_type") != "FSDP":
                continue
            for route in ROUTES:
                value = reading.value(*route)
                names = texts(reading.at(*route))
                if names and not is_unknown(value) and names != ["None"]:
                    yield reading, route, names
