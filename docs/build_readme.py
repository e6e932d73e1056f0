"""Writes the command outputs that README.md shows, by running the commands.

    python docs/build_readme.py [--check]

Between ``<!-- run: … -->`` and ``<!-- end -->`` stands what the command printed; ``--check`` exits 1 when it would differ.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
_BLOCK = re.compile(r"<!-- run: (?P<command>.+?) -->\n.*?<!-- end -->", re.DOTALL)


def output(command: str) -> str:
    """What a ``cfglint`` command prints without a terminal."""
    words = [sys.executable, "-m", *shlex.split(command)]
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "110", "PYTHONIOENCODING": "utf-8", "PYTHONUTF8": "1"}
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", env=environment)
    if done.returncode not in (0, 1) or done.stderr:
        sys.exit(f"{command}: exit {done.returncode}\n{done.stderr}")
    return "\n".join(line.rstrip() for line in done.stdout.rstrip().splitlines())


def made(text: str) -> str:
    """README's text with every block run anew."""

    def block(match: re.Match[str]) -> str:
        command = match["command"]
        return f"<!-- run: {command} -->\n```console\n$ {command}\n{output(command)}\n```\n<!-- end -->"

    return _BLOCK.sub(block, text)


def main() -> None:
    before = README.read_text("utf-8")
    after = made(before)
    if "--check" in sys.argv:
        if before != after:
            sys.exit("README.md is stale: python docs/build_readme.py")
    else:
        README.write_text(after, "utf-8")


if __name__ == "__main__":
    main()
