"""Memory of the head: final norm, logits, and the loss by kernel. Sizes in bytes of one rank."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log2

from cfglint.estimate.training.blocks import BlockWriter
from cfglint.estimate.training.families import Style
from cfglint.estimate.training.log_probabilities import divergence, from_logits, tiled
from cfglint.estimate.training.objectives import Scoring
from cfglint.estimate.training.shapes import Numerics, Shape
from cfglint.estimate.training.supervised import checkpointed, read_for_metrics
from cfglint.estimate.training.tape import DTYPE_BYTES, Footprint, Value, Weight


@dataclass(frozen=True, slots=True)
class Head:
    """``vocabulary`` on this rank; ``chunks`` of the chunked loss; ``logit_tokens`` rows the head is applied to."""

    vocabulary: float
    kernel: str
    weight_dtype: str
    trainable: bool
    tokens: int
    chunks: int = 1
    room: float | None = None
    """Bytes that a compiled fused loss finds free, which sets its pieces; None: Liger's pieces."""
    caps_chunks: bool = True
    """Logits made in pieces are capped as whole ones are."""
    splits_logits: bool = False
    """The logits are made whole and split for the loss; else the hidden states are split for the head."""
    hold_logits: bool = False
    """The training loop keeps the model's output alive through backward."""
    holds_wide_logits: bool = False
    """It is converted to fp32 first."""
    carries: bool = True
    """The output of the batch before is as large and alive until this one's is there."""
    upcast: bool = True
    """Logits are converted to fp32 before the loss."""
    shift_copy: bool = False
    """The shifted logits are copied to be contiguous."""
    gathered: int = 1
    """Ranks that share the head's weight and gather their parts of the logits: ``vocabulary`` is then the whole one."""
    distributed: bool = False
    """The logits are a DTensor split along the vocabulary, under ``loss_parallel``."""
    keeps_logits: bool = True
    """The logits are alive while the loss is computed."""
    packed: bool = False
    """The head is quantized like the blocks."""
    autocast: bool = False
    """The loss runs under autocast, in fp32."""
    scaled: bool = False
    saves_log_probabilities: bool = True
    in_place: bool = True
    scoring: Scoring | None = None
    """Log-probabilities are read, not the model's own loss."""
    scored: float = 0.0
    """Tokens whose log-probabilities are read, where some are not."""
    metrics: str = ""
    """What a trainer reads of the returned logits (``supervised.METRICS``)."""
    converts_outputs: bool = False
    """accelerate converts what the model returns to fp32."""
    returns_logits: bool = False
    """The model returns the logits, as they are, beside a loss of its own (Unsloth)."""
    widens_weight: bool = False
    """The checkpointed pieces are projected in fp32."""


@lru_cache(maxsize=4096)
def head_footprint(shape: Shape, style: Style, numerics: Numerics, head: Head) -> Footprint:
    """Bytes of the head's forward and backward, by the same tape as the blocks."""
    writer = BlockWriter(shape, style, numerics)
    tape = writer.tape
    x = tape.external(head.tokens * shape.hidden, numerics.residual_dtype, True)
    hidden = writer.norm(x, shape.hidden)
    if head.scoring is not None:
        return tape.footprint(x, _scored(writer, hidden, head, head.scoring))
    if head.kernel == "fused_linear":
        return tape.footprint(x, _fused_linear(writer, hidden, head))
    if head.kernel == "chunked":
        return tape.footprint(x, _chunked(writer, hidden, head))
    if head.kernel == "checkpointed":
        loss = checkpointed(writer, hidden, _weight(writer, head), head.tokens, head.widens_weight)
        return tape.footprint(x, loss)
    elements = head.tokens * head.vocabulary
    weight = _weight(writer, head)
    logits = _logits(writer, hidden, weight, head, elements)
    tape.divide()
    if style.own_loss:
        return tape.footprint(x, _own_loss(writer, logits, head))
    if head.kernel == "compiled":
        # one kernel each way on the logits as they are: conversion and log-softmax are computed again in backward
        loss = tape.op((logits,), 1, "fp32", save=(logits,))
        if head.hold_logits:
            tape.hold(logits)
        return tape.footprint(x, loss)
    if head.kernel == "smoothed":
        return tape.footprint(x, _smoothed(writer, logits, head))
    wide = tape.to(logits, "fp32") if head.upcast else logits
    flat = wide
    if head.shift_copy and shape.batch > 1:  # of one sequence they are contiguous as they are
        flat = tape.op((wide,), elements, wide.dtype)
    if head.kernel == "triton":
        # in place, the kernel writes the gradient over the logits
        loss = tape.op((flat,), 1, "fp32", save=(flat,), backward_temp=-flat.bytes if head.in_place else 0.0)
        if head.returns_logits and head.converts_outputs:
            # accelerate converts what the model returns (``utils/operations.py``, ConvertOutputsToFp32); the loop drops it at once
            tape.op((), 0, "fp32", forward_temp=elements * DTYPE_BYTES["fp32"])
    elif head.distributed:
        # torch/distributed/tensor/parallel/loss.py: forward makes the shifted logits too; backward of the loss makes zeros,
        # exponentials and their sum beside the gradient, which log-softmax's then hands on
        size = elements * DTYPE_BYTES[flat.dtype]
        chances = tape.op((flat,), elements, flat.dtype, save_output=True, forward_temp=size, backward_temp=-size)
        loss = tape.op((chances,), 1, "fp32", backward_temp=2 * size)
    else:
        loss = tape.op((tape.unary(flat, save="output"),), 1, "fp32")
    tape.keep(wide)
    if head.keeps_logits:
        tape.keep(logits)
    if head.hold_logits:
        tape.hold(logits)
    if head.metrics:
        _read(writer, logits, head)
    return tape.footprint(x, loss)


