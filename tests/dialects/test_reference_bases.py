"""What relative paths start from, where it is certain."""

from __future__ import annotations

import pytest

from cfglint.dialects.carriers.shell import own_folder
from cfglint.dialects.recognise import recognise_files
from cfglint.source.shell import parse_shell
from cfglint.source.yaml import parse_yaml


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ('cd "$(dirname "$0")"\n', "."),
        ("cd $(dirname $0)/..\n", ".."),
        ('cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit\n', "../.."),
        ('D="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" &>/dev/null && pwd)"\ncd "$D/.."\n', ".."),
        ('D=$( cd -- "$( dirname -- "$0" )" &> /dev/null && pwd )\ncd ${D}\n', "."),
        ('ROOT=$(dirname "$0")/..\ncd "$ROOT"\n', ".."),
        ('cd "$(dirname "$0")"\ncd data\n', None),
        ('(cd build && make)\ncd "$(dirname "$0")"\n', None),
        ("cd $HOME\n", None),
        ('D=$(dirname "$0")\nsource $D/env.sh\n', None),
    ],
)
def test_scripts_that_go_to_their_own_folder(text: str, folder: str | None) -> None:
    found = own_folder(parse_shell("a.sh", text).documents[0])
    assert (found[0] if found else None) == folder


TRAIN = (
    "accelerate launch --config_file conf/a.yaml train.py --deepspeed /abs/ds.json --model_name_or_path org/m "
    "--per_device_train_batch_size 1 --learning_rate 1e-5 --output_dir o\n"
)


def references(text: str) -> dict[str, tuple[str, str]]:
    readings, _ = recognise_files([parse_shell("scripts/run.sh", text)])
    return {ref.role: (ref.target, ref.base) for reading in readings for ref in reading.references}


def test_paths_of_a_command_after_it_start_there() -> None:
    found = references('cd "$(dirname "$0")/.."\n' + TRAIN)
    assert found["accelerate"] == ("../conf/a.yaml", "file")
    assert found["deepspeed"] == ("/abs/ds.json", "cwd")
    assert found["model"] == ("org/m", "cwd"), "an id of the Hub is no path"
    assert references(TRAIN)["accelerate"] == ("conf/a.yaml", "cwd")
    assert references(TRAIN + 'cd "$(dirname "$0")/.."\n')["accelerate"] == ("conf/a.yaml", "cwd")


def test_primus_extends_from_its_own_folder() -> None:
    text = (
        "work_group: a\nexp_name: b\nextends: [base.yaml, ../x.yaml]\nmodules:\n  pre_trainer:\n    framework: megatron\n"
        "    config: pre_trainer.yaml\n    model: llama3_8B.yaml\n    overrides: {train_iters: 10}\n"
    )
    readings, _ = recognise_files([parse_yaml("conf/exp.yaml", text)])
    found = [(ref.target, ref.base) for ref in readings[0].references if ref.role == "extends"]
    assert found == [("base.yaml", "file"), ("../x.yaml", "file")]
