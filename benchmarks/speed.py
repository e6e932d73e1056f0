"""Time `cfglint check` beside other linters on the same files, as whole processes, in one run.

    python benchmarks/speed.py FOLDER [--runs N]

FOLDER holds YAML files. Peers are run where they are installed (`pip install yamllint check-jsonschema`); each command is
run once to warm up and then N times in turn, so that a drift of the machine's speed hits all alike. Prints medians of the
processor time that the children used and of the wall time, and the ratio to cfglint's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LOOSE_SCHEMA = "{}"


def commands(folder: Path, schema: Path) -> dict[str, list[str]]:
    """What is timed: on one file and on all."""
    files = sorted(str(p) for p in folder.rglob("*.y*ml"))
    one, several = files[:1], files[:200]
    python = sys.executable
    found = {
        "cfglint --version": [python, "-m", "cfglint", "--version"],
        "cfglint, 1 file": [python, "-m", "cfglint", "check", "--fail-on", "never", *one],
        f"cfglint, {len(several)} files": [python, "-m", "cfglint", "check", "--fail-on", "never", *several],
    }
    if shutil.which("yamllint"):
        found["yamllint, 1 file"] = ["yamllint", "-d", "relaxed", *one]
        found[f"yamllint, {len(several)} files"] = ["yamllint", "-d", "relaxed", *several]
    if shutil.which("check-jsonschema"):
        head = ["check-jsonschema", "--schemafile", str(schema)]
        found["check-jsonschema, 1 file"] = [*head, *one]
        found[f"check-jsonschema, {len(several)} files"] = [*head, *several]
    return found


def timed(command: list[str]) -> tuple[float, float]:
    """Processor seconds and wall seconds of one run."""
    before = os.times()
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    wall = time.perf_counter() - start
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent, wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        schema = Path(scratch, "schema.json")
        schema.write_text(LOOSE_SCHEMA, "utf-8")
        todo = commands(args.folder, schema)
        runs: dict[str, list[tuple[float, float]]] = {name: [] for name in todo}
        for i in range(args.runs + 1):
            for name, command in todo.items():
                took = timed(command)
                if i:
                    runs[name].append(took)
    print(f"{'command':34} {'cpu s':>8} {'wall s':>8}")
    for name, took in runs.items():
        print(f"{name:34} {statistics.median(c for c, _ in took):8.3f} {statistics.median(w for _, w in took):8.3f}")


if __name__ == "__main__":
    main()
