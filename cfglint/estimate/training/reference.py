"""The reference's pass over a batch of preferences: forward without gradients, while the policy's graph waits.

DPO and KTO score each batch twice: with the policy, whose activations then wait for backward, and with the frozen reference,
which is a model beside it or the policy with its adapters switched off (TRL ``dpo_trainer.py``, ``kto_trainer.py``: the loss
calls the reference after the policy; ``Profile.reference_follows``). RL trainers score their samples before the step, when nothing waits. Bytes of one rank.
"""

from __future__ import annotations

from dataclasses import replace

from cfglint.catalog.architecture import Architecture
from cfglint.estimate.training.activations import activations_of
from cfglint.estimate.training.evaluation import forward_moments
from cfglint.estimate.training.plan import RL_METHODS, Plan
from cfglint.estimate.training.sharding import Windows


def reference_moments(
    plan: Plan, architecture: Architecture, layers: tuple[int, int], last: bool, windows: Windows, cuda: bool = False
) -> list[dict[str, float]]:
    """What is alive of the reference's pass, or a teacher's, moment by moment; none where no pass runs inside the step."""
    teaches = plan.scoring is not None and plan.scoring.form == "tiled_pair"
    references = plan.reference in ("model", "adapter") and plan.objective not in RL_METHODS
    if not (teaches or references) or plan.profile.offloads_reference or not plan.profile.reference_follows:
        return []
    passing = replace(
        plan,
        checkpointing="none",
        offloads_activations=False,
        lora_dropout=0.0,
        evaluating=True,
        # a teacher is a model of its own, whose weights autocast caches as it does trained ones
        adapter=plan.adapter and not teaches,
        adapters_off=plan.adapter,
        scoring=plan.scoring.without_gradients() if plan.scoring else None,
    )
    return forward_moments(activations_of(passing, architecture, layers, last, cuda), windows, False)
