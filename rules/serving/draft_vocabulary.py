"""SRV037."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cfglint.jobs.facts import Fact
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import before, json_argument, runs_vllm, served, since, text

NOT_A_DRAFT_MODEL = ("eagle", "medusa", "mtp", "speculator", "accelerator", "dflash", "dspark")
"""In a draft's name: heads made for one target, which take its vocabulary or a mapping of it."""
CHECKED_SINCE = "0.15.1"
"""vllm/config/speculative.py, ``verify_equal_vocab_size_if_draft_model``: not in 0.14.0, in this release."""
V0_UNTIL = "0.10"
"""Releases below have the V0 engine's worker, whose ``_vocab_size`` asserts the same (0.6.1 to 0.9.2)."""


class DraftVocabulary(Rule):
    """The draft model's vocabulary has another size than the target's, which vLLM refuses.

    "Target and draft model should have the same vocabulary size": the server ends before it loads anything. The V0 engine
    ended with an AssertionError. It is easily met inside one family: Qwen2.5 pads its vocabulary to 151,936 up to 3B and to
    152,064 above.

    How sure: the check stands in every release read that can run a draft model (0.6.1 to 0.9.2 and 0.15.1 to 0.33.0), and
    it compares the configs' numbers, so padding counts. ``use_heterogeneous_vocab`` switches it off and is respected. Both
    sizes must be known: where one is taken from the model that a name points to, or no release is stated, it is a warning.
    """

    code = "SRV037"
    name = "draft-vocabulary"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/speculative.py",
        "https://github.com/vllm-project/vllm/pull/42775",
        "https://github.com/vllm-project/vllm/issues/12323",
    )
    catalogue = ("spec-vocab-mismatch",)
    _COMMAND = (
        "docker run --gpus all --ipc=host vllm/vllm-openai:v0.18.1 --model Qwen/Qwen2.5-7B-Instruct "
        """--speculative-config '{{"model": "{draft}", "num_speculative_tokens": 4{more}}}'"""
    )
    good = (
        example(
            "serve.sh",
            """vllm serve Qwen/Qwen2.5-3B-Instruct --speculative-config '{"model": "Qwen/Qwen2.5-0.5B-Instruct", "num_speculative_tokens": 4}'""",
        ),
        example(
            "serve.sh",
            _COMMAND.format(draft="Qwen/Qwen2.5-0.5B-Instruct", more=', "use_heterogeneous_vocab": true'),
            note="vLLM maps the tokens",
        ),
        example(
            "serve.sh",
            """vllm serve Qwen/Qwen2.5-7B-Instruct --speculative-config '{"method": "eagle3", "model": "Qwen/Qwen2.5-0.5B-Instruct", "num_speculative_tokens": 4}'""",
            note="not a draft model",
        ),
        example(
            "serve.sh",
            """vllm serve Qwen/Qwen2.5-7B-Instruct --speculative-config '{"model": "our/draft", "num_speculative_tokens": 4}'""",
            note="the draft is not known",
        ),
    )
    bad = (
        example(
            "serve.sh",
            _COMMAND.format(draft="Qwen/Qwen2.5-0.5B-Instruct", more=""),
            at="speculative_config",
            count=1,
        ),
        example(
            "serve.sh",
            "docker run --gpus all --ipc=host vllm/vllm-openai:v0.6.6 --model Qwen/Qwen2.5-7B-Instruct --speculative-model Qwen/Qwen2.5-0.5B-Instruct --num-speculative-tokens 4",
            at="speculative_model",
            count=1,
        ),
        example(
            "serve.yaml",
            """
            model: Qwen/Qwen2.5-7B-Instruct
            max-model-len: 8192
            speculative-config: {method: draft_model, model: Qwen/Qwen2.5-0.5B-Instruct, num_speculative_tokens: 4}
            """,
            note="no release is stated: a warning",
            count=1,
        ),
        example(
            "serve.sh",
            _COMMAND.format(draft="Qwen/Qwen2.5-0.5B-Instruct-GPTQ-Int4", more=""),
            note="a quantized copy by its name: a warning",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs_vllm(job):
            return
        found = _draft(job)
        target, certain = served(job)
        if found is None or target is None or not target.vocab_size:
            return
        name, where = found
        size, exact = _vocabulary(name)
        if size is None or size == target.vocab_size:
            return
        sure = certain and exact and where.certain and (since(job, CHECKED_SINCE) or before(job, V0_UNTIL))
        yield self.finding(
            f"the draft {name} has a vocabulary of {size:,}, the target one of {target.vocab_size:,}: vLLM asks for equal ones",
            where,
            (job.model_id, f"{target.vocab_size:,} tokens"),
            help="a draft with the target's vocab_size, a method that needs no draft model (ngram, eagle3)"
            + (", or use_heterogeneous_vocab: true" if since(job, "0.25.1") else ""),
            severity="error" if sure else "warning",
            confidence="high" if sure else "medium",
            data={"draft": size, "target": target.vocab_size},
            job=job,
        )


def _draft(job: ServingJob) -> tuple[str, Fact[Any]] | None:
    """The draft model's name and where it stands; None where there is none, or it is a head made for the target."""
    config = json_argument(job, "speculative_config")
    if config is not None:
        name, method = config.value.get("model"), config.value.get("method")
        if method not in (None, "draft_model") or config.value.get("use_heterogeneous_vocab"):
            return None
        where: Fact[Any] = config
    else:
        legacy = text(job, "speculative_model")
        if legacy is None:
            return None
        name, where = legacy.value, legacy
    if not isinstance(name, str) or name.startswith("[") or any(word in name.lower() for word in NOT_A_DRAFT_MODEL):
        return None
    return name, where


def _vocabulary(name: str) -> tuple[int | None, bool]:
    """``vocab_size`` of a model by its name, and whether the name is the model's own."""
    from cfglint.catalog.models import find_model
    from cfglint.jobs.named_models import published_as, without_format

    row = find_model(name)
    if row is not None:
        size = row.config.get("vocab_size")
        return (size, True) if isinstance(size, int) and not isinstance(size, bool) else (None, False)
    like = published_as(without_format(name)[0])
    return (like.architecture.vocab_size or None, False) if like is not None else (None, False)
