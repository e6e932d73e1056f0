"""RLH014."""

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
_PAIRS: Final[tuple[tuple[Route, str], ...]] = (
    (_ACTOR, "ppo_micro_batch_size"),
    (("actor_rollout_ref", "rollout"), "log_prob_micro_batch_size"),
    (("actor_rollout_ref", "ref"), "log_prob_micro_batch_size"),
)


class VerlSettings(Rule):
    """verl settings that exclude each other.

    ``…_micro_batch_size`` beside ``…_micro_batch_size_per_gpu`` raises "You have set both", and Ulysses sequence parallelism
    without ``use_remove_padding`` "you must enable `use_remove_padding`". A KL term in the reward and in the loss at once is
    only noted by verl.

    How sure: checks of verl 0.9; the first one does not apply with ``use_dynamic_bsz``.
    """

    code = "RLH014"
    name = "verl-settings"
    family = "preference"
    severity = "error"
    evidence = (
        "https://github.com/verl-project/verl/blob/v0.9.1/verl/workers/config/actor.py",
        "https://github.com/verl-project/verl/blob/v0.9.1/verl/utils/config.py",
    )
    catalogue = ("verl.micro-batch-deprecated", "rl.verl-sp-remove-padding", "rl.verl-double-kl")
    good = (
        example(
            "verl.yaml",
            """
            data:
              train_batch_size: 512
            actor_rollout_ref:
              model:
                use_remove_padding: true
              actor:
                ppo_mini_batch_size: 128
                ppo_micro_batch_size_per_gpu: 4
                ppo_micro_batch_size: null
                ulysses_sequence_parallel_size: 2
            """,
        ),
    )
    bad = (
        example(
            "verl.yaml",
            """
            data:
              train_batch_size: 512
            actor_rollout_ref:
              actor:
                ppo_mini_batch_size: 128
                ppo_micro_batch_size: 32
                ppo_micro_batch_size_per_gpu: 4
            """,
            at="ppo_micro_batch_size",
            count=1,
        ),
        example(
            "verl.yaml",
            """
            data:
              train_batch_size: 512
            actor_rollout_ref:
              model:
                use_remove_padding: false
              actor:
                ppo_mini_batch_size: 128
                ulysses_sequence_parallel_size: 2
            """,
            at="ulysses_sequence_parallel_size",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "verl":
            return
        dynamic = reading.value(*_ACTOR, "use_dynamic_bsz")
        if dynamic is None or boolean(dynamic) is False:
            alone = dynamic is not None or reading.at("defaults") is None
            for place, key in _PAIRS:
                old, new = (*place, key), (*place, f"{key}_per_gpu")
                if integer(reading.value(*old)) is not None and integer(reading.value(*new)) is not None:
                    yield self.finding(
                        f"{key} and {key}_per_gpu are both set: verl takes one of them",
                        reading.origin(*old),
                        (reading.origin(*new), "also set"),
                        help=f"remove {key}, the older of the two",
                        severity="error" if alone else "warning",
                    )
        sequence = (*_ACTOR, "ulysses_sequence_parallel_size")
        padding: Route = ("actor_rollout_ref", "model", "use_remove_padding")
        if (integer(reading.value(*sequence)) or 1) > 1 and boolean(reading.value(*padding)) is False:
            yield self.finding(
                "sequence parallelism needs use_remove_padding",
                reading.origin(*sequence),
                (reading.origin(*padding), "off here"),
                help="use_remove_padding: true",
            )
        reward, loss = ("algorithm", "use_kl_in_reward"), (*_ACTOR, "use_kl_loss")
        if boolean(reading.value(*reward)) is True and boolean(reading.value(*loss)) is True:
            yield self.finding(
                "the KL term is in the reward and in the loss at once",
                reading.origin(*loss),
                (reading.origin(*reward), "also here"),
                help="keep one of them, unless both are meant",
                severity="info",
            )
