"""Hydra's composition: defaults lists, packages, choices, and what is not at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from cfglint.dialects import hydra
from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.linker import HardwareOptions, Surroundings, link
from cfglint.source.node import Document, Mapping, plain
from cfglint.source.shell import commands_of, parse_shell
from cfglint.source.yaml import parse_yaml


def composed(primary: str, chosen: dict[str, str | None] | None = None, **files: str) -> tuple[object, list[str]]:
    """The tree of ``conf/main.yaml`` over ``files``, whose names have ``__`` for a slash."""
    documents: dict[str, Document] = {}
    for name, text in {"main": primary, **files}.items():
        path = f"conf/{name.replace('__', '/')}.yaml"
        documents[path] = parse_yaml(path, text).documents[0]
    document = documents["conf/main.yaml"]
    assert isinstance(document.root, Mapping)
    found = hydra.compose(document, document.root, documents.get, chosen or {})
    return plain(found.root), found.missing


MODEL = "name: small\nlayers: 2\n"


@pytest.mark.parametrize(
    ("defaults", "expected"),
    [
        ("- model: small", {"model": {"name": "small", "layers": 2}, "a": 1}),
        ("- model@net: small", {"net": {"name": "small", "layers": 2}, "a": 1}),
        ("- model@net.inner: small", {"net": {"inner": {"name": "small", "layers": 2}}, "a": 1}),
        ("- model@_global_: small", {"name": "small", "layers": 2, "a": 1}),
        ("- /model: small", {"model": {"name": "small", "layers": 2}, "a": 1}),
        ("- base", {"a": 1, "b": 5}),
        ("- optional model: none_such", {"a": 1}),
        ("- model: null", {"a": 1}),
        ("- override hydra/launcher: joblib", {"a": 1}),
        ("- hydra/job_logging: disabled", {"a": 1}),
    ],
)
def test_entries(defaults: str, expected: object) -> None:
    tree, missing = composed(f"defaults:\n  {defaults}\na: 1\n", model__small=MODEL, base="a: 9\nb: 5\n")
    assert (tree, missing) == (expected, [])


@pytest.mark.parametrize(("order", "value"), [("- base\n  - _self_", 1), ("- _self_\n  - base", 9), ("- base", 1)])
def test_the_later_wins_and_self_is_last_unless_placed(order: str, value: int) -> None:
    tree, _ = composed(f"defaults:\n  {order}\na: 1\n", base="a: 9\n")
    assert tree == {"a": value}


def test_files_bring_in_files_in_their_package() -> None:
    tree, _ = composed(
        "defaults:\n  - actor@worker.actor: gpu\n",
        actor__gpu="defaults:\n  - base\n  - /optim@optim: adam\n  - _self_\nbatch: 4\n",
        actor__base="batch: 1\nlength: 8\n",
        optim__adam="lr: 0.1\n",
    )
    assert tree == {"worker": {"actor": {"batch": 4, "length": 8, "optim": {"lr": 0.1}}}}


def test_a_header_says_the_package() -> None:
    tree, _ = composed("defaults:\n  - experiment: big\n", experiment__big="# @package _global_\nbatch: 2\n")
    assert tree == {"batch": 2}


def test_choices_of_a_command_and_overrides_of_a_list() -> None:
    files = {"model__small": MODEL, "model__large": "name: large\n", "base": "defaults:\n  - model: small\n"}
    assert composed("defaults:\n  - model: small\n", {"model": "large"}, **files)[0] == {"model": {"name": "large"}}
    assert composed("defaults:\n  - model: small\n", {"model": None}, **files)[0] == {}
    assert composed("defaults:\n  - base\n  - override model: large\n", **files)[0] == {"model": {"name": "large"}}


def test_groups_that_a_command_adds() -> None:
    chosen: dict[str, str | None] = {"+optim@net.optim": "adam", "+count": "3"}
    tree, missing = composed("defaults:\n  - _self_\na: 1\n", chosen, optim__adam="lr: 0.1\n")
    assert (tree, missing) == ({"a": 1, "net": {"optim": {"lr": 0.1}}}, [])


def test_what_is_not_at_hand_makes_all_before_it_unknown() -> None:
    tree, missing = composed("defaults:\n  - base\n  - gone: x\n  - _self_\na: 1\n", base="b: 2\n")
    assert (tree, missing) == ({"a": 1}, ["gone/x"])
    tree, missing = composed("defaults:\n  - gone: ${which}\n  - base\n", base="b: 2\n")
    assert (tree, missing) == ({"b": 2}, ["gone/${which}"])


def test_a_cycle_ends() -> None:
    tree, _ = composed("defaults:\n  - base\na: 1\n", base="defaults:\n  - base\nb: 2\n")
    assert isinstance(tree, dict)
    assert tree["a"] == 1


def test_words_that_may_choose() -> None:
    text = "python x.py model=large +optim@net.optim=adam ~logger a.b=1 key='v'"
    file = parse_shell("a.sh", "")
    (command,) = commands_of(file, text, list(range(len(text))))
    assert hydra.choices(command.words) == {"model": "large", "+optim@net.optim": "adam", "logger": None, "key": "v"}


PRIMARY = """
defaults:
  - actor@actor_rollout_ref.actor: dp
  - _self_
actor_rollout_ref: {model: {path: org/default}, rollout: {n: 4}}
data: {max_prompt_length: 512, max_response_length: 1024}
trainer: {n_gpus_per_node: 8, nnodes: 1}
algorithm: {adv_estimator: grpo}
"""
ACTOR = "strategy: fsdp\nppo_mini_batch_size: 64\nppo_micro_batch_size_per_gpu: 2\noptim: {lr: 1e-6}\n"


def job_of(command: str) -> TrainingJob:
    files = {
        "pkg/trainer/config/main.yaml": PRIMARY,
        "pkg/trainer/config/actor/dp.yaml": ACTOR,
        "pkg/trainer/config/actor/big.yaml": ACTOR.replace("per_gpu: 2", "per_gpu: 16"),
    }
    parsed = {path: parse_yaml(path, text) for path, text in files.items()}
    readings, _ = recognise_files([*parsed.values(), parse_shell("run.sh", command)])
    around = Surroundings(root=Path("."), document=lambda path: parsed[path].documents[0] if path in parsed else None)
    found = [j for j in link(readings, HardwareOptions(), around).training if "run.sh" in j.documents]
    assert len(found) == 1
    return found[0]


def test_a_command_s_config_is_composed_under_its_overrides() -> None:
    job = job_of(
        "python3 -m pkg.trainer.main_ppo --config-path=config --config-name='main.yaml' "
        "actor_rollout_ref.model.path=org/m data.max_response_length=2048\n"
    )
    expected = {
        "model_id": "org/m", "sequence_length": 2560, "micro_batch_size": 2, "global_batch_size": 256, "gpus_per_node": 8,
        "learning_rate": 1e-6, "method": "grpo", "fsdp": "full_shard",
    }  # fmt: skip
    assert {name: job.value(name) for name in expected} == expected
    fact = job.fact("micro_batch_size")
    assert fact is not None
    assert isinstance(fact.origin, FileOrigin)
    assert (fact.origin.document.path, fact.origin.position.line) == ("pkg/trainer/config/actor/dp.yaml", 3)


def test_a_command_picks_the_file_of_a_group() -> None:
    job = job_of(
        "python3 -m pkg.trainer.main_ppo --config-path=config --config-name=main "
        "actor@actor_rollout_ref.actor=big actor_rollout_ref.model.path=org/m\n"
    )
    assert job.value("micro_batch_size") == 16
