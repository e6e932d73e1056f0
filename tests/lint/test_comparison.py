"""Two states set side by side: which jobs and findings are the same."""

from __future__ import annotations

import pytest

from cfglint.lint.comparison import Comparison, compare
from cfglint.testing import lint_files

SFT = """\
model_name_or_path: Qwen/Qwen2.5-1.5B
max_length: 1024
per_device_train_batch_size: {batch}
gradient_accumulation_steps: 8
learning_rate: {rate}
num_train_epochs: 3
lr_scheduler_type: cosine
output_dir: out
bf16: true
"""


def sft(batch: int = 1, rate: str = "1.0e-5") -> str:
    return SFT.format(batch=batch, rate=rate)


def compared(before: dict[str, str], after: dict[str, str]) -> Comparison:
    return compare(lint_files(before, strict=False), lint_files(after, strict=False))


def statuses(made: Comparison) -> dict[str, str]:
    return {change.job.name: change.status for change in made.jobs}


def test_jobs_that_swap_their_names_are_taken_by_name() -> None:
    made = compared({"a.yaml": sft(1), "b.yaml": sft(2)}, {"a.yaml": sft(2), "b.yaml": sft(1)})
    assert statuses(made) == {"a.yaml": "changed", "b.yaml": "changed"}
    changes = {change.job.name: [(f.name, f.before, f.after) for f in change.facts] for change in made.jobs}
    assert changes == {"a.yaml": [("micro_batch_size", 1, 2)], "b.yaml": [("micro_batch_size", 2, 1)]}


def test_of_several_candidates_the_likest_is_the_renamed_job() -> None:
    made = compared(
        {"old.yaml": sft(4, "3.0e-5")},
        {"x/one.yaml": sft(1, "1.0e-5"), "x/two.yaml": sft(4, "2.0e-5")},
    )
    assert statuses(made) == {"x/two.yaml": "changed", "x/one.yaml": "added"}


def test_jobs_of_other_formats_are_never_one() -> None:
    serve = "vllm serve Qwen/Qwen2.5-7B --max-model-len 4096\n"
    made = compared({"run.yaml": sft()}, {"serve.sh": serve})
    assert statuses(made) == {"serve.sh": "added", "run.yaml": "removed"}


def test_the_worst_comes_first() -> None:
    gpu = "# cfglint: gpu={gpu} gpus=1\n"
    before = {name: gpu.format(gpu="H200-SXM") + sft() for name in ("a.yaml", "b.yaml", "c.yaml")}
    after = {
        "a.yaml": gpu.format(gpu="H200-SXM") + sft(2),
        "b.yaml": gpu.format(gpu="T4") + sft(),
        "c.yaml": before["c.yaml"],
    }
    made = compared(before, after)
    assert [change.job.name for change in made.jobs] == ["b.yaml", "a.yaml", "c.yaml"]
    assert made.jobs[0].verdicts[1] == "oom" and made.jobs[0].stops_fitting and made.jobs[0].worse > 0
    assert not made.jobs[1].stops_fitting


def test_numbers_written_otherwise_are_no_change() -> None:
    made = compared({"a.yaml": sft(rate="1.0e-5")}, {"a.yaml": sft(rate="0.00001")})
    assert statuses(made) == {"a.yaml": "same"}


@pytest.mark.parametrize("moved", [False, True])
def test_findings_of_a_list_item_move_with_it(moved: bool) -> None:
    """A dataset put before another shifts its index, not its fault."""
    head = "base_model: Qwen/Qwen2.5-7B\nsequence_len: 2048\nmicro_batch_size: 1\nadapter: lora\nlora_r: 8\ndatasets:\n"
    bad, good = "  - path: a/b\n    type: sharegpt\n", "  - path: c/d\n    type: alpaca\n"
    before = lint_files({"a.yaml": head + bad}, strict=False)
    assert [f.code for f in before.shown if f.key.startswith("datasets")], "a fault inside the list is needed"
    made = compare(before, lint_files({"a.yaml": head + (good + bad if moved else bad)}, strict=False))
    assert made.findings.added == [] and made.findings.removed == [] and made.findings.reworded == []


AXOLOTL = "base_model: Qwen/Qwen2.5-7B\nsequence_len: 2048\nmicro_batch_size: 1\nlearning_rate: 0.0001\nadapter: lora\nlora_r: 8\n"


def test_a_second_fault_of_a_kind_is_new() -> None:
    one, two = AXOLOTL + "sequence_length: 1\n", AXOLOTL + "sequence_length: 1\nlearning_rat: 1\n"
    for before, after in ((one, two), (two, one)):
        made = compared({"a.yaml": before}, {"a.yaml": after})
        told = [f for f in made.findings.raised if "learning_rat" in f.message]
        assert len(told) == (after == two), [(f.code, f.message) for f in made.findings.raised]


def test_louder_findings_count_as_raised() -> None:
    text = '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}, "gradient_cliping": 1.0}'
    loud = '[severity]\nSCH002 = "error"\n'
    made = compared({"ds.json": text}, {"ds.json": text, "cfglint.toml": loud})
    ((was, now),) = made.findings.reworded
    assert (was.severity, now.severity) == ("warning", "error")
    assert made.findings.raised == [now] and made.findings.added == []
    assert made.elsewhere.reworded == made.findings.reworded
