"""SRV007."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Fact, Reading
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import plain

from .server import before, number, runs_vllm, statement, switch

DEFAULT_RANK = 16
"""vllm/config/lora.py, ``max_lora_rank``, in every release read."""
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""``MaxLoRARanks`` of vllm/config/lora.py, 0.12 to 0.33."""


class LoraRankTooSmall(Rule):
    """An adapter's rank is above ``max_lora_rank``.

    vLLM refuses the adapter when it loads it: "LoRA rank 64 is greater than max_lora_rank 16". The default is 16.

    How sure: the ranks are read from the adapters' own ``adapter_config.json``, where ``--lora-modules`` names folders that
    are found. Adapters loaded at run time are not seen.
    """

    code = "SRV007"
    name = "lora-rank-too-small"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/lora/peft_helper.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/lora.py",
    )
    catalogue = ("lora-rank-too-small",)
    good = (
        example(
            {
                "serve.sh": "vllm serve Qwen/Qwen2.5-7B-Instruct --enable-lora --max-lora-rank 64 --lora-modules sql=adapters/sql",
                "adapters/sql/adapter_config.json": '{"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "Qwen/Qwen2.5-7B-Instruct", "r": 64, "lora_alpha": 64, "target_modules": ["q_proj"]}',
            }
        ),
    )
    bad = (
        example(
            {
                "serve.sh": "vllm serve Qwen/Qwen2.5-7B-Instruct --enable-lora --lora-modules sql=adapters/sql",
                "adapters/sql/adapter_config.json": '{"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "Qwen/Qwen2.5-7B-Instruct", "r": 64, "lora_alpha": 64, "target_modules": ["q_proj"]}',
            },
            at="lora_modules",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs_vllm(job) or switch(job, "enable_lora") is not True:
            return
        allowed = number(job, "max_lora_rank")
        if allowed is None and job.stated("max_lora_rank"):
            return
        most = allowed.value if allowed is not None else DEFAULT_RANK
        worst: tuple[int, Reading] | None = None
        for reading in job.readings:
            if reading.dialect == "peft-adapter":
                rank = _rank(reading)
                if rank is not None and rank > most and (worst is None or rank > worst[0]):
                    worst = (rank, reading)
        if worst is None:
            return
        rank, adapter = worst
        modules: Fact[object] | None = statement(job, "lora_modules")
        fitting = next((choice for choice in RANKS if choice >= rank), None)
        yield self.finding(
            f"adapter of rank {rank} is above max_lora_rank {most}" + ("" if allowed else " (vLLM's default)"),
            allowed or modules,
            (adapter.origin("r"), f"rank {rank}"),
            help=f"max_lora_rank: {rank if before(job, '0.12') or fitting is None else fitting}",
            data={"rank": rank, "max_lora_rank": most},
            job=job,
        )


def _rank(reading: Reading) -> int | None:
    """The adapter's highest rank: ``r``, or one of ``rank_pattern``."""
    node = reading.at("rank_pattern")
    pattern = plain(node) if node is not None else None
    found = [reading.value("r"), *(pattern.values() if isinstance(pattern, dict) else ())]
    ranks = [r for r in found if isinstance(r, int) and not isinstance(r, bool)]
    return max(ranks, default=None)
