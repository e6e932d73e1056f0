"""PAR018."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean, scalar
from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_at_least
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from ..peft.adapter_facts import given

BITSANDBYTES = ("adamw_8bit", "adamw_bnb_8bit")
"""8-bit optimizers whose kernels do not take FSDP 2's tensors."""


CHECKED_FROM = "0.18"
"""First Axolotl release whose checks of 8-bit optimizers match the name as it is written."""


class AxolotlOptimizers(Rule):
    """An Axolotl optimizer, or an FSDP setting of it, that does not go with the way the model is sharded.

    Muon and the `flash_` optimizers refuse DeepSpeed and FSDP 1, Q-GaLore also adapters; an 8-bit optimizer refuses FSDP 1
    with offloaded parameters, and bitsandbytes' own refuse FSDP 2; `cpu_offload_pin_memory: false` needs FSDP 2 with
    `offload_params`. Axolotl stops with a ValueError each time, before the model is loaded.

    How sure: the checks of Axolotl's schema, read from 0.11 to 0.19. Those on 8-bit optimizers take effect from 0.18 on
    (before, the name was held as an enumeration and never matched), so without a stated release they are a warning.
    Unversioned FSDP settings mean version 1.
    """

    code = "PAR018"
    name = "axolotl-optimizers"
    family = "parallel"
    severity = "error"
    catalogue = ("par.muon-ds-fsdp1", "mem.fsdp-8bit-optim", "mem.fsdp2-cpu-pin")
    evidence = ("https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",)
    _CONFIG = """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 1
            num_epochs: 1
            {settings}
            """
    good = (
        example(
            "train.yml",
            _CONFIG.format(
                settings="optimizer: adamw_torch_8bit\n            fsdp_version: 2\n            fsdp_config: {offload_params: true}"
            ),
        ),
    )
    bad = (
        example(
            "train.yml",
            _CONFIG.format(settings="optimizer: muon\n            deepspeed: zero2.json"),
            at="optimizer",
            count=1,
        ),
        example(
            "train.yml",
            _CONFIG.format(
                settings="optimizer: adamw_8bit\n            fsdp_version: 2\n            fsdp_config: {offload_params: true}"
            ),
            at="optimizer",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "axolotl":
            return
        name = reading.value("optimizer")
        optimizer = name if isinstance(name, str) else ""
        block = reading.at("fsdp_config")
        fsdp = given(reading, "fsdp") or (isinstance(block, Mapping) and len(block) > 0)
        version = str(
            reading.value("fsdp_version")
            or reading.value("fsdp_config", "fsdp_version")
            or reading.value("fsdp_config", "version")
            or 1
        )
        if version not in ("1", "2"):
            return
        reason = self._reason(reading, optimizer, fsdp, version)
        if reason is not None:
            key, words, advice = reason
            newer = (
                True
                if "8bit" not in optimizer or optimizer == "q_galore_adamw8bit"
                else always_at_least(context.version(reading, "axolotl"), CHECKED_FROM)
            )
            if newer is False:
                return
            yield self.finding(
                f"optimizer {optimizer} does not go with {words}: Axolotl stops with a ValueError",
                reading.origin("optimizer"),
                (reading.origin(key), words),
                help=advice,
                severity="error" if newer else "warning",
                confidence="high" if newer else "medium",
            )
        route = ("fsdp_config", "cpu_offload_pin_memory")
        if fsdp and scalar(reading.at(*route)) is False:
            offloads = boolean(reading.value("fsdp_config", "offload_params")) is True
            if version != "2" or not offloads:
                yield self.finding(
                    f"cpu_offload_pin_memory: false needs {'fsdp_version: 2' if version != '2' else 'offload_params: true'}",
                    reading.origin(*route),
                    help="leave it out, or set what it needs",
                )

    def _reason(self, reading: Reading, optimizer: str, fsdp: bool, version: str) -> tuple[str, str, str] | None:
        """The key that rules the optimizer out, in words, and what to do."""
        picky = optimizer == "muon" or optimizer.startswith("flash_") or optimizer == "q_galore_adamw8bit"
        sharding = "fsdp_config" if reading.at("fsdp_config") is not None else "fsdp"
        if picky and given(reading, "deepspeed"):
            return "deepspeed", "DeepSpeed", "use FSDP 2, or another optimizer"
        if picky and fsdp and version != "2":
            return sharding, "FSDP 1", "set fsdp_version: 2, or use another optimizer"
        if optimizer == "q_galore_adamw8bit" and given(reading, "adapter"):
            return "adapter", "adapters", "train all parameters, or use another optimizer"
        if not fsdp or "8bit" not in optimizer:
            return None
        if version == "1" and boolean(scalar(reading.at("fsdp_config", "offload_params"))) is True:
            return sharding, "offloaded parameters of FSDP 1", "set fsdp_version: 2 with adamw_torch_8bit"
        if version == "2" and optimizer in BITSANDBYTES:
            return sharding, "FSDP 2", "use adamw_torch_8bit"
        return None
