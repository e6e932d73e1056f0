"""Training steps of other frameworks than transformers, and how far the estimate is from what the oracle measures of them.

usage: framework_cases.py list litgpt|torchtune|torchtune-sharded|torchtitan > cases.jsonl
       framework_cases.py draw litgpt|torchtune|torchtitan [--seed N] [--cases N] > cases.jsonl
       PYTHONPATH=FOLDER framework-env/bin/python framework_oracle.py < cases.jsonl > measured.jsonl
       framework_cases.py score measured.jsonl... [--worst N]
       framework_cases.py keep measured.jsonl... > ../tests/estimate/framework_steps.json

``framework_oracle.py`` says how to make its environment. The models are the catalogue's, cut to a few layers where that
is said, so that a step takes seconds and what one block or the head takes weighs more. ``list`` is the set that was looked
at while the estimator was mended, ``draw`` takes other models, lengths, batches and ranks.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections import defaultdict
from collections.abc import Iterator
from itertools import cycle, product
from pathlib import Path
from typing import Any

from fresh_oracle import OPTIMIZERS, cut
from plots import quantile
from score_training import training_job

from cfglint.catalog.models import models, row_to_config
from cfglint.estimate.training import estimate_training
from cfglint.estimate.training.estimator import fullest_stage
from cfglint.estimate.training.resolve import resolve
from cfglint.formulas import GIB
from cfglint.jobs.models import ModelSearch

LITGPT = {
    "tiny-llama-1.1b": "TinyLlama/TinyLlama_v1.1",
    "Llama-3.2-1B": "meta-llama/Llama-3.2-1B",
    "Llama-2-7b-hf": "meta-llama/Llama-2-7b-hf",
    "Gemma-2-2b": "google/gemma-2-2b",
    "Gemma-2b": "google/gemma-2b",
    "phi-2": "microsoft/phi-2",
    "Phi-3-mini-4k-instruct": "microsoft/Phi-3-mini-4k-instruct",
    "Qwen2.5-1.5B": "Qwen/Qwen2.5-1.5B",
    "Qwen3-1.7B": "Qwen/Qwen3-1.7B",
    "Mistral-7B-v0.1": "mistralai/Mistral-7B-v0.1",
    "pythia-1b": "EleutherAI/pythia-1b",
    "falcon-7b": "tiiuae/falcon-7b",
    "stablelm-base-alpha-3b": "stabilityai/stablelm-base-alpha-3b",
}
"""litgpt's name of a model to the catalogue's."""
TORCHTUNE = {
    "llama2": "meta-llama/Llama-2-7b-hf",
    "llama3": "meta-llama/Meta-Llama-3-8B",
    "llama3_2": "meta-llama/Llama-3.2-1B",
    "mistral": "mistralai/Mistral-7B-v0.1",
    "qwen2": "Qwen/Qwen2.5-1.5B",
    "phi3": "microsoft/Phi-3-mini-4k-instruct",
    "gemma": "google/gemma-2b",
    "gemma2": "google/gemma-2-2b",
}
"""torchtune's family to a model of the catalogue."""
TORCHTITAN = ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-2-7b-hf", "mistralai/Mistral-7B-v0.1")
OTHERS = {
    "litgpt": {
        "Phi-4-mini-instruct": "microsoft/Phi-4-mini-instruct",
        "OLMo-1B-hf": "allenai/OLMo-1B-hf",
        "OLMo-2-1124-7B-SFT": "allenai/OLMo-2-1124-7B-SFT",
        "Falcon3-1B-Base": "tiiuae/Falcon3-1B-Base",
        "pythia-410m": "EleutherAI/pythia-410m",
        "stablelm-3b-4e1t": "stabilityai/stablelm-3b-4e1t",
        "Qwen2.5-3B": "Qwen/Qwen2.5-3B",
        "Qwen3-4B": "Qwen/Qwen3-4B",
        "Gemma-7b": "google/gemma-7b",
        "Llama-2-13b-hf": "meta-llama/Llama-2-13b-hf",
        "Llama-3.2-3B": "meta-llama/Llama-3.2-3B",
        "phi-1_5": "microsoft/phi-1_5",
    },
    "torchtune": {
        "llama2": "meta-llama/Llama-2-13b-hf",
        "llama3_1": "meta-llama/Llama-3.1-8B",
        "llama3_2": "meta-llama/Llama-3.2-3B",
        "qwen2": "Qwen/Qwen2.5-7B",
        "gemma": "google/gemma-7b",
        "gemma2": "google/gemma-2-9b",
        "mistral": "mistralai/Mistral-7B-Instruct-v0.3",
    },
    "torchtitan": {
        "a": "meta-llama/Llama-2-13b-hf",
        "b": "meta-llama/Meta-Llama-3-8B",
        "c": "openlm-research/open_llama_7b",
    },
}
"""Models of no case in ``list``."""
ALL_SLOTS = ["query", "key", "value", "projection", "mlp"]


