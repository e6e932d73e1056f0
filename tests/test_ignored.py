"""Whether git leaves a path out."""

from pathlib import Path

from cfglint.discovery import is_ignored


def test_ignore_files_from_the_checkout_down(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / ".gitignore").write_text("out/\n*.local.yaml\n")
    (tmp_path / "sub" / ".gitignore").write_text("own.yaml\n")
    for path, expected in (
        ("a.local.yaml", True), ("sub/b.local.yaml", True), ("sub/own.yaml", True), ("own.yaml", False),
        ("sub/out/c.yaml", True), ("sub/d.yaml", False),
    ):  # fmt: skip
        assert is_ignored(str(tmp_path / path)) is expected, path
