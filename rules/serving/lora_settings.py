"""SRV008."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .lora_rank import RANKS
from .server import number, runs_vllm, since, stated, statement, switch, version


class LoraSettings(Rule):
    """LoRA arguments that vLLM refuses: adapters without ``enable_lora``, an impossible rank, too few slots.

    ``lora_modules`` without ``enable_lora`` ends in "Call to add_lora failed" or leaves the adapters out. From 0.12 on
    ``max_lora_rank`` takes a fixed list of values. ``max_cpu_loras`` below ``max_loras`` is refused.

    How sure: all three are read from vllm/config/lora.py and the argument parser; the list of ranks is an error only where
    the stated version is 0.12 or later.
    """

    code = "SRV008"
    name = "lora-settings"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = ("https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/lora.py",)
    catalogue = ("lora-modules-without-enable", "lora-rank-choice", "lora-cpu-lt-gpu")
    good = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --enable-lora --lora-modules sql=our/sql --max-lora-rank 32 --max-loras 2 --max-cpu-loras 8",
        ),
    )
    bad = (
        example(
            "serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --lora-modules sql=our/sql", at="lora_modules", count=1
        ),
        example(
            "serve.sh",
            "docker run --gpus all --ipc=host vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct --enable-lora --max-lora-rank 48",
            at="max_lora_rank",
        ),
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --enable-lora --max-loras 8 --max-cpu-loras 4",
            at="max_cpu_loras",
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs_vllm(job):
            return
        modules = statement(job, "lora_modules")
        if modules is not None and not stated(job, "enable_lora"):
            yield self.finding(
                "adapters are named, but enable_lora is not set",
                modules,
                help="add --enable-lora",
                job=job,
            )
        if switch(job, "enable_lora") is not True:
            return
        rank = number(job, "max_lora_rank")
        if rank is not None and rank.value not in RANKS and (since(job, "0.12") or version(job) is None):
            fitting = next((choice for choice in RANKS if choice >= rank.value), RANKS[-1])
            certain = since(job, "0.12")
            yield self.finding(
                f"max_lora_rank {rank.value} is not one of {', '.join(map(str, RANKS))}"
                + ("" if certain else ", which vLLM asks for from 0.12 on"),
                rank,
                help=f"max_lora_rank: {fitting}",
                severity="error" if certain else "warning",
                confidence="high" if certain else "medium",
                job=job,
            )
        cpu, gpu = number(job, "max_cpu_loras"), number(job, "max_loras")
        if cpu is not None and gpu is not None and cpu.value < gpu.value:
            yield self.finding(
                f"max_cpu_loras {cpu.value} is below max_loras {gpu.value}",
                cpu,
                (gpu, "adapters in one batch"),
                help=f"max_cpu_loras: {gpu.value}",
                job=job,
            )
