"""Score recognition, silence and speed on the corpus of real configs and on the launch scripts it lists by address.

usage: score_formats.py [--corpus FOLDER] [--scripts FOLDER] [--clones FOLDER] [--list]

The corpus is ``../shared/corpus`` (``index.jsonl``, ``files/``). Launch scripts are not kept there: ``scripts.jsonl`` names
repository, commit and path. To have them judged as well, either

- clone the repositories (bare or not) into one folder, as ``OWNER/NAME``, ``OWNER__NAME`` or ``OWNER+NAME``, and give it with
  ``--clones``: whatever is listed and found there (at its commit or at HEAD) is copied into the folder of ``--scripts``; or
- give with ``--scripts`` a folder that holds them already, as ``OWNER__NAME/PATH/IN/THE/REPOSITORY``.

All files of a tree are checked in one run, as a user would; each is then checked alone, so that its time is its own. Shares
weigh each repository alike within its framework.
``as labelled`` counts every row; ``of its kind`` leaves out the rows that ``not_of_their_label.json`` names, with the reason: the
labels were given by repository and words, and some rows are no launch at all. Errors on ``shipped`` and ``ci`` files that are
true are named in ``broken_in_corpus.json`` with the proof.
"""

from __future__ import annotations

import argparse
import collections
import gc
import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cfglint.lint.engine import run
from cfglint.settings import SettingsResolver
from cfglint.source import read_file

HERE = Path(__file__).parent
CORPUS = HERE.parents[1] / "shared" / "corpus"
WORKING = ("shipped", "ci")
SILENT = ("fragment", "template")
"""Tiers of which nothing is asked but silence."""
SLOWEST_ALLOWED = 1.0
"""Seconds for one file."""
CONFIGS_WANTED = 0.98
SCRIPTS_WANTED = 0.95
WARNED_SHARE = 1 / 20

TRAINERS = frozenset(
    ["launch", "megatron", "llm-foundry", "torchtune", "maxtext", "nemo", "verl", "openrlhf", "ms-swift", "trl", "axolotl",
     "llamafactory", "litgpt", "torchtitan", "gpt-neox", "olmo", "primus", "hf-training-args", "deepspeed"]
)  # fmt: skip
ENGINES = frozenset(["vllm", "sglang", "tgi", "trtllm", "lmdeploy", "llama.cpp"])
RIGHT: dict[str, frozenset[str]] = {
    "megatron-sh": frozenset({"megatron"}),
    "megatron-yaml": frozenset({"megatron", "nemo", "primus"}),
    "openrlhf-sh": frozenset({"openrlhf"}),
    "ms-swift-sh": frozenset({"ms-swift"}),
    "vllm-yaml": frozenset({"vllm"}),
    "vllm-k8s": frozenset({"vllm"}),
    "vllm-helm": frozenset({"vllm"}),
    "vllm-compose": frozenset({"vllm"}),
    "sglang-k8s": frozenset({"sglang"}),
    "tgi-k8s": frozenset({"tgi"}),
    "launch-sh": TRAINERS,
    "trl": frozenset({"trl", "hf-training-args"}),
    "hf-training-args": frozenset({"hf-training-args", "trl"}),
    **{f"{engine}-sh": frozenset({engine}) for engine in ENGINES},
}
"""Dialects of which one makes a label right. ``launch-sh`` is a launch line of any trainer: whose arguments they are, the
label does not say; where its finer kind names an engine, that engine is asked for."""


@dataclass
class Row:
    """One labelled file, and what became of it."""

    path: str
    file: Path
    label: str
    repository: str
    tier: str
    script: bool
    dialects: frozenset[str] = frozenset()
    seconds: float = 0.0
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    fault: str = ""

    @property
    def asked(self) -> bool:
        """Whether recognition is asked of it."""
        return self.label not in ("negative", "other") and self.tier not in SILENT

    @property
    def right(self) -> bool:
        return bool(self.dialects & RIGHT.get(self.label, frozenset({self.label})))


