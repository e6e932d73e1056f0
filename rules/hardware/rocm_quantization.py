"""HWF111."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import before, checkpoint_method, engine, engine_title, exact_version, runs, since, text, version

_FIRST = frozenset({"awq", "gptq", "fp8", "compressed-tensors", "compressed_tensors", "fbgemm_fp8", "gguf"})
_EIGHT = _FIRST | {"quark", "ptpc_fp8"}
_TEN = _EIGHT | {"mxfp4", "petit_nvfp4", "torchao"}
_TWELVE = _TEN | {"bitsandbytes"}
_EIGHTEEN = _TWELVE | {"awq_marlin", "gptq_marlin"}
_MODELOPT = frozenset(
    {"modelopt", "modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed", "mxfp8", "online", "gpt_oss_mxfp4", "deepseek_v4_fp8",
     "fp8_per_tensor", "fp8_per_block", "fp8_per_channel", "auto_awq", "auto_gptq"}
)  # fmt: skip
VLLM = {
    "0.6.6": _FIRST, "0.8.5": _EIGHT, "0.10.2": _TEN, "0.12.0": _TWELVE, "0.18.1": _EIGHTEEN,
    "0.25.1": (_EIGHTEEN - {"gguf", "ptpc_fp8", "petit_nvfp4", "gptq_marlin"}) | _MODELOPT,
    "0.33.0": (_EIGHTEEN - {"gguf", "ptpc_fp8", "petit_nvfp4", "gptq_marlin", "bitsandbytes"}) | _MODELOPT | {"inc", "auto-round"},
}  # fmt: skip
"""``supported_quantization`` of vllm/platforms/rocm.py in each release read; between two of them both lists count."""
SGLANG = frozenset(
    {"awq", "fp8", "compressed_tensors", "compressed-tensors", "w8a8_fp8", "petit_nvfp4", "quark", "mxfp4", "mxfp8",
     "auto-round", "auto-round-int8", "quark_int4fp8_moe", "quark_mxfp4"}
)  # fmt: skip
"""``rocm_supported_quantization`` of srt/configs/model_config.py in SGLang 0.5.23."""


class RocmQuantization(Rule):
    """The quantization method is not among those that the engine takes on AMD's GPUs.

    Both engines keep a list for ROCm and end with "… quantization is currently not supported in rocm": Marlin kernels are
    CUDA's, and bitsandbytes and ModelOpt formats came late and went again.

    How sure: the lists were read from seven releases of vLLM (0.6.6 to 0.33.0) and from SGLang 0.5.23. A stated release of
    vLLM counts as the two samples around it: an error where neither has the method. Without one it is a warning where neither
    0.18.1 nor 0.33.0 has it; for SGLang and later releases, too. Forks for ROCm may take more.
    """

    code = "HWF111"
    name = "rocm-quantization"
    family = "hardware"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/platforms/rocm.py",
        "https://github.com/sgl-project/sglang/blob/v0.5.23/python/sglang/srt/configs/model_config.py",
    )
    catalogue = ("quant-rocm-unsupported",)
    good = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --quantization fp8", gpu="MI300X", gpus=1),
        example(
            {
                "serve.sh": "vllm serve Qwen/Qwen2.5-7B-Instruct --quantization bitsandbytes",
                "requirements.txt": "vllm==0.18.1",
            },
            gpu="MI300X",
            gpus=1,
        ),
    )
    bad = (
        example(
            {
                "serve.sh": "vllm serve Qwen/Qwen2.5-7B-Instruct --quantization bitsandbytes",
                "requirements.txt": "vllm==0.10.2",
            },
            gpu="MI300X",
            gpus=1,
            at="quantization",
            count=1,
        ),
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --quantization bitsandbytes",
            gpu="MI300X",
            gpus=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        cards = job.hardware.candidates
        if not cards or any(card.vendor != "AMD" for card in cards) or not runs(job, "vllm", "sglang"):
            return
        asked = text(job, "quantization")
        own, certain = checkpoint_method(job)
        method = asked.value.lower() if asked is not None else own
        if method is None or method in _taken(job):
            return
        newest = list(VLLM)[-1]
        read = before(job, newest) or exact_version(job) == newest
        sure = engine(job) == "vllm" and exact_version(job) is not None and read and (asked is not None or certain)
        yield self.finding(
            f"{engine_title(job)}{f' {version(job)}' if version(job) else ''} does not take {method} on AMD's GPUs",
            asked or job.model_id,
            (job.gpu, job.hardware.name),
            help="a checkpoint in fp8, awq, gptq or compressed-tensors"
            if engine(job) == "vllm"
            else "a checkpoint in fp8, awq or compressed-tensors",
            severity="error" if sure else "warning",
            confidence="high" if sure else "medium",
            data={"method": method},
            job=job,
        )


def _taken(job: ServingJob) -> frozenset[str]:
    """Every method that a release which the files allow may take."""
    if engine(job) == "sglang":
        return SGLANG
    if version(job) is None:
        return VLLM["0.18.1"] | VLLM["0.33.0"]
    samples = list(VLLM)
    after = next((i for i, sample in enumerate(samples) if before(job, sample)), None)
    if exact_version(job) is None or after == 0:
        return frozenset().union(*VLLM.values())
    if after is None:
        return VLLM[samples[-1]]
    exactly = since(job, samples[after - 1]) and exact_version(job) == samples[after - 1]
    return VLLM[samples[after - 1]] | (frozenset() if exactly else VLLM[samples[after]])
