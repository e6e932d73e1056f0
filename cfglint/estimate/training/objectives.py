"""What a training objective puts through the model, by the release of the framework that computes it.

TRL's preference and RL trainers read log-probabilities of given tokens, not a cross entropy. How they come from the last
hidden states decides what the head takes, and has changed four times. Read from TRL 0.7 to 1.16 (``trl/trainer`` and
``trl/experimental``), measured by ``benchmarks/preference_oracle.py``. The forms are written out in ``log_probabilities``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from cfglint.jobs.defaults import in_force

Releases = tuple[tuple[str, str], ...]
"""Ranges of releases with what holds in them, the newest first."""

_CONCATENATED: Final[Releases] = ((">=1.14", "kernel"), (">=0.15", "selective"), ("<0.15", "log_softmax"))
_GROUPED: Final[Releases] = ((">=1.15", "tiled"), (">=1.14", "kernel"), (">=0.15", "selective"), ("<0.15", "rows"))

LOG_PROBABILITIES: Final[Mapping[str, Releases]] = {
    "dpo": ((">=1.15", "tiled"), *_CONCATENATED),
    "ipo": ((">=1.15", "tiled"), *_CONCATENATED),
    "kto": ((">=1.15", "tiled"), *_CONCATENATED),
    "orpo": _CONCATENATED,
    "cpo": _CONCATENATED,
    "simpo": _CONCATENATED,
    "grpo": _GROUPED,
    "rloo": _GROUPED,
    "gkd": (("", "divergence"),),
    "distill": ((">=1.12", "tiled_pair"), ("<1.12", "divergence")),
    "sft": ((">=1.15", "tiled"), ("<1.15", "")),
}
"""How TRL's trainers come to log-probabilities.

``tiled``: tiles of the projection folded one by one, no logits (``add_fused_lm_head``, ``kernels/chunked_logprob.py``);
``tiled_pair``: the same of student and teacher (``kernels/chunked_divergence.py``; pieces under checkpointing before 1.15);
``kernel``: one Triton kernel on whole logits (``kernels/logprob_entropy.py``); ``selective``: gather and logsumexp on fp32
logits, log-softmax row by row on 16-bit ones (``selective_log_softmax``); ``rows``: log-softmax row by row; ``log_softmax``:
of all logits at once; ``divergence``: between the log-softmaxes of student and teacher (``generalized_jsd_loss``).
"""

FORMS: Final[Mapping[str, str]] = {
    "tiled": "scored in tiles, no logits as a whole",
    "tiled_pair": "scored in tiles beside the teacher's, no logits as a whole",
    "kernel": "whole logits, one kernel",
    "selective": "whole logits, gather and logsumexp",
    "rows": "whole logits, log-softmax row by row",
    "log_softmax": "whole logits and their log-softmax",
    "divergence": "whole logits of student and teacher",
}
"""The forms in words."""

DIVIDES_BY_TEMPERATURE: Final[Releases] = (
    (">=1.14", ""), (">=1.10", "copy"), (">=1.0", "in place"), (">=0.16", "copy"), ("<0.16", ""),
)  # fmt: skip
"""GRPO and RLOO divide whole logits by the temperature (``grpo_trainer.py``); the kernel does so by itself."""

COPIES_SHIFTED: Final[Releases] = ((">=1.6", ""), (">=0.29", "copy"), ("<0.29", ""))
"""DPO copies the shifted logits to be contiguous (``dpo_trainer.py``)."""

NAMES_LOGITS: Final[Mapping[str, Releases]] = {
    "dpo": ((">=0.29", "named"), (">=0.12", ""), ("<0.12", "named")),
    "ipo": ((">=0.29", "named"), (">=0.12", ""), ("<0.12", "named")),
    "kto": ((">=1.6", "named"), ("<1.6", "")),
    "grpo": ((">=1.7", "named"), ("<1.7", "")),
    "rloo": ((">=1.7", "named"), ("<1.7", "")),
}
"""The logits as the model returned them have a name through the trainer's loss.

