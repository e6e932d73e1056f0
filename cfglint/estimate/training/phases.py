"""The peak as a maximum over moments: load, forward, backward, optimizer step. Bytes of one rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cfglint.estimate.training.activations import Activations
from cfglint.estimate.training.sharding import Windows
from cfglint.estimate.training.states import States


@dataclass(frozen=True, slots=True)
class Peak:
    """Bytes by phase, and what was alive at the overall peak."""

    phases: dict[str, float]
    at: str
    parts: dict[str, float]

    @property
    def total(self) -> float:
        return self.phases[self.at]

    def with_phases(self, others: Mapping[str, tuple[float, dict[str, float]]]) -> Peak:
        """The same with phases between steps: of each its bytes, and what is alive then."""
        phases = {**self.phases, **{phase: total for phase, (total, _) in others.items()}}
        at = max(phases, key=lambda phase: phases[phase])
        return Peak(phases, at, others[at][1] if at in others else self.parts)


def walk(
    states: States,
    activations: Activations,
    windows: Windows,
    *,
    accumulating: bool,
    embedding_gradient: float,
    tied: bool,
    gradient_share: float = 1.0,
    in_flight: float = 1.0,
    passes: Sequence[Mapping[str, float]] = (),
) -> Peak:
    """Follow one step of the steady state.

    ``accumulating``: gradients are there during forward, of earlier micro-steps or as buffers made at start.
    ``embedding_gradient``: bytes of the dense gradient of the input embedding. ``gradient_share``: part of a gradient that
    stays on this rank after it was reduced. ``in_flight``: micro-batches whose activations a pipeline stage holds.
    ``passes``: moments of a pass through the reference model, which comes when the policy's forward is over.
    """
    resident = states.resident + windows.constant
    shared = {"forward": activations.shared_forward, "backward": activations.shared_backward}
    held = max(states.gradients, windows.whole_gradients) if accumulating else 0.0
    tower = activations.tower
    waiting = (in_flight - 1) * activations.kept + (tower.kept if tower is not None else 0.0)
    kept = activations.kept + waiting
    head = activations.head
    layers = sum(run.count for run in activations.runs)
    best: dict[str, tuple[float, dict[str, float]]] = {}

    def consider(phase: str, **parts: float) -> None:
        parts["masks"] = shared.get(phase, 0.0)
        total = resident + sum(parts.values())
        if phase not in best or total > best[phase][0]:
            best[phase] = (total, parts)

    # forward: through each run of blocks, then the head
    carried = activations.carried
    last = activations.last_logits
    done, casts, passed = waiting + carried, 0.0, 0
    for run in activations.runs:
        f = run.footprint
        own = run.kept or f.input  # offloaded activations are on the device while their block runs
        if windows.copied_blocks:
            for position in sorted({0, run.count - 1}):
                consider(
                    "forward",
                    gradients=held,
                    activations=done + run.kept * position + f.input,
                    logits=last,
                    gathered=windows.copied_out(passed + position),
                    casts=casts,
                )
        passed += run.count
        consider(
            "forward",
            gradients=held,
            activations=done
            + run.kept * (run.count - 1)
            + (own + f.forward_plain if run.checkpointed else f.input + f.forward_saving),
            logits=last,
            gathered=windows.in_block(passed),
            casts=casts + (f.casts * (run.count - 1) if run.checkpointed else 0.0),
        )
        done += run.kept * run.count
        # without checkpointing the cached copies are the ones that backward keeps, counted there
        casts += f.casts * run.count if run.checkpointed else 0.0
    if tower is not None:
        consider("forward", gradients=held, activations=waiting - tower.kept + tower.forward, gathered=windows.outer)
    everything = 0.0 if windows.reshard else windows.block * layers
    if head is not None:
        consider(
            "forward",
            gradients=held,
            activations=kept + carried + head.input,
            logits=head.forward_saving,
            gathered=windows.at_head(layers),
            casts=0.0 if activations.returned else casts,
        )
        if activations.returned:
            consider(
                "forward",
                gradients=held,
                activations=kept + carried + head.input,
                logits=activations.returned,
                casts=casts,
            )
        for moment in passes:
            consider(
                "forward",
                gradients=held,
                activations=kept + (head.input if head.saves_input else 0.0) + moment["activations"],
                logits=head.after + moment.get("logits", 0.0),
                gathered=moment.get("gathered", 0.0),
                casts=moment.get("casts", 0.0),
            )
    # backward: the head, then the blocks from last to first
    grown = 0.0
    sharded = windows.unsharded_gradients
    outer_gradient = windows.outer_gradient if head is not None else 0.0
    if head is not None:
        if windows.reshard and windows.outer_buffer:
            consider(
                "backward",
                gradients=held,
                activations=kept + (head.input if head.saves_input else 0.0),
                logits=head.saved,
                gathered=windows.outer + windows.outer_buffer,
            )
        at_head = kept + (head.input if head.saves_input else 0.0)
        blocks = windows.head + (everything or windows.block * windows.head_blocks)
        whole = head.backward if sharded or not accumulating else head.backward_accumulating
        moments = [(whole, windows.outer)]
        if windows.frees_outer:
            # the outer unit is gathered again for the projection alone
            moments = [(head.backward_of_loss, 0.0), (head.backward_of_projection, windows.outer)]
        for logits, outer in moments:
            consider("backward", gradients=held, activations=at_head, logits=logits, gathered=outer + blocks)
        if windows.head:
            grown += head.gradients * gradient_share
        elif not sharded:
            grown += head.gradients
    left, remaining = kept, layers
    for run in reversed(activations.runs):
        f = run.footprint
        backward = f.backward_accumulating if accumulating and not sharded else f.backward
        for position in sorted({0, min(1, run.count - 1), max(0, run.count - 2), run.count - 1}):
            alive = left - run.kept * position
            if windows.keeps_inputs:
                alive = kept + (kept - left) + run.kept * position
            reduced = min(grown + f.gradients * position * gradient_share, states.gradients)
            if run.checkpointed:
                inner = (alive or f.input) - min(alive, run.reused) + max(f.forward_saving + f.waiting, backward)
            else:
                inner = max(0.0, alive - f.saved + run.dropped) + backward
            # before the first block FSDP2 has none to gather ahead
            ahead = windows.backward_blocks
            if windows.copied_blocks and remaining - position == 1:
                ahead = min(1.0, ahead)
            gathered = windows.outer + windows.block * ahead
            if not windows.reshard:
                gathered = windows.outer + windows.block * (remaining - position)
            consider(
                "backward",
                gradients=held or reduced,
                activations=inner,
                logits=head.held if head is not None else 0.0,
                gathered=gathered,
                # behind the last block there is only a head, whose gradients are on their way where it is a unit
                reduce=outer_gradient + (windows.reduce if remaining - position < layers else windows.head_reduce),
            )
        left -= run.kept * run.count
        remaining -= run.count
        grown += f.gradients * run.count * gradient_share
    if embedding_gradient:
        logits = head.held if head is not None else 0.0
        if sharded:
            pair = 3 if tied else 1
            consider(
                "backward",
                gradients=held or grown,
                activations=waiting,
                logits=logits,
                embedding_gradient=embedding_gradient * pair + (0.0 if tied else outer_gradient),
                gathered=windows.outer + windows.embedding,
                reduce=max(windows.reduce, windows.outer_joined),
            )
            # what is reduced last: whole beside the input of the reduction, then its shard beside the one gradient still held
            for there, beside in ((grown, 0.0 if tied else outer_gradient), (states.gradients, 0.0)):
                consider(
                    "backward",
                    gradients=held or there,
                    activations=waiting,
                    logits=logits,
                    embedding_gradient=embedding_gradient + beside,
                    reduce=max(windows.reduce, windows.outer_reduce),
                )
        else:
            # a tied embedding waits with the head's gradient and is summed into a third tensor
            total = states.gradients
            consider(
                "backward",
                gradients=total if accumulating else max(0.0, total - embedding_gradient),
                activations=waiting + activations.embedding_output,
                logits=logits,
                embedding_gradient=embedding_gradient * (3 if tied else 1),
                gathered=windows.outer,
            )
    if tower is not None and tower.backward:
        consider(
            "backward",
            gradients=states.gradients,
            activations=waiting - tower.kept + tower.backward,
            gathered=windows.outer,
            reduce=windows.reduce,
        )
    consider(
        "step",
        gradients=states.gradients,
        logits=activations.last_logits,
        workspace=states.workspace + windows.step,
    )
    best["load"] = (states.weights + windows.loading, {})
    phases = {phase: total for phase, (total, _) in best.items()}
    at = max(phases, key=lambda p: phases[p])
    return Peak(phases, at, best[at][1])