def corpus_rows(corpus: Path) -> list[Row]:
    rows = map(json.loads, (corpus / "index.jsonl").read_text("utf-8").splitlines())
    return [Row(r["path"], Path(r["path"]), r["framework"], r["repo"], r.get("tier", ""), script=False) for r in rows]


def script_rows(corpus: Path, scripts: Path) -> list[Row]:
    found = {}
    for r in map(json.loads, (corpus / "scripts.jsonl").read_text("utf-8").splitlines()):
        place = f"{r['repo'].replace('/', '__')}/{r['original_path']}"
        label = r["sub"] if r.get("sub") in RIGHT else r["framework"]
        if (scripts / place).is_file():
            found[place] = Row(f"scripts/{place}", Path(place), label, r["repo"], r.get("tier", ""), script=True)
    return list(found.values())


def copy_scripts(corpus: Path, clones: Path, into: Path) -> None:
    """Copy the listed scripts out of clones, at their commit where the clone has it, else at HEAD."""
    listed = collections.defaultdict(list)
    for r in map(json.loads, (corpus / "scripts.jsonl").read_text("utf-8").splitlines()):
        listed[r["repo"]].append(r)
    for repository, rows in listed.items():
        git = _git_directory(clones, repository)
        if git is None:
            continue
        for r in rows:
            target = into / repository.replace("/", "__") / r["original_path"]
            if target.exists():
                continue
            for commit in (r["commit"], "HEAD"):
                show = ["git", "--git-dir", str(git), "show", f"{commit}:{r['original_path']}"]
                done = subprocess.run(show, capture_output=True)
                if done.returncode == 0:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(done.stdout)
                    break


def _git_directory(clones: Path, repository: str) -> Path | None:
    for between in ("/", "__", "+"):
        folder = clones / repository.replace("/", between)
        for git in (folder / ".git", folder / "repo", folder):
            if (git / "objects").is_dir():
                return git
    return None


def judge(rows: list[Row], root: Path) -> None:
    """Check all files in one run from ``root`` and note what was said of each; then each alone, for its time."""
    os.chdir(root)
    resolver = SettingsResolver(isolated=True)
    by = {str(row.file): row for row in rows}
    result = run([read_file(row.file) for row in rows], resolver)
    for path, told in result.files.items():
        by[path].dialects = frozenset(told.dialects)
    for fault in result.faults:
        by[fault.path].fault = f"{fault.code} {fault.error}"
    for finding in result.shown:
        row, place = by[finding.reported_path], finding.primary
        line = place.start.line if place is not None else 1
        text = f"{row.path}:{line} {finding.code} {finding.message}"
        if finding.severity in ("error", "warning"):
            (row.errors if finding.severity == "error" else row.warnings).append(text)
    del result
    gc.collect()
    gc.freeze()
    for row in rows:
        row.seconds = _seconds(row.file, resolver)
        if row.seconds > SLOWEST_ALLOWED / 2:  # a machine that others use: the better of three
            row.seconds = min(_seconds(row.file, resolver) for _ in range(3))


def _seconds(file: Path, resolver: SettingsResolver) -> float:
    start = time.perf_counter()
    run([read_file(file)], resolver)
    return time.perf_counter() - start


def share(rows: list[Row]) -> float | None:
    """Recognised, each repository alike."""
    by = collections.defaultdict(list)
    for row in rows:
        by[row.repository].append(row.right)
    return sum(sum(v) / len(v) for v in by.values()) / len(by) if by else None


def percent(value: float | None) -> str:
    return f"{value:10.1%}" if value is not None else f"{'':10}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--scripts", type=Path)
    parser.add_argument("--clones", type=Path)
    parser.add_argument("--list", action="store_true", help="name the files that were missed, claimed, warned or slow")
    args = parser.parse_args()
    corpus = args.corpus.resolve()
    rows = corpus_rows(corpus)
    judge(rows, corpus)
    with tempfile.TemporaryDirectory() as scratch:
        scripts = (args.scripts or Path(scratch)).resolve()
        if args.clones:
            copy_scripts(corpus, args.clones.resolve(), scripts)
        more = script_rows(corpus, scripts)
        judge(more, scripts)
        os.chdir(HERE)
    report([*rows, *more], args.list)


