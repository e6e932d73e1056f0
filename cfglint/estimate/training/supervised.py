"""What TRL's ``SFTTrainer`` does with the head and the logits, by release. Sizes in bytes of one rank.

Read from TRL 0.7 to 1.16 (``trl/trainer/sft_trainer.py``, ``sft_config.py``, ``utils.py``); measured by
``benchmarks/trainer_oracle.py``, which runs the trainers themselves.
"""

from __future__ import annotations

from typing import Final

from cfglint.estimate.training.blocks import BlockWriter
from cfglint.estimate.training.objectives import Releases
from cfglint.estimate.training.tape import DTYPE_BYTES, Value, Weight

METRICS: Final[Releases] = (
    (">=1.15", ""), (">=1.6", "entropy of a copy"), (">=1.3", "entropy of a copy, then a copy"),
    (">=0.22", "entropy, then a copy"), (">=0.15", "a copy"), ("<0.15", ""),
)  # fmt: skip
"""What ``compute_loss`` makes of the logits that the model returned, before it lets go of them.

Entropy goes through rows of the logits; a copy is that of the shifted logits, for the accuracy of tokens.
"""

MOST_METRICS: Final = "entropy of a copy, then a copy"
"""What takes most of them."""

FLATTENS_PACKED: Final = ">=0.19"
"""Releases in which ``packing`` is free of padding unless ``packing_strategy`` is ``wrapped``."""

WIDENS_WEIGHT: Final[Releases] = ((">=1.13", ""), ("<1.13", "wide"))
"""``chunked_nll`` projects with hidden states and weight converted to fp32; since 1.13 in the dtype of the hidden states."""

TRANSFORMERS: Final[Releases] = (
    (">=0.23", "4.56"), (">=0.21", "4.55"), (">=0.19", "4.51"), (">=0.18", "4.50"), (">=0.15", "4.49"), (">=0.14", "4.48"),
    (">=0.13", "4.47"), (">=0.12", "4.46"), ("<0.12", ""),
)  # fmt: skip
"""The oldest transformers that a release takes by its requirements; before 0.18 the newest of its day, which they allow."""

PIECE_TOKENS: Final = 256
"""Tokens of a piece of ``chunked_nll`` (``_CHUNKED_LM_HEAD_CHUNK_SIZE``)."""
ENTROPY_ROWS: Final = 128
"""Rows of logits of which the entropy is computed at once (``entropy_from_logits``)."""


def read_for_metrics(logits: Value, rows: int, vocabulary: float, tokens: int, metrics: str) -> float:
    """Bytes that ``compute_loss`` makes beside the returned ``logits`` of ``rows`` sequences."""
    # the shifted logits of one sequence are rows that follow each other: no copy
    copy = logits.bytes * (1 - rows / tokens) if rows > 1 else 0.0
    entropy = 3 * min(ENTROPY_ROWS, tokens) * vocabulary * DTYPE_BYTES[logits.dtype]
    made = {
        "a copy": copy,
        "entropy, then a copy": max(entropy, copy),
        "entropy of a copy, then a copy": copy + max(entropy, copy),
        "entropy of a copy": copy + entropy,
    }
    return made.get(metrics, 0.0)


def checkpointed(writer: BlockWriter, hidden: Value, weight: Weight, tokens: int, wide: bool) -> Value:
    """Head and loss of ``PIECE_TOKENS`` tokens at a time, computed again in backward (``_chunked_cross_entropy_loss``)."""
    tape, autocast = writer.tape, writer.numerics.autocast
    vocabulary = weight.elements / writer.shape.hidden
    taken = tape.op((tape.slice(hidden, hidden.elements),), hidden.elements, hidden.dtype)
    product = autocast or ("fp32" if wide else hidden.dtype)
    stored, size = (DTYPE_BYTES[dtype] for dtype in (weight.dtype, product))
    widened = 4.0 if wide and weight.dtype != "fp32" else 0.0
    # of the copies of the weight the product keeps the one it reads
    kept = widened if product == "fp32" else size if weight.dtype != product or widened else 0.0
    copies = kept if kept == widened else widened + kept
    piece = min(PIECE_TOKENS, tokens) * vocabulary
    # logits, their log-softmax, its exponential and the product of both
    chain = 16 * piece
    projecting = weight.elements * copies + size * piece
    again = max(projecting, weight.elements * kept + chain)
    if weight.trainable:
        # a piece's gradient is made, converted to the stored dtype, and added to those of the pieces before
        made, converted = weight.elements * size, weight.elements * stored
        again = max(
            again, weight.elements * kept + 4 * piece + made, 2 * converted, made + converted * (stored != size)
        )
    return tape.op(
        (taken,),
        1,
        "fp32",
        save=(taken,),
        forward_temp=max(projecting, chain),
        backward_temp=again,
        weight=weight,
    )
