"""Which key table a reading goes by, and what a key's life means for the release that the files state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from cfglint.dialects.schema import KeyInfo, Schema, UnknownKey, load_schema
from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_at_least, always_below, exact
from cfglint.lint.context import Context
from cfglint.source.node import Mapping, Node, Route, Sequence

TABLES: Final = (
    "axolotl", "llamafactory", "trl", "hf-training-args", "accelerate", "deepspeed", "peft-adapter", "cfglint-job",
)  # fmt: skip
"""Training-side dialects whose files are held against a key table."""

Standing = Literal["ok", "removed", "deprecated", "not-yet", "unknown"]

LLAMAFACTORY_TRANSFORMERS: Final = "5.6"
"""Newest transformers that LLaMA-Factory 0.9.5 allows (its METADATA): what later releases remove is no fault there."""

SAME_MEANING: Final = frozenset({
    "evaluation_strategy", "per_gpu_train_batch_size", "per_gpu_eval_batch_size", "no_cuda", "push_to_hub_token",
    "xpu_backend", "warmup_ratio", "gradient_checkpointing", "gradient_checkpointing_kwargs",
    "max_seq_length", "torch_dtype", "use_liger", "max_target_length", "use_num_logits_to_keep",
    "use_transformers_paged", "vllm_importance_sampling_cap", "vllm_guided_decoding_regex", "forward_batch_size",
    "image_dir", "dpo_beta", "dpo_loss", "dpo_ftx", "orpo_beta", "noisy_embedding_alpha",
    "fsdp_activation_checkpointing", "fsdp_offload_params", "fsdp_sync_module_states", "fsdp_cpu_ram_efficient_loading",
    "fsdp_cpu_offload_pin_memory", "fsdp_use_orig_params", "fsdp_state_dict_type", "fsdp_final_state_dict_type",
    "fsdp_auto_wrap_policy", "fsdp_transformer_layer_cls_to_wrap", "fsdp_min_num_params", "fsdp_reshard_after_forward",
    "fsdp_mixed_precision_policy", "stage3_gather_fp16_weights_on_model_save",
})  # fmt: skip
"""Renamed keys whose value keeps its meaning under the new name."""


READ_FROM_ENVIRONMENT: Final = frozenset({("fp8_config", "use_mxfp8_block_scaling")})
"""Keys that no option of ``accelerate launch`` has: the launcher hands every key of the block on as an environment variable,
and the FP8 recipe reads it (accelerate/utils/launch.py and dataclasses.py, 1.15)."""

OWN_RULE: Final = frozenset({("deepspeed", ("amp",))})
"""Keys whose standing a rule of their own tells: DeepSpeed's ``amp`` is PRC012's."""


@dataclass(frozen=True)
class StatedKey:
    """A key of a file with its row in the table and its standing in the release the files state."""

    route: Route
    info: KeyInfo
    owner: Schema
    stated: str | None
    standing: Standing

    @property
    def name(self) -> str:
        return str(self.route[-1])

    @property
    def new_name(self) -> str | None:
        """The name to use instead."""
        if self.info.renamed_to == "gather_16bit_weights_on_model_save":
            return "stage3_gather_16bit_weights_on_model_save"  # the bare name is an alias few know
        return self.info.renamed_to

    @property
    def renamed(self) -> bool:
        """Whether the new name takes the value as it is."""
        inside_deepspeed = self.owner.name == "deepspeed"
        return (
            self.new_name is not None
            and self.name in SAME_MEANING
            and (self.name != "dpo_beta" or not inside_deepspeed)
        )


COMMANDS: Final = frozenset({"llamafactory", "hf-training-args"})
"""Dialects whose command lines are held against what the table says is gone: unknown flags may be the script's own."""


def table_of(reading: Reading, *, commands: bool = False) -> Schema | None:
    """The key table of a training file; None for other files, and for command lines unless ``commands`` asks for them."""
    if reading.dialect not in TABLES or not isinstance(reading.root, Mapping):
        return None
    if reading.context.get("command_line") and not (commands and reading.dialect in COMMANDS):
        return None
    if reading.dialect == "hf-training-args" and reading.role == "part":
        return None  # a file of FSDP settings alone
    if reading.context.get("script"):
        return None  # a well-known script with arguments of its own
    if reading.context.get("layout") == "v1":
        return load_schema("llamafactory", "v1")
    if reading.dialect == "trl":
        trainer = reading.context.get("trainer")
        whole = load_schema("trl")
        return load_schema("trl", trainer) if trainer in whole.commands else whole
    if reading.dialect == "peft-adapter" and reading.context.get("peft_type") != "LORA":
        return load_schema("peft-adapter")
    return (
        load_schema("peft-adapter", "LoraConfig") if reading.dialect == "peft-adapter" else load_schema(reading.dialect)
    )


def stated_version(reading: Reading, owner: Schema, context: Context) -> str | None:
    if owner.name == "cfglint-job":
        return owner.versions[-1]  # the job file's own version, which this release reads
    return context.version(reading, owner.framework)


