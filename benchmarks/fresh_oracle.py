"""Draw training steps that nobody has seen, and score the estimator on what the oracle measures of them.

usage: fresh_oracle.py draw [--seed N] [--cases N] [--layers N] [--evaluation] > cases.jsonl
       oracle-env/bin/python ../shared/oracle/fakemem.py < cases.jsonl > measured.jsonl
       fresh_oracle.py score measured.jsonl

Models are drawn from the catalogue, without those of ``../shared/oracle/train.jsonl``; settings from lists of which
sequence lengths, batches and ranks are others than in that file. ``../shared/oracle/README.md`` says how to make the
environment. ``--evaluation`` adds a batch of evaluation, which ``evaluation_oracle.py`` measures in place of ``fakemem.py``. Whoever changes the estimator draws with a new seed. ``--layers`` cuts the models to that many layers: a
step is measured in seconds then, and what a single block or the head takes weighs more.
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

from plots import quantile
from score_training import training_job

from cfglint.catalog.architecture import architecture_from_config
from cfglint.catalog.models import architecture_of, models, row_to_config
from cfglint.estimate.training import estimate_training
from cfglint.estimate.training.estimator import fullest_stage
from cfglint.estimate.training.families import ENCODERS, style_of
from cfglint.estimate.training.resolve import resolve
from cfglint.formulas import GIB
from cfglint.jobs.models import ModelSearch

TRAIN = Path("../shared/oracle/train.jsonl")
OTHER_TASKS = ENCODERS | {"whisper", "bart", "mbart", "baichuan", "qwen", "internlm2"}
"""Families that the oracle does not train as a causal or sequence-to-sequence language model, or that ship their own code."""
POSITIONS = ("max_position_embeddings", "n_positions", "n_ctx")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers")
LARGEST = 50e9
"""Parameters; larger ones take the oracle minutes."""
TARGETS = (
    ("q_proj", "v_proj"),
    ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
    ("qkv_proj", "o_proj"),
    ("query_key_value",),
    ("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"),
    ("q_proj", "k_proj", "v_proj", "out_proj", "fc_in", "fc_out"),
    ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"),
    ("o_proj", "down_proj"),
    ("Wqkv",),
    ("q", "v"),
    ("q", "k", "v", "o", "wi_0", "wi_1", "wo"),
    ("o_proj", "gate_up_proj", "down_proj"),
    ("kv_a_proj_with_mqa", "kv_b_proj", "o_proj"),
)
"""Modules that adapters are drawn on, where a family has them."""
OPTIMIZERS = {
    "adamw_fused": ("adamw_torch_fused", None),
    "adamw_foreach": ("adamw_torch", None),
    "adamw_loop": ("adamw_torch", False),
    "sgd": ("sgd", False),
    "sgd_momentum": ("sgd_momentum", False),
    "adafactor": ("adafactor", None),
}
"""The oracle's names to the job file's, with ``optimizer_foreach``."""


def candidates() -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Text models by family, those of the published oracle file left out."""
    seen = (
        {json.loads(line)["model"].lower() for line in TRAIN.read_text("utf-8").splitlines()}
        if TRAIN.exists()
        else set()
    )
    found: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for model in models():
        architecture = architecture_of(model)
        if architecture is None or not architecture.exact or not model.counted or model.id.lower() in seen:
            continue
        if model.quantization or model.params_total > LARGEST or not style_of(architecture)[1]:
            continue
        if model.model_type in OTHER_TASKS:
            continue
        config = {
            k: v for k, v in row_to_config(model).items() if k not in ("architectures", "dtype", "quantization_config")
        }
        if any(isinstance(value, dict) and "model_type" in value for value in config.values()):
            continue
        found[model.model_type].append((model.id, config))
    return found


def cut(config: dict[str, Any], layers: int) -> dict[str, Any]:
    """The same model with at most so many layers; lists that name every layer are cut too."""
    count = max((config[key] for key in LAYERS if isinstance(config.get(key), int)), default=0)
    shorter = dict(config)
    for key, value in config.items():
        if key in LAYERS and isinstance(value, int):
            shorter[key] = min(value, layers)
        elif isinstance(value, list) and len(value) == count > layers:
            shorter[key] = value[:layers]
    return shorter


def draw(seed: int, cases: int, layers: int | None) -> Iterator[dict[str, Any]]:
    """Cases in the oracle's own words. Families take turns, so that large ones do not crowd out the others."""
    dice = random.Random(seed)
    families = candidates()
    names = sorted(families)
    for index in range(cases):
        name, config = dice.choice(families[names[index % len(names)]])
        if layers is not None:
            config = cut(config, layers)
        positions = min((config[key] for key in POSITIONS if isinstance(config.get(key), int)), default=4096)
        weights = dice.choice(("bf16", "bf16", "bf16", "fp32", "fp32", "fp16"))
        case: dict[str, Any] = {
            "name": f"{name}#{index}", "config": config, "weights": weights,
            "micro_batch": dice.choice((1, 2, 3, 6, 12)), "seq": min(dice.choice((200, 384, 768, 1536, 3072, 8192)), positions),
            "grad_ckpt": dice.random() < 0.5, "attn": dice.choice(("sdpa", "sdpa", "eager")),
            "autocast": dice.choice(("fp16" if weights == "fp16" else "bf16", None)), "method": "full",
            "optimizer": dice.choice(sorted(OPTIMIZERS)), "accumulate": dice.random() < 0.2,
        }  # fmt: skip
        modules = {tensor.module for tensor in architecture_from_config(config).tensors if tensor.linear}
        targets = [found for found in TARGETS if modules.issuperset(found)]
        if dice.random() < 0.4 and targets:
            case.update(
                method="lora", lora_r=dice.choice((4, 32, 128)), lora_targets=list(dice.choice(targets)),
                optimizer="adamw_fused",
            )  # fmt: skip
        if dice.random() < 0.25:
            case.update(fsdp=8, reshard_after_forward=dice.random() < 0.7, autocast=None, accumulate=False)
            if case["method"] == "full" and weights == "fp32" and dice.random() < 0.7:
                case["fsdp_param_dtype"] = "bf16"
        yield case


