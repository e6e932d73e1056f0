"""The rules' own examples are their tests: every bad one is found at its key, every good one is left alone."""

from __future__ import annotations

import pytest
from example_rules.epoch_budget import EpochBudget
from example_rules.tracked_runs import TrackedRuns

from cfglint.lint.rule import Rule
from cfglint.testing import check_examples, lint_files

RUN = "per_device_train_batch_size: 4\ngradient_accumulation_steps: 8\nnum_train_epochs: 12\nreport_to: none\n"


@pytest.mark.parametrize("rule", [EpochBudget, TrackedRuns])
def test_examples(rule: type[Rule]) -> None:
    check_examples(rule)


def test_parameters_come_from_settings() -> None:
    settings = '[rules.ACM001]\ntrackers = ["none"]\n\n[rules.ACM002]\nmax-epochs = 5\n'
    found = lint_files({"sft.yaml": RUN, "cfglint.toml": settings}, select=("ACM",)).findings
    assert [(finding.code, finding.message) for finding in found] == [("ACM002", "12 epochs, 5 are allowed")]