def standing_in(info: KeyInfo, owner: Schema, stated: str | None) -> Standing:
    """A key's standing in every release that ``stated`` allows; ``unknown`` where they differ or nothing is stated."""
    single = exact(stated)
    first = owner.versions[0] if owner.versions else None
    if single is not None:
        status = info.status_in(single, first)
        return "unknown" if status in ("unknown-version", "unknown-key") else status  # type: ignore[return-value]
    if stated is None:
        status = info.status_in(None, first)
        return status if status in ("ok", "removed") else "unknown"
    if info.removed_in is not None and always_at_least(stated, info.removed_in) is True:
        return "removed"
    if info.since is not None and info.absent_at is None and always_below(stated, info.since):
        return "not-yet"
    if (
        info.removed_in is None
        and info.deprecated_in is not None
        and always_at_least(stated, info.deprecated_in) is True
    ):
        return "deprecated"
    settled = (info.removed_in is None or always_below(stated, info.removed_in)) and (
        info.deprecated_in is None or always_below(stated, info.deprecated_in)
    )
    return "ok" if settled and (info.since is None or always_at_least(stated, info.since) is True) else "unknown"


def stated_keys(reading: Reading, context: Context, *, commands: bool = False) -> Iterator[StatedKey]:
    """Every key of a reading that its table knows, mappings and lists of mappings inside it included."""
    schema = table_of(reading, commands=commands)
    if schema is None:
        return
    versions: dict[str, str | None] = {}
    for route, _ in _routes(schema, reading.root):
        info, owner = schema.key(*route), schema.owner_of(*route) or schema
        if info is None or (info.since is None and info.removed_in is None and info.deprecated_in is None):
            continue
        if (owner.name, route) in OWN_RULE:
            continue
        if owner.framework not in versions:
            versions[owner.framework] = stated_version(reading, owner, context)
        stated = versions[owner.framework]
        yield StatedKey(route, info, owner, stated, standing_in(info, owner, stated))


def values(reading: Reading, schema: Schema) -> Iterator[tuple[Route, Node]]:
    """Keys with their values, as far as the table knows them."""
    return _routes(schema, reading.root)


def _routes(schema: Schema, root: Node, limit: int = 20_000) -> Iterator[tuple[Route, Node]]:
    waiting: list[tuple[Route, Node]] = [((), root)]
    while waiting and limit > 0:
        route, node = waiting.pop()
        limit -= 1
        if route and not isinstance(route[-1], int):
            yield route, node
        if len(route) > 8:
            continue
        if isinstance(node, Mapping):
            known = [(n, e) for n, e in node.index.items() if schema.key(*route, n) is not None]
            waiting += [((*route, name), entry.value) for name, entry in reversed(known)]
        elif isinstance(node, Sequence) and route:
            waiting += [
                ((*route, i), item) for i, item in reversed(list(enumerate(node.items))) if isinstance(item, Mapping)
            ]


def unknown_keys(reading: Reading, context: Context) -> Iterator[tuple[Schema, UnknownKey, str | None]]:
    """Keys that no sampled release has, with the table that should have them and the version its framework is stated
    in. Names that begin with ``_``, ``#`` or ``//`` are notes; ``auto`` is dropped before DeepSpeed looks."""
    schema = table_of(reading)
    if schema is None or not isinstance(reading.root, Mapping):
        return
    whole = load_schema("trl") if reading.dialect == "trl" else schema
    for found in whole.unknown_keys(reading.root):
        if str(found.route[-1]).startswith(("_", "#", "//")) or "comment" in str(found.route[-1]).lower():
            continue
        if found.route in READ_FROM_ENVIRONMENT:
            continue
        owner = whole.owner_of(*found.route) or whole
        yield owner, found, stated_version(reading, owner, context)


def surely_refused(schema: Schema, found: UnknownKey, stated: str | None) -> bool:
    """Whether every release that may be meant stops at this unknown key."""
    route = found.route[:-1]
    single = exact(stated)
    releases = (single,) if single is not None else ((schema.versions[0] if schema.versions else None), None)
    return all(schema.unknown_effect(route, release) == "error" for release in releases)


def newest(schema: Schema) -> str:
    """The newest release the table was read from."""
    return f"{title(schema)} {schema.versions[-1]}" if schema.versions else title(schema)


def within_table(schema: Schema, stated: str | None) -> bool:
    """Whether the stated release is one the table covers, so that a key it does not have is surely unknown to it."""
    single = exact(stated)
    if single is None or not schema.versions:
        return False
    after = always_at_least(single, schema.versions[-1])
    return after is False or _same_series(single, schema.versions[-1])


def _same_series(version: str, series: str) -> bool:
    parts = series.split(".")
    return version.split(".")[: len(parts)] == parts


FRAMEWORK_TITLES: Final = {
    "transformers": "transformers", "trl": "TRL", "axolotl": "Axolotl", "llamafactory": "LLaMA-Factory",
    "accelerate": "Accelerate", "deepspeed": "DeepSpeed", "peft": "PEFT",
}  # fmt: skip


def title(schema: Schema) -> str:
    return FRAMEWORK_TITLES.get(schema.framework, schema.framework)


def surely_named(stated: str | None) -> str | None:
    """The release where exactly one is stated; None for a range or for nothing."""
    return exact(stated)
