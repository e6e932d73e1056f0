"""PAR019."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean, integer
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

TAKES_FUSED_FROM = "0.7"
"""torchtune 0.6.1 refuses fused optimizers under tensor parallelism; the source after it does not."""


class TorchtuneTensorParallel(Rule):
    """torchtune's tensor parallelism without a plan, with a fused optimizer, or over GPUs it does not divide.

    The full fine-tuning recipe stops with "Tensor Parallel plan needs to be provided when tensor parallel is enabled",
    "Tensor parallelism is currently incompatible with fused optimizer", or "world_size … must be divisible by
    tensor_parallel_dim …".

    How sure: the checks of torchtune's full_finetune_distributed.py (0.6 and later), the one recipe that has the key. Later
    source takes fused optimizers, so that is said only where a release up to 0.6 is stated.
    """

    code = "PAR019"
    name = "torchtune-tensor-parallel"
    family = "parallel"
    severity = "error"
    catalogue = ("par.torchtune-tp",)
    evidence = ("https://github.com/pytorch/torchtune/blob/v0.6.1/recipes/full_finetune_distributed.py",)
    _CONFIG = """
            model:
              _component_: torchtune.models.llama3.llama3_70b
            tokenizer:
              _component_: torchtune.models.llama3.llama3_tokenizer
              path: /models/tokenizer.model
            optimizer:
              _component_: torch.optim.AdamW
              lr: 2e-5
              fused: {fused}
            dataset:
              _component_: torchtune.datasets.alpaca_dataset
            loss:
              _component_: torchtune.modules.loss.CEWithChunkedOutputLoss
            batch_size: 2
            epochs: 1
            dtype: bf16
            tensor_parallel_dim: 2
            tensor_parallel_plan:
              _component_: torchtune.models.llama3.base_llama_tp_plan
            """
    good = (example("recipe.yaml", _CONFIG.format(fused="false")),)
    bad = (
        example(
            {"recipe.yaml": _CONFIG.format(fused="true"), "requirements.txt": "torchtune==0.6.1"},
            at="tensor_parallel_dim",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        reading = job.reading("torchtune")
        size = None if reading is None else integer(reading.value("tensor_parallel_dim"))
        if reading is None or size is None or size < 2:
            return
        where = reading.origin("tensor_parallel_dim")
        world = job.hardware.world_size
        if reading.at("tensor_parallel_plan") is None:
            yield self.finding(
                f"tensor_parallel_dim {size} without a tensor_parallel_plan: torchtune stops with a ValueError",
                where,
                help="tensor_parallel_plan: {_component_: torchtune.models.llama3.base_llama_tp_plan}, or the model's own",
                job=job,
            )
        elif boolean(reading.value("optimizer", "fused")) is True and always_below(
            context.version(job, "torchtune"), TAKES_FUSED_FROM
        ):
            yield self.finding(
                f"tensor_parallel_dim {size} with a fused optimizer: torchtune stops with a ValueError",
                where,
                (reading.origin("optimizer", "fused"), "fused"),
                help="optimizer.fused: false",
                job=job,
            )
        elif world and world % size:
            yield self.finding(
                f"{world} GPUs are no multiple of tensor_parallel_dim {size}",
                where,
                help="a size that divides the GPUs",
                job=job,
            )
