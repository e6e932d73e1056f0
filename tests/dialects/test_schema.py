"""Key tables: known facts of the frameworks, versions, types as each reader takes them, unknown keys, JSON Schema."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfglint.dialects.schema import (
    MISSING,
    KeyInfo,
    Schema,
    _accepts,
    _adapter,
    is_unknown,
    json_schema,
    load_schema,
    pydantic_model,
    release,
    schema_names,
    type_in_words,
)
from cfglint.source.json import parse_json
from cfglint.source.node import Mapping, Scalar, Sequence, plain
from cfglint.source.text import read_file
from cfglint.source.yaml import parse_yaml

SHARED = Path(__file__).parents[2] / ".." / "shared"


def mapping(text: str, *, name: str = "config.yaml") -> Mapping:
    file = parse_json(name, text) if name.endswith(".json") else parse_yaml(name, text)
    root = file.documents[0].root
    assert isinstance(root, Mapping)
    return root


def unknown(schema: Schema, text: str, *, name: str = "config.yaml") -> list[tuple[object, ...]]:
    return [found.route for found in schema.unknown_keys(mapping(text, name=name))]


@pytest.mark.parametrize("name", schema_names())
def test_every_table_is_complete_and_sourced(name: str) -> None:
    schema = load_schema(name)
    assert schema.versions and schema.source and schema.checked and schema.title
    assert schema.reader.loader
    assert schema.keys
    for key, info in schema.all_keys().items():
        assert info.name == key
        assert type_in_words(info.type)
        born, gone = release(info.since), release(info.removed_in)
        assert born is None or gone is None or born < gone, key


@pytest.mark.parametrize("name", schema_names())
def test_renamed_keys_lead_to_known_keys(name: str) -> None:
    waiting = [load_schema(name).all_keys()]
    while waiting:
        keys = waiting.pop()
        for key, info in keys.items():
            waiting += [inner for inner in (info.keys, info.items) if inner is not None]
            if info.renamed_to is not None:
                assert info.renamed_to in keys and info.renamed_to != key, f"{key} → {info.renamed_to}"


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ("auto", True), ("${MODEL}", True), ("${model.name}", True), ("???", True), ("{{ .Values.model }}", True),
        ("$OUTPUT_DIR/run", True), ("$(nproc)", True), ("<your-model>", True), ("<path to data>", True),
        ("<s>", False), ("<start_of_turn>", False), ("<|endoftext|>", False), ("meta-llama/Llama-3.1-8B", False),
        (None, False), (8, False), ("automatic", False), ("cost: 5$", False),
    ],
)  # fmt: skip
def test_stated_but_unknown_values(value: object, answer: bool) -> None:
    assert is_unknown(value) is answer


def test_transformers_renames_its_evaluation_strategy() -> None:
    schema = load_schema("hf-training-args")
    assert schema.status("evaluation_strategy", "4.40.2") == "ok"
    assert schema.status("evaluation_strategy", "4.41.0") == "deprecated"
    assert schema.status("evaluation_strategy", "4.51.3") == "removed"
    assert schema.status("eval_strategy", "4.40.2") == "not-yet"
    assert schema.status("eval_strategy", "5.24.0") == "ok"
    info = schema.key("evaluation_strategy")
    assert info is not None and info.renamed_to == "eval_strategy"


@pytest.mark.parametrize(
    ("key", "version", "status"),
    [
        ("warmup_ratio", "4.57.6", "ok"),
        ("warmup_ratio", "5.2.0", "deprecated"),
        ("warmup_ratio", "5.15.0", "removed"),
        ("overwrite_output_dir", "5.0.0", "removed"),
        ("group_by_length", "5.1.0", "ok"),
        ("group_by_length", "5.2.0", "removed"),
        ("no_cuda", "4.40.0", "deprecated"),
        ("gradient_checkpointing", "5.23.0", "deprecated"),
        ("learning_rate", None, "ok"),
        ("warmup_ratio", None, "unknown-version"),
        ("warmup_ratio", "main", "unknown-version"),
        ("learning_rat", "5.0", "unknown-key"),
        ("learning_rate", "4.1.0", "unknown-version"),
    ],
)
def test_life_of_training_arguments(key: str, version: str | None, status: str) -> None:
    assert load_schema("hf-training-args").status(key, version) == status


def test_defaults_come_with_the_releases_they_hold_for() -> None:
    schema = load_schema("hf-training-args")
    assert schema.default("learning_rate") == (5e-05, "")
    assert schema.default("optim", "4.40.0") == ("adamw_torch", ">=4.32,<4.54")
    assert schema.default("optim", "4.26.0") == ("adamw_hf", "<4.32")
    assert schema.default("optim") == ("adamw_torch_fused", ">=4.54")
    assert schema.default("no_such_key") is None
    assert load_schema("llamafactory").default("cutoff_len", "0.9.0") == (1024, "<0.9.1")
    assert load_schema("llamafactory").default("cutoff_len", "0.9.4") == (2048, ">=0.9.1")


def test_trl_trainers_have_defaults_of_their_own() -> None:
    sft, dpo, grpo = (load_schema("trl", name) for name in ("sft", "DPOConfig", "GRPOConfig"))
    assert sft.default("learning_rate", "1.0.0") == (2e-05, ">=0.12")
    assert sft.default("learning_rate", "0.10.1") == (5e-05, "")  # transformers' own
    assert dpo.default("learning_rate", "1.0.0") == (1e-06, ">=0.12")
    assert sft.default("gradient_checkpointing", "0.24.0") == (True, ">=0.22")
    assert sft.default("gradient_checkpointing", "0.12.0") == (False, "")  # transformers' own
    assert grpo.default("beta", "0.17.0") == (0.04, "<0.19")
    assert grpo.default("beta", "0.19.0") == (0.0, ">=0.19")
    assert dpo.default("beta") == (0.1, "")


def test_trl_removes_max_seq_length() -> None:
    schema = load_schema("trl", "sft")
    assert schema.status("max_seq_length", "0.12.0") == "ok"
    assert schema.status("max_seq_length", "0.17.0") == "deprecated"
    assert schema.status("max_seq_length", "0.20.0") == "removed"
    info = schema.key("max_seq_length")
    assert info is not None and info.renamed_to == "max_length"
    assert schema.known("num_train_epochs") and schema.known("dataset_name") and schema.known("lora_r")
    assert load_schema("trl", "dpo").known("beta") and not schema.known("beta")
    owner = schema.owner_of("num_train_epochs")
    assert owner is not None and owner.framework == "transformers"


def test_trl_hands_unknown_keys_to_accelerate_launch() -> None:
    reader = load_schema("trl").reader
    assert reader.unknown_keys_in("0.17.0") == "error"
    assert reader.unknown_keys_in("0.18.0") == "passed-on"
    assert reader.unknown_keys_in(None) == "passed-on"
    assert load_schema("trl").known("num_processes")


def test_deepspeed_nested_keys() -> None:
    schema = load_schema("deepspeed")
    assert schema.default(("zero_optimization", "reduce_bucket_size")) == (500_000_000, "")
    assert schema.default(("zero_optimization", "offload_optimizer", "device")) == ("none", "")
    assert [schema.status("amp", version) for version in ("0.18.0", "0.19.7", "0.19.8")] == ["ok", "ok", "removed"]
    assert schema.status(("zero_optimization", "mics_shard_size"), "0.19.6") == "ok"
    assert schema.status(("zero_optimization", "mics_shard_size"), "0.19.7") == "removed"
    assert schema.status(("zero_optimization", "cpu_offload"), "0.16.0") == "deprecated"
    assert schema.default("gradient_clipping", "0.19.2") == (0.0, "<0.19.3")
    assert schema.unknown_effect(("fp16",), "0.14.0") == "ignored"
    assert schema.unknown_effect(("fp16",), "0.18.0") == "error"
    text = (
        '{"train_batch_size": 8, "zero_optimisation": {}, "zero_optimization":'
        ' {"stage": 3, "offload_optimizer": {"devise": "cpu"}}, "optimizer": {"type": "AdamW", "params": {"x": 1}}}'
    )
    found = list(schema.unknown_keys(mapping(text, name="ds.json")))
    assert [(u.route, u.suggestions[:1], u.effect) for u in found] == [
        (("zero_optimisation",), ("zero_optimization",), "ignored"),
        (("zero_optimization", "offload_optimizer", "devise"), ("device",), "error"),
    ]


def test_deepspeed_inside_training_arguments_goes_by_deepspeeds_versions() -> None:
    schema = load_schema("hf-training-args")
    owner = schema.owner_of("deepspeed", "zero_optimization", "stage")
    assert owner is not None and owner.name == "deepspeed"
    assert schema.check_type(("deepspeed", "zero_optimization", "stage"), "two") is not None
    assert schema.check_type(("deepspeed", "zero_optimization", "stage"), 2) is None
    found = list(schema.unknown_keys(mapping("deepspeed: {zero_optimization: {stag: 2}}\nlearning_rate: 0.1\n")))
    assert [(u.route, u.effect) for u in found] == [(("deepspeed", "zero_optimization", "stag"), "error")]


def test_lists_of_mappings() -> None:
    schema = load_schema("axolotl")
    assert unknown(schema, "datasets:\n  - path: a/b\n    type: alpaca\n    shards_indx: 1\n") == [
        ("datasets", 0, "shards_indx")
    ]
    assert schema.key("datasets", 3, "path") is not None
    assert schema.key("datasets", 3, "no_such") is None


def test_the_same_text_in_four_readers() -> None:
    """``2e-5`` in YAML is text: a fault where values are taken as they are, a number for the other readers."""
    complaint = load_schema("hf-training-args").check_type("learning_rate", "2e-5")
    assert complaint == 'expected a number, but "2e-5" is read as text'
    assert load_schema("axolotl").check_type("learning_rate", "2e-5") is None
    assert load_schema("trl", "sft").check_type("learning_rate", "2e-5") is None
    factory = load_schema("llamafactory")
    assert factory.check_type("learning_rate", "2e-5") is None
    assert factory.check_type("learning_rate", "2e-5", quoted=True) is not None
    assert factory.check_type("learning_rate", "2e-5", read_in="0.9.3") is not None
    assert factory.check_type("learning_rate", "2e-5", read_in="0.9.4") is None
    assert factory.check_type("learning_rate", "2e-5", "4.41.2", read_in="0.9.3") is not None


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("max_steps", 1.5, "expected an integer, found 1.5"),
        ("bf16", "true", 'expected true or false, found the text "true"'),
        ("learning_rate", 1, None),
        ("learning_rate", "auto", None),
        ("learning_rate", "${LR}", None),
        ("deepspeed", False, None),
        ("report_to", ["wandb"], None),
        ("eval_strategy", "steps", None),
        (
            "eval_strategy",
            False,
            'expected one of "no", "steps", "epoch"; without quotes YAML reads no and off as false',
        ),
        ("eval_strategy", "step", 'expected one of "no", "steps", "epoch", found "step"'),
        ("save_strategy", "best", None),
        ("max_steps", None, None),
        ("not_a_key", 3, None),
    ],
)
def test_types_of_training_arguments(key: str, value: object, complaint: str | None) -> None:
    assert load_schema("hf-training-args").check_type(key, value) == complaint


def test_choices_go_by_release() -> None:
    schema = load_schema("hf-training-args")
    assert schema.check_type("save_strategy", "best", "4.47.0") is None
    assert schema.check_type("save_strategy", "best", "4.46.0") is not None
    assert schema.check_type("optim", "adamw_hf", "4.49.0") is None
    assert schema.check_type("optim", "adamw_hf", "4.50.0") is not None


def test_accelerate_types_and_unknown_keys() -> None:
    schema = load_schema("accelerate")
    assert schema.check_type("num_processes", "8") is None
    assert schema.check_type("num_processes", "eight") == 'expected an integer, found the text "eight"'
    assert "no and off as false" in (schema.check_type("mixed_precision", False) or "")
    assert schema.check_type(("fsdp_config", "fsdp_offload_params"), False) is None
    text = "num_procesess: 8\nfsdp_config: {fsdp_sharding_strategi: 1, version: 2}\n"
    found = {u.route: (u.suggestions[:1], u.effect) for u in schema.unknown_keys(mapping(text))}
    assert found == {
        ("num_procesess",): (("num_processes",), "error"),
        ("fsdp_config", "fsdp_sharding_strategi"): (("fsdp_sharding_strategy",), "ignored"),
    }


def test_job_file_is_strict() -> None:
    schema = load_schema("cfglint-job")
    assert schema.reader.unknown_keys == "error"
    text = "cfglint: 1\njobs:\n  - {kind: train, model: a/b, micro_batchsize: 2, gpu: H100}\n"
    found = list(schema.unknown_keys(mapping(text)))
    assert [(u.route, u.suggestions[0]) for u in found] == [(("jobs", 0, "micro_batchsize"), "micro_batch_size")]
    assert schema.check_type(("jobs", 0, "kind"), "serving") == 'expected one of "train", "serve", found "serving"'
    assert schema.check_type("zero_stage", "3") is not None


def test_model_configs_have_no_unknown_keys() -> None:
    schema = load_schema("hf-model-config")
    assert unknown(schema, "hidden_size: 4096\nmy_own_key: 1\n") == []
    assert schema.check_type("hidden_size", "4096") is not None


def test_engine_arguments_as_a_table() -> None:
    schema = load_schema("vllm")
    assert unknown(
        schema, "max-model-len: 8192\nmax_num_seqs: 64\nno-enable-prefix-caching: true\nmax-modellen: 1\n"
    ) == [("max-modellen",)]
    assert schema.check_type("enforce-eager", "maybe") == 'expected true or false, found the text "maybe"'
    assert schema.check_type("max-model-len", "32k") is None
    assert schema.typo_of("max-model-lem") == "max_model_len"
    owner = schema.owner_of("tensor-parallel-size")
    assert owner is not None and owner.framework == "vllm"


def test_between_sparse_samples_nothing_is_said() -> None:
    late = KeyInfo("x", since="0.12.0", absent_at="0.10.2")
    assert [late.status_in(v) for v in ("0.10.2", "0.11.0", "0.12.0")] == ["not-yet", "unknown-version", "ok"]
    gone = KeyInfo("y", removed_in="0.25.1", present_at="0.18.1")
    assert [gone.status_in(v) for v in ("0.18.1", "0.20.0", "0.25.1")] == ["ok", "unknown-version", "removed"]


def test_a_key_that_every_sampled_release_refuses_is_removed() -> None:
    schema = load_schema("axolotl")
    assert schema.status("rope_scaling", None) == "removed"
    assert schema.status("s2_attention", None) == "unknown-version"


@pytest.mark.parametrize("name", schema_names())
def test_any_value_is_judged_without_a_fault(name: str) -> None:
    values: list[object] = [
        None, True, False, 0, -1, 10**30, 1.5, float("nan"), float("inf"), "", "x", "2e-5", "\ud800", "auto", b"x", {}, {"a": 1},
        [], ["a"], [1, None], [[{}]], datetime.date(2026, 11, 30), datetime.datetime(2026, 11, 30, 1, 2),
    ]  # fmt: skip
    schema = load_schema(name)
    complaints = 0
    for key, info in schema.all_keys().items():
        for route in ((key,), *((key, inner) for inner in info.keys or ())):
            for value in values:
                answer = schema.check_type(route, value)
                assert answer is None or answer.startswith("expected "), answer
                complaints += answer is not None
    assert complaints > 0


def test_keys_of_well_known_scripts_are_tolerated() -> None:
    schema = load_schema("trl")
    assert unknown(schema, "model_name_or_path: a/b\ndataset_mixer: {x: 1.0}\nno_such_key: 1\n") == [("no_such_key",)]
    assert not schema.known("dataset_mixer")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("learning_rat", "learning_rate"),
        ("laerning_rate", "learning_rate"),
        ("gradient_acumulation_step", "gradient_accumulation_steps"),
        ("learning_rate", None),
        ("dataset", None),
        ("lora_rank", None),
    ],
)
def test_slips_of_the_pen(name: str, answer: str | None) -> None:
    assert load_schema("hf-training-args").typo_of(name) == answer


def test_suggestions_put_living_keys_first() -> None:
    assert load_schema("hf-training-args").suggest("eval_stategy")[0] == "eval_strategy"
    assert load_schema("deepspeed").suggest("gradient-clipping") == ["gradient_clipping"]


def test_unknown_names_raise() -> None:
    with pytest.raises(KeyError):
        load_schema("no-such-format")
    with pytest.raises(KeyError):
        load_schema("trl", "NoSuchConfig")


@pytest.mark.parametrize("name", schema_names())
def test_json_schema_is_valid(name: str) -> None:
    exported = json_schema(name)
    jsonschema.Draft202012Validator.check_schema(exported)
    assert exported["properties"]
    json.dumps(exported, allow_nan=False)


def test_json_schema_says_what_editors_show() -> None:
    exported = json_schema("hf-training-args", "TrainingArguments")
    ratio = exported["properties"]["warmup_ratio"]
    assert ratio["deprecated"] is True
    assert "Removed in transformers 5.15" in ratio["description"]
    assert "predict_with_generate" not in exported["properties"]
    job = json_schema("cfglint-job")
    assert job["additionalProperties"] is False
    validator = jsonschema.Draft202012Validator(job)
    assert validator.is_valid({"cfglint": 1, "kind": "train", "model": "a/b", "zero_stage": 3})
    assert not validator.is_valid({"cfglint": 1, "kind": "train", "modell": "a/b"})
    assert not validator.is_valid({"cfglint": 1, "kind": "training"})


def test_pydantic_model_validates() -> None:
    model = pydantic_model("deepspeed")
    made = model.model_validate({"zero_optimization": {"stage": 3}, "train_batch_size": 8})
    assert made.model_dump(by_alias=True, exclude_unset=True) == {
        "zero_optimization": {"stage": 3},
        "train_batch_size": 8,
    }


def test_missing_default_is_told_from_null() -> None:
    info = load_schema("deepspeed").key("check_overflow")
    assert info is not None and info.default is MISSING and not info.default
    assert load_schema("hf-training-args").default("max_steps") == (-1, "")


REAL_FAULTS = {
    # read in the sources: warmup_steps is int in every sampled release, and pydantic refuses 0.1
    "axolotl: warmup_steps": 4,
    # the file says of itself that its keys are invalid
    "accelerate: another_invalid_key": 1,
    "accelerate: invalid_key": 1,
    # in a TPU fsdp_config.json, which is not a file of TrainingArguments
    "hf-training-args: fsdp_transformer_layer_cls_to_wrap": 1,
    # keys of a branch after the last release sampled
    "llamafactory: cp_mode": 1,
    "llamafactory: cp_size": 2,
}
"""Complaints of error weight on shipped and ci files, each looked into."""


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is not here")
def test_corpus_of_shipped_files_is_clean() -> None:
    complaints: dict[str, int] = {}
    files = 0
    for line in (SHARED / "corpus" / "index.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["framework"] not in schema_names() or row["tier"] not in ("shipped", "ci"):
            continue
        second_parser = row["framework"] == "llamafactory" and "/v1/" in row["path"]
        schema = load_schema(row["framework"], "v1" if second_parser else None)
        for document in read_file(SHARED / "corpus" / row["path"]).documents:
            if isinstance(document.root, Mapping):
                files += 1
                for key in complaining_keys(schema, document.root):
                    name = f"{schema.name.partition(':')[0]}: {key}"
                    complaints[name] = complaints.get(name, 0) + 1
    assert files > 600
    assert complaints == REAL_FAULTS


def complaining_keys(schema: Schema, root: Mapping) -> list[str]:
    """Keys that make the framework stop, as the table has it: unknown ones and wrong types."""
    found = [str(u.route[-1]) for u in schema.unknown_keys(root) if u.effect == "error"]
    waiting: list[tuple[tuple[str | int, ...], object]] = [((name,), e.value) for name, e in root.index.items()]
    while waiting:
        route, node = waiting.pop()
        if schema.key(*route) is None:
            continue
        if isinstance(node, Mapping):
            waiting += [((*route, name), e.value) for name, e in node.index.items()]
        elif isinstance(node, Sequence):
            waiting += [((*route, i), item) for i, item in enumerate(node.items) if isinstance(item, Mapping)]
        quoted = isinstance(node, Scalar) and node.quoted
        if isinstance(node, (Mapping, Sequence, Scalar)) and schema.check_type(route, plain(node), quoted=quoted):
            found.append(str(route[-1]))
    return found


EXPRESSIONS = ("int", "float", "bool", "str", "None", "dict", "list", "int | None", "float | int | None", "bool | str",
    "list[int]", "list[str] | None", "list[float] | float", "dict | str | None", "list[list[int]] | None")  # fmt: skip
WORDS = ["true", "Yes", "on", "t", "2", "2.0", "2e-5", "1.5e3", "1.", "-7", "+3", "nan", "inf", "-Infinity", "cosine", "a/b",
    "auto", "", " 2", "1_000", "0x10", "3 ", "yes ", "e5", "adamw_torch", "bf16", "9" * 20]  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(-2, 2), st.sampled_from(WORDS), st.text(max_size=4)
)
VALUES = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(st.sampled_from(["a", "b"]), SCALARS, max_size=1)
)


@given(st.sampled_from(EXPRESSIONS), VALUES, st.booleans())
def test_answers_without_pydantic_are_those_of_pydantic(expression: str, value: object, strict: bool) -> None:
    from pydantic import ValidationError

    try:
        _adapter(expression, strict).validate_python(value)
        answer = True
    except ValidationError:
        answer = False
    assert _accepts(expression, value, strict=strict) is answer


def test_common_values_need_no_pydantic() -> None:
    code = (
        "import sys\n"
        "from cfglint.dialects.schema import _accepts\n"
        "print(_accepts('float', '2e-5', strict=False), _accepts('int | None', 'cosine', strict=False))\n"
        "print(_accepts('None', 'bfloat16', strict=False), _accepts('int', '8', strict=True))\n"
        "print('pydantic' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "False", "False", "False"]


@pytest.mark.parametrize(
    "value", ["__MODEL__", "<MODEL>", "@LR@", "%LR%", "org/<MODEL_NAME>", "{{ x }}", "${X}", "auto", "???"]
)
def test_what_has_still_to_be_filled_in_is_unknown(value: str) -> None:
    from cfglint.dialects.schema import is_unknown

    assert is_unknown(value)


@pytest.mark.parametrize("value", ["<pad>", "<|im_end|>", "__init__", "a@b.c", "org/model", "5%"])
def test_other_marks_are_values(value: str) -> None:
    from cfglint.dialects.schema import is_unknown

    assert not is_unknown(value)
