"""Estimate runs that are not in ``serve.jsonl`` but whose logs print a figure, and print the tables of docs/accuracy-serving.md.

usage: logged_serving.py

``CACHES`` are lines of ``../shared/cases/measured/SERVE.md`` (vLLM 0.19.0, H100-80GB, 0.95, 1,024 sequences, 8,192 batched
tokens); ``WEIGHTS`` come from the thread named with each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from score_serving import serving_job

from cfglint.estimate.result import ServingEstimate
from cfglint.estimate.serving import estimate_serving
from cfglint.formulas import GIB
from cfglint.jobs.models import ModelSearch

CACHES: tuple[tuple[str, int, int, float, int], ...] = (
    ("google/gemma-7b", 1, 8192, 55.44, 129760),
    ("google/gemma-2-9b-it", 1, 8192, 54.12, 168880),
    ("google/gemma-2-27b-it", 1, 8192, 20.59, 58672),
    ("google/gemma-3-4b-it", 1, 8192, 62.51, 468144),
    ("google/gemma-3-27b-it", 1, 8192, 19.53, 36560),
    ("microsoft/phi-2", 1, 2048, 69.0, 226112),
    ("microsoft/phi-4", 1, 8192, 46.08, 241568),
    ("codellama/CodeLlama-7b-hf", 1, 8192, 61.66, 126256),
    ("deepseek-ai/DeepSeek-V2-Lite", 1, 8192, 43.61, 1505552),
    ("moonshotai/Kimi-VL-A3B-Instruct", 1, 8192, 41.32, 1426368),
    ("moonshotai/Kimi-VL-A3B-Instruct", 2, 8192, 54.78, 1890896),
    ("moonshotai/Kimi-Dev-72B", 2, 8192, 3.02, 19776),
)
"""Model, tensor parallelism, length, GiB and tokens of cache as logged."""

WEIGHTS: tuple[tuple[str, int, float, str], ...] = (
    ("unsloth/Llama-3.2-1B-Instruct-bnb-4bit", 1, 0.9786, "oumi#1223"),
    ("meta-llama/Llama-3.2-1B-Instruct", 1, 2.3185, "oumi#1223"),
    ("PrunaAI/Meta-Llama-3-8B-bnb-4bit", 1, 5.6168, "vllm#7320, FP4 without double quantization"),
    ("neuralmagic/Meta-Llama-3.1-70B-Instruct-quantized.w8a8", 1, 67.7229, "vllm#12569"),
    ("meta-llama/Meta-Llama-3.1-405B-Instruct-FP8", 8, 57.752, "vllm#6746"),
    ("Qwen/Qwen3.8-27B-FP8", 2, 14.28, "vllm-project/recipes#810"),
    ("Inferact/Qwen3.8-27B-NVFP4", 2, 12.02, "vllm-project/recipes#810"),
)
"""Model, tensor parallelism, GiB as logged, source."""


def serving(search: ModelSearch, **facts: Any) -> ServingEstimate:
    job = {"name": facts["model"], "framework": "vllm", "framework_version": "0.19.0", **facts}
    made = estimate_serving(serving_job(job, search)).serving
    assert made is not None
    return made


def main() -> None:
    search = ModelSearch(Path("."), {})
    print(
        "| model | TP | KV cache, GiB: logged | estimated | tokens: logged | estimated |\n| --- | --: | --: | --: | --: | --: |"
    )
    for model, size, length, logged, tokens in CACHES:
        made = serving(
            search, model=model, gpu="H100 80GB", gpus_per_node=size, tensor_parallel_size=size, dtype="bfloat16",
            gpu_memory_utilization=0.95, max_model_len=length, max_num_seqs=1024, max_num_batched_tokens=8192,
        )  # fmt: skip
        assert made.kv_cache is not None and made.kv_tokens is not None
        print(
            f"| {model} | {size} | {logged:.2f} | {made.kv_cache.expected / GIB:.2f} | {tokens:,} | {made.kv_tokens.expected:,.0f} |"
        )
    print("\n| checkpoint | TP | logged, GiB | estimated | source |\n| --- | --: | --: | --: | --- |")
    for model, size, logged, source in WEIGHTS:
        made = serving(search, model=model, gpu="H200", gpus_per_node=size, tensor_parallel_size=size)
        assert made.weights is not None
        print(f"| {model} | {size} | {logged:.3f} | {made.weights / GIB:.3f} | {source} |")


if __name__ == "__main__":
    main()
