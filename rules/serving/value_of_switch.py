"""SRV011."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Scalar

from .server import arguments, before, managed, readings, since, version

WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "1", "0"})

TOOK_A_VALUE = frozenset({"enable_chunked_prefill", "multi_step_stream_outputs"})
"""Switches that took ``=false`` before 0.9 (``StoreBoolean`` of vllm/utils.py)."""


class ValueOfSwitch(Rule):
    """A switch is given a value, which vLLM's parser takes for something else.

    ``--enforce-eager True`` leaves ``True`` over ("unrecognized arguments", or it becomes the model), ``--enforce-eager=true``
    ends with "ignored explicit argument". In a config file a quoted ``"false"`` becomes ``--enforce-eager false``: the switch
    is on, and the word is left over.

    How sure: switches are store-true or boolean-optional actions of argparse in every release read; which arguments are
    switches comes from the catalogue. Two switches took a value before 0.9: without a version those are a warning.
    """

    code = "SRV011"
    name = "value-of-switch"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/utils/argparse_utils.py",
        "https://docs.python.org/3/library/argparse.html#argparse.BooleanOptionalAction",
    )
    catalogue = ("cli-bool-takes-no-value", "cfg-quoted-bool")
    good = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --enforce-eager --no-enable-prefix-caching"),
        example(
            "serve.sh", "vllm serve --enforce-eager Qwen/Qwen2.5-7B-Instruct", note="the word after it is the model"
        ),
        example("serve.yaml", "model: Qwen/Qwen2.5-7B-Instruct\nmax-model-len: 4096\nenforce-eager: true"),
    )
    bad = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --enforce-eager True", count=1),
        example(
            "serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --trust-remote-code=true", at="trust_remote_code", count=1
        ),
        example(
            "serve.yaml",
            'model: Qwen/Qwen2.5-7B-Instruct\nmax-model-len: 4096\nenforce-eager: "false"',
            at="enforce-eager",
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        for reading in readings(job):
            command_line = bool(reading.context.get("command_line"))
            left_over = {w.span.start: w for w in reading.context.get("positionals") or [] if w.text.lower() in WORDS}
            for name, _, key, entry in arguments(reading):
                value = entry.value
                if not is_switch(name) or not isinstance(value, Scalar):
                    continue
                took_value = name in TOOK_A_VALUE and not since(job, "0.9")
                if took_value and (before(job, "0.9") or managed(job)):
                    continue
                if not command_line:
                    if value.quoted and str(value.value).lower() in WORDS:
                        on = str(value.value).lower() in ("true", "yes", "on", "1")
                        yield self.finding(
                            f"{key} is the text {value.raw}: vLLM switches it on and takes the text for another argument",
                            reading.origin(key),
                            help=f"{key}: {'true' if on else 'false'}, without quotes",
                            job=job,
                        )
                    continue
                word = None
                if not value.raw:  # no value of its own: look at the word behind it
                    text = reading.document.file.text
                    after = entry.key.span.end
                    gap = next((s for s in sorted(left_over) if s >= after), None)
                    if gap is not None and not text[after:gap].strip("\"' \t,\\\r\n-"):
                        word = left_over[gap].text
                elif str(value.value).lower() in WORDS and (
                    value.span.start != entry.key.span.start
                    or "=" in reading.document.file.text[value.span.start : value.span.end]
                ):  # a chart's key that is false stands for no argument at all
                    word = value.raw
                if word is not None:
                    yield self.finding(
                        f"--{name.replace('_', '-')} is a switch and takes no value, here {word}",
                        reading.origin(key),
                        help=f"--{name.replace('_', '-')} alone, or --no-{name.replace('_', '-')}",
                        severity="warning" if took_value else "error",
                        confidence="medium" if took_value and version(job) is None else "high",
                        job=job,
                    )


def is_switch(name: str) -> bool:
    from cfglint.catalog.engines import engine_argument

    argument = engine_argument("vllm", f"--{name}")
    if argument is None or argument.choices:
        return False
    kind = argument.type or ""
    return kind in ("bool", "bool | None", "Optional[bool]") or (not kind and isinstance(argument.default, bool))