def config_of(name: str, layers: int | None) -> dict[str, Any]:
    config = next(row_to_config(model) for model in models() if model.id == name)
    dropped = ("architectures", "dtype", "quantization_config")
    return cut({k: v for k, v in config.items() if k not in dropped}, layers or 10**6)


def litgpt_cases() -> Iterator[dict[str, Any]]:
    lengths, batches = cycle((512, 1024, 384, 2048)), cycle((2, 1, 3))
    for index, (builder, name) in enumerate(LITGPT.items()):
        sliding = builder.startswith(("Gemma-2-", "Mistral"))  # litgpt fills their masks row by row
        settings: list[dict[str, Any]] = [
            {"method": "full", "weights": "bf16", "autocast": None, "optimizer": "adamw_foreach"},
            {"method": "lora", "weights": "bf16", "autocast": None, "lora_r": 32, "lora_targets": ["query", "value"]},
            {"method": "lora", "weights": "bf16", "autocast": None, "lora_r": 8, "lora_targets": [*ALL_SLOTS, "head"]},
        ]
        if index % 2 == 0:
            settings += [
                {"method": "full", "weights": "fp32", "autocast": "bf16", "optimizer": "adamw_fused"},
                {"method": "full", "weights": "bf16", "autocast": None, "optimizer": "sgd", "grad_ckpt": "full"},
            ]
        else:
            settings += [
                {"method": "lora", "weights": "fp32", "autocast": "bf16", "lora_r": 16, "lora_targets": ALL_SLOTS},
                {"method": "full", "weights": "fp32", "autocast": None, "optimizer": "adamw_foreach"},
            ]
        for number, setting in enumerate(settings):
            yield {
                "name": f"litgpt {builder} {number}", "framework": "litgpt", "builder": builder,
                "config": config_of(name, 4), "optimizer": "adamw_foreach", "grad_ckpt": "none",
                "accumulate": (index + number) % 2 == 0, "micro_batch": next(batches),
                "seq": min(512, next(lengths)) if sliding else next(lengths), **setting,
            }  # fmt: skip


def torchtune_cases() -> Iterator[dict[str, Any]]:
    lengths, batches = cycle((512, 2048, 1024, 4096)), cycle((2, 1, 4))
    attention = ["q_proj", "k_proj", "v_proj", "output_proj"]
    for index, (builder, name) in enumerate(TORCHTUNE.items()):
        settings: list[dict[str, Any]] = [
            {"method": "full", "weights": "bf16", "optimizer": "adamw_fused"},
            {"method": "full", "weights": "bf16", "grad_ckpt": "full", "loss": "torch" if index % 2 else "chunked"},
            {"method": "lora", "weights": "bf16", "lora_r": 8, "lora_targets": ["q_proj", "v_proj"]},
            {
                "method": "lora",
                "weights": "bf16",
                "lora_r": 64,
                "lora_targets": [*attention, "mlp"],
                "grad_ckpt": "full",
            },
            {"method": "qlora", "weights": "bf16", "lora_r": 8, "lora_targets": [*attention, "mlp"]},
        ]
        if index % 2:
            settings.append({"method": "full", "weights": "fp32", "optimizer": "sgd", "loss": "torch"})
        else:
            settings.append({"method": "qlora", "weights": "bf16", "lora_r": 16, "lora_targets": ["q_proj", "v_proj"],
                             "grad_ckpt": "full", "loss": "torch"})  # fmt: skip
        for number, setting in enumerate(settings):
            yield {
                "name": f"torchtune {builder} {number}", "framework": "torchtune", "builder": builder, "autocast": None,
                "config": config_of(name, 4), "optimizer": "adamw_fused", "grad_ckpt": "none", "loss": "chunked",
                "accumulate": (index + number) % 2 == 0, "micro_batch": next(batches), "seq": next(lengths), **setting,
            }  # fmt: skip