def _smoothed(writer: BlockWriter, logits: Value, head: Head) -> Value:
    """Trainer's label smoothing over the logits that the model returned (``LabelSmoother``, transformers ``trainer_pt_utils.py``)."""
    tape = writer.tape
    returned = tape.to(logits, "fp32") if head.converts_outputs else logits
    flat = tape.slice(returned, returned.elements)
    if writer.shape.batch > 1:  # of one sequence the shifted logits are contiguous as they are
        flat = tape.op((flat,), flat.elements, flat.dtype)
    negative = tape.scale(tape.unary(flat, save="output"))
    # gather keeps its input; its gradient and that of the sum, which comes in fp32, are added into a third tensor
    temp = negative.bytes * (1 if negative.dtype == "fp32" else 2)
    loss = tape.op((negative,), 1, "fp32", save=(negative,), backward_temp=temp)
    tape.keep(returned, flat, negative)
    return loss


def _read(writer: BlockWriter, logits: Value, head: Head) -> None:
    """The trainer reads the logits that the model returned, before it lets go of them."""
    tape = writer.tape
    returned = (
        tape.op((logits,), logits.elements, "fp32") if head.converts_outputs and logits.dtype != "fp32" else logits
    )
    made = read_for_metrics(returned, writer.shape.batch, head.vocabulary, head.tokens, head.metrics)
    tape.op((), 0, returned.dtype, forward_temp=made)
    tape.keep(returned)


def _logits(writer: BlockWriter, hidden: Value, weight: Weight, head: Head, elements: float) -> Value:
    tape = writer.tape
    logits = tape.linear(hidden, weight, elements / head.gathered)
    if head.gathered > 1:
        logits = tape.op((logits,), elements, logits.dtype)
    if head.scaled:
        logits = tape.scale(logits)
    if head.kernel == "triton" and head.returns_logits:
        return logits  # unsloth ``kernels/cross_entropy_loss.py`` (2024.7): DO_SOFTCAPPING
    return _capped(writer, logits)


def _capped(writer: BlockWriter, logits: Value) -> Value:
    tape = writer.tape
    return tape.scale(tape.unary(tape.scale(logits), save="output")) if writer.style.logit_cap else logits


def _scored(writer: BlockWriter, hidden: Value, head: Head, scoring: Scoring) -> Value:
    """The loss of a trainer that reads log-probabilities of ``head.scored`` tokens."""
    tape, weight = writer.tape, _weight(writer, head)
    scored = head.scored or head.tokens
    if scoring.tiles:
        return tiled(writer, hidden, weight, scored, scoring.form == "tiled_pair")
    projected = scored if scoring.cuts_logits else head.tokens
    if projected < head.tokens:
        hidden = tape.slice(hidden, projected * writer.shape.hidden)
    logits = _logits(writer, hidden, weight, head, projected * head.vocabulary)
    wide = tape.to(logits, "fp32") if scoring.widens else logits
    if scoring.form == "divergence":
        return divergence(writer, wide)
    return from_logits(writer, wide, writer.shape.batch, head.vocabulary, scoring)


def _weight(writer: BlockWriter, head: Head) -> Weight:
    stored = "packed" if head.packed else "plain"
    matrix = head.vocabulary / head.gathered * writer.shape.hidden
    return Weight(matrix, head.weight_dtype, head.trainable, stored)


