"""MEM104."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.fixes import replace_value
from cfglint.lint.rule import Parameter, Rule, example

from ..serving.server import readings, runs_vllm, statement

PERCENT = 10
"""From here on the number is read as a percentage; 1.2 is a slip of another kind."""


class UtilizationRange(Rule):
    """``gpu_memory_utilization`` is outside (0, 1], or so near to 1 that nothing is left beside it.

    It is a share: 90 instead of 0.9 is refused by vLLM's checks. From about 0.97 on CUDA graphs, NCCL buffers and other
    processes of the device have no room: out of memory while graphs are captured, or after hours of serving.

    How sure: the range is checked by vllm/config/cache.py. The upper threshold is a matter of taste: headless servers with a
    device of their own do run at 0.97, so it is a warning and a parameter.
    """

    code = "MEM104"
    name = "utilization-range"
    family = "memory"
    severity = "error"
    kinds = ("serve",)
    fixable = "unsafe"
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/cache.py",
        "https://docs.vllm.ai/en/latest/configuration/conserving_memory/",
    )
    catalogue = ("mem-util-percent", "mem-util-range", "mem-util-too-high", "mem-cudagraph-oom")
    parameters = {"highest": Parameter(0.97, "above this nothing is left for CUDA graphs and other processes")}
    good = (example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --gpu-memory-utilization 0.95"),)
    bad = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --gpu-memory-utilization 90",
            at="gpu_memory_utilization",
            count=1,
        ),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --gpu-memory-utilization 0.99", count=1),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        fact = statement(job, "gpu_memory_utilization")
        if (
            fact is None
            or isinstance(fact.value, bool)
            or not isinstance(fact.value, (int, float))
            or not runs_vllm(job)
        ):
            return
        share = float(fact.value)
        if 0 < share <= 1:
            highest = self.options["highest"]
            if share > highest:
                yield self.finding(
                    f"gpu_memory_utilization {share:g} leaves {f'{1 - share:.0%}' if share < 1 else 'nothing'} of the device for CUDA graphs, NCCL and other processes",
                    fact,
                    help="gpu_memory_utilization: 0.95",
                    severity="warning",
                    confidence="medium",
                    job=job,
                )
            return
        percent = PERCENT <= share <= 100
        fixes: tuple[Fix, ...] = ()
        if percent and isinstance(fact.origin, FileOrigin):
            for reading in readings(job):
                if reading.document is fact.origin.document and reading.entry(str(fact.origin.route[-1])) is not None:
                    edit = replace_value(reading, (str(fact.origin.route[-1]),), f"{share / 100:g}")
                    fixes = (Fix(f"Write {share / 100:g}", (edit,), safe=False),) if edit is not None else ()
                    break
        yield self.finding(
            f"gpu_memory_utilization is a share above 0 and up to 1, here {share:g}",
            fact,
            help=f"gpu_memory_utilization: {share / 100:g}" if percent else "gpu_memory_utilization: 0.9",
            fixes=fixes,
            job=job,
        )