def torchtune_sharded_cases() -> Iterator[dict[str, Any]]:
    """Full fine-tuning over eight ranks; the configs of Llama 3 name embedding and head in ``custom_sharded_layers``."""
    ends = ["tok_embeddings", "output"]
    number = 0
    for builder in ("llama3", "llama2", "qwen2"):
        for checkpointing, loss in product(("none", "full"), ("chunked", "torch")):
            for wraps in ([], ends) if builder != "qwen2" else ([],):
                for accumulate, batch, length in ((False, 1, 512), (True, 2, 2048))[: 2 if loss == "chunked" else 1]:
                    yield {
                        "name": f"torchtune fsdp {builder} {number}", "framework": "torchtune", "builder": builder,
                        "config": config_of(TORCHTUNE[builder], 4), "autocast": None, "weights": "bf16", "method": "full",
                        "optimizer": "adamw_fused", "grad_ckpt": checkpointing, "loss": loss, "accumulate": accumulate,
                        "micro_batch": batch, "seq": length, "fsdp": 8, "wraps": wraps,
                    }  # fmt: skip
                    number += 1


def torchtitan_cases() -> Iterator[dict[str, Any]]:
    for index, name in enumerate(TORCHTITAN):
        for number, (kind, every) in enumerate((("none", "op"), ("selective", "op"), ("full", "op"), ("selective", 2))):
            for batch, length in ((1, 8192), (2, 2048)):
                yield {
                    "name": f"torchtitan {name} {number} {length}", "framework": "torchtitan", "method": "full",
                    "config": config_of(name, None if index == 0 and number == 1 else 6), "weights": "fp32",
                    "autocast": "bf16", "fsdp": 8, "optimizer": "adamw_fused", "grad_ckpt": kind, "every": every,
                    "micro_batch": batch, "seq": length, "accumulate": False,
                }  # fmt: skip


def drawn(framework: str, seed: int, cases: int) -> Iterator[dict[str, Any]]:
    dice = random.Random(seed)
    names = sorted(OTHERS[framework].items())
    for index in range(cases):
        builder, name = names[index % len(names)]
        case: dict[str, Any] = {
            "name": f"{framework} {name} seed {seed} #{index}", "framework": framework, "builder": builder,
            "config": config_of(name, dice.choice((3, 5, 8))), "method": "full", "autocast": None,
            "optimizer": dice.choice(("adamw_fused", "adamw_foreach", "sgd")), "accumulate": dice.random() < 0.4,
            "grad_ckpt": dice.choice(("none", "none", "full")), "micro_batch": dice.choice((1, 2, 3, 6)),
            "seq": dice.choice((256, 640, 1536, 3072)), "weights": dice.choice(("bf16", "bf16", "fp32")),
        }  # fmt: skip
        if framework == "torchtitan":
            case.update(weights="fp32", autocast="bf16", fsdp=8, every=dice.choice(("op", 2, 3)), accumulate=False,
                        grad_ckpt=dice.choice(("none", "full", "selective", "selective")))  # fmt: skip
        elif dice.random() < 0.6:
            slots = ["query", "key", "value", "projection", "mlp"]
            if framework == "torchtune":
                slots = ["q_proj", "k_proj", "v_proj", "output_proj", "mlp"]
            targets = dice.choice((slots, slots[:1], [slots[0], slots[2]], [*slots[:3], slots[4]]))
            case.update(method="lora", lora_r=dice.choice((4, 16, 128)), lora_targets=targets, optimizer="adamw_fused")
        if framework == "torchtune":
            case["loss"] = dice.choice(("chunked", "torch"))
            if case["method"] == "lora" and dice.random() < 0.5:
                case.update(method="qlora", weights="bf16")
        if framework == "litgpt" and case["weights"] == "fp32" and dice.random() < 0.6:
            case["autocast"] = "bf16"
        yield case


CASES = {
    "litgpt": litgpt_cases,
    "torchtune": torchtune_cases,
    "torchtune-sharded": torchtune_sharded_cases,
    "torchtitan": torchtitan_cases,
}


