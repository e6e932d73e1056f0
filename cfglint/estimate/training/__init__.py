"""Training memory, derived from what frameworks do: see ``estimator`` for the way from a job to an estimate."""

from cfglint.estimate.training.estimator import estimate_training

__all__ = ["estimate_training"]
