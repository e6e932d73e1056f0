"""RLH013."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.values import boolean, integer
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Route

_ACTOR: Final[Route] = ("actor_rollout_ref", "actor")


class VerlBatch(Rule):
    """verl's batch sizes do not fit together.

    Without ``use_dynamic_bsz`` it raises "train_batch_size (…) must be >= actor.ppo_mini_batch_size (…)", and asserts that
    ``train_batch_size × rollout.n`` is divisible by the number of GPUs. Its FSDP workers divide ``ppo_mini_batch_size ×
    rollout.n`` by the ranks and stop where that gives 0: "ppo_mini_batch_size 0 should be larger than 0 after normalization".

    How sure: checks of verl 0.9. Reported where the numbers stand in one file or command; where the file builds on others
    (``defaults``) they may switch dynamic batches on, so it is a warning there. A batch of 0, as asynchronous recipes have
    it, is left alone.
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
        batch, mini = (
            integer(reading.value("data", "train_batch_size")),
            integer(reading.value(*_ACTOR, "ppo_mini_batch_size")),
        )
        if batch is None or batch < 1:
            return
        alone = dynamic is not None or reading.at("defaults") is None
        if mini is not None and batch < mini:
            yield self.finding(
                f"train_batch_size {batch} is smaller than ppo_mini_batch_size {mini}",
                reading.origin("data", "train_batch_size"),
                (reading.origin(*_ACTOR, "ppo_mini_batch_size"), "taken from it"),
                help=f"ppo_mini_batch_size: {batch} or a divisor of it, or a larger train_batch_size",
                severity="error" if alone else "warning",
                confidence="high" if alone else "medium",
            )
            return
        yield from self._gpus(reading, batch, alone)
        yield from self._share(reading, mini, alone)

    def _gpus(self, reading: Reading, batch: int, alone: bool) -> Iterator[Finding]:
        samples = integer(reading.value("actor_rollout_ref", "rollout", "n"))
        node, nodes = integer(reading.value("trainer", "n_gpus_per_node")), integer(reading.value("trainer", "nnodes"))
        strategy = reading.value(*_ACTOR, "strategy")
        megatron = strategy == "megatron" or reading.at(*_ACTOR, "megatron") is not None
        if samples is None or not node or not nodes or megatron or reading.framework == "megatron":
            return
        gpus = node * nodes
        if batch * samples % gpus == 0:
            return
        yield self.finding(
            f"train_batch_size {batch} × rollout.n {samples} = {batch * samples} sequences do not divide over {gpus} GPUs",
            reading.origin("data", "train_batch_size"),
            (reading.origin("actor_rollout_ref", "rollout", "n"), "samples per prompt"),
            (reading.origin("trainer", "n_gpus_per_node"), "GPUs per node"),
            help=f"train_batch_size: {_next(batch, samples, gpus)} is the next that does",
            severity="error" if alone else "warning",
            confidence="high" if alone else "medium",
        )

    def _share(self, reading: Reading, mini: int | None, alone: bool) -> Iterator[Finding]:
        """Each rank's share of a mini-batch: verl's FSDP workers divide by the ranks that take data."""
        samples = integer(reading.value("actor_rollout_ref", "rollout", "n")) or 1
        node, nodes = integer(reading.value("trainer", "n_gpus_per_node")), integer(reading.value("trainer", "nnodes"))
        split = integer(reading.value(*_ACTOR, "ulysses_sequence_parallel_size")) or 1
        megatron = reading.value(*_ACTOR, "strategy") == "megatron" or reading.at(*_ACTOR, "megatron") is not None
        if mini is None or mini < 1 or not node or not nodes or megatron or reading.framework == "megatron":
            return
        ranks = node * nodes // split
        if ranks < 1 or mini * samples // ranks > 0:
            return
        yield self.finding(
            f"ppo_mini_batch_size {mini} × rollout.n {samples} over {ranks} ranks leaves nothing for a rank",
            reading.origin(*_ACTOR, "ppo_mini_batch_size"),
            (reading.origin("trainer", "n_gpus_per_node"), "GPUs per node"),
            help=f"ppo_mini_batch_size: {-(-ranks // samples)} or more",
            severity="error" if alone else "warning",
            confidence="high" if alone else "medium",
        )


def _next(batch: int, samples: int, gpus: int) -> int:
    from math import gcd

    step = gpus // gcd(gpus, samples)
    return -(-batch // step) * step