def with_evaluation(case: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """The same model evaluated too; lengths are bounded, since eight sequences are."""
    case.update(accumulate=False, micro_batch=dice.choice((1, 2)), seq=min(case["seq"], 1536))
    return {**case, "eval_batch": dice.choice((1, 2, 8)), "use_cache": dice.random() < 0.5}


def job_of(case: dict[str, Any]) -> dict[str, Any]:
    """The case as a job file says it."""
    optimizer, foreach = OPTIMIZERS[case["optimizer"]]
    job: dict[str, Any] = {
        "name": case["name"], "framework": "transformers", "framework_version": "5.24.0", "model": case["config"],
        "method": case["method"], "weight_dtype": case["weights"], "compute_dtype": case["autocast"],
        "micro_batch_size": case["micro_batch"], "gradient_accumulation_steps": 4 if case.get("accumulate") else 1,
        "sequence_length": case["seq"], "packing": True, "gradient_checkpointing": "full" if case["grad_ckpt"] else "none",
        "attention": case["attn"], "loss_kernel": "torch", "optimizer": optimizer, "gpu": "H100-SXM", "gpus_per_node": 1,
        "nodes": 1,
    }  # fmt: skip
    if foreach is not None:
        job["optimizer_foreach"] = foreach
    if case["method"] == "lora":
        job.update(lora_rank=case["lora_r"], lora_targets=case["lora_targets"])
    if case.get("eval_batch"):
        job.update(evaluates=True, eval_micro_batch_size=case["eval_batch"], use_cache=case["use_cache"])
    if case.get("fsdp"):
        sharding = "full_shard" if case["reshard_after_forward"] else "shard_grad_op"
        job.update(gpus_per_node=case["fsdp"], fsdp=sharding, fsdp_version=2, state_dict="full")
        if case.get("fsdp_param_dtype"):
            job["compute_dtype"] = case["fsdp_param_dtype"]
    return job


def score(path: Path, worst: int) -> None:
    """Errors of the peak, by what was trained and in all."""
    search = ModelSearch(Path("."), {})
    errors: dict[str, list[float]] = defaultdict(list)
    listing: list[tuple[float, str, float, float]] = []
    inside = failed = others = 0
    families = set()
    for line in path.read_text("utf-8").splitlines():
        case = json.loads(line)
        measured = case.get("measured") or {}
        if "peak_gib" not in measured and "peak_evaluation_gib" not in measured:
            failed += 1
            continue
        adapters = measured["params_trainable"] if case["method"] == "lora" else 0
        if measured["params_total"] - adapters != architecture_from_config(case["config"]).total_parameters:
            others += 1  # transformers 5 ties every T5's head where it makes the model anew; checkpoints keep theirs
            continue
        families.add(case["config"]["model_type"])
        job = training_job(job_of(case), search)
        allocated, stage = estimate_training(job).memory.allocated, fullest_stage(resolve(job))
        if allocated is None or stage is None:
            others += 1  # cut to layers without attention, of which no size is known
            continue
        for phase in ("evaluation", "save"):
            truth = measured.get(f"peak_{phase}_gib")
            if truth is not None and phase in stage.peak.phases:
                errors[phase].append(abs(stage.peak.phases[phase] / GIB / truth - 1))
                listing.append((errors[phase][-1], f"{case['name']} {phase}", truth, stage.peak.phases[phase] / GIB))
        if "peak_gib" not in measured:
            continue
        peak = stage.peak.total / GIB  # with the CPU's kernels, which the oracle runs
        error = peak / measured["peak_gib"] - 1
        kind = "fsdp" if case.get("fsdp") else "accumulating" if case.get("accumulate") else case["method"]
        for key in (kind, "all"):
            errors[key].append(abs(error))
        inside += allocated.low <= measured["peak_gib"] * GIB <= allocated.high
        listing.append((abs(error), case["name"], measured["peak_gib"], peak))
    print(
        f"{len(listing)} cases of {len(families)} families, {failed} that the oracle could not run, {others} of other sizes"
    )
    print("| cases | n | median | mean | 95th percentile | worst |\n| --- | --: | --: | --: | --: | --: |")
    for kind, found in sorted(errors.items()):
        print(
            f"| {kind} | {len(found)} | {statistics.median(found):.1%} | {statistics.mean(found):.1%} "
            f"| {quantile(found, 0.95):.1%} | {max(found):.1%} |"
        )
    if "all" in errors:
        print(f"inside the interval: {inside}/{len(errors['all'])}")
    for size, name, truth, guess in sorted(listing, reverse=True)[:worst]:
        print(f"  {size:.1%} {name}: measured {truth:.2f}, estimated {guess:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="command", required=True)
    drawing = kinds.add_parser("draw")
    drawing.add_argument("--seed", type=int, default=1130)
    drawing.add_argument("--cases", type=int, default=120)
    drawing.add_argument("--layers", type=int)
    drawing.add_argument("--evaluation", action="store_true")
    scoring = kinds.add_parser("score")
    scoring.add_argument("file", type=Path)
    scoring.add_argument("--worst", type=int, default=0)
    args = parser.parse_args()
    if args.command == "score":
        score(args.file, args.worst)
        return
    dice = random.Random(args.seed)
    for case in draw(args.seed, args.cases, args.layers):
        print(json.dumps(with_evaluation(case, dice) if args.evaluation else case))


if __name__ == "__main__":
    main()
