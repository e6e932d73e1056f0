"""HWF110."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import all_below, before, engine, engine_title, quantization_method, runs, since, version

VLLM = {
    "W4A8-FP8": (9, 0), "W8A8-INT8": (7, 5), "W4A16": (7, 5), "W4A4-NVFP4": (7, 5), "W8A16-FP8": (7, 5), "W4A4-MXFP4": (8, 0),
}  # fmt: skip
VLLM_BEFORE_012 = {"W4A16": (8, 0)}
VLLM_BEFORE_018 = {"W4A4-NVFP4": (8, 0), "W8A16-FP8": (8, 0)}
"""``get_min_capability`` of vllm/model_executor/layers/quantization/compressed_tensors/schemes in 0.6.6, 0.8.5, 0.10.2, 0.12.0,
0.18.1, 0.25.1 and 0.33.0. W8A8-FP8 asks for 8.9 and falls back to W8A16-FP8 below."""
SGLANG = {
    "W8A8-INT8": (8, 0), "W4A16": (8, 0), "W8A16-FP8": (8, 0), "W4A4-NVFP4": (10, 0), "W4A8-FP8": (9, 0),
}  # fmt: skip
"""The same in SGLang 0.5.23 (srt/layers/quantization/compressed_tensors/schemes)."""


class CompressedTensorsCapability(Rule):
    """The scheme of a compressed-tensors checkpoint needs a newer GPU than the server has.

    The format as a whole runs from Volta on, each of its schemes from where its kernels do: 4-bit weights from Turing (in
    SGLang Ampere), 4-bit weights with FP8 activations from Hopper, NVFP4 in SGLang from Blackwell. vLLM ends with "Quantization
    scheme is not supported for the current GPU. Min capability: 90. Current capability: 80".

    How sure: the scheme is read from ``config_groups`` of the checkpoint's config, and every accelerator that the name can
    mean must be below. For vLLM without a stated release the mildest one read counts. SGLang was read in 0.5.23 alone: a warning.
    """

    code = "HWF110"
    name = "compressed-tensors-capability"
    family = "hardware"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/model_executor/layers/quantization/compressed_tensors/compressed_tensors.py",
        "https://github.com/vllm-project/vllm/issues/25241",
    )
    catalogue = ("quant-ct-scheme-capability", "quant-w4a8-fp8-hopper", "quant-nvfp4-hw")
    _W4A8 = '{"model_type": "llama", "quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}, "input_activations": {"num_bits": 8, "type": "float"}, "targets": ["Linear"]}}}}'
    _W4A16 = '{"model_type": "llama", "quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}, "input_activations": null, "targets": ["Linear"]}}}}'
    good = (
        example(
            {"serve.sh": "vllm serve our/llama-w4a8", ".cfglint/models/our/llama-w4a8/config.json": _W4A8},
            gpu="H100-80GB",
            gpus=1,
        ),
        example(
            {"serve.sh": "vllm serve our/llama-w4a16", ".cfglint/models/our/llama-w4a16/config.json": _W4A16},
            gpu="T4",
            gpus=1,
        ),
    )
    bad = (
        example(
            {"serve.sh": "vllm serve our/llama-w4a8", ".cfglint/models/our/llama-w4a8/config.json": _W4A8},
            gpu="A100-80GB",
            gpus=1,
            at="model",
            count=1,
        ),
        example(
            {
                "serve.sh": "vllm serve our/llama-w4a16",
                "requirements.txt": "vllm==0.8.5",
                ".cfglint/models/our/llama-w4a16/config.json": _W4A16,
            },
            gpu="T4",
            gpus=1,
        ),
        example(
            {
                "serve.sh": "python3 -m sglang.launch_server --model-path our/llama-w4a16",
                ".cfglint/models/our/llama-w4a16/config.json": _W4A16,
            },
            gpu="T4",
            gpus=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not job.hardware.candidates or not runs(job, "vllm", "sglang"):
            return
        if quantization_method(job) != "compressed-tensors":
            return
        for scheme in sorted(_schemes(job)):
            needed = _needed(job, scheme)
            if needed is None or not all_below(job, needed):
                continue
            has = max(a.compute_capability for a in job.hardware.candidates if a.compute_capability is not None)
            sure = engine(job) == "vllm"
            yield self.finding(
                f"{scheme} weights need compute capability {needed[0]}.{needed[1]} in {engine_title(job)}, {job.hardware.name} has {has[0]}.{has[1]}",
                job.model_id,
                (job.gpu, job.hardware.name),
                help="a checkpoint in another format, or a newer GPU",
                severity="error" if sure else "warning",
                confidence="high" if sure else "medium",
                data={"scheme": scheme},
                job=job,
            )
            return


def _needed(job: ServingJob, scheme: str) -> tuple[int, int] | None:
    if engine(job) == "sglang":
        return SGLANG.get(scheme)
    if version(job) is not None:
        if before(job, "0.12") and scheme in VLLM_BEFORE_012:
            return VLLM_BEFORE_012[scheme]
        if before(job, "0.18") and scheme in VLLM_BEFORE_018:
            return VLLM_BEFORE_018[scheme]
        if not since(job, "0.6.6"):
            return None
    return VLLM.get(scheme)


def _schemes(job: ServingJob) -> set[str]:
    """Schemes of the checkpoint's groups, as the documentation calls them."""
    config: Any = job.architecture.quantization if job.architecture is not None else None
    if config is None and job.model is not None and job.model.config is not None:
        config = job.model.config.get("quantization_config")
    groups = config.get("config_groups") if isinstance(config, Mapping) else None
    found = set()
    for group in groups.values() if isinstance(groups, Mapping) else ():
        weights = group.get("weights") if isinstance(group, Mapping) else None
        inputs = group.get("input_activations") if isinstance(group, Mapping) else None
        if not isinstance(weights, Mapping):
            continue
        bits, kind, size = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
        given = (inputs.get("num_bits"), inputs.get("type")) if isinstance(inputs, Mapping) else None
        if kind == "int" and bits == 4 and given is None:
            found.add("W4A16")
        elif kind == "int" and bits == 4 and given == (8, "float"):
            found.add("W4A8-FP8")
        elif kind == "int" and bits == 8 and given == (8, "int"):
            found.add("W8A8-INT8")
        elif kind == "float" and bits == 8 and given is None:
            found.add("W8A16-FP8")
        elif kind == "float" and bits == 4 and given is not None and given[0] == 4:
            found.add("W4A4-MXFP4" if size == MXFP4_GROUP else "W4A4-NVFP4")
    return found


MXFP4_GROUP = 32
"""Weights that share a scale in MXFP4; in NVFP4 they are 16."""
