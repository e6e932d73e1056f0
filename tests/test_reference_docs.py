"""The reference page is what the code's own data says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cfglint import formulas, precision

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference.md"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_the_page_is_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "build_reference.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_stale_page_is_noticed(tmp_path: Path) -> None:
    for name in ("cfglint", "docs"):
        (tmp_path / name).mkdir()
    (tmp_path / "cfglint" / "__init__.py").touch()
    for name in ("formulas.py", "precision.py"):
        (tmp_path / "cfglint" / name).write_bytes((ROOT / "cfglint" / name).read_bytes())
    script = tmp_path / "docs" / "build_reference.py"
    script.write_bytes((ROOT / "docs" / "build_reference.py").read_bytes())
    (tmp_path / "docs" / "reference.md").write_text("old\n", encoding="utf-8")
    stale = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
    assert stale.returncode == 1
    assert "stale" in stale.stderr
    assert subprocess.run([sys.executable, str(script)]).returncode == 0
    assert subprocess.run([sys.executable, str(script), "--check"]).returncode == 0
    assert (tmp_path / "docs" / "reference.md").read_bytes() == PAGE.read_bytes()


def test_every_formula_and_format_is_there(page: str) -> None:
    for formula in formulas.all_formulas():
        assert formula.expression in page
        assert formula.source in page
    for entry in precision.PRECISIONS:
        assert f"| {entry.name} |" in page
    for number in ("65,504", "448", "57,344", "3.3895e+38", "3.4028e+38", "4.127", "4.25"):
        assert number in page


@pytest.mark.parametrize(
    "text",
    [
        "nvidia-smi dmon -s", "nvidia-smi pmon -s", "torchrun --nproc_per_node=4", "--nnodes=2", "max_memory_allocated",
        "max_memory_reserved", "torch.cuda.memory_allocated", "torch.cuda.memory_reserved", "torch.profiler",
        "all_reduce_perf", "`allocated_gib`", "`reserved_gib`", "`used_gib`", "1e9", "Vendor specifications change",
        "cfglint gpus NAME",
    ],
)  # fmt: skip
def test_commands_and_their_figures_are_there(page: str, text: str) -> None:
    assert text in page
