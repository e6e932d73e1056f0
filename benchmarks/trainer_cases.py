"""Draw steps for ``trainer_oracle.py``, and score the estimator on what it measures of them.

usage: trainer_cases.py draw [--seed N] [--cases N] [--trainer trainer|sft] > cases.jsonl
       trainer_cases.py score measured.jsonl …

Models of large vocabularies cut to two to four layers, so that the head and the loss weigh as much as they do in long ones.
The release that ran is stated to the estimator, of TRL where its trainer ran, else of transformers.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from pathlib import Path
from typing import Any

from plots import quantile
from score_training import training_job

from cfglint.estimate.training.estimator import fullest_stage
from cfglint.estimate.training.resolve import resolve
from cfglint.formulas import GIB
from cfglint.jobs.models import ModelSearch

_LLAMA: dict[str, Any] = {"model_type": "llama", "hidden_size": 2048, "num_attention_heads": 32, "head_dim": 64}
MODELS: dict[str, dict[str, Any]] = {
    "Llama-3.2-1B": {
        **_LLAMA, "intermediate_size": 8192, "num_hidden_layers": 3, "num_key_value_heads": 8, "vocab_size": 128256,
        "tie_word_embeddings": True, "max_position_embeddings": 131072,
    },
    "TinyLlama": {
        **_LLAMA, "intermediate_size": 5632, "num_hidden_layers": 4, "num_key_value_heads": 4, "vocab_size": 32000,
        "tie_word_embeddings": False, "max_position_embeddings": 8192,
    },
    "Qwen2.5-0.5B": {
        "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 4,
        "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True,
        "max_position_embeddings": 32768,
    },
    "gemma-2-2b": {
        "model_type": "gemma2", "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 2,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 256000,
        "tie_word_embeddings": True, "max_position_embeddings": 8192,
    },
    "gpt2": {
        "model_type": "gpt2", "n_embd": 768, "n_layer": 4, "n_head": 12, "vocab_size": 50257, "n_positions": 1024,
    },
}  # fmt: skip
PRECISIONS = (("fp32", "bf16"), ("fp32", "bf16"), ("bf16", "bf16"), ("bf16", None), ("fp32", None))
MOST_TOKENS = 16384


def draw(seed: int, cases: int, trainer: str) -> None:
    dice = random.Random(seed)
    drawn = 0
    while drawn < cases:
        name = dice.choice([*MODELS, "Llama-3.2-1B", "Qwen2.5-0.5B"])
        rows, length = dice.choice([1, 2, 4, 8]), dice.choice([512, 1024, 2048, 4096])
        length = min(length, 1024) if name == "gpt2" else length
        weights, autocast = dice.choice(PRECISIONS)
        case = {
            "name": f"{name}-{seed}-{drawn}", "trainer": trainer, "config": MODELS[name], "micro_batch": rows, "seq": length,
            "weights": weights, "autocast": autocast, "grad_ckpt": dice.random() < 0.5, "accumulate": dice.choice([1, 1, 2]),
            "optimizer": "adamw_torch_fused", "attn": "eager" if name.startswith("gemma") else "sdpa",
        }  # fmt: skip
        if dice.random() < 0.4 and name != "gpt2":
            parts = dice.choice([("q", "v"), ("q", "k", "v", "o", "gate", "up", "down")])
            case["lora_r"], case["lora_targets"] = dice.choice([8, 32]), [f"{part}_proj" for part in parts]
        if rows * length <= MOST_TOKENS:
            print(json.dumps(case))
            drawn += 1


def job_of(case: dict[str, Any]) -> dict[str, Any]:
    """A measured case in the job file's words; ``facts`` of a case are stated as they are."""
    framework = "transformers" if case["trainer"] == "trainer" else "trl"
    adapters = {"lora_rank": case["lora_r"], "lora_targets": case["lora_targets"]} if case.get("lora_r") else {}
    return {
        "name": case["name"], "model": case["config"], "framework": framework,
        "framework_version": case["measured"]["releases"][framework],
        "method": "lora" if adapters else "full", "weight_dtype": case["weights"], "compute_dtype": case.get("autocast"),
        "micro_batch_size": case["micro_batch"], "gradient_accumulation_steps": case.get("accumulate", 1),
        "sequence_length": case["seq"], "packing": False, "optimizer": case["optimizer"], "attention": case["attn"],
        "gradient_checkpointing": "full" if case.get("grad_ckpt") else "none", "gpu": "H100-SXM", "gpus_per_node": 1,
        **adapters, **case.get("facts", {}),
    }  # fmt: skip


def score(paths: list[str]) -> None:
    errors: list[float] = []
    search = ModelSearch(Path("."), {})
    for path in paths:
        for line in Path(path).read_text("utf-8").splitlines():
            case = json.loads(line)
            if "error" in case:
                print(f"not run  {case['name']}: {case['error'][:100]}")
                continue
            mapping = job_of(case)
            stage = fullest_stage(resolve(training_job(mapping, search)))
            assert stage is not None
            measured = case["measured"]["peak_gib"]
            error = stage.peak.total / GIB / measured - 1
            errors.append(abs(error))
            print(
                f"{error:+8.2%}  {mapping['framework']} {mapping['framework_version']:8} {case['name']:20} {measured:.2f} GiB"
            )
    middle, most = statistics.median(errors), max(errors)
    print(f"{len(errors)} cases: median {middle:.2%}, 95th percentile {quantile(errors, 0.95):.2%}, worst {most:.2%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw")
    drawing.add_argument("--seed", type=int, default=1)
    drawing.add_argument("--cases", type=int, default=12)
    drawing.add_argument("--trainer", choices=("trainer", "sft"), default="sft")
    commands.add_parser("score").add_argument("files", nargs="+")
    chosen = parser.parse_args()
    if chosen.command == "draw":
        draw(chosen.seed, chosen.cases, chosen.trainer)
    else:
        score(chosen.files)


if __name__ == "__main__":
    main()
