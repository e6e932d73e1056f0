"""The head of preference and RL trainers: how TRL comes from hidden states to log-probabilities of given tokens.

Each form of ``objectives.LOG_PROBABILITIES`` as operations on the tape of ``tape.py``. What a trainer's function still names
while the reference model runs (``outputs.logits``) lingers on it. Sizes in bytes of one rank.
"""

from __future__ import annotations

from typing import Final

from cfglint.estimate.training.blocks import BlockWriter
from cfglint.estimate.training.objectives import Scoring
from cfglint.estimate.training.tape import DTYPE_BYTES, Value, Weight

TILE_TOKENS: Final = 4096
TILE_COLUMNS: Final = 32768
"""Rows and columns of a tile of logits (TRL 1.16 ``kernels/chunked_logprob.py``, ``trainer/utils.py``)."""
ENTROPY_ROWS: Final = 128
"""Rows whose entropy is made at a time (TRL ``entropy_from_logits``)."""


def tiled(writer: BlockWriter, hidden: Value, weight: Weight, scored: float, pair: bool) -> Value:
    """Tiles of logits folded into running statistics; backward makes them again and adds gradients up in fp32.

    ``pair``: tiles of student and teacher, in fp32.
    """
    tape, numerics = writer.tape, writer.numerics
    width = writer.shape.hidden
    vocabulary = weight.elements / width
    shifted = tape.slice(hidden, hidden.elements)
    taken = tape.op((shifted,), scored * width, hidden.dtype)
    compute = numerics.autocast or hidden.dtype
    size = DTYPE_BYTES[compute]
    tokens = min(scored, TILE_TOKENS)
    tile = tokens * TILE_COLUMNS
    buffer = tile * 8 if pair else tile * size
    copied = tile * size if pair else 0.0  # a tile's gradient in the dtype that is multiplied
    theirs = tape.op((), taken.elements, hidden.dtype) if pair else None
    rows = tokens * width * size if taken.dtype != compute else 0.0
    columns = min(vocabulary, TILE_COLUMNS) * width * size if weight.dtype != compute else 0.0
    gradients = 0.0 if taken.dtype == "fp32" else taken.elements * 4
    if weight.trainable and weight.dtype != "fp32":
        gradients += weight.elements * 4
    return tape.op(
        (taken,),
        1,
        "fp32",
        save=(taken,) if theirs is None else (taken, theirs),
        forward_temp=buffer + rows + columns,
        # a slice of the weight is converted while the one before it still has its name
        backward_temp=buffer + copied + rows + columns * (2 if vocabulary > TILE_COLUMNS else 1) + gradients,
        weight=weight,
    )


def from_logits(writer: BlockWriter, wide: Value, rows: int, vocabulary: float, scoring: Scoring) -> Value:
    """Log-probabilities of the logits of ``rows`` sequences, as the model returned them."""
    tape = writer.tape
    if scoring.names_logits:
        tape.linger(wide)
    if scoring.copies_chosen == "sums":
        tape.linger(tape.op((), wide.elements, wide.dtype))
    losses: list[Value] = []
    if scoring.cross_entropy:
        chosen = tape.slice(tape.slice(wide, wide.elements / 2), wide.elements / 2)
        if rows > 2:  # one chosen row is contiguous as it is
            chosen = tape.op((chosen,), chosen.elements, chosen.dtype)
        losses.append(tape.op((tape.unary(chosen, save="output"),), 1, "fp32"))
    if scoring.measures_chosen:
        copied = tape.op((), wide.elements / 2 if rows > 2 else 0, wide.dtype)
        tape.linger(tape.op((copied,), wide.elements / 2, wide.dtype))
    shifted = tape.slice(wide, wide.elements)
    if scoring.copies_shifted:
        shifted = tape.op((shifted,), shifted.elements, shifted.dtype)
    if scoring.temperature == "in place":
        # a view divided in place: backward makes the whole's gradient anew, copies the view's and divides it
        shifted = tape.slice(shifted, shifted.elements, backward_temp=2 * shifted.bytes)
    elif scoring.temperature:
        shifted = tape.op((shifted,), shifted.elements, shifted.dtype)
    if scoring.measures_entropy:
        # a view of several rows is copied to be flat; each piece has its log-softmax, its exponential, and their product
        copy = 0.0 if rows == 1 or scoring.copies_shifted or scoring.temperature == "copy" else shifted.bytes
        piece = min(ENTROPY_ROWS, shifted.elements / vocabulary) * vocabulary * DTYPE_BYTES[shifted.dtype]
        tape.op((), 0, shifted.dtype, forward_temp=copy + 3 * piece)
    losses.append(_selected(writer, shifted, rows, scoring))
    loss = losses[0] if len(losses) == 1 else tape.op(tuple(losses), 1, "fp32")
    if scoring.copies_chosen == "copy":
        tape.linger(tape.op((), wide.elements, wide.dtype))
    if scoring.picks_logits:
        tape.op((), 0, shifted.dtype, forward_temp=shifted.bytes / 2)
    tape.keep(shifted)
    return loss


