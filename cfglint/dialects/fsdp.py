"""Fully Sharded Data Parallel settings, which Accelerate, transformers, Axolotl and LLaMA-Factory spell nearly alike.

Accelerate writes every key with the prefix ``fsdp_``, the others with or without it. FSDP 1 names a sharding strategy
(by name, or by its number in Accelerate's list); FSDP 2 says with ``reshard_after_forward`` whether parameters are
gathered again in backward, as full sharding does.
"""

from __future__ import annotations

from typing import Any

from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import FactReader, boolean, integer, texts
from cfglint.jobs.facts import UNKNOWN
from cfglint.source.node import Scalar, Sequence, Value

_STRATEGIES = ("full_shard", "shard_grad_op", "no_shard", "hybrid_shard", "hybrid_shard_zero2")
"""Accelerate's order (utils/constants.py, ``FSDP_SHARDING_STRATEGY``); a number in a file counts from 1."""

_KINDS = {name: "hybrid_shard" if name == "hybrid_shard_zero2" else name for name in _STRATEGIES}


_STATE_DICTS = {
    "FULL_STATE_DICT": "full",
    "SHARDED_STATE_DICT": "sharded",
    "LOCAL_STATE_DICT": "sharded",
    "1": "full",
    "2": "sharded",
    "3": "sharded",
}
"""torch's names and numbers (distributed/fsdp/api.py, ``StateDictType``)."""


SETTINGS = frozenset({
    "fsdp_version", "version", "sharding_strategy", "reshard_after_forward", "backward_prefetch", "backward_prefetch_policy",
    "forward_prefetch", "limit_all_gathers", "use_orig_params", "sync_module_states", "cpu_ram_efficient_loading",
    "activation_checkpointing", "activation_cpu_offload", "auto_wrap_policy", "min_num_params", "offload_params",
    "cpu_offload", "state_dict_type", "transformer_layer_cls_to_wrap", "xla", "xla_fsdp_settings", "xla_fsdp_grad_ckpt",
    "xla_fsdp_v2", "ignored_modules", "mixed_precision_policy", "final_state_dict_type",
})  # fmt: skip
"""Names of FSDP settings, without the prefix ``fsdp_``."""


def is_setting(key: str) -> bool:
    return key in SETTINGS or key.removeprefix("fsdp_") in SETTINGS


def sharding(value: Value) -> str | None:
    """``FULL_SHARD``, ``1`` … to a job's word for it; a boolean is FSDP 2's ``reshard_after_forward``."""
    switch = value if isinstance(value, bool) else None
    if switch is None and isinstance(value, str) and value.strip().lower() in ("true", "false"):
        switch = boolean(value)
    if switch is not None:
        return "full_shard" if switch else "shard_grad_op"
    rank = integer(value)
    if rank is not None:
        return _KINDS[_STRATEGIES[rank - 1]] if 1 <= rank <= len(_STRATEGIES) else None
    return _KINDS.get(value.strip().lower()) if isinstance(value, str) else None


def state_fsdp_settings(facts: FactReader) -> None:
    """State what a mapping of FSDP settings says; ``facts`` looks keys up in that mapping."""
    for key in ("fsdp_version", "version"):
        if facts.integer("fsdp_version", key, low=1) is not None:
            break
    for name in ("reshard_after_forward", "sharding_strategy"):
        for key in (f"fsdp_{name}", name):
            value = facts.value(key)
            if value is None:
                continue
            if is_unknown(value):
                facts.state("fsdp", UNKNOWN, key)
            elif (found := sharding(value)) is not None:
                facts.state("fsdp", found, key)
    for key in ("fsdp_state_dict_type", "state_dict_type"):
        kind = _STATE_DICTS.get(str(facts.value(key)).strip().upper())
        if kind is not None:
            facts.state("state_dict", kind, key)
    for key in ("fsdp_offload_params", "offload_params", "fsdp_cpu_offload", "cpu_offload"):
        state_offload(facts, boolean(facts.value(key)), key)
    for key in ("fsdp_activation_checkpointing", "activation_checkpointing"):
        if facts.on(key):
            facts.state("gradient_checkpointing", "full", key)


def state_offload(facts: FactReader, on: bool | None, *route: str | int) -> None:
    """FSDP keeps offloaded parameters on the host between uses, so the optimizer's step runs there as well."""
    if on is None:
        return
    for fact in ("offload_parameters", "offload_optimizer"):
        facts.state(fact, "cpu" if on else "none", *route)


def state_fsdp_options(facts: FactReader, key: str = "fsdp") -> bool:
    """State transformers' ``fsdp``: a switch, or words such as ``full_shard auto_wrap offload`` in a text or a list.

    True where FSDP is on.
    """
    node = facts.node(key)
    if isinstance(node, Scalar):
        if is_unknown(node.value):
            facts.state("fsdp", UNKNOWN, key)
            return False
        if boolean(node.value) is not None:
            return facts.on(key)
    elif not isinstance(node, Sequence):
        return False
    words = texts(node) or []
    for word in words:
        found = sharding(word)
        if found is not None:
            facts.state("fsdp", found, key)
    if "offload" in [word.lower() for word in words]:
        state_offload(facts, True, key)
    return bool(words)


def state_fsdp_defaults(facts: FactReader, framework: str, versions: tuple[tuple[Any, str], ...]) -> None:
    """Defaults of a run that shards with FSDP. ``versions``: (FSDP version, releases of the framework), newest first."""
    stated = facts.reading.facts.stated
    if not stated("fsdp"):
        facts.default("fsdp", "full_shard", framework)
    if not stated("fsdp_version"):
        for version, releases in versions:
            facts.default("fsdp_version", version, framework, releases)
