"""Draw steps of TRL's preference and RL trainers for ``preference_oracle.py``, and score the estimator on what it measures.

usage: preference_cases.py draw [--seed N] [--cases N] [--trainers dpo,kto] [--layers N] [--tokens N] > cases.jsonl
       trl-env/bin/python benchmarks/preference_oracle.py < cases.jsonl > measured.jsonl
       preference_cases.py score measured.jsonl [--worst N]
       preference_cases.py keep measured.jsonl [...] > tests/estimate/preference_steps.json

Methods, references, adapters, precisions, checkpointing, lengths and families take turns, so that a hundred cases hold
each of them many times; what else varies is drawn.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fresh_oracle import OPTIMIZERS, cut
from plots import quantile
from score_training import training_job

from cfglint.catalog.models import find_model, row_to_config
from cfglint.estimate.training import estimate_training
from cfglint.estimate.training.estimator import fullest_stage
from cfglint.estimate.training.plan import PAIRED
from cfglint.estimate.training.resolve import resolve
from cfglint.formulas import GIB
from cfglint.jobs.models import ModelSearch

MODELS = {
    "meta-llama/Llama-3.2-1B": 16, "Qwen/Qwen2.5-0.5B": 24, "Qwen/Qwen3-0.6B": 28, "google/gemma-2-2b": 8,
    "microsoft/Phi-3-mini-4k-instruct": 6, "Qwen/Qwen2.5-1.5B": 10,
}  # fmt: skip
"""With the layers they are cut to: the oracle runs each block, and a cut model weighs the head more."""
REFERENCES = {
    "dpo": ("model", "precomputed"), "kto": ("model", "precomputed"), "grpo": ("none", "model"), "rloo": ("none", "model"),
}  # fmt: skip
ATTENTION = {"gemma2": "eager"}
"""transformers has no sdpa for capped scores."""
PRECISIONS = (("bf16", "bf16"), ("fp32", "bf16"), ("bf16", None))
TRAINERS = ("dpo", "grpo", "kto", "dpo", "orpo", "reward", "grpo", "cpo", "rloo", "gkd")
TARGETS = {
    "phi3": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"],
    "": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
}


def draw(seed: int, cases: int, trainers: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    dice = random.Random(seed)
    names = sorted(MODELS)
    for index in range(cases):
        name = names[index % len(names)]
        model = find_model(name)
        assert model is not None, name
        config = {k: v for k, v in row_to_config(model).items() if k not in ("architectures", "dtype")}
        method = trainers[(index // 2 + index) % len(trainers)]
        weights, autocast = dice.choice(PRECISIONS)
        lora = dice.random() < 0.4
        case: dict[str, Any] = {
            "name": f"{method}#{index}", "trainer": method, "config": cut(config, MODELS[name]), "weights": weights,
            "autocast": autocast, "micro_batch": dice.choice((1, 2, 4)), "seq": dice.choice((256, 512, 1024, 2048)),
            "grad_ckpt": dice.random() < 0.5, "attn": ATTENTION.get(config["model_type"], "sdpa"), "optimizer": "adamw_fused",
            "reference": dice.choice(REFERENCES.get(method, ("none",))), "accumulate": dice.random() < 0.25,
        }  # fmt: skip
        case["completion"] = case["seq"] // dice.choice((2, 4))
        case["padded"] = case["micro_batch"] > 1 or method in PAIRED
        if lora:
            targets = TARGETS.get(config["model_type"], TARGETS[""])
            case.update(lora_r=dice.choice((8, 64)), lora_targets=targets)
            if case["reference"] == "model":
                case["reference"] = "adapter"
        yield case


def smaller(case: dict[str, Any], layers: int, tokens: int) -> dict[str, Any]:
    """The case with at most so many layers, and tokens in a micro-batch: what remains weighs the loss more."""
    case = {**case, "config": cut(case["config"], layers)}
    while case["seq"] * case["micro_batch"] > tokens:
        case.update(seq=case["seq"] // 2, completion=case["completion"] // 2)
    return case


def job_of(case: dict[str, Any]) -> dict[str, Any]:
    """The case as a job file says it."""
    optimizer, foreach = OPTIMIZERS[case["optimizer"]]
    method = {"cpo": "cpo", "simpo": "simpo"}.get(case["trainer"], case["trainer"])
    job: dict[str, Any] = {
        "name": case["name"], "framework": "trl", "framework_version": case["measured"]["trl"], "model": case["config"],
        "method": f"{method}+lora" if case.get("lora_r") else method, "weight_dtype": case["weights"],
        "compute_dtype": case["autocast"], "micro_batch_size": case["micro_batch"],
        "gradient_accumulation_steps": 4 if case.get("accumulate") else 1, "sequence_length": case["seq"],
        "gradient_checkpointing": "full" if case["grad_ckpt"] else "none", "attention": case["attn"],
        "optimizer": optimizer, "reference": case["reference"], "gpu": "H100-SXM", "gpus_per_node": 1, "nodes": 1,
    }  # fmt: skip
    if case["trainer"] in ("grpo", "rloo", "distill"):
        job["completion_length"] = case["completion"]
    if foreach is not None:
        job["optimizer_foreach"] = foreach
    if case.get("lora_r"):
        job.update(lora_rank=case["lora_r"], lora_targets=case["lora_targets"])
    return job


def score(path: Path, worst: int) -> None:
    """Errors of the peak by method, and of each phase."""
    search = ModelSearch(Path("."), {})
    errors: dict[str, list[float]] = defaultdict(list)
    listing: list[tuple[float, str]] = []
    inside = failed = 0
    for line in path.read_text("utf-8").splitlines():
        case = json.loads(line)
        measured = case.get("measured") or {}
        if "peak_gib" not in measured:
            failed += 1
            continue
        job = training_job(job_of(case), search)
        job.versions = {"trl": measured["trl"], "transformers": measured["transformers"]}
        allocated, stage = estimate_training(job).memory.allocated, fullest_stage(resolve(job))
        assert allocated is not None and stage is not None, case["name"]
        error = stage.peak.total / GIB / measured["peak_gib"] - 1
        phases = {name: size / GIB for name, size in stage.peak.phases.items()}
        for phase in ("forward", "backward", "step"):
            errors[phase].append(abs(phases[phase] / measured[f"peak_{phase}_gib"] - 1))
        for key in (case["trainer"], "all"):
            errors[key].append(abs(error))
        inside += allocated.low <= measured["peak_gib"] * GIB <= allocated.high
        told = " ".join(f"{p} {measured[f'peak_{p}_gib']:.2f}/{phases[p]:.2f}" for p in ("forward", "backward", "step"))
        how = (
            f"{case['config']['model_type']} b{case['micro_batch']} s{case['seq']} {case['weights']}/{case['autocast']}"
        )
        how += f" {case['reference']}{' lora' if case.get('lora_r') else ''}{' ckpt' if case['grad_ckpt'] else ''}"
        how += " accumulating" if case.get("accumulate") else ""
        listing.append((abs(error), f"{error:+.1%} {case['name']} {how}: {told}"))
    print(f"{len(listing)} cases, {failed} that the oracle could not run; {inside} inside the interval")
    print("| cases | n | median | mean | 95th percentile | worst |\n| --- | --: | --: | --: | --: | --: |")
    for kind, found in sorted(errors.items()):
        print(
            f"| {kind} | {len(found)} | {statistics.median(found):.1%} | {statistics.mean(found):.1%} "
            f"| {quantile(found, 0.95):.1%} | {max(found):.1%} |"
        )
    for _, line in sorted(listing, reverse=True)[:worst]:
        print(f"  {line}")


def keep(paths: list[Path]) -> None:
    """Print the first case of each kind as a job with its measured phases: what the tests hold.

    Kinds are method, release and reference; of the first file adapters and storage too.
    """
    kinds: dict[tuple[Any, ...], str] = {}
    for path in paths:
        for line in path.read_text("utf-8").splitlines():
            case = json.loads(line)
            measured = case.get("measured")
            if measured is None:
                continue
            kind: tuple[Any, ...] = (measured["trl"], case["trainer"], case["reference"])
            if path == paths[0]:
                kind = (*kind, bool(case.get("lora_r")), case["weights"])
            job = {**job_of(case), "name": f"{case['trainer']} of TRL {measured['trl']}, {case['name']}"}
            phases = {name: measured[f"peak_{name}_gib"] for name in ("forward", "backward", "step")}
            row = {"job": job, "transformers": measured["transformers"], "phases": phases}
            kinds.setdefault(kind, json.dumps(row, separators=(",", ":")))
    print("[" + ",\n".join(kinds.values()) + "]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="command", required=True)
    drawing = kinds.add_parser("draw")
    drawing.add_argument("--seed", type=int, default=1130)
    drawing.add_argument("--cases", type=int, default=100)
    drawing.add_argument("--trainers", default=",".join(TRAINERS))
    drawing.add_argument("--layers", type=int, default=10**6)
    drawing.add_argument("--tokens", type=int, default=10**9)
    scoring = kinds.add_parser("score")
    scoring.add_argument("file", type=Path)
    scoring.add_argument("--worst", type=int, default=0)
    kinds.add_parser("keep").add_argument("files", type=Path, nargs="+")
    args = parser.parse_args()
    if args.command == "score":
        score(args.file, args.worst)
        return
    if args.command == "keep":
        keep(args.files)
        return
    for case in draw(args.seed, args.cases, tuple(args.trainers.split(","))):
        print(json.dumps(smaller(case, args.layers, args.tokens)))


if __name__ == "__main__":
    main()
