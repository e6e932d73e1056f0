"""PAR007."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.fsdp import sharding
from cfglint.dialects.values import boolean, integer
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity, Where
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from ..trainer import Settings


class FsdpVersionSettings(Rule):
    """A setting of one FSDP version is used with the other.

    FSDP 2 takes `fsdp_reshard_after_forward` as true or false, FSDP 1 as a strategy (`FULL_SHARD` …); Accelerate stops on
    the wrong kind. FSDP 2 has no `LOCAL_STATE_DICT`: a ValueError too. Accelerate's own `fsdp_version` is 1 where the file
    does not state it.

    How sure: the checks are in Accelerate's source (1.15; `fsdp_version` came with 1.6). The file is read as Accelerate
    reads it, strings included. `fsdp_sharding_strategy` is not read with version 2: another strategy than FULL_SHARD is a
    warning. `fsdp_use_orig_params`, `fsdp_sync_module_states` and `fsdp_backward_prefetch` are ignored too, with a warning of
    Accelerate's own, `fsdp_forward_prefetch` without one: not reported here.
    """

    code = "PAR007"
    name = "fsdp-version-settings"
    family = "parallel"
    severity = "error"
    catalogue = ("par.fsdp-reshard-type", "par.fsdp2-local-sd")
    evidence = (
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/dataclasses.py",
        "https://huggingface.co/docs/accelerate/concept_guides/fsdp1_vs_fsdp2",
    )
    good = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: FSDP
            num_processes: 8
            fsdp_config:
              fsdp_version: 2
              fsdp_reshard_after_forward: true
              fsdp_state_dict_type: SHARDED_STATE_DICT
            """,
        ),
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: FSDP
            num_processes: 8
            fsdp_config:
              fsdp_sharding_strategy: FULL_SHARD
              fsdp_forward_prefetch: false
            """,
        ),
    )
    bad = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: FSDP
            num_processes: 8
            fsdp_config:
              fsdp_version: 2
              fsdp_reshard_after_forward: FULL_SHARD
            """,
            at="fsdp_reshard_after_forward",
            count=1,
        ),
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: FSDP
            num_processes: 8
            fsdp_config:
              fsdp_version: 2
              fsdp_state_dict_type: LOCAL_STATE_DICT
            """,
            at="fsdp_state_dict_type",
            count=1,
        ),
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: FSDP
            num_processes: 8
            fsdp_config:
              fsdp_version: 2
              fsdp_sharding_strategy: SHARD_GRAD_OP
            """,
            at="fsdp_sharding_strategy",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "accelerate" or reading.context.get("distributed_type") != "FSDP":
            return
        if not isinstance(reading.at("fsdp_config"), Mapping):
            return
        settings = Settings(reading, ("fsdp_config",))
        stated = settings.value("fsdp_version")
        version = 1 if stated is None else integer(stated)
        if version not in (1, 2):
            return
        where: Where | tuple[Where, str] = (settings.fact("fsdp_version"), f"FSDP {version}") if stated else None
        yield from self._reshard(settings, version, where)
        if version != 2:
            return
        kind = settings.value("fsdp_state_dict_type")
        if isinstance(kind, str) and kind.strip().upper() == "LOCAL_STATE_DICT":
            yield self.finding(
                "FSDP 2 has no LOCAL_STATE_DICT: Accelerate stops with a ValueError",
                settings.fact("fsdp_state_dict_type"),
                where,
                help="use SHARDED_STATE_DICT or FULL_STATE_DICT",
            )
        strategy = settings.value("fsdp_sharding_strategy")
        asked = sharding(strategy)
        if asked not in (None, "full_shard") and settings.value("fsdp_reshard_after_forward") is None:
            yield self.finding(
                f"fsdp_sharding_strategy {strategy} is not read with FSDP 2: parameters are sharded and gathered again in "
                "the backward pass",
                settings.fact("fsdp_sharding_strategy"),
                where,
                help="fsdp_reshard_after_forward: false is FSDP 2's SHARD_GRAD_OP; for hybrid sharding "
                "parallelism_config_dp_replicate_size",
                severity="warning",
            )

    def _reshard(self, settings: Settings, version: int, where: Where | tuple[Where, str]) -> Iterator[Finding]:
        key = "fsdp_reshard_after_forward"
        value = settings.value(key)
        if value is None or (version == 1 and settings.value("fsdp_sharding_strategy") is not None):
            return
        switch = (boolean(value) is not None and not isinstance(value, int)) or isinstance(value, bool)
        named = isinstance(value, str) and not switch and sharding(value) is not None
        severity: Severity = "error"
        if version == 2 and named:
            words, advice = (
                f"{value} is a strategy of FSDP 1, FSDP 2 takes true or false",
                "true (as FULL_SHARD) or false",
            )
        elif version == 1 and switch:
            words, advice = "FSDP 1 takes a strategy, not true or false", "FULL_SHARD, or state fsdp_version: 2"
        else:
            return
        yield self.finding(
            f"{key}: {words}; Accelerate stops with an error",
            settings.fact(key),
            where,
            help=f"write {advice}",
            severity=severity,
        )