In DPO and KTO a function of its own had returned them before the reference ran; GRPO and RLOO named the model's output for its
auxiliary loss.
"""

MEASURES_CHOSEN: Final[Releases] = ((">=0.12", ""), (">=0.9", "measured"), ("<0.9", ""))
"""DPO computes the cross entropy of the chosen answers, whether it is trained on (``rpo_alpha``) or not."""

PICKS_LOGITS: Final[Releases] = ((">=0.29", ""), (">=0.12", "picked"), ("<0.12", ""))
"""DPO picks the logits of the chosen answers' tokens, then of the rejected ones', to log their mean."""

MEASURES_ENTROPY: Final[Mapping[str, Releases]] = {
    "dpo": ((">=1.14", ""), (">=0.29", "measured"), ("<0.29", "")),
    "ipo": ((">=1.14", ""), (">=0.29", "measured"), ("<0.29", "")),
    "kto": ((">=1.14", ""), (">=1.8", "measured"), ("<1.8", "")),
    "grpo": ((">=1.14", ""), (">=0.20", "measured"), ("<0.20", "")),
    "rloo": ((">=1.14", ""), (">=0.22", "measured"), ("<0.22", "")),
}
"""The entropy of the logits is logged, made of 128 rows at a time (``entropy_from_logits``); the kernel makes it by itself."""

COPIES_CHOSEN: Final[Releases] = ((">=1.9", ""), (">=1.6", "sums"), (">=0.15", "copy"), ("<0.15", "sums"))
"""KTO picks the logits of chosen and of rejected samples into tensors of their own (``kto_trainer.py``).

``sums``: 0.11, 0.14 and 1.8 were measured with one more of their size while the reference runs, 0.19 without.
"""

REFERENCES: Final[Mapping[str, Releases]] = {
    "dpo": (("", "model"),),
    "ipo": (("", "model"),),
    "kto": (("", "model"),),
    # ``beta`` is 0.04 until 0.18, and 0 since: then no reference is loaded
    "grpo": ((">=0.19", "none"), ("<0.19", "model")),
    # ``beta`` (``kl_coef`` until 0.21) is 0.05
    "rloo": (("", "model"),),
}
"""Where the reference's log-probabilities come from unless the settings say: a model beside the policy, or nowhere."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a trainer comes to the log-probabilities of its tokens."""

    form: str
    """One of :data:`LOG_PROBABILITIES`."""
    temperature: str = ""
    """``copy`` or ``in place``: logits are divided by the sampling temperature."""
    copies_shifted: bool = False
    measures_entropy: bool = False
    picks_logits: bool = False
    """Logits of a half are picked into a tensor of their own for a moment."""
    copies_chosen: str = ""
    """``copy`` or ``sums``: logits of chosen and rejected samples are picked into tensors of their own (KTO)."""
    cross_entropy: bool = False
    """The chosen half is trained on as well (ORPO, CPO)."""
    measures_chosen: bool = False
    """Their cross entropy is computed, and not trained on."""
    cuts_logits: bool = False
    """Only the completion's hidden states are projected (``logits_to_keep``)."""
    widens: bool = False
    """Logits become fp32 in any run; else where accelerate converts the outputs of autocast."""
    graph: bool = True
    """Backward will come, so that each row's log-softmax stays."""
    names_logits: bool = True
    """The trainer's function names the logits until it returns."""

    @property
    def tiles(self) -> bool:
        """No logits exist as a whole."""
        return self.form.startswith("tiled")

    def without_gradients(self) -> Scoring:
        """The same where no backward comes: neither a cross entropy nor a row leaves anything behind."""
        return replace(self, measures_chosen=False, graph=False)

    @property
    def described(self) -> str:
        return FORMS[self.form]


def held_in(releases: Releases, release: str | None) -> str:
    """What holds in a release or range; the newest where it is not known."""
    return next((found for where, found in releases if in_force(where, release)), releases[-1][1] if releases else "")


def scoring_of(objective: str, release: str | None) -> Scoring | None:
    """How TRL scores tokens for an objective; None where it takes the model's own loss."""
    releases = LOG_PROBABILITIES.get(objective)
    form = held_in(releases, release) if releases else ""
    if not form:
        return None
    samples, pairs = objective in ("grpo", "rloo"), objective in ("dpo", "ipo")
    return Scoring(
        form,
        temperature=held_in(DIVIDES_BY_TEMPERATURE, release) if samples else "",
        copies_shifted=pairs and held_in(COPIES_SHIFTED, release) == "copy",
        measures_entropy=held_in(MEASURES_ENTROPY.get(objective, ()), release) == "measured",
        copies_chosen=held_in(COPIES_CHOSEN, release) if objective == "kto" else "",
        cross_entropy=objective in ("orpo", "cpo"),
        picks_logits=pairs and held_in(PICKS_LOGITS, release) == "picked",
        measures_chosen=pairs and held_in(MEASURES_CHOSEN, release) == "measured",
        cuts_logits=samples or objective == "distill",
        names_logits=objective not in NAMES_LOGITS or held_in(NAMES_LOGITS[objective], release) == "named",
    )