def _own_loss(writer: BlockWriter, logits: Value, head: Head) -> Value:
    """Loss inside the model's class: shifted copy, cross entropy in its dtype (fp32 under autocast), output held."""
    tape = writer.tape
    flat = tape.op((logits,), logits.elements, logits.dtype)
    work = tape.to(flat, "fp32") if head.autocast else flat
    if head.kernel == "triton":
        loss = tape.op((work,), 1, "fp32", save=(work,), backward_temp=-work.bytes)
    else:
        loss = tape.op((tape.unary(work, save="output"),), 1, "fp32")
    if head.autocast:
        # accelerate converts the model's outputs to fp32 when forward returns
        held = tape.op((logits,), logits.elements, "fp32")
        held.grad = False
        tape.keep(logits, flat)
        tape.hold(held)
    else:
        tape.keep(logits, flat)
        tape.hold(logits)
    return loss


def _chunked(writer: BlockWriter, hidden: Value, head: Head) -> Value:
    """The head, and the loss after it, in pieces: gradients of all pieces' logits are there before the first goes through
    the head, as the engine runs what was made last first."""
    tape = writer.tape
    elements = head.tokens * head.vocabulary
    piece = elements / head.chunks
    weight = _weight(writer, head)
    before = tape.op((), elements if head.carries else 0.0, "fp32") if head.holds_wide_logits else None
    logits: tuple[Value, ...]
    if head.splits_logits:
        logits = (tape.linear(hidden, weight, elements),)
    else:
        logits = tape.linears(tape.split(hidden, *[hidden.elements / head.chunks] * head.chunks), weight, piece)
    if head.caps_chunks or head.splits_logits:
        logits = tuple(_capped(writer, part) for part in logits)
    tape.divide()
    if before is not None:
        # converted when the model returns them, and bound to the loop's name in place of those of the micro-step before
        wide = tuple(tape.to(part, "fp32") for part in logits)
        tape.keep(before, *logits)
        logits = wide
    if head.hold_logits:
        for part in logits:
            tape.hold(part)
    whole = logits
    if head.splits_logits:
        flat = tape.slice(logits[0], elements)
        if writer.shape.batch > 1:
            flat = tape.op((flat,), elements, flat.dtype)
        whole = (flat,)
        logits = tape.split(flat, *[piece] * head.chunks)
    losses = []
    for part in logits:
        if head.saves_log_probabilities:
            wide_part = tape.to(part, "fp32") if head.upcast else part
            losses.append(tape.op((tape.unary(wide_part, save="output"),), 1, "fp32"))
        else:
            losses.append(tape.op((part,), 1, "fp32", save=(part,)))
    total = tape.op(tuple(losses), 1, "fp32")
    tape.keep(*whole)
    return total


def _fused_linear(writer: BlockWriter, hidden: Value, head: Head) -> Value:
    """Liger's fused linear cross entropy: gradients of input and weight are made chunk by chunk in forward.

    Chunk rows are ``next_pow2(ceil(tokens / ceil(vocabulary / hidden)))`` (liger-kernel
    ``ops/fused_linear_cross_entropy.py``). Unsloth's compiled one has a piece, or a multiple of four, whose fp32 logits
    would be half of what is free (unsloth_zoo ``fused_losses/cross_entropy_loss.py``, ``get_chunk_size``): logits and their
    gradient, as Inductor computes conversion and softmax again.
    """
    tape, shape = writer.tape, writer.shape
    work = tape.to(hidden, writer.numerics.autocast or head.weight_dtype)
    size = DTYPE_BYTES[work.dtype]
    if head.room is not None:
        wide = head.tokens * head.vocabulary * DTYPE_BYTES["fp32"]
        pieces = max(1, 4 * round(wide / max(1.0, head.room / 2) / 4))
        rows = ceil(head.tokens / pieces)
        logits = rows * head.vocabulary * 2 * size
    else:
        pieces = max(1, ceil(head.vocabulary / shape.hidden))
        rows = min(2 ** ceil(log2(max(1, ceil(head.tokens / pieces)))), head.tokens)
        logits = rows * head.vocabulary * (size + 4)
    gradient = tape.op((), work.elements, work.dtype)
    saved = [gradient]
    matrix = head.vocabulary * shape.hidden
    temp = logits
    if head.trainable:
        saved.append(tape.op((), matrix, head.weight_dtype))
        temp += matrix * DTYPE_BYTES[head.weight_dtype]
    return tape.op((work,), 1, "fp32", save=tuple(saved), forward_temp=temp)
