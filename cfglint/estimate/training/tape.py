"""A miniature autograd tape: which tensors one block of a model makes, saves for backward, and frees again.

A block's forward is written once as operations on sizes (see ``blocks``). Each operation knows what PyTorch's own
formula saves, so the memory of forward, of recomputation and of backward follows from the list of operations for every
combination of dtypes, autocast, frozen weights and adapters; nothing is fitted. Sizes are bytes of one device.

Lifetimes follow PyTorch: a tensor dies after its last use unless a node saved it; in backward a node's saved tensors
and its incoming gradient die once it has run (``derivatives.yaml`` and ``torch/csrc/autograd/engine.cpp``, torch 2.x).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DTYPE_BYTES: Final[dict[str, float]] = {
    "fp32": 4,
    "bf16": 2,
    "fp16": 2,
    "fp8": 1,
    "int8": 1,
    "bool": 1,
    "int64": 8,
}


class Value:
    """A tensor: ``elements`` of ``dtype`` in a storage that views share."""

    __slots__ = ("dtype", "elements", "grad", "node", "storage")

    def __init__(self, storage: int, elements: float, dtype: str, grad: bool, node: int) -> None:
        self.storage = storage
        self.elements = elements
        self.dtype = dtype
        self.grad = grad
        """Whether a gradient flows to it."""
        self.node = node
        """Index of the node that made it; -1 for a leaf."""

    @property
    def bytes(self) -> float:
        return self.elements * DTYPE_BYTES[self.dtype]


class Weight:
    """A parameter as an operation sees it. ``gathered`` copies are accounted for by the sharding module."""

    __slots__ = ("dtype", "elements", "stored", "trainable")

    def __init__(self, elements: float, dtype: str, trainable: bool, stored: str = "plain") -> None:
        self.elements = elements
        self.dtype = dtype
        self.trainable = trainable
        self.stored = stored
        """``plain``, or ``packed`` for a quantized weight, which is unpacked inside the operation."""


class _Node:
    __slots__ = ("alias", "backward_temp", "forward_temp", "inputs", "leaf", "output", "saved", "weight")

    def __init__(
        self,
        inputs: tuple[Value, ...],
        output: Value,
        saved: tuple[int, ...],
        forward_temp: float,
        backward_temp: float,
        alias: bool,
        weight: float,
        leaf: bool = False,
    ) -> None:
        self.inputs = inputs
        self.output = output
        self.saved = saved
        self.forward_temp = forward_temp
        self.backward_temp = backward_temp
        self.alias = alias
        """Backward hands the incoming gradient on instead of making a new tensor."""
        self.weight = weight
        """Bytes of parameter gradient this node leaves behind."""
        self.leaf = leaf
        """The parameter itself: the gradient that reaches it is the one that stays."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of one block. The block's own input is not counted in any figure.

    ``saved``: kept for backward; ``saves_input``: whether the input itself is kept; ``casts``: autocast copies of
    trainable weights that the cast cache keeps until forward ends; ``forward_saving`` and ``forward_plain``: peak of
    forward with and without (checkpointed) saving; ``backward``: peak while the block's backward runs, starting from
    its saved tensors and the output's gradient, its own parameter gradients included; ``gradients``: parameter
    gradients left behind; ``output``: bytes of the output.
    """

    saved: float
    saves_input: bool
    casts: float
    forward_saving: float
    forward_plain: float
    backward: float
    backward_accumulating: float
    gradients: float
    input: float
    output: float
    backward_of_loss: float = 0.0
    """The part of ``backward`` behind the projection to logits, and that of the projection and before."""
    backward_of_projection: float = 0.0
    held: float = 0.0
    """Kept by the caller until backward ends; part of ``saved``."""
    waiting: float = 0.0
    """Gradients that are there when backward first asks for a saved tensor: then a checkpointed block runs again."""
    after: float = 0.0
    """What is alive when forward is over and its caller goes on: what is saved, and what the caller still names."""


class Tape:
    """Records one block. ``autocast`` is the autocast dtype, or None; ``packed_keeps``: quantized linears keep their input;
    ``packed_copies``: copies of the weight that unpacking makes."""

    def __init__(
        self,
        autocast: str | None = None,
        packed_keeps: bool = False,
        packed_copies: int = 1,
        fuses_weight_gradients: bool = False,
    ) -> None:
        self.autocast = autocast
        self.packed_keeps = packed_keeps
        self.packed_copies = packed_copies
        self.fuses_weight_gradients = fuses_weight_gradients
        self._bytes: list[float] = []
        self._external: set[int] = set()
        self._cast: set[int] = set()
        self._nodes: list[_Node] = []
        self._kept: list[tuple[int, int]] = []
        self._joins: set[int] = set()
        """Nodes that join the gradients of several outputs instead of adding them."""
        self._held: set[int] = set()
        self._boundary = 0
        """The first node behind the projection to logits."""
        self._behind = 0.0
        self._transposed: set[int] = set()
        """Nodes whose gradients come as views, so that the first sum of two is a new tensor."""
        self._lingering: set[int] = set()

    # -- values ------------------------------------------------------------------------------------------------------

    def external(self, elements: float, dtype: str, grad: bool) -> Value:
        """A tensor made elsewhere and counted there (the block's input, masks, rotary tables)."""
        value = self._new(elements, dtype, grad, -1)
        self._external.add(value.storage)
        return value

    def _new(self, elements: float, dtype: str, grad: bool, node: int) -> Value:
        self._bytes.append(elements * DTYPE_BYTES[dtype])
        return Value(len(self._bytes) - 1, elements, dtype, grad, node)

    def is_view(self, value: Value) -> bool:
        """Whether it is a part of a larger tensor."""
        return value.bytes < self._bytes[value.storage]

    def keep(self, *values: Value) -> None:
        """These are still held by a Python name at this point."""
        at = len(self._nodes) - 1
        for value in values:
            self._kept.append((value.storage, at))

    def divide(self) -> None:
        """What follows is the loss: its backward runs before parameters of what comes before are gathered again."""
        self._boundary = len(self._nodes)

    def hold(self, value: Value) -> None:
        """The caller keeps this tensor through backward."""
        self._held.add(value.storage)

    def linger(self, value: Value) -> None:
        """The caller names this tensor until forward is over, longer than this tape."""
        self._lingering.add(value.storage)

    # -- operations --------------------------------------------------------------------------------------------------

    def op(
        self,
        inputs: tuple[Value, ...],
        elements: float,
        dtype: str,
        *,
        save: tuple[Value, ...] = (),
        save_output: bool = False,
        forward_temp: float = 0.0,
        backward_temp: float = 0.0,
        weight: Weight | None = None,
        in_place: bool = False,
    ) -> Value:
        """One operation with a new output. ``save`` is honoured only where a gradient flows."""
        trains = weight is not None and weight.trainable
        grad = trains or any(v.grad for v in inputs)
        if in_place:
            out = Value(inputs[0].storage, elements, dtype, grad, len(self._nodes))
        else:
            out = self._new(elements, dtype, grad, len(self._nodes))
        saved = [v.storage for v in save] if grad else []
        if grad and save_output:
            saved.append(out.storage)
        left = 0.0
        if weight is not None and trains and not self.fuses_weight_gradients:
            left = weight.elements * DTYPE_BYTES[weight.dtype]
        self._nodes.append(_Node(inputs, out, tuple(saved), forward_temp, backward_temp, in_place, left))
        return out

    def alias(self, inputs: tuple[Value, ...], elements: float, dtype: str) -> Value:
        """An operation whose backward hands the gradient on as it is (add), with a new output in forward."""
        grad = any(v.grad for v in inputs)
        out = self._new(elements, dtype, grad, len(self._nodes))
        self._nodes.append(_Node(inputs, out, (), 0.0, 0.0, True, 0.0))
        return out

    def to(self, x: Value, dtype: str) -> Value:
        """``x.to(dtype)``: itself where the dtype is the same."""
        return x if x.dtype == dtype else self.op((x,), x.elements, dtype)

    def view(self, x: Value, elements: float | None = None) -> Value:
        """A view: shares storage; ``elements`` where it is a part of it."""
        return Value(x.storage, x.elements if elements is None else elements, x.dtype, x.grad, x.node)

    def split(self, x: Value, *parts: float) -> tuple[Value, ...]:
        """``chunk``/``split``: views in forward; backward joins the parts' gradients into one new tensor."""
        if not x.grad:
            return tuple(Value(x.storage, part, x.dtype, False, x.node) for part in parts)
        index = len(self._nodes)
        whole = Value(x.storage, x.elements, x.dtype, True, index)
        self._nodes.append(_Node((x,), whole, (), 0.0, 0.0, False, 0.0))
        self._joins.add(index)
        return tuple(Value(x.storage, part, x.dtype, True, index) for part in parts)

    def slice(self, x: Value, elements: float, backward_temp: float = 0.0) -> Value:
        """``x[..., a:b]``: a view in forward; backward makes a zero-filled gradient of the whole."""
        out = Value(x.storage, elements, x.dtype, x.grad, len(self._nodes) if x.grad else x.node)
        if x.grad:
            self._nodes.append(_Node((x,), out, (), 0.0, backward_temp, False, 0.0))
        return out

    def add(self, a: Value, b: Value) -> Value:
        """``a + b`` with type promotion; backward casts to the narrower operand's dtype where they differ."""
        dtype = a.dtype if DTYPE_BYTES[a.dtype] >= DTYPE_BYTES[b.dtype] else b.dtype
        if a.dtype == b.dtype:
            return self.alias((a, b), max(a.elements, b.elements), dtype)
        wide, narrow = (a, b) if a.dtype == dtype else (b, a)
        # The iterator converts on the fly in forward; in backward the narrow side's gradient is a new tensor.
        through = self._cast_marker(narrow, dtype)
        return self.alias((wide, through), max(a.elements, b.elements), dtype)

    def _cast_marker(self, x: Value, dtype: str) -> Value:
        """No tensor in forward; in backward the gradient is converted to ``x``'s dtype."""
        out = Value(x.storage, x.elements, dtype, x.grad, len(self._nodes))
        self._nodes.append(_Node((x,), out, (), 0.0, 0.0, False, 0.0))
        return out

    def mul(self, a: Value, b: Value) -> Value:
        """``a * b``: saves each side for the other's gradient."""
        dtype = a.dtype if DTYPE_BYTES[a.dtype] >= DTYPE_BYTES[b.dtype] else b.dtype
        save = tuple(v for v, other in ((a, b), (b, a)) if other.grad)
        return self.op((a, b), max(a.elements, b.elements), dtype, save=save)

    def scale(self, x: Value) -> Value:
        """``x * constant``: saves nothing."""
        return self.op((x,), x.elements, x.dtype)

    def unary(self, x: Value, *, save: str = "input") -> Value:
        """An elementwise function that saves its ``input`` (silu, gelu, pow) or its ``output`` (tanh, exp)."""
        return self.op((x,), x.elements, x.dtype, save=(x,) if save == "input" else (), save_output=save == "output")

    def cast_weight(self, weight: Weight) -> Value | None:
        """Autocast's copy of a weight, cached until forward ends where the weight is a trainable leaf."""
        assert self.autocast is not None
        out = self.op((), weight.elements, self.autocast, weight=weight)
        if weight.trainable:
            self._cast.add(out.storage)
        return out

    def linear(self, x: Value, weight: Weight, out: float, *, module_autocast: bool = True) -> Value:
        """``F.linear``: saves the weight for its input's gradient and the input for the weight's."""
        autocast = self.autocast if module_autocast else None
        if weight.stored == "packed":
            return self._packed_linear(x, weight, out)
        dtype = autocast or weight.dtype
        x = self.to(x, dtype)
        if weight.dtype == dtype:
            return self.op((x,), out, dtype, save=(x,) if weight.trainable else (), weight=weight)
        cast = self.cast_weight(weight)
        assert cast is not None
        save = tuple(v for v, wanted in ((x, weight.trainable), (cast, x.grad)) if wanted)
        return self.op((x, cast), out, dtype, save=save)

    def linears(self, parts: tuple[Value, ...], weight: Weight, out: float) -> tuple[Value, ...]:
        """``F.linear`` with one weight on several inputs in turn, ``out`` elements each.

        The weight's gradients are summed: the first two into a third tensor, as each is a view of a product laid out the
        other way, which the engine does not write to. Autocast casts a trainable weight once, a frozen one for each input.
        """
        dtype = self.autocast or weight.dtype
        if weight.stored == "packed" or not weight.trainable:
            return tuple(self.linear(part, weight, out) for part in parts)
        if weight.dtype == dtype:
            index = len(self._nodes)
            shared = self.external(weight.elements, dtype, True)
            shared.node = index
            self._nodes.append(_Node((), shared, (), 0.0, 0.0, False, shared.bytes, leaf=True))
        else:
            cast = self.cast_weight(weight)
            assert cast is not None
            shared = cast
        self._transposed.add(shared.node)
        products = []
        for part in parts:
            x = self.to(part, dtype)
            saved = (x, *((shared,) if x.grad and weight.dtype != dtype else ()))
            products.append(self.op((x, shared), out, dtype, save=saved))
        return tuple(products)

    def _packed_linear(self, x: Value, weight: Weight, out: float) -> Value:
        """bitsandbytes ``Linear4bit``: unpacks the weight for the product, in forward and again in backward.

        Older releases keep the input as a plain attribute of the node (``ctx.tensors``), so until the graph itself goes.
        """
        result_dtype = x.dtype
        work = self.to(x, weight.dtype)
        unpacked = weight.elements * DTYPE_BYTES[weight.dtype] * self.packed_copies
        if self.packed_keeps and work.grad:
            self.hold(work)
        y = self.op((work,), out, weight.dtype, forward_temp=unpacked, backward_temp=unpacked)
        return self.to(y, result_dtype)

    # -- results -----------------------------------------------------------------------------------------------------

    def footprint(self, source: Value, result: Value) -> Footprint:
        """Run the tape: forward with and without saving, then backward."""
        nodes, sizes, external = self._nodes, self._bytes, self._external
        last: dict[int, int] = {}
        for i, node in enumerate(nodes):
            for v in node.inputs:
                last[v.storage] = i
            last[node.output.storage] = i
        for storage, at in self._kept:
            last[storage] = max(last.get(storage, -1), at)
        last.update(dict.fromkeys(self._lingering, len(nodes)))
        last[result.storage] = len(nodes)
        saved_by: dict[int, int] = dict.fromkeys(self._held, 1)
        for node in nodes:
            for storage in node.saved:
                saved_by[storage] = saved_by.get(storage, 0) + 1
        dying: list[list[int]] = [[] for _ in range(len(nodes) + 1)]
        for storage, at in last.items():
            if storage not in external:
                dying[at].append(storage)
        forward_saving = self._forward(dying, saved_by)
        forward_plain = self._forward(dying, None)
        saved = sum(sizes[s] for s in saved_by if s not in external)
        casts = sum(sizes[s] for s in self._cast)
        gradients = sum(node.weight for node in nodes)
        backward, waiting = self._backward(result, dict(saved_by), saved, keep_gradients=True)
        behind = self._behind
        return Footprint(
            saved=saved,
            saves_input=source.storage in saved_by,
            casts=casts,
            forward_saving=forward_saving,
            forward_plain=forward_plain,
            backward=max(backward, behind),
            backward_of_loss=behind,
            backward_of_projection=backward,
            backward_accumulating=self._backward(result, dict(saved_by), saved, keep_gradients=False, whole=True)[0],
            waiting=waiting,
            gradients=gradients,
            input=sizes[source.storage],
            output=sizes[result.storage],
            held=sum(sizes[s] for s in self._held),
            after=sum(sizes[s] for s in (saved_by.keys() | self._lingering) - external),
        )

    def _forward(self, dying: list[list[int]], saved_by: dict[int, int] | None) -> float:
        live = peak = 0.0
        made: set[int] = set(self._external)
        sizes, casts = self._bytes, self._cast
        for i, node in enumerate(self._nodes):
            storage = node.output.storage
            if storage not in made:
                made.add(storage)
                live += sizes[storage]
            if live + node.forward_temp > peak:
                peak = live + node.forward_temp
            for gone in dying[i]:
                if gone in made and gone not in casts and (saved_by is None or gone not in saved_by):
                    live -= sizes[gone]
        return peak

    def _backward(
        self, result: Value, saved_by: dict[int, int], saved: float, keep_gradients: bool, whole: bool = False
    ) -> tuple[float, float]:
        """Walk the nodes in reverse. A box is ``[bytes, references]``; gradients handed on unchanged share one.

        The peak, and the bytes of gradients that are there when the first saved tensor is asked for. Unless the ``whole`` is
        asked for, the peak of what is behind :meth:`divide` is in ``_behind``.
        """
        sizes, external, joins = self._bytes, self._external, self._joins
        live = saved + result.bytes
        peak = live
        unsummed = set(self._transposed)
        self._behind = 0.0
        at_first: float | None = None
        pending: dict[int, list[list[float]]] = {result.node: [[result.bytes, 1]]}
        for i in range(len(self._nodes) - 1, -1, -1):
            boxes = pending.pop(i, None)
            if boxes is None:
                continue
            if i < self._boundary and not whole and not self._behind:
                self._behind, peak = peak, live
            node = self._nodes[i]
            box = boxes[0]
            if node.saved and at_first is None:
                at_first = live - saved
            made: list[tuple[Value, list[float]]] = []
            for v in node.inputs:
                if not v.grad:
                    continue
                if node.alias:
                    box[1] += 1
                    made.append((v, box))
                else:
                    live += v.bytes
                    made.append((v, [v.bytes, 1]))
            if node.leaf:
                if not keep_gradients:
                    live -= boxes[0][0]
                continue
            live += node.weight
            if live + node.backward_temp > peak:
                peak = live + node.backward_temp
            if not keep_gradients:
                live -= node.weight
            for storage in node.saved:
                saved_by[storage] -= 1
                if not saved_by[storage] and storage not in external:
                    live -= sizes[storage]
            for box in boxes:
                box[1] -= 1
                if not box[1]:
                    live -= box[0]
            for v, new in made:
                waiting = pending.get(v.node)
                if waiting is None:
                    pending[v.node] = [new]
                elif v.node in joins:
                    waiting.append(new)
                else:
                    # A second gradient for the same tensor: added in place unless the first one is shared.
                    old = waiting[0]
                    if old[1] > 1 or old is new or v.node in unsummed:
                        unsummed.discard(v.node)
                        live += v.bytes
                        if live > peak:
                            peak = live
                        old[1] -= 1
                        if not old[1]:
                            live -= old[0]
                        old = waiting[0] = [v.bytes, 1]
                    new[1] -= 1
                    if not new[1]:
                        live -= new[0]
        return peak, result.bytes if at_first is None else at_first
