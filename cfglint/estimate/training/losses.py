"""Which loss a job takes in training and in evaluation, and how preference and RL methods score tokens."""

from __future__ import annotations

from typing import Any, Final

from cfglint.estimate.training.methods import Method
from cfglint.estimate.training.objectives import REFERENCES, Scoring, held_in, scoring_of
from cfglint.estimate.training.plan import PREFERENCE, RL_METHODS
from cfglint.estimate.training.profiles import Profile
from cfglint.estimate.training.reader import Reader
from cfglint.estimate.training.releases import (
    in_release,
    release_of,
    stated_release_of,
    transformers_release_of,
    trl_release_of,
)
from cfglint.estimate.training.supervised import FLATTENS_PACKED, METRICS, WIDENS_WEIGHT
from cfglint.jobs.defaults import TRL_SFT_LOSS, in_force
from cfglint.jobs.facts import DefaultOrigin

EARLIER_TRL: Final = "1.13"
"""The last TRL that made whole logits for every preference and RL method without a kernel of its own."""


def evaluation_loss_kernel_of(read: Reader, profile: Profile, loss_kernel: str) -> str:
    """Models that Liger patched make all logits outside training, unless they are told to skip them (``skip_logits``)."""
    stated = read.text("eval_loss_kernel")
    if stated is not None or loss_kernel != "fused_linear" or not profile.evaluates_with_logits:
        return stated or loss_kernel
    release = stated_release_of(read) if profile.name == "trl" else transformers_release_of(read, profile)
    made = profile.evaluates_with_logits == "always" or (
        release is not None and in_force(profile.evaluates_with_logits, release)
    )
    if made:
        read.note("eval_loss_kernel", "torch", "models that Liger patched make all logits outside training")
    return "torch" if made else loss_kernel


def loss_kernel_of(read: Reader, profile: Profile, method: Method, default: str) -> str:
    """Stated, or the framework's.

    torchtitan compiled the loss with the model from 22 October to 18 December 2024, and does since 2 April 2025 and so in
    every release (``train.py``, ``components/loss.py``); measured runs of an unknown state are from between. Its recipes
    since 0.3 put head, loss and their backward through in eight pieces of the sequence (``ChunkedLossWrapper``).

    TRL's default for supervised fine-tuning depends on its release, and is its stock loss where none is known; so does Unsloth's.
    """
    own = stated_release_of(read)
    if profile.fuses_loss and own is not None and in_force(profile.fuses_loss, own):
        return read.text("loss_kernel", "fused_linear", f"{profile.name} {own}") or "fused_linear"
    if profile.compiles_loss and read.flag("compile", False) and read.job.value("loss_kernel") is None:
        if own is not None:
            read.note("loss_kernel", "compiled", default)
            return "compiled"
        read.loose.add("loss_kernel")
    kernel = profile.loss_kernel
    if in_release(read, profile, profile.whole_logits):
        kernel, default = "triton", f"{profile.name} {release_of(read, profile)}"
    release = trl_release_of(read, profile)
    if release is not None and method.objective == "sft":
        kernel = held_in(TRL_SFT_LOSS, release)
        default = f"trl {release}"
    return read.text("loss_kernel", kernel, default if kernel != profile.loss_kernel else "") or "torch"


def loss_room_of(read: Reader, profile: Profile, loss_kernel: str) -> dict[str, Any]:
    """What a fused loss sizes its pieces by; nothing where its release, or the device whose memory it asks for, is not known."""
    release = release_of(read, profile)
    if release is None or loss_kernel != "fused_linear":
        return {}
    found: dict[str, Any] = {"short_whole": bool(profile.short_whole) and in_force(profile.short_whole, release)}
    for releases, target in profile.loss_target:
        if in_force(releases, release):
            usable = [a.usable_bytes for a in read.job.hardware.candidates]
            if target:
                found["loss_room"] = 2 * target
            elif usable:
                found |= {"loss_room": min(usable), "loss_fills": True}
    return found


def flattens_samples(read: Reader, profile: Profile, method: Method) -> bool:
    """TRL's default packing keeps whole samples and is free of padding."""
    release = trl_release_of(read, profile)
    packs = method.objective == "sft" and read.flag("packing", False)
    return packs and release is not None and in_force(FLATTENS_PACKED, release)


def scoring_facts(read: Reader, profile: Profile, method: Method, loss_kernel: str) -> dict[str, Any]:
    """How tokens are scored, and where the reference's scores come from.

    With a stated fused kernel TRL before 1.15 takes Liger's preference losses, which make no logits either.
    """
    release = read.job.versions.get("trl")
    if profile.name == "trl":
        release = stated_release_of(read) or release
    objective, scoring, earlier = method.objective, None, None
    trains = profile.name == "trl" and objective == "sft" and release is not None
    if profile.log_probabilities == "trl":
        scoring = scoring_of(objective, release)
        whole = scoring_of(objective, EARLIER_TRL)
        if scoring is not None and scoring.tiles and objective != "sft" and loss_kernel == "torch":
            fact = read.job.fact("loss_kernel")
            if fact is not None and not isinstance(fact.origin, DefaultOrigin):
                scoring = whole  # a stated loss over all logits
        if release is None and scoring is not None and objective != "sft":
            earlier = whole
    elif isinstance(profile.log_probabilities, str):
        release = release or profile.log_probabilities
        scoring = scoring_of(objective, release)
    elif objective in PREFERENCE and objective not in ("reward", "rm"):
        scoring = profile.log_probabilities
    if scoring is not None and objective == "sft":
        # ``chunked_nll`` is another name for the fused head; a stated cross entropy is over logits
        scoring = scoring if loss_kernel in ("fused_linear", "checkpointed") else None
    if loss_kernel == "selective":
        scoring = Scoring("selective")
    elif scoring is not None and loss_kernel == "fused_linear" and not scoring.tiles:
        scoring = None  # Liger's losses
    reference = read.text("reference")
    if reference is None:
        by_default = REFERENCES.get(objective, ())
        # frameworks with engines of their own say whether samples are held to a reference
        known = profile.log_probabilities or objective not in RL_METHODS
        reference = held_in(by_default, release) if by_default and known else "none"
        if reference == "model" and method.adapter:
            reference = "adapter"
        if by_default and known:
            read.note("reference", reference, f"{profile.name} default")
    return {
        "scoring": scoring,
        "earlier_scoring": earlier,
        "completion": read.count("completion_length", None),
        "reference": reference,
        "metrics": held_in(METRICS, release) if trains and loss_kernel == "torch" else "",
        "earlier_kernel": _earlier_kernel(read, profile, method, release, loss_kernel),
        "widens_head": bool(trains and held_in(WIDENS_WEIGHT, release)),
    }


def _earlier_kernel(read: Reader, profile: Profile, method: Method, release: str | None, loss_kernel: str) -> str:
    """The loss that another release of TRL takes by default, where no file says which runs."""
    fact = read.job.fact("loss_kernel")
    if profile.name != "trl" or method.objective != "sft" or release is not None or fact is None:
        return ""
    releases, earlier = TRL_SFT_LOSS[-1]
    if not isinstance(fact.origin, DefaultOrigin) or loss_kernel == earlier:
        return ""
    read.assumptions.append(
        f"no file names the release of trl: the loss is that of {TRL_SFT_LOSS[0][0]}, the high end that of {releases}"
    )
    return earlier
