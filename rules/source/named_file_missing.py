"""SRC011."""

from __future__ import annotations

import os
from collections.abc import Iterator

from cfglint.discovery import is_ignored
from cfglint.jobs.facts import Reading, Reference
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

ROLES = {
    "defaults": "builds on", "extends": "builds on", "config": "names", "accelerate": "names", "deepspeed": "names",
    "fsdp": "names",
}  # fmt: skip
_OPEN = ("://", "${", "$(", "{{", "*", "~", "<")
_CHECKOUT = {".git/HEAD": "ref: refs/heads/main\n"}


class NamedFileMissing(Rule):
    """A file that a config builds on, or that a script names, does not exist.

    The run stops before it starts. It is mostly a file that was moved or renamed while those that name it were not.

    Said only where it is certain what a relative path starts from: NeMo-RL's `defaults` and Primus' `extends` start from the folder
    of the file itself, and a script that first goes to its own folder (`cd "$(dirname "$0")"`) names files from there. Paths that
    start from the working directory may be right wherever the command is run, and absolute ones on another machine: nothing is said
    of them. Nor is it outside a checkout (a folder with `.git`), where a file may stand alone, of files that `.gitignore`
    leaves out, and of those that the script itself writes.

    How sure: the loaders' source. A file that something makes before the run may still be missing in the checkout, so it is a
    warning.
    """

    code = "SRC011"
    name = "named-file-missing"
    family = "source"
    severity = "warning"
    confidence = "high"
    evidence = (
        "https://github.com/NVIDIA-NeMo/RL/blob/main/nemo_rl/utils/config.py",
        "https://github.com/AMD-AGI/Primus/blob/main/primus/core/config/yaml_loader.py",
    )
    good = (
        example(
            {
                **_CHECKOUT,
                "recipes/child.yaml": """
                defaults: ../base.yaml
                policy: {model_name: Qwen/Qwen2.5-1.5B}
                grpo: {max_num_steps: 10}
                cluster: {gpus_per_node: 8, num_nodes: 1}
                """,
                "base.yaml": """
                policy: {model_name: Qwen/Qwen2.5-7B, train_micro_batch_size: 1, max_total_sequence_length: 512}
                grpo: {max_num_steps: 100}
                logger: {}
                cluster: {gpus_per_node: 1, num_nodes: 1}
                """,
            }
        ),
        example(
            {
                **_CHECKOUT,
                "scripts/run.sh": """
                #!/bin/bash
                accelerate launch --config_file configs/zero3.yaml train.py \\
                    --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 1 --learning_rate 1e-5 --output_dir out
                """,
            },
            note="where the command is run from is not known",
        ),
        example(
            {
                **_CHECKOUT,
                "scripts/run.sh": """
                #!/bin/bash
                cd "$(dirname "$0")"
                cat > ds.json <<EOF
                {"zero_optimization": {"stage": 2}}
                EOF
                deepspeed --num_gpus 8 train.py --deepspeed ds.json \\
                    --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 1 --learning_rate 1e-5 --output_dir out
                """,
            },
            note="the script writes the file",
        ),
    )
    bad = (
        example(
            {
                **_CHECKOUT,
                "recipes/child.yaml": """
                defaults: ../grpo_math_1B.yaml
                policy: {model_name: Qwen/Qwen2.5-1.5B}
                grpo: {max_num_steps: 10}
                cluster: {gpus_per_node: 8, num_nodes: 1}
                """,
            },
            at="defaults",
            count=1,
        ),
        example(
            {
                **_CHECKOUT,
                "scripts/run.sh": """
                #!/bin/bash
                cd "$(dirname "$0")/.."
                accelerate launch --config_file configs/zero3.yaml train.py \\
                    --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 1 --learning_rate 1e-5 --output_dir out
                """,
            },
            at="config_file",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        for reference in reading.references:
            if reference.base != "file" or reference.role not in ROLES or not _plain(reference.target):
                continue
            shown = reference.origin.document.path
            own = os.path.join(context.root, shown)
            path = os.path.normpath(os.path.join(os.path.dirname(own), reference.target))
            if os.path.exists(path) or not os.path.isfile(own) or _written(reference):
                continue
            checkout = _checkout(os.path.dirname(os.path.abspath(own)))
            if checkout is None or not os.path.abspath(path).startswith(checkout + os.sep) or is_ignored(path):
                continue
            place = os.path.relpath(path, context.root).replace(os.sep, "/")
            yield self.finding(
                f"{os.path.basename(shown)} {ROLES[reference.role]} {place}, which does not exist",
                reference.origin,
                help="correct the path: it starts from the folder of this file, not from where the run is started",
            )


def _plain(target: str) -> bool:
    return bool(target) and not os.path.isabs(target) and not any(sign in target for sign in _OPEN)


def _written(reference: Reference) -> bool:
    """Whether a script speaks of the file elsewhere, as one that writes it does."""
    file = reference.origin.document.file
    return file.script is not None and file.text.count(os.path.basename(reference.target)) > 1


def _checkout(folder: str) -> str | None:
    """The work tree of git that a folder lies in."""
    here = folder
    while True:
        if os.path.exists(os.path.join(here, ".git")):
            return here
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above
