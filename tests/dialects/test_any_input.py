"""Whatever stands in a file, a dialect answers and never raises, and facts keep their types."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cfglint.dialects import (
    accelerate,
    axolotl,
    deepspeed,
    hf_generation_config,
    hf_model_config,
    hf_quant_config,
    hf_training_args,
    llamafactory,
    peft_adapter,
    trl,
)
from cfglint.dialects.base import Dialect
from cfglint.jobs.facts import UNKNOWN, Reading
from cfglint.source.json import parse_json
from cfglint.source.node import Mapping

DIALECTS: list[Dialect] = [
    module.DIALECT
    for module in (
        accelerate, axolotl, deepspeed, hf_generation_config, hf_model_config, hf_quant_config, hf_training_args,
        llamafactory, peft_adapter, trl,
    )
]  # fmt: skip

TYPES: dict[str, type | tuple[type, ...]] = {
    "micro_batch_size": int, "gradient_accumulation_steps": int, "global_batch_size": int, "sequence_length": int,
    "zero_stage": int, "lora_rank": int, "lora_targets": list, "learning_rate": float, "compute_dtype": str,
    "weight_dtype": str, "quantization": str, "method": str, "optimizer": str, "model_id": str, "packing": bool,
    "gpus_per_node": int, "nodes": int, "fsdp": str, "fsdp_version": int, "gradient_checkpointing": str,
    "max_steps": int, "epochs": float, "tf32": bool, "compile": bool, "offload_optimizer": str,
}  # fmt: skip

_KEYS = sorted(
    {
        *deepspeed.SECTIONS, *hf_training_args.TRAINING_ARGUMENTS, *(key for d in DIALECTS for key in d.markers),
        "model_name_or_path", "zero_stage", "stage", "device", "enabled", "type", "params", "lr", "bf16", "fsdp_config",
        "deepspeed_config", "deepspeed", "model", "peft_config", "dist_config", "name", "r", "config_groups", "weights",
        "quantization_config", "text_config", "plugins", "fsdp", "rl", "adapter", "load_in_4bit", "use_peft", "beta",
        "num_generations", "distributed_type", "num_machines", "peft_type", "quant_method", "bits", "quant_algo",
        "architectures", "model_type", "hidden_size", "num_layers", "liger_kernel_config", "parallelism_config",
    }
)  # fmt: skip

_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10**20), st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["auto", "${X}", "", "no", "full", "cpu", "lora", "bfloat16", "2e-5", "FSDP", "DEEPSPEED", "dpo"]),
    st.text(max_size=8),
)  # fmt: skip
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(_KEYS), st.text(max_size=5)), inner, max_size=4),
    ),
    max_leaves=8,
)
_files = st.dictionaries(st.sampled_from(_KEYS), _values, max_size=12)


def _check(reading: Reading) -> None:
    for name in reading.facts.names():
        for fact in reading.facts.statements(name):
            assert fact.describe()
            kind = TYPES.get(name)
            if kind is not None and fact.value is not UNKNOWN:
                assert isinstance(fact.value, kind), (name, fact.value)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_files)
def test_any_mapping_is_read_without_a_fault(data: dict[str, object]) -> None:
    document = parse_json("any.json", json.dumps(data)).documents[0]
    root = document.root
    assert isinstance(root, Mapping)
    for dialect in DIALECTS:
        recognition = dialect.recognise(document, root)
        assert recognition is None or (0 < recognition.score <= 100 and recognition.why), dialect.name
        readings = list(dialect.read(document, root))
        assert readings, dialect.name
        for reading in readings:
            assert reading.dialect == dialect.name
            _check(reading)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(max_size=10), _values, max_size=8))
def test_files_of_no_framework_are_not_claimed(data: dict[str, object]) -> None:
    known = set(_KEYS)
    data = {key: value for key, value in data.items() if key not in known}
    document = parse_json("any.json", json.dumps(data)).documents[0]
    root = document.root
    assert isinstance(root, Mapping)
    assert [d.name for d in DIALECTS if d.recognise(document, root)] == []
