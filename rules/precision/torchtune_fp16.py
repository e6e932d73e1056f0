"""PRC025."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import dtype
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example


class TorchtuneFp16(Rule):
    """torchtune's recipes do not train in fp16.

    They hold the whole model in one dtype, without a loss scaler, and stop with "full fp16 training is not supported with
    this recipe. Please use bf16 or fp32 instead."

    How sure: the check is in every training recipe of torchtune 0.6. Recipes of one's own may differ, and then name it
    themselves; generation and evaluation do take fp16 and are left out.
    """

    code = "PRC025"
    name = "torchtune-fp16"
    family = "precision"
    severity = "error"
    catalogue = ("torchtune.fp16-unsupported",)
    evidence = ("https://github.com/pytorch/torchtune/blob/v0.6.1/recipes/full_finetune_distributed.py",)
    _CONFIG = """
            model:
              _component_: torchtune.models.llama3.llama3_8b
            tokenizer:
              _component_: torchtune.models.llama3.llama3_tokenizer
              path: /models/tokenizer.model
            optimizer:
              _component_: torch.optim.AdamW
              lr: 2e-5
            dataset:
              _component_: torchtune.datasets.alpaca_dataset
            loss:
              _component_: torchtune.modules.loss.CEWithChunkedOutputLoss
            batch_size: 2
            epochs: 1
            dtype: {dtype}
            """
    good = (example("recipe.yaml", _CONFIG.format(dtype="bf16")),)
    bad = (example("recipe.yaml", _CONFIG.format(dtype="fp16"), at="dtype", count=1),)

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "torchtune" or reading.role not in ("run", "arguments"):
            return
        if reading.context.get("trains") is False or dtype(reading.value("dtype")) != "fp16":
            return
        yield self.finding(
            "dtype is fp16, and torchtune's recipes train in bf16 or fp32 only: they stop with a ValueError",
            reading.origin("dtype"),
            help="dtype: bf16, or fp32 on GPUs without bf16",
        )
