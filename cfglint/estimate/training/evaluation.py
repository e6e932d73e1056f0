"""Evaluation between steps: forward over a batch of other samples, without gradients, beside weights and states.

Nothing is kept for backward, so a batch as large as training's never needs more than training does. Frameworks have a batch
size of its own for it, and transformers' default is 8: then the logits of eight sequences decide. Read from
``Trainer.prediction_step`` and ``evaluation_loop`` (transformers 5.24 ``trainer.py``), measured by
``benchmarks/evaluation_oracle.py``. Bytes of one rank.
"""

from __future__ import annotations

from dataclasses import replace

from cfglint.catalog.architecture import Architecture
from cfglint.estimate.training.activations import Activations, activations_of
from cfglint.estimate.training.plan import Plan
from cfglint.estimate.training.sharding import Windows
from cfglint.estimate.training.states import States


def evaluation_of(plan: Plan) -> Plan:
    """The plan of the evaluation: its batch and length, no checkpointing, no dropout."""
    return replace(
        plan,
        micro_batch=plan.evaluation_batch,
        sequence=plan.evaluation_sequence,
        loss_kernel=plan.evaluation_loss_kernel,
        checkpointing="none",
        offloads_activations=False,
        lora_dropout=0.0,
        scoring=plan.scoring.without_gradients() if plan.scoring else None,
        evaluating=True,
    )


def evaluation_peak(
    plan: Plan,
    architecture: Architecture,
    layers: tuple[int, int],
    last: bool,
    states: States,
    windows: Windows,
    cuda: bool = False,
) -> tuple[float, dict[str, float]]:
    """The peak of one batch of evaluation on a pipeline stage, and what is alive at it."""
    activations = activations_of(evaluation_of(plan), architecture, layers, last, cuda)
    resident = states.resident + windows.constant
    gradients = states.gradients if plan.keeps_gradient_buffer else 0.0
    moments = forward_moments(activations, windows, plan.keeps_cache)
    parts = max(moments, key=lambda found: sum(found.values()))
    parts = {"gradients": gradients, **parts}
    return resident + sum(parts.values()), parts


def forward_moments(activations: Activations, windows: Windows, keeps_cache: bool) -> list[dict[str, float]]:
    """What is alive beside what is resident: in the vision tower, in each run of blocks, in the head."""
    masks = activations.shared_forward
    found: list[dict[str, float]] = []
    if activations.tower is not None:
        found.append({"activations": activations.tower.forward, "gathered": windows.outer})
    casts, cached, passed = 0.0, 0.0, 0
    for run in activations.runs:
        f = run.footprint
        cache = run.cache if keeps_cache else 0.0
        for position in sorted({0, run.count - 1}):
            before = passed + position
            at_start = {"activations": f.input, "gathered": windows.copied_out(before)}
            inside = {"activations": f.input + f.forward_plain, "gathered": windows.in_block(before + 1)}
            alive = {"masks": masks, "casts": casts + f.casts * position, "cache": cached + cache * position}
            found.extend(({**inside, **alive}, *([{**at_start, **alive}] if windows.copied_blocks else [])))
        casts += f.casts * run.count
        cached += cache * run.count
        passed += run.count
    head = activations.head
    if head is not None:
        moment = {
            "activations": head.input,
            "logits": head.forward_plain,
            "gathered": windows.at_head(passed),
            "masks": masks,
            "casts": casts,
            "cache": cached,
        }
        if activations.returned:
            within = {**moment, "logits": activations.returned + head.casts}
            found.extend((within, {**moment, "logits": head.forward_plain - head.casts, "casts": 0.0}))
        else:
            found.append(moment)
    return found
