"""HWF109."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..parallel.block_size import block_of
from ..serving.server import quantization_method, runs, statement

SCHEMES = (
    (re.compile(r"nvfp4|(^|[-_.])fp4([-_.]|$)"), "NVFP4"),
    (re.compile(r"mxfp4"), "MXFP4"),
    (re.compile(r"w4a8[-_.]awq"), "W4A8 AWQ"),
    (re.compile(r"w4a16[-_.]awq|(^|[-_.])awq([-_.]|$)"), "W4A16 AWQ"),
    (re.compile(r"w4a16[-_.]gptq|(^|[-_.])gptq([-_.]|$)"), "W4A16 GPTQ"),
    (re.compile(r"fp8[-_.]block|fp8[-_.]1x128"), "FP8 in blocks"),
    (re.compile(r"fp8[-_.](rowwise|per[-_.]channel)"), "FP8 by rows"),
    (re.compile(r"(^|[-_.])fp8([-_.]|$)"), "FP8"),
)
"""How ``quant_algo``, ``quant_method`` and names of checkpoints spell the schemes of the matrix."""
LISTED = {
    (8, 0): ("W4A16 AWQ", "W4A16 GPTQ"),
    (8, 6): ("W4A16 AWQ", "W4A16 GPTQ"),
    (8, 9): ("FP8", "W4A8 AWQ", "W4A16 AWQ", "W4A16 GPTQ"),
    (9, 0): ("FP8", "FP8 in blocks", "FP8 by rows", "W4A8 AWQ", "W4A16 AWQ", "W4A16 GPTQ"),
    (10, 0): ("NVFP4", "MXFP4", "FP8", "FP8 in blocks"),
    (10, 3): ("NVFP4", "MXFP4", "FP8", "FP8 in blocks"),
    (12, 0): ("NVFP4", "MXFP4", "FP8"),
}
"""Schemes by compute capability: "Hardware Support Matrix" of docs/source/features/quantization.md."""


class TrtllmQuantization(Rule):
    """TensorRT-LLM has no kernels for this quantization on this GPU.

    Its support matrix lists FP8 weights from Ada on, NVFP4 and MXFP4 for Blackwell alone, FP8 in blocks for Hopper and the
    large Blackwells, AWQ and GPTQ up to Hopper. On Ampere an engine with FP8 weights cannot be built or loaded; there the
    KV cache alone may be FP8.

    How sure: the matrix is the documentation's, which names no release: a warning. The scheme comes from the checkpoint's
    config, ``quant_config.quant_algo``, or the checkpoint's name.
    """

    code = "HWF109"
    name = "trtllm-quantization"
    family = "hardware"
    severity = "warning"
    confidence = "medium"
    kinds = ("serve",)
    evidence = (
        "https://github.com/NVIDIA/TensorRT-LLM/blob/main/docs/source/features/quantization.md",
        "https://github.com/NVIDIA/TensorRT-LLM/issues/1428",
    )
    catalogue = (
        "quant-trtllm-fp8-ampere", "quant-trtllm-nvfp4-pre-blackwell", "quant-trtllm-fp8-rowwise-block",
        "quant-trtllm-w4-blackwell", "quant-nvfp4-hw",
    )  # fmt: skip
    good = (
        example("serve.sh", "trtllm-serve nvidia/Llama-3.1-8B-Instruct-FP8 --max_seq_len 8192", gpu="L40S", gpus=1),
        example("serve.sh", "trtllm-serve Qwen/Qwen2.5-7B-Instruct-AWQ --max_seq_len 8192", gpu="A100-80GB", gpus=1),
    )
    bad = (
        example(
            "serve.sh",
            "trtllm-serve nvidia/Llama-3.1-8B-Instruct-FP8 --max_seq_len 8192",
            gpu="A100-80GB",
            gpus=1,
            count=1,
        ),
        example(
            "serve.sh", "trtllm-serve nvidia/Llama-3.1-8B-Instruct-FP4 --max_seq_len 8192", gpu="H100-80GB", gpus=1
        ),
        example("serve.sh", "trtllm-serve Qwen/Qwen2.5-7B-Instruct-AWQ --max_seq_len 8192", gpu="B200", gpus=1),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        cards = job.hardware.candidates
        if not runs(job, "trtllm") or not cards or any(c.vendor != "NVIDIA" for c in cards):
            return
        scheme = _scheme(job)
        if scheme is None:
            return
        has = [c.compute_capability for c in cards]
        if any(c is None or (c >= (8, 0) and c not in LISTED) or scheme in LISTED.get(c, ()) for c in has):
            return
        where = [f"{major}.{minor}" for (major, minor), listed in LISTED.items() if scheme in listed]
        yield self.finding(
            f"TensorRT-LLM's support matrix has no {scheme} for {job.hardware.name}",
            job.model_id,
            (job.gpu, job.hardware.name),
            help=f"a checkpoint in another format; {scheme} is listed for compute capability {', '.join(where)}",
            data={"scheme": scheme},
            job=job,
        )


def _scheme(job: ServingJob) -> str | None:
    """The scheme of the matrix that the weights are in; None where it is not known."""
    stated = statement(job, "quant_config")
    config: Any = job.architecture.quantization if job.architecture is not None else None
    if config is None and job.model is not None and job.model.config is not None:
        config = job.model.config.get("quantization_config")
    words: list[str] = []
    for source in (stated.value if stated is not None else None, config):
        if isinstance(source, Mapping):
            words += [str(source.get(key)) for key in ("quant_algo", "weight_algo") if source.get(key)]
    if isinstance(config, Mapping) and block_of(config) is not None:
        return "FP8 in blocks"
    words.append(quantization_method(job) or "")
    words.append(str(job.value("model_id") or "").rstrip("/").rsplit("/", 1)[-1])
    return next((scheme for word in words for pattern, scheme in SCHEMES if pattern.search(word.lower())), None)
