"""The peak as a maximum over moments: load, forward, backward, optimizer step. Bytes of one rank."""

from __future__ import annotations

from dataclasses import dataclass

from cfglint.estimate.training.activations import Activations
from cfglint.estimate.training.states import States


@dataclass(frozen=True, slots=True)
class Windows:
    """What sharding adds while parameters are gathered: bytes of the outer group and of one block, and its gradients."""

    outer: float = 0.0
    """Gathered parameters outside the blocks, alive through forward and backward."""
    block: float = 0.0
    """One block's gathered parameters."""
    prefetch: float = 1.0
    """Blocks gathered at once in forward."""
    kept: float = 0.0
    """All blocks' gathered parameters, where they are not resharded after forward."""
    block_gradient: float = 0.0
    """One block's unsharded gradients and the buffer that reduces them."""
    outer_gradient: float = 0.0
    reduce: float = 0.0


@dataclass(frozen=True, slots=True)
class Peak:
    """Bytes by phase, and what was alive at the overall peak."""

    phases: dict[str, float]
    at: str
    parts: dict[str, float]

    @property
    def total(self) -> float:
        return self.phases[self.at]


def walk(
    states: States,
    activations: Activations,
    windows: Windows,
    *,
    accumulating: bool,
    embedding_gradient: float,
    tied: bool,
    sharded_gradients: bool,
    in_flight: float = 1.0,
) -> Peak:
    """Follow one step of the steady state.

    ``accumulating``: gradients of earlier micro-steps are there during forward. ``embedding_gradient``: bytes of the
    dense gradient of the input embedding. ``in_flight``: micro-batches whose activations a pipeline stage holds.
    """
    resident = states.weights + states.masters + states.optimizer + states.buffers + activations.shared
    held = states.gradients if accumulating else 0.0
    waiting = (in_flight - 1) * activations.kept
    kept = activations.kept + waiting
    head = activations.head
    best: dict[str, tuple[float, dict[str, float]]] = {}

    def consider(phase: str, **parts: float) -> None:
        total = resident + sum(parts.values())
        if phase not in best or total > best[phase][0]:
            best[phase] = (total, parts)

    gathered = windows.outer + windows.kept
    # forward: through the last block, then the head
    done = waiting
    casts = 0.0
    for run in activations.runs:
        f = run.footprint
        inner = f.forward_plain if run.checkpointed else f.forward_saving
        before = done + run.kept * (run.count - 1)
        consider(
            "forward",
            gradients=held,
            activations=before + (run.kept if run.checkpointed else f.input) + inner,
            gathered=gathered + windows.block * windows.prefetch,
            casts=casts + f.casts * (run.count - 1),
        )
        done += run.kept * run.count
        casts += f.casts * run.count
    if head is not None:
        consider(
            "forward",
            gradients=held,
            activations=kept + head.input,
            logits=head.forward_saving,
            gathered=gathered,
            casts=casts,
        )
    # backward: the head, then blocks from last to first
    grown = 0.0
    if head is not None:
        extra = head.backward if not accumulating else head.backward_accumulating
        keeps_input = head.input if head.saves_input else 0.0
        if sharded_gradients:
            extra = head.backward
        consider("backward", gradients=held, activations=kept + keeps_input, logits=extra, gathered=gathered)
        grown += head.gradients
    left = kept
    for run in reversed(activations.runs):
        f = run.footprint
        backward = f.backward_accumulating if accumulating and not sharded_gradients else f.backward
        incoming = f.output
        for position in (0, run.count - 1):
            if position and run.count == 1:
                continue
            alive = left - run.kept * position
            grads = held if accumulating else min(grown + f.gradients * position, states.gradients)
            if sharded_gradients and accumulating:
                grads = held
            if run.checkpointed:
                inner = max(f.forward_saving + incoming, backward)
                rest = alive
            else:
                inner = backward
                rest = alive - f.saved
            consider(
                "backward",
                gradients=grads,
                activations=rest + inner,
                gathered=windows.outer + windows.block * 2 + max(0.0, windows.kept - windows.block * 2),
                reduce=windows.reduce,
            )
        left -= run.kept * run.count
        grown += f.gradients * run.count
    total = states.gradients
    if embedding_gradient:
        rest = total if tied or accumulating else max(0.0, total - embedding_gradient)
        consider(
            "backward",
            gradients=rest,
            activations=waiting + activations.embedding_output,
            embedding_gradient=embedding_gradient,
            gathered=windows.outer,
        )
    consider("step", gradients=states.gradients, workspace=states.workspace)
    consider("load")
    phases = {phase: total for phase, (total, _) in best.items()}
    at = max(phases, key=lambda p: phases[p])
    return Peak(phases, at, best[at][1])