def _selected(writer: BlockWriter, x: Value, rows: int, scoring: Scoring) -> Value:
    """``log_softmax`` followed by ``gather``, in the form's way."""
    tape, row, form = writer.tape, x.bytes / rows, scoring.form
    if form == "kernel":
        return tape.op((x,), 1, "fp32", save=(x,))
    if form == "log_softmax":
        return tape.op((tape.unary(x, save="output"),), 1, "fp32")
    if form == "selective" and x.dtype == "fp32":
        picked = tape.op((x,), 1, "fp32", save=(x,))
        # the gradient of a row takes two more of its size; then the rows' gradients are stacked into one tensor
        total = tape.op((x,), 1, "fp32", save=(x,), backward_temp=max(2 * row, x.bytes))
        return tape.op((picked, total), 1, "fp32")
    # row by row: the gradients of all rows wait, and are stacked into one
    kept = tape.op((), x.elements if scoring.graph else x.elements * min(1, 2 / rows), x.dtype)
    return tape.op((x,), 1, "fp32", save=(kept,), backward_temp=max(0.0, 2 * row - x.bytes))


def divergence(writer: BlockWriter, mine: Value) -> Value:
    """Generalized Jensen-Shannon divergence of whole logits (TRL ``generalized_jsd_loss``), step by step."""
    tape = writer.tape
    size, dtype = mine.elements, mine.dtype
    teacher = tape.op((), size, dtype)
    tape.linger(mine)
    tape.linger(teacher)
    scaled = tape.op((tape.slice(mine, size),), size, dtype)
    other = tape.op((), size, dtype)
    log_p = tape.unary(scaled, save="output")
    log_q = tape.op((), size, dtype)
    shifted = tape.alias((log_p,), size, dtype)
    moved = tape.op((), size, dtype)
    both = tape.op((shifted, moved), 2 * size, dtype)
    tape.keep(shifted, moved)
    mixture = tape.op((both,), size, dtype, save=(both,), save_output=True, backward_temp=4 * size * DTYPE_BYTES[dtype])
    towards = tape.op((), size, dtype)
    kl_teacher = tape.op((tape.alias((mixture,), size, dtype),), size, dtype, save=(towards,))
    weights = tape.unary(log_p, save="output")
    gap = tape.alias((log_p, mixture), size, dtype)
    kl_student = tape.mul(weights, gap)
    first, second = tape.scale(kl_teacher), tape.scale(kl_student)
    total = tape.alias((first, second), size, dtype)
    tape.keep(first, second)
    masked = tape.op((total,), size, dtype)
    tape.keep(total, scaled, other, log_p, log_q, mixture, kl_teacher, kl_student)
    return tape.op((masked,), 1, "fp32")
