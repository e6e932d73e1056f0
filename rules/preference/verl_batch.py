"""RLH013."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from cfglint.dialects.values import boolean, integer
from cfglint.jobs.facts import Reading
from cfglint.jobs.job import Job
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Route

from .verl_trainer import devices_are_stated, has_own_trainer

_ACTOR: Final[Route] = ("actor_rollout_ref", "actor")
_SAMPLES: Final[Route] = ("actor_rollout_ref", "rollout", "n")


class _Fault(NamedTuple):
    message: str
    key: Route
    help: str
    others: tuple[tuple[Route, str], ...]
    gpus: int | None = None
    """The number of GPUs it rests on."""


class VerlBatch(Rule):
    """verl's batch sizes do not fit together.

    Without ``use_dynamic_bsz`` it raises "train_batch_size (…) must be >= actor.ppo_mini_batch_size (…)", and asserts that
    ``train_batch_size × rollout.n`` is divisible by the number of GPUs. Its FSDP workers divide ``ppo_mini_batch_size ×
    rollout.n`` by the ranks and stop where that gives 0 ("ppo_mini_batch_size 0 should be larger than 0 after normalization")
    or no multiple of ``ppo_micro_batch_size_per_gpu``.

    How sure: checks of verl 0.9. Reported where the numbers stand in one file or command; where the file builds on others
    (``defaults``) they may switch dynamic batches on, so it is a warning there, as it is where the number of GPUs is verl's
    default or a variable's. A recipe's own trainer (``recipe.….main_ppo``) may batch in its own way and is left alone, and
    so is a batch of 0, as asynchronous recipes have it.
    """

    code = "RLH013"
    name = "verl-batch"
    family = "preference"
    severity = "error"
    evidence = (
        "https://github.com/verl-project/verl/blob/v0.9.1/verl/workers/config/actor.py",
        "https://github.com/verl-project/verl/blob/v0.9.1/verl/utils/config.py",
        "https://github.com/verl-project/verl/pull/833",
    )
    catalogue = ("rl.verl-batch", "rl.verl-mini-normalised-zero")
    good = (
        example(
            "verl.yaml",
            """
            data:
              train_batch_size: 512
            actor_rollout_ref:
              actor:
                ppo_mini_batch_size: 128
              rollout:
                n: 8
            trainer:
              n_gpus_per_node: 8
              nnodes: 1
            """,
        ),
        example(
            "verl.yaml",
            """
            data:
              train_batch_size: 60
            actor_rollout_ref:
              actor:
                ppo_mini_batch_size: 60
                use_dynamic_bsz: true
              rollout:
                n: 1
            trainer:
              n_gpus_per_node: 8
              nnodes: 1
            """,
            note="dynamic batches are not held to it",
        ),
    )
    bad = (
        example(
            "verl.yaml",
            """
            data:
              train_batch_size: 64
            actor_rollout_ref:
              actor:
                ppo_mini_batch_size: 4
              rollout:
                n: 1
            trainer:
              n_gpus_per_node: 8
              nnodes: 1
            """,
            at="ppo_mini_batch_size",
            count=1,
        ),
        example(
            "verl.yaml",
            """
            data:
              train_batch_size: 16
            actor_rollout_ref:
              actor:
                ppo_mini_batch_size: 128
            """,
            at="train_batch_size",
            count=1,
        ),
        example(
            "verl.yaml",
            """
            data:
              train_batch_size: 60
            actor_rollout_ref:
              actor:
                ppo_mini_batch_size: 30
              rollout:
                n: 5
            trainer:
              n_gpus_per_node: 8
              nnodes: 1
            """,
            at="train_batch_size",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        dynamic = reading.value(*_ACTOR, "use_dynamic_bsz")
        if reading.dialect != "verl" or (dynamic is not None and boolean(dynamic) is not False):
            return
        if has_own_trainer(reading):
            return
        job = next(iter(context.jobs_of(reading)), None)
        batch, mini = integer(reading.value("data", "train_batch_size")), self._actor(reading, "ppo_mini_batch_size")
        if batch is None or batch < 1:
            return
        alone = dynamic is not None or reading.at("defaults") is None
        counted = devices_are_stated(reading)
        found = list(self._faults(reading, batch, mini, self._gpus(reading, job)))
        for fault in found[:1]:  # the first check that fails ends the run
            sure = alone and (counted or fault.gpus is None)
            yield self.finding(
                fault.message,
                reading.origin(*fault.key),
                *((reading.origin(*other), label) for other, label in fault.others if reading.at(*other) is not None),
                help=fault.help,
                severity="error" if sure else "warning",
                confidence="high" if sure else "medium",
                job=job,
            )

    def _actor(self, reading: Reading, key: str) -> int | None:
        return integer(reading.value(*_ACTOR, key))

    def _faults(self, reading: Reading, batch: int, mini: int | None, gpus: int | None) -> Iterator[_Fault]:
        samples = integer(reading.value(*_SAMPLES))
        split = self._actor(reading, "ulysses_sequence_parallel_size") or 1
        micro, per_gpu = (
            self._actor(reading, "ppo_micro_batch_size"),
            self._actor(reading, "ppo_micro_batch_size_per_gpu"),
        )
        if mini is not None and batch < mini:
            yield _Fault(
                f"train_batch_size {batch} is smaller than ppo_mini_batch_size {mini}", ("data", "train_batch_size"),
                f"ppo_mini_batch_size: {batch} or a divisor of it, or a larger train_batch_size",
                (((*_ACTOR, "ppo_mini_batch_size"), "taken from it"),),
            )  # fmt: skip
        if samples is not None and gpus is not None and batch * samples % gpus:
            yield _Fault(
                f"train_batch_size {batch} × rollout.n {samples} = {batch * samples} sequences do not divide over {gpus} GPUs",
                ("data", "train_batch_size"),
                f"train_batch_size: {_next(batch, samples, gpus)} is the next that does",
                ((_SAMPLES, "samples per prompt"), (("trainer", "n_gpus_per_node"), "GPUs per node")),
                gpus,
            )
        if mini is None or mini < 1:
            return
        if micro is not None and micro > 0 and mini % micro:
            yield _Fault(
                f"ppo_mini_batch_size {mini} is no multiple of ppo_micro_batch_size {micro}",
                (*_ACTOR, "ppo_micro_batch_size"),
                "use ppo_micro_batch_size_per_gpu, with a divisor of each rank's share",
                (((*_ACTOR, "ppo_mini_batch_size"), "split into micro-batches"),),
            )
        if gpus is None:
            return
        ranks = max(1, gpus // split)
        share = mini * (samples or 1) // ranks
        if share == 0:
            yield _Fault(
                f"ppo_mini_batch_size {mini} × rollout.n {samples or 1} over {ranks} ranks leaves nothing for a rank",
                (*_ACTOR, "ppo_mini_batch_size"),
                f"ppo_mini_batch_size: {-(-ranks // (samples or 1))} or more",
                ((("trainer", "n_gpus_per_node"), "GPUs per node"),),
                gpus,
            )
        elif per_gpu is not None and per_gpu > 0 and share % per_gpu:
            yield _Fault(
                f"each rank's {share} sequences of a mini-batch are no multiple of ppo_micro_batch_size_per_gpu {per_gpu}",
                (*_ACTOR, "ppo_micro_batch_size_per_gpu"),
                f"ppo_micro_batch_size_per_gpu: {max(n for n in range(1, per_gpu + 1) if share % n == 0)}",
                (((*_ACTOR, "ppo_mini_batch_size"), f"{mini} × {samples or 1} over {ranks} ranks"),),
                gpus,
            )

    def _gpus(self, reading: Reading, job: Job | None) -> int | None:
        """GPUs that FSDP's workers take; None where they are not known, or Megatron splits the batch in its own way."""
        megatron = reading.value(*_ACTOR, "strategy") == "megatron" or reading.at(*_ACTOR, "megatron") is not None
        if megatron or reading.framework == "megatron":
            return None
        node, nodes = integer(reading.value("trainer", "n_gpus_per_node")), integer(reading.value("trainer", "nnodes"))
        if reading.at("trainer", "n_gpus_per_node") is None and reading.at("trainer", "nnodes") is None:
            return job.hardware.world_size if job is not None else None
        return node * nodes if node and nodes else None


def _next(batch: int, samples: int, gpus: int) -> int:
    from math import gcd

    step = gpus // gcd(gpus, samples)
    return -(-batch // step) * step
