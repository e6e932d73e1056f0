"""SRV017."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .dropped_in import VARIABLES_DROPPED_IN
from .server import exact_version, launch_of, runs_vllm, since, version

INSTEAD = {
    "VLLM_ATTENTION_BACKEND": "--attention-backend",
    "VLLM_FLASH_ATTN_VERSION": "--attention-config.flash_attn_version",
    "VLLM_USE_TRTLLM_ATTENTION": "--attention-config.use_trtllm_attention",
    "VLLM_DISABLE_FLASHINFER_PREFILL": "--attention-config.disable_flashinfer_prefill",
    "VLLM_USE_CUDNN_PREFILL": "--attention-config.use_cudnn_prefill",
    "VLLM_ALL2ALL_BACKEND": "--all2all-backend",
    "VLLM_MM_INPUT_CACHE_GIB": "--mm-processor-cache-gb",
    "VLLM_TORCH_PROFILER_DIR": "--profiler-config.torch_profiler_dir",
    "VLLM_USE_V1": "leave it out: the V0 engine is gone, and V1 is the only one",
    "VLLM_FLASHINFER_MOE_BACKEND": "--moe-backend",
    "VLLM_USE_FLASHINFER_MOE_FP8": "--moe-backend",
    "VLLM_USE_FLASHINFER_MOE_FP4": "--moe-backend",
    "VLLM_USE_FLASHINFER_MOE_FP16": "--moe-backend",
    "VLLM_USE_FLASHINFER_MOE_MXFP4_BF16": "--moe-backend",
    "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8": "--moe-backend",
    "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8_CUTLASS": "--moe-backend",
}
NEWEST = "0.33.0"
TELLING = frozenset(INSTEAD) - {"VLLM_USE_V1"} | {"VLLM_RPC_TIMEOUT", "VLLM_ENGINE_ITERATION_TIMEOUT_S"}
"""Variables that change what runs: said without a stated version, too."""


class RemovedEnvironment(Rule):
    """An environment variable that this vLLM release no longer reads.

    It is ignored without a word (newer releases log "Unknown vLLM environment variable"): the attention backend, the MoE
    kernel or the profiler that it chose is not chosen any more.

    How sure: the variables were read from vllm/envs.py of eight releases up to 0.33.0, and of twelve between them. With the version stated it is a
    warning, without it information. Plugins may read variables of their own; only names vLLM once had are reported.
    """

    code = "SRV017"
    name = "removed-environment"
    family = "serving"
    severity = "warning"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/envs.py",
        "https://github.com/vllm-project/vllm/blob/v0.12.0/vllm/envs.py",
    )
    catalogue = ("env-removed-vllm", "attn-env-removed")
    good = (
        example(
            "serve.sh",
            "docker run --gpus all -e VLLM_ATTENTION_BACKEND=FLASHINFER vllm/vllm-openai:v0.10.2 --model Qwen/Qwen2.5-7B-Instruct",
        ),
        example("serve.sh", "VLLM_LOGGING_LEVEL=DEBUG vllm serve Qwen/Qwen2.5-7B-Instruct"),
    )
    bad = (
        example(
            "serve.sh",
            "docker run --gpus all -e VLLM_ATTENTION_BACKEND=FLASHINFER vllm/vllm-openai:v0.18.1 --model Qwen/Qwen2.5-7B-Instruct",
            at="VLLM_ATTENTION_BACKEND",
            count=1,
        ),
        example("serve.sh", "VLLM_USE_V1=0 vllm serve Qwen/Qwen2.5-7B-Instruct"),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        if launch is None or not runs_vllm(job):
            return
        from cfglint.catalog.engines import environment_known_at

        release = exact_version(job)
        if release is None and version(job) is not None:
            release = NEWEST if since(job, NEWEST) else None
            if release is None:
                return
        for name, word in launch.environment.items():
            gone = VARIABLES_DROPPED_IN.get(name)
            dropped = release is not None and gone is not None and since(job, gone)
            if not name.startswith("VLLM_"):
                continue
            if not dropped and environment_known_at("vllm", name, release or NEWEST) is not False:
                continue
            if release is None and not (name in TELLING or (name == "VLLM_USE_V1" and word.text == "0")):
                continue
            yield self.finding(
                f"vLLM {release} does not read {name}"
                if release
                else f"vLLM {NEWEST} does not read {name}; the version is not stated here",
                FileOrigin(launch.document, ("environment", name), word.span, word.span),
                help=INSTEAD.get(name, "leave it out"),
                severity="warning" if release else "info",
                job=job,
            )
