"""SRV009."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import number, runs_vllm, since, size, statement, version

DRAFT_FREE = frozenset(
    {"ngram", "[ngram]", "ngram_gpu", "suffix", "mtp", "deepseek_mtp", "extract_hidden_states", "dspark"}
)
"""Methods that need no draft model of their own."""
WITH_OWN_COUNT = ("mtp", "suffix", "dspark", "dflash", "medusa", "mlp_speculator")
"""Methods whose draft config or own settings may give the number of tokens (``n_predict``, block size)."""
SPECULATORS = ("speculator",)
"""In a draft's name: checkpoints of the speculators library may carry the number in their config."""


class SpeculativeConfig(Rule):
    """``speculative_config`` lacks a needed key or has one that vLLM refuses.

    Without ``num_speculative_tokens`` vLLM ends with "num_speculative_tokens must be provided with speculative model unless
    the draft model config contains an n_predict parameter". ``tensor_parallel_size`` is refused by name, and
    ``draft_tensor_parallel_size`` must be 1 or the target's.

    How sure: read from vllm/config/speculative.py (0.8.5 to 0.33.0). A draft of a family that may state its own number
    (MTP, MLP speculators) is left alone; one of the speculators library gives a warning.
    """

    code = "SRV009"
    name = "speculative-config"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = ("https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/speculative.py",)
    catalogue = ("spec-missing-k", "spec-tp-key", "spec-k-nonpositive", "spec-ngram-lookup", "spec-draft-maxlen")
    good = (
        example(
            "serve.yaml",
            """
            model: Qwen/Qwen2.5-72B-Instruct
            tensor-parallel-size: 4
            speculative-config:
              model: Qwen/Qwen2.5-1.5B-Instruct
              num_speculative_tokens: 4
              draft_tensor_parallel_size: 1
            """,
        ),
        example(
            "serve.sh",
            """vllm serve Qwen/Qwen3-8B --speculative-config '{"method": "mtp", "num_speculative_tokens": 1}'""",
        ),
    )
    bad = (
        example(
            "serve.yaml",
            """
            model: Qwen/Qwen2.5-72B-Instruct
            tensor-parallel-size: 4
            max-model-len: 8192
            speculative-config:
              model: Qwen/Qwen2.5-1.5B-Instruct
            """,
            at="speculative-config",
            count=1,
        ),
        example(
            "serve.sh",
            """vllm serve Qwen/Qwen2.5-72B-Instruct -tp 4 --speculative-config '{"model": "Qwen/Qwen2.5-1.5B-Instruct", "num_speculative_tokens": 4, "draft_tensor_parallel_size": 2}'""",
        ),
        example(
            "serve.sh",
            """vllm serve Qwen/Qwen2.5-7B-Instruct --speculative-config '{"method": "ngram", "num_speculative_tokens": 0, "prompt_lookup_max": 2, "prompt_lookup_min": 4}'""",
            count=2,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if runs_vllm(job):
            yield from self._legacy(job)
        fact = statement(job, "speculative_config")
        if fact is None or not isinstance(fact.value, dict) or not runs_vllm(job):
            return
        config: dict[str, Any] = fact.value
        draft, method = config.get("model"), str(config.get("method") or "")
        tokens = config.get("num_speculative_tokens")
        if draft and "num_speculative_tokens" not in config and not method.endswith(WITH_OWN_COUNT):
            library = isinstance(draft, str) and any(word in draft.lower() for word in SPECULATORS)
            yield self.finding(
                "speculative_config has no num_speculative_tokens",
                fact,
                help="num_speculative_tokens: how many tokens the draft proposes per step (3 to 5 are usual)",
                severity="warning" if library else "error",
                confidence="medium" if library else "high",
                job=job,
            )
        elif isinstance(tokens, int) and not isinstance(tokens, bool) and tokens < 1:
            yield self.finding(
                f"num_speculative_tokens is {tokens}: vLLM asks for at least 1",
                fact,
                help="num_speculative_tokens: 3 to 5 are usual",
                job=job,
            )
        if tokens is not None and not draft and method not in DRAFT_FREE and not method.endswith("mtp"):
            yield self.finding(
                "speculative_config names neither a draft model nor a method that needs none",
                fact,
                help=f"model: a draft, or method: one of {', '.join(sorted(m for m in DRAFT_FREE if m.isalpha()))}",
                job=job,
            )
        if "tensor_parallel_size" in config:
            yield self.finding(
                "speculative_config has tensor_parallel_size, which vLLM refuses",
                fact,
                help="draft_tensor_parallel_size is the key's name",
                job=job,
            )
        drafted, target = config.get("draft_tensor_parallel_size"), size(job, "tensor_parallel_size")
        if isinstance(drafted, int) and not isinstance(drafted, bool) and target and drafted not in (1, target):
            yield self.finding(
                f"draft_tensor_parallel_size {drafted} is neither 1 nor the target's {target}",
                fact,
                (job.tensor_parallel_size, f"tensor_parallel_size {target}"),
                help="draft_tensor_parallel_size: 1",
                job=job,
            )
        longest, length = config.get("max_model_len"), number(job, "max_model_len")
        limits = [(length.value, "the server's max_model_len")] if length is not None else []
        drafted_length = _length(draft) if isinstance(draft, str) else None
        limits += [(drafted_length, "the draft's own length")] if drafted_length is not None else []
        if isinstance(longest, int) and not isinstance(longest, bool) and limits and longest > min(limits)[0]:
            most, whose = min(limits)
            yield self.finding(
                f"speculative_config.max_model_len {longest:,} is above {whose}, {most:,}",
                fact,
                (length, f"{length.value:,} tokens" if length is not None else ""),
                help=f"max_model_len: {most}, or leave it out",
                severity="error" if length is not None and longest > length.value else "warning",
                job=job,
            )
        low, high = config.get("prompt_lookup_min"), config.get("prompt_lookup_max")
        if isinstance(low, int) and isinstance(high, int) and low > high:
            yield self.finding(
                f"prompt_lookup_min {low} is above prompt_lookup_max {high}",
                fact,
                help=f"prompt_lookup_min: {high} or less",
                job=job,
            )

    def _legacy(self, job: ServingJob) -> Iterator[Finding]:
        """The draft's size as releases before 0.8 take it; later ones refuse the argument, which SRV001 tells."""
        drafted = number(job, "speculative_draft_tensor_parallel_size")
        target = size(job, "tensor_parallel_size")
        if drafted is None or target is None or drafted.value in (1, target) or since(job, "0.8"):
            return
        yield self.finding(
            f"speculative_draft_tensor_parallel_size {drafted.value} is neither 1 nor the target's {target}",
            drafted,
            (job.tensor_parallel_size, f"tensor_parallel_size {target}"),
            help="--speculative-draft-tensor-parallel-size 1",
            severity="error" if version(job) is not None else "warning",
            confidence="high" if version(job) is not None else "medium",
            job=job,
        )


def _length(draft: str) -> int | None:
    """Tokens that the catalogue's row of the draft model gives; rope scaling may add to it, so none where there is any."""
    from cfglint.catalog.models import find_model

    row = find_model(draft)
    config = row.config if row is not None else {}
    value = config.get("max_position_embeddings")
    scaled = config.get("rope_scaling") or config.get("rope_parameters")
    return value if isinstance(value, int) and not scaled else None
