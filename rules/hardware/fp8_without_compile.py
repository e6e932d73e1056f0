"""HWF009."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean, scalar
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example


class Fp8WithoutCompile(Rule):
    """Axolotl's FP8 training runs without torch.compile.

    torchao scales and casts around every product. Compiled, these steps are fused; without it they cost more than the faster
    products gain, and the run can be slower than in bf16. Axolotl prints a warning of its own.

    How sure: Axolotl's own advice. Speed only, so it is information.
    """

    code = "HWF009"
    name = "fp8-without-compile"
    family = "hardware"
    severity = "info"
    evidence = ("https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",)
    catalogue = ("hw.fp8-without-compile",)
    good = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-0.5B
            sequence_len: 2048
            micro_batch_size: 2
            datasets:
              - path: our/data
                type: alpaca
            bf16: true
            fp8: true
            torch_compile: true
            """,
        ),
    )
    bad = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-0.5B
            sequence_len: 2048
            micro_batch_size: 2
            datasets:
              - path: our/data
                type: alpaca
            bf16: true
            fp8: true
            """,
            at="fp8",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "axolotl" or boolean(scalar(reading.at("fp8"))) is not True:
            return
        compile = scalar(reading.at("torch_compile"))
        if compile is None or boolean(compile) is False:
            yield self.finding(
                "FP8 products are not compiled: casting and scaling cost more than they gain",
                reading.origin("fp8"),
                (reading.origin("torch_compile") if compile is not None else None, "off"),
                help="set torch_compile: true",
            )
