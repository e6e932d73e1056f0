"""Serving memory: what an engine's start-up log will say, computed from a job's facts."""

from __future__ import annotations

from cfglint.estimate.serving.estimator import estimate_serving
from cfglint.estimate.serving.levers import serving_levers

__all__ = ["estimate_serving", "serving_levers"]
