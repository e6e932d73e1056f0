"""Whatever stands in a file, a dialect answers and never raises, and facts keep their types."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cfglint.dialects import deepspeed, hf_training_args
from cfglint.dialects.base import Dialect
from cfglint.dialects.recognise import dialects, recognise_files
from cfglint.jobs.facts import UNKNOWN, Reading
from cfglint.source.json import parse_json
from cfglint.source.node import Mapping

DIALECTS: list[Dialect] = [
    d for d in dialects() if d.kind != "serve" and type(d).read is not Dialect.read and d.name != "cfglint-job"
]
"""A job file's keys are the facts themselves: its schema judges their types."""

TYPES: dict[str, type | tuple[type, ...]] = {
    "micro_batch_size": int, "gradient_accumulation_steps": int, "global_batch_size": int, "sequence_length": int,
    "zero_stage": int, "lora_rank": int, "lora_targets": list, "learning_rate": float, "compute_dtype": str,
    "weight_dtype": str, "quantization": str, "method": str, "optimizer": str, "model_id": str, "packing": bool,
    "gpus_per_node": int, "nodes": int, "fsdp": str, "fsdp_version": int, "gradient_checkpointing": str,
    "max_steps": int, "epochs": float, "tf32": bool, "compile": bool, "offload_optimizer": str, "fp8_linear": bool,
    "tensor_parallel_size": int, "pipeline_parallel_size": int, "context_parallel_size": int, "expert_parallel_size": int,
    "master_weights": bool, "attention": str, "loss_kernel": str, "warmup_steps": int, "warmup_ratio": float, "gpu": str,
}  # fmt: skip

_KEYS = sorted(
    {
        *deepspeed.SECTIONS, *hf_training_args.TRAINING_ARGUMENTS, *(key for d in DIALECTS for key in d.markers),
        "model_name_or_path", "zero_stage", "stage", "device", "enabled", "type", "params", "lr", "bf16", "fsdp_config",
        "deepspeed_config", "deepspeed", "model", "peft_config", "dist_config", "name", "r", "config_groups", "weights",
        "quantization_config", "text_config", "plugins", "fsdp", "rl", "adapter", "load_in_4bit", "use_peft", "beta",
        "num_generations", "distributed_type", "num_machines", "peft_type", "quant_method", "bits", "quant_algo",
        "architectures", "model_type", "hidden_size", "num_layers", "liger_kernel_config", "parallelism_config",
        "_component_", "_target_", "lora_rank", "optimizer", "tokenizer", "dataset", "training", "parallelism", "job", "flavor",
        "train", "trainer", "devices", "data", "precision", "defaults", "policy", "dtensor_cfg", "megatron_cfg", "cluster", "grpo",
        "actor_rollout_ref", "actor", "rollout", "n", "algorithm", "modules", "pre_trainer", "framework", "overrides",
        "MODEL_ARGS", "--num-layers", "--hidden-size", "--micro-batch-size", "ENV_VARS", "num_attention_heads", "vocab_size",
        "tuner_type", "quant_bits", "max_length", "parameters", "integrations", "command", "compute", "gpus", "attn_config",
        "d_model", "n_heads", "n_layers", "max_duration", "scheduler", "t_warmup", "attention_config", "activation",
        "intermediate_size", "mlp_multiple_of", "swiglu", "num_experts", "base_config", "ici_tensor_parallelism", "distributed",
        "step_scheduler", "pp_size", "loss_fn", "packed_sequence", "checkpoint_dir", "lora_r", "global_batch_size",
        "tokens", "model_config", "num_hidden_layers", "dp", "actor_train", "strategy_args", "strategy_config", "strategy_name",
        "device_mapping", "training_args", "model_args", "orchestrator", "ac", "freq", "deployment", "mlp_hidden_size",
        "micro_batch_size", "skypilot", "accelerators", "config", "tokenizer_model", "max_prompt_length",
    }
)  # fmt: skip

_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10**20), st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["auto", "${X}", "", "no", "full", "cpu", "lora", "bfloat16", "2e-5", "FSDP", "DEEPSPEED", "dpo", "${model}", "${n}",
         "${mul:${n},2}", "${.n}", "???", "100ba", "torch.optim.AdamW", "torchtune.models.llama3_1.lora_llama3_1_8b", "flash",
         "megatron", "torchtitan", "maxtext", "swiglu", "bnb.nf4", "a.yaml", "H100:8", "mpt_causal_lm", "rope", "full.x",
         "list(range(0,16))", "${deepspeed_zero3}", "deepspeed_train"]
    ),
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


def test_a_vocabulary_is_no_configuration() -> None:
    """A million bytes of words and numbers took every dialect a look at each key."""
    text = (
        "{"
        + ", ".join(f'"word{i}": {i}' for i in range(6_000))
        + ', "base_model": "o/m", "sequence_len": 1, "datasets": []}'
    )
    readings, reports = recognise_files([parse_json("vocabulary.json", text)])
    assert readings == []
    assert reports["vocabulary.json"].dialects == []
