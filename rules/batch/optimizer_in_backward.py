"""BAT021."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean, integer
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example


class OptimizerInBackward(Rule):
    """torchtune's `optimizer_in_bwd` together with gradient accumulation or clipping.

    Each parameter is updated as soon as its gradient is there, so there is nothing to accumulate and no norm of all
    gradients: "Gradient accumulation is not supported with optimizer in bwd", and the same for clipping.

    How sure: the checks of torchtune's full fine-tuning recipes (0.6). A null `clip_grad_norm` and one accumulation step
    count as off.
    """

    code = "BAT021"
    name = "optimizer-in-backward"
    family = "batch"
    severity = "error"
    catalogue = ("torchtune.inbwd-ga",)
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
            dtype: bf16
            optimizer_in_bwd: true
            clip_grad_norm: null
            gradient_accumulation_steps: {steps}
            """
    good = (example("recipe.yaml", _CONFIG.format(steps=1)),)
    bad = (example("recipe.yaml", _CONFIG.format(steps=8), at="gradient_accumulation_steps", count=1),)

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "torchtune" or reading.context.get("trains") is False:
            return
        if boolean(reading.value("optimizer_in_bwd")) is not True:
            return
        steps, norm = integer(reading.value("gradient_accumulation_steps")), reading.value("clip_grad_norm")
        where = (reading.origin("optimizer_in_bwd"), "updates each parameter at once")
        if steps is not None and steps > 1:
            yield self.finding(
                f"gradient_accumulation_steps {steps} with optimizer_in_bwd: torchtune stops with a RuntimeError",
                reading.origin("gradient_accumulation_steps"),
                where,
                help="gradient_accumulation_steps: 1, or optimizer_in_bwd: false",
            )
        elif norm is not None and str(norm).lower() not in ("none", "null"):
            yield self.finding(
                f"clip_grad_norm {norm} with optimizer_in_bwd: torchtune stops with a RuntimeError",
                reading.origin("clip_grad_norm"),
                where,
                help="clip_grad_norm: null, or optimizer_in_bwd: false",
            )
