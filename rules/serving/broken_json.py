"""SRV013."""

from __future__ import annotations

import json
from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Scalar

from .server import arguments, before, readings, version

JSON = frozenset({
    "speculative_config", "compilation_config", "hf_overrides", "limit_mm_per_prompt", "kv_transfer_config",
    "override_generation_config", "mm_processor_kwargs", "model_loader_extra_config", "rope_scaling", "pooler_config",
    "default_chat_template_kwargs", "eplb_config", "kv_events_config", "structured_outputs_config", "attention_config",
    "additional_config", "media_io_kwargs",
})  # fmt: skip
"""Arguments whose value is a JSON object."""
NUMBER_TOO = frozenset({"compilation_config"})
"""Taken as a plain number in some releases."""
PAIRS_UNTIL = "0.10"
"""Before it ``--limit-mm-per-prompt image=2,video=1`` was taken (nullable_kvs in vllm/engine/arg_utils.py, 0.6.6 to 0.9.2)."""


class BrokenJson(Rule):
    """An argument that takes JSON holds text that is no JSON once quotes are taken off.

    The shell, or YAML, takes the quotes away before vLLM sees the text: ``--limit-mm-per-prompt {"image":2}`` without outer
    quotes arrives as ``{image:2}`` and the parser ends with "Value … cannot be converted". ``image=2`` is the form of
    releases before 0.10.

    How sure: the text is read as the shell or YAML leaves it, then as JSON. Values with variables are left alone. The old form
    without a stated release is a warning.
    """

    code = "SRV013"
    name = "broken-json"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/utils/argparse_utils.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/engine/arg_utils.py",
    )
    catalogue = ("cli-json-quoting", "cli-limit-mm-format")
    good = (
        example("serve.sh", """vllm serve Qwen/Qwen2.5-VL-7B-Instruct --limit-mm-per-prompt '{"image": 2}'"""),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-VL-7B-Instruct --limit-mm-per-prompt.image 2"),
    )
    bad = (
        example(
            "serve.sh",
            """vllm serve Qwen/Qwen2.5-VL-7B-Instruct --limit-mm-per-prompt {"image":2}""",
            at="limit_mm_per_prompt",
            count=1,
        ),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-VL-7B-Instruct --limit-mm-per-prompt image=2", count=1),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        for reading in readings(job):
            for name, _, key, entry in arguments(reading):
                value = entry.value
                if name not in JSON or "." in key or not isinstance(value, Scalar) or value.value is None:
                    continue
                shown = value.value
                if isinstance(shown, (int, float)):
                    continue
                if not isinstance(shown, str) or "$" in shown or "{{" in shown or _is_json(shown):
                    continue
                pairs = "=" in shown and not shown.lstrip().startswith("{")
                if pairs and (name != "limit_mm_per_prompt" or before(job, PAIRS_UNTIL)):
                    continue
                if name in NUMBER_TOO and shown.strip().isdigit():
                    continue
                flag = f"--{name.replace('_', '-')}"
                yield self.finding(
                    f"{flag} gets {shown[:60]!r}, which is no JSON"
                    + (f": the form name=number went with {PAIRS_UNTIL}" if pairs else ""),
                    reading.origin(key),
                    help=f"{flag} '{{\"…\": …}}' in single quotes, or {flag}.key value",
                    severity="warning" if pairs and version(job) is None else "error",
                    confidence="medium" if pairs and version(job) is None else "high",
                    job=job,
                )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