def job_of(case: dict[str, Any]) -> dict[str, Any]:
    """The case as a job file says it: what the framework does of itself is left to the estimator."""
    optimizer, foreach = OPTIMIZERS[case["optimizer"]]
    release = case["measured"]["release"] if "measured" in case else None
    job: dict[str, Any] = {
        "name": case["name"], "framework": case["framework"], "framework_version": release, "model": case["config"],
        "method": case["method"], "weight_dtype": case["weights"], "compute_dtype": case["autocast"],
        "micro_batch_size": case["micro_batch"], "gradient_accumulation_steps": 2 if case["accumulate"] else 1,
        "sequence_length": case["seq"], "packing": True, "gradient_checkpointing": case["grad_ckpt"], "attention": "sdpa",
        "optimizer": optimizer, "gpu": "H100-SXM", "gpus_per_node": case.get("fsdp", 1), "nodes": 1,
    }  # fmt: skip
    if foreach is not None:
        job["optimizer_foreach"] = foreach
    if case["grad_ckpt"] == "selective" and isinstance(case.get("every"), int):
        job["checkpoint_every"] = case["every"]
    if case.get("loss"):
        job["loss_kernel"] = case["loss"]
    if case["method"] != "full":
        job.update(lora_rank=case["lora_r"], lora_targets=case["lora_targets"])
    if case["method"] == "qlora":
        job["quantization"] = "nf4-double"
    if case.get("fsdp"):
        job.update(fsdp="full_shard", fsdp_version=2)
    if "wraps" in case:
        job["fsdp_wraps_ends"] = bool(case["wraps"])
    return job


def measured(paths: list[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        for line in path.read_text("utf-8").splitlines():
            case = json.loads(line)
            if "measured" in case:
                yield case


def score(paths: list[Path], worst: int) -> None:
    """Errors of the peak, by framework and by what was trained."""
    search = ModelSearch(Path("."), {})
    errors: dict[str, list[float]] = defaultdict(list)
    listing: list[tuple[float, str]] = []
    inside = count = 0
    for case in measured(paths):
        job = training_job(job_of(case), search)
        estimate = estimate_training(job)
        allocated, stage = estimate.memory.allocated, fullest_stage(resolve(job))
        assert allocated is not None and stage is not None, case["name"]
        truth = case["measured"]["peak_gib"]
        peak = stage.peak.total / GIB
        error = peak / truth - 1
        for key in ("all", case["framework"], f"{case['framework']}, {case['method']}"):
            errors[key].append(error)
        inside += allocated.low <= truth * GIB <= allocated.high
        count += 1
        phases = {p: (round(v / GIB, 3), case["measured"].get(f"peak_{p}_gib")) for p, v in stage.peak.phases.items()}
        weights = (round(stage.states.weights / GIB, 3), case["measured"]["weights_gib"])
        parameters = case["measured"]["params_total"] - (estimate.parameters or 0)
        listing.append(
            (error, f"{case['name']}: {truth:.3f}, {peak:.3f}; weights {weights} {phases} parameters {parameters:+d}")
        )
    print("| cases | n | bias | median | 95th percentile | worst |\n| --- | --: | --: | --: | --: | --: |")
    for kind, found in sorted(errors.items()):
        size = [abs(e) for e in found]
        print(
            f"| {kind} | {len(found)} | {statistics.mean(found):+.1%} | {statistics.median(size):.1%} "
            f"| {quantile(size, 0.95):.1%} | {max(size):.1%} |"
        )
    print(f"inside the interval: {inside}/{count}")
    for error, text in sorted(listing, key=lambda item: -abs(item[0]))[:worst]:
        print(f"  {error:+.1%} {text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="command", required=True)
    listing = kinds.add_parser("list")
    listing.add_argument("framework", choices=sorted(CASES))
    drawing = kinds.add_parser("draw")
    drawing.add_argument("framework", choices=sorted(OTHERS))
    drawing.add_argument("--seed", type=int, default=1)
    drawing.add_argument("--cases", type=int, default=24)
    scoring = kinds.add_parser("score")
    scoring.add_argument("files", type=Path, nargs="+")
    scoring.add_argument("--worst", type=int, default=0)
    keeping = kinds.add_parser("keep")
    keeping.add_argument("files", type=Path, nargs="+")
    args = parser.parse_args()
    if args.command == "list":
        for case in CASES[args.framework]():
            print(json.dumps(case))
    elif args.command == "draw":
        for case in drawn(args.framework, args.seed, args.cases):
            print(json.dumps(case))
    elif args.command == "score":
        score(args.files, args.worst)
    else:
        rows = [{"job": job_of(case), "allocated_gib": case["measured"]["peak_gib"]} for case in measured(args.files)]
        print(json.dumps(rows, separators=(",", ":")))


if __name__ == "__main__":
    main()
