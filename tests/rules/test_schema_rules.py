"""The schema rules beyond their examples: standing in ranges of releases, severity by reader, fixes that hold."""

from __future__ import annotations

import pytest
from cfglint_rules.schema.standing import standing_in

from cfglint.dialects.schema import load_schema
from cfglint.lint.finding import Finding
from cfglint.lint.fixes import apply_fixes
from cfglint.lint.registry import load_rules
from cfglint.source.node import plain
from cfglint.testing import lint_files

TRAINING = """\
model_name_or_path: Qwen/Qwen2.5-0.5B
per_device_train_batch_size: 4
num_train_epochs: 1
"""


def found(text: str, *, name: str = "train.yaml", requirements: str = "", code: str = "SCH") -> list[Finding]:
    files = {name: text, **({"requirements.txt": requirements} if requirements else {})}
    select = tuple(c for c in load_rules() if c.startswith(code))
    result = lint_files(files, select=select)
    assert not result.faults
    return [f for f in result.findings if f.code.startswith(code)]


@pytest.mark.parametrize(
    ("key", "stated", "standing"),
    [
        ("evaluation_strategy", "==4.57.1", "removed"),
        ("evaluation_strategy", ">=5.2", "removed"),
        ("evaluation_strategy", ">=4.40", "unknown"),
        ("evaluation_strategy", "==4.44.2", "deprecated"),
        ("evaluation_strategy", "<4.41", "ok"),
        ("evaluation_strategy", None, "unknown"),
        ("eval_strategy", "<4.41", "not-yet"),
        ("eval_strategy", ">=4.41,<5", "ok"),
        ("warmup_ratio", "~=4.57", "ok"),
        ("learning_rate", None, "ok"),
    ],
)
def test_standing_in_what_is_stated(key: str, stated: str | None, standing: str) -> None:
    schema = load_schema("hf-training-args")
    info = schema.key(key)
    assert info is not None
    assert standing_in(info, schema, stated) == standing


def test_a_key_that_no_release_read_has_is_removed_without_a_version() -> None:
    schema = load_schema("axolotl")
    info = schema.key("max_packed_sequence_len")
    assert info is not None
    assert standing_in(info, schema, None) == "removed"


@pytest.mark.parametrize(
    ("requirements", "outcome"),
    [
        ("transformers==5.2.0\n", ("SCH005", "error")),
        ("transformers>=4.40\n", ("SCH006", "info")),
        ("", ("SCH006", "info")),
        ("transformers==4.38.0\n", None),
    ],
)
def test_a_renamed_argument_by_release(requirements: str, outcome: tuple[str, str] | None) -> None:
    findings = [
        f for f in found(TRAINING + "evaluation_strategy: epoch\n", requirements=requirements) if f.code != "SCH007"
    ]
    assert [(f.code, f.severity) for f in findings] == ([outcome] if outcome else [])


def test_unknown_keys_weigh_by_what_the_reader_does() -> None:
    accelerate = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: 1\n"
    slip = found(accelerate + "num_proceses: 8\n", name="accelerate.yaml")
    assert [(f.code, f.severity) for f in slip] == [("SCH001", "error")]
    other = found(accelerate + "num_processes: 8\nour_own_key: 1\n", name="accelerate.yaml")
    assert [(f.code, f.severity) for f in other] == [("SCH001", "warning")]
    known = found(
        accelerate + "num_processes: 8\nour_own_key: 1\n", name="accelerate.yaml", requirements="accelerate==1.10.1\n"
    )
    assert [(f.code, f.severity) for f in known] == [("SCH001", "error")]
    dropped = found(
        '{"train_batch_size": 8, "steps_per_print": 1, "zero_optimization": {"stage": 2}, "gradient_cliping": 1}',
        name="ds.json",
    )
    assert [(f.code, f.severity) for f in dropped] == [("SCH002", "warning")]


def test_precision_blocks_refuse_unknown_keys_only_in_later_deepspeed() -> None:
    text = '{"train_batch_size": 8, "steps_per_print": 1, "zero_optimization": {"stage": 2}, "fp16": {"enabled": true, "los_scale": 0}}'
    unsaid = found(text, name="ds.json")
    assert [(f.code, f.severity) for f in unsaid] == [("SCH001", "warning")]
    later = found(text, name="ds.json", requirements="deepspeed==0.18.2\n")
    assert [(f.code, f.severity) for f in later] == [("SCH001", "error")]


def test_scripts_with_arguments_of_their_own_are_left_alone() -> None:
    command = "python train.py --per_device_train_batch_size 4 --num_train_epochs 1 --learning_rate 1e-5 --bf16 True --learnin_rate 3\n"
    assert found(command, name="run.sh") == []
    instruct = TRAINING + "dataset_mixer_list: [a, b]\nwith_tracking: true\nwarmup_ratio: 0.03\n"
    assert found(instruct) == []


@pytest.mark.parametrize(
    ("text", "requirements", "key", "value"),
    [
        ("evaluation_strategy: epoch\n", "transformers==5.2.0\n", "eval_strategy", "epoch"),
        ("warmup_ratio: 0.1\n", "transformers==5.20.0\n", "warmup_steps", 0.1),
        ("learning_rate: 2e-5\n", "", "learning_rate", 2e-5),
        ("learning_rate: 3E-4  # tried 1e-4\n", "", "learning_rate", 3e-4),
        ("eval_strategy: no\n", "", "eval_strategy", "no"),
    ],
)
def test_fixes_do_what_they_say(text: str, requirements: str, key: str, value: object) -> None:
    files = {"train.yaml": TRAINING + text, **({"requirements.txt": requirements} if requirements else {})}
    select = tuple(c for c in load_rules() if c.startswith("SCH"))
    result = lint_files(files, select=select, strict=False)
    fixed = apply_fixes(result.findings, result.context.files, lambda files: [], unsafe=False)
    assert not fixed.dropped
    from cfglint.source.text import parse_text

    made = parse_text("train.yaml", fixed.texts["train.yaml"], "yaml")
    tree = plain(made.documents[0].root)
    assert isinstance(tree, dict) and tree[key] == value


@pytest.mark.parametrize("value", ["null", "[]", "{}", "'x'", "1.5", "true", "2024-01-01", "[{a: 1}]", "&a [*a]"])
def test_odd_values_are_no_fault(value: str) -> None:
    keys = (
        "learning_rate",
        "datasets",
        "deepspeed",
        "fsdp_config",
        "trl",
        "lora_target_modules",
        "quantization_config",
        "val_size",
    )
    text = TRAINING + "".join(f"{key}: {value}\n" for key in keys)
    for name, head in (
        ("train.yaml", ""),
        ("axolotl.yaml", "base_model: a/b\nsequence_len: 1\nmicro_batch_size: 1\nadapter: qlora\n"),
    ):
        result = lint_files({name: head + text}, gpu="H100", gpus=2)
        assert not result.faults, result.faults


def test_accelerate_turns_its_old_dynamo_key_into_the_new_one() -> None:
    file = (
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\ndynamo_backend: 'NO'\nnum_machines: 1\n"
        "num_processes: 8\nmixed_precision: bf16\n"
    )
    result = lint_files({"accelerate.yaml": file, "requirements.txt": "accelerate>=0.21.0\n"})
    assert not [f for f in result.findings if f.severity in ("error", "warning")]
