"""Intervals: from the measured residuals of the regime and from what had to be assumed."""

from __future__ import annotations

from typing import Final

from cfglint.estimate.result import Interval
from cfglint.estimate.training.plan import Plan

FITTED_RESIDUALS: Final = {"single": (0.94, 1.06), "sharded": (0.88, 1.14), "parallel": (0.85, 1.2)}
"""Low and high factors that hold 95 of 100 measured rows of a regime."""

LOOSE_WIDENING: Final = 0.05
"""Each assumed fact widens both ends by this share."""


def regime(plan: Plan) -> str:
    if plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel * plan.expert_parallel > 1:
        return "parallel"
    return "single" if plan.sharding == "none" else "sharded"


def allocated_interval(expected: float, states: float, plan: Plan) -> Interval:
    """The peak with its interval; never below what states alone take."""
    low, high = FITTED_RESIDUALS[regime(plan)]
    extra = LOOSE_WIDENING * len(plan.loose)
    return Interval(max(min(states, expected), expected * (low - extra)), expected, expected * (high + extra))
