"""RLH015."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.values import boolean, integer
from cfglint.jobs.facts import Reading
from cfglint.jobs.job import Job
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Route

from .verl_trainer import devices_are_stated, has_own_trainer

_ROLLOUT: Final[Route] = ("actor_rollout_ref", "rollout")
_DEFAULT: Final = 2
"""``rollout.tensor_model_parallel_size`` where it is not stated (``trainer/config/rollout/rollout.yaml``, 0.3 to 0.9)."""
_SIZES: Final = ("tensor_model_parallel_size", "data_parallel_size", "pipeline_model_parallel_size")
_OWN_DEVICES: Final = ("n_gpus_per_node", "nnodes")


class VerlRolloutRanks(Rule):
    """verl's rollout is spread over more GPUs than there are, or over a number that does not divide them.

    The workers that train also generate, in groups of ``rollout.tensor_model_parallel_size`` GPUs (2 where it is not
    stated). A number of GPUs that is no multiple of it stops all workers: "rollout world_size: 1 is not divisible by
    infer_tp: 2".

    How sure: an assertion of verl 0.3 to 0.9. Said where a command states the GPUs; an engine with GPUs of its own
    (``rollout.n_gpus_per_node``) and the ``hf`` rollout are left out, and so are recipes with trainers of their own. Where
    the size is the default, or the number of GPUs a variable's, it is a warning.
    """

    code = "RLH015"
    name = "verl-rollout-ranks"
    family = "preference"
    severity = "error"
    evidence = (
        "https://github.com/verl-project/verl/blob/v0.9.1/verl/workers/engine_workers.py",
        "https://github.com/verl-project/verl/issues/1191",
    )
    catalogue = ("par.world-model-size",)
    good = (
        example(
            "run.sh",
            """
            python3 -m verl.trainer.main_ppo data.train_batch_size=64 actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct \\
              actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.rollout.tensor_model_parallel_size=1 \\
              trainer.n_gpus_per_node=1 trainer.nnodes=1
            """,
        ),
        example(
            "run.sh",
            """
            python3 -m verl.trainer.main_ppo data.train_batch_size=64 actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct \\
              actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.rollout.tensor_model_parallel_size=16 \\
              trainer.n_gpus_per_node=8 trainer.nnodes=2
            """,
            note="an engine over two nodes",
        ),
    )
    bad = (
        example(
            "run.sh",
            """
            python3 -m verl.trainer.main_ppo data.train_batch_size=64 actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct \\
              actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.rollout.tensor_model_parallel_size=2 \\
              trainer.n_gpus_per_node=1 trainer.nnodes=1
            """,
            at="tensor_model_parallel_size",
            count=1,
        ),
        example(
            "run.sh",
            """
            python3 -m verl.trainer.main_ppo data.train_batch_size=63 actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct \\
              actor_rollout_ref.actor.ppo_mini_batch_size=63 actor_rollout_ref.rollout.name=vllm trainer.n_gpus_per_node=3 \\
              trainer.nnodes=1
            """,
            at="n_gpus_per_node",
            count=1,
            note="two by default",
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "verl" or has_own_trainer(reading):
            return
        if boolean(reading.value("actor_rollout_ref", "hybrid_engine")) is False:
            return
        if reading.value(*_ROLLOUT, "name") == "hf" or any(
            reading.at(*_ROLLOUT, key) is not None for key in _OWN_DEVICES
        ):
            return
        node = integer(reading.value("trainer", "n_gpus_per_node"))
        nodes = 1 if reading.at("trainer", "nnodes") is None else integer(reading.value("trainer", "nnodes"))
        if not node or not nodes or reading.at("actor_rollout_ref") is None:
            return
        sizes = {
            key: integer(reading.value(*_ROLLOUT, key)) for key in _SIZES if reading.at(*_ROLLOUT, key) is not None
        }
        if any(size is None or size < 1 for size in sizes.values()):
            return
        stated = _SIZES[0] in sizes
        # a file that names others in `defaults` does not say what it leaves out
        if not stated and (reading.at("defaults") is not None or not reading.context.get("program")):
            return
        ranks = 1 if stated else _DEFAULT
        for size in sizes.values():
            ranks *= size or 1
        world = node * nodes
        if world % ranks == 0:
            return
        sure = stated and devices_are_stated(reading)
        job: Job | None = next(iter(context.jobs_of(reading)), None)
        gpus = reading.origin("trainer", "n_gpus_per_node")
        place = reading.origin(*_ROLLOUT, _SIZES[0]) if stated else gpus
        yield self.finding(
            f"the rollout's engine takes {ranks} GPUs{'' if stated else ' by default'}, and {world} {'is' if world == 1 else 'are'} no multiple of it",
            place,
            *([(gpus, f"{world} GPU{'' if world == 1 else 's'} to train and generate")] if stated else []),
            help=f"rollout.{_SIZES[0]}: {max(n for n in range(1, ranks + 1) if world % n == 0)}",
            severity="error" if sure else "warning",
            confidence="high" if sure else "medium",
            job=job,
        )
