"""SRV018."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.estimate.open_arguments import hides_arguments
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import runs_vllm, since, stated, statement, switch, version


class ToolParserMissing(Rule):
    """``enable_auto_tool_choice`` without ``tool_call_parser``, or output logging without request logging.

    vLLM's front end checks its arguments and ends with "Error: --enable-auto-tool-choice requires --tool-call-parser", or the
    same for --enable-log-outputs and --enable-log-requests.

    How sure: both checks stand in vllm/entrypoints/common/cli_args.py; the first since tool calls exist, the second is in
    0.18 and later: a warning without a stated version.
    """

    code = "SRV018"
    name = "tool-parser-missing"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/entrypoints/common/cli_args.py",
        "https://docs.vllm.ai/en/latest/features/tool_calling/",
    )
    catalogue = ("cli-tool-choice-parser",)
    good = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --enable-auto-tool-choice --tool-call-parser hermes"),
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --enable-auto-tool-choice --port 80 $TOOL_ARGS",
            note="a variable may hold the parser",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --enable-auto-tool-choice",
            at="enable_auto_tool_choice",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs_vllm(job) or hides_arguments(job):
            return
        if switch(job, "enable_auto_tool_choice") is True and not stated(job, "tool_call_parser"):
            yield self.finding(
                "enable_auto_tool_choice is set without a tool_call_parser",
                statement(job, "enable_auto_tool_choice"),
                help="--tool-call-parser of the model's family (hermes, llama3_json, mistral …)",
                job=job,
            )
        if (
            switch(job, "enable_log_outputs") is True
            and switch(job, "enable_log_requests") is not True
            and (version(job) is None or since(job, "0.18"))
        ):
            yield self.finding(
                "enable_log_outputs is set without enable_log_requests",
                statement(job, "enable_log_outputs"),
                help="add --enable-log-requests",
                severity="error" if version(job) is not None else "warning",
                confidence="high" if version(job) is not None else "medium",
                job=job,
            )