def report(rows: list[Row], listing: bool) -> None:
    proven: dict[str, str] = json.loads((HERE / "broken_in_corpus.json").read_text("utf-8"))
    excused: dict[str, str] = json.loads((HERE / "not_of_their_label.json").read_text("utf-8"))

    def unproven(row: Row) -> list[str]:
        return [e for e in row.errors if row.tier in WORKING and f"{row.path} {e.split(' ')[1]}" not in proven]

    for script in (False, True):
        part = [r for r in rows if r.script == script]
        if not part:
            continue
        wanted = SCRIPTS_WANTED if script else CONFIGS_WANTED
        print(
            f"\n{'launch scripts' if script else 'YAML, JSON, TOML'}: {len(part)} files; recognised wanted ≥ {wanted:.0%}"
        )
        print(
            f"{'framework':22} {'files':>6} {'repos':>5} {'labelled':>10} {'its kind':>10} {'errors':>7} {'warned':>7} {'slowest s':>9}"
        )
        shares = []
        for label in sorted({r.label for r in part if r.label not in ("negative",)}):
            mine = [r for r in part if r.label == label]
            asked = [r for r in mine if r.asked]
            kind = [r for r in asked if r.path not in excused]
            working = [r for r in mine if r.tier in WORKING]
            of_kind = share(kind)
            if label != "other":
                shares += [of_kind] if of_kind is not None else []
            print(
                f"{label:22} {len(mine):6} {len({r.repository for r in mine}):5} {percent(share(asked))} {percent(of_kind)} "
                f"{sum(len(unproven(r)) for r in mine):7} {sum(bool(r.warnings) for r in working):7} "
                f"{max(r.seconds for r in mine):9.2f}"
            )
            if listing:
                for row in asked:
                    if not row.right:
                        print(f"      missed {row.path}: {sorted(row.dialects)} {excused.get(row.path, '')}")
        print(f"mean over frameworks   {'':12} {'':10} {percent(sum(shares) / max(1, len(shares)))}")
        print(f"frameworks below {wanted:.0%}: {sum(s < wanted for s in shares)} of {len(shares)}")
    summary(rows, unproven, listing)


def summary(rows: list[Row], unproven: Any, listing: bool) -> None:
    foreign = [r for r in rows if r.label == "negative" and r.dialects]
    faults = [r for r in rows if r.fault]
    slow = [r for r in rows if r.seconds > SLOWEST_ALLOWED]
    working = [r for r in rows if r.tier in WORKING]
    warned = [r for r in working if r.warnings]
    broken = [r for r in rows if r.tier == "broken"]
    seen = [r for r in broken if r.errors or r.warnings]
    slowest = max(rows, key=lambda r: r.seconds)
    print(f"\nnegatives claimed      {len(foreign)} of {sum(r.label == 'negative' for r in rows)}")
    print(f"tracebacks             {len(faults)}")
    print(f"files over {SLOWEST_ALLOWED:.0f} s         {len(slow)}; slowest {slowest.seconds:.2f} s {slowest.path}")
    print(
        f"errors, shipped and ci {sum(len(unproven(r)) for r in rows)} (and {sum(len(r.errors) for r in working) - sum(len(unproven(r)) for r in rows)} proven)"
    )
    print(
        f"warned, shipped and ci {len(warned)} of {len(working)} = {len(warned) / max(1, len(working)):.1%}, at most {WARNED_SHARE:.0%}"
    )
    print(f"broken files found     {len(seen)} of {len(broken)}")
    if listing:
        for name, listed in (
            ("claimed", foreign),
            ("traceback", faults),
            ("slow", slow),
            ("not found broken", [r for r in broken if r not in seen]),
        ):
            for row in listed:
                print(f"   {name} {row.path} {sorted(row.dialects)} {row.seconds:.2f} {row.fault}")
        for row in working:
            for text in unproven(row):
                print(f"   error {text}")
        for row in working:
            for text in row.warnings:
                print(f"   warning {text}")


if __name__ == "__main__":
    main()
