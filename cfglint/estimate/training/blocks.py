"""A model's blocks written as tape operations: what transformers' modeling code computes, in its order.

Sizes are those of one rank: ``tokens`` are micro-batch × sequence on this rank, heads and widths are divided by the
tensor-parallel size.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from cfglint.estimate.training.families import Style
from cfglint.estimate.training.shapes import Delta, Numerics, Scan, Shape
from cfglint.estimate.training.tape import DTYPE_BYTES, Footprint, Tape, Value, Weight

MOST_LOOPED_EXPERTS = 8
"""Experts written one by one where they are looped over; more are put together in this many groups, for speed."""


_LORA_KERNEL: Final = {"q": "qkv", "k": "qkv", "v": "qkv", "o": "o"}
"""The kernel that computes a projection with its adapter, by slot."""


SCAN_CHUNK: Final = 256
"""Tokens of a chunk of Mamba-2's scan (``chunk_size`` of most configs; Nemotron-H has 128)."""
DELTA_CHUNK: Final = 64
"""Tokens of a chunk of the gated delta rule (fla ``chunk_size``)."""


class BlockWriter:
    """Writes one block on a tape."""

    def __init__(self, shape: Shape, style: Style, numerics: Numerics) -> None:
        self.shape = shape
        self.style = style
        self.numerics = numerics
        self.tape = Tape(
            numerics.autocast, numerics.packed_keeps, numerics.packed_copies, numerics.fuses_weight_gradients
        )
        self._named: tuple[Value, ...] = ()
        """What the experts' function still names when their results are put back in order."""
        self._dropped: dict[int, Value] = {}
        """Inputs after the dropout of kernels' adapters, by the storage of what they were made of."""
        self.n = shape.tokens
        """Tokens inside the sublayers."""
        self.t = shape.tokens / (shape.tensor_parallel if shape.sequence_parallel else 1)
        """Tokens on the residual stream: divided by sequence parallelism."""

    # -- parts -------------------------------------------------------------------------------------------------------

    def norm(self, x: Value, width: float, kind: str | None = None, dtype: str | None = None) -> Value:
        """A norm over the last dimension; ``x.elements / width`` rows."""
        tape, numerics = self.tape, self.numerics
        kind = kind or self.style.norm
        weight_dtype = dtype or numerics.norm_dtype
        weight = Weight(width, weight_dtype, numerics.train_base)
        rows = x.elements / width
        if (numerics.norm_kernel == "fused" or numerics.compiled) and not kind.startswith("layernorm"):
            return tape.op((x,), x.elements, x.dtype, save=(x,), forward_temp=rows * 4, weight=weight)
        if kind == "layernorm32" and not numerics.modeling:
            kind = "layernorm"  # the dtype is transformers' way of writing it
        if kind == "layernorm32":
            wide = tape.to(x, "fp32")
            return tape.to(tape.op((wide,), x.elements, "fp32", save=(wide,)), x.dtype)
        if kind == "cohere":
            wide = tape.to(x, "fp32")
            centred = tape.alias((wide,), x.elements, "fp32")
            square = tape.op((centred,), x.elements, "fp32", save=(centred,))
            inverse = tape.op((square,), rows, "fp32", save_output=True)
            normed = tape.mul(tape.alias((wide,), x.elements, "fp32"), inverse)  # the mean is taken off anew
            scaled = tape.op(
                (normed,), x.elements, "fp32", save=(normed,) if numerics.train_base else (), weight=weight
            )
            return tape.to(scaled, x.dtype)
        if kind == "layernorm":
            if numerics.wide_norms or (numerics.autocast and numerics.cuda and numerics.norm_autocasts):
                x = tape.to(x, "fp32")
            return tape.op((x,), x.elements, x.dtype, save=(x,), weight=weight)
        if kind == "gemma" or (numerics.norm_kernel == "float" and not kind.startswith("layernorm")):
            wide = tape.to(x, "fp32")
            square = tape.op((wide,), x.elements, "fp32", save=(wide,))
            inverse = tape.op((square,), rows, "fp32", save_output=True)
            normed = tape.mul(wide, inverse)
            scaled = tape.op(
                (normed,),
                x.elements,
                "fp32",
                save=(normed,) if numerics.train_base else (),
                weight=Weight(width, weight_dtype, numerics.train_base),
                backward_temp=x.elements * 4 if numerics.train_base else 0.0,
            )
            tape.keep(normed)
            return tape.to(scaled, x.dtype)
        if kind == "t5":
            wide = tape.to(x, "fp32")
            square = tape.op((wide,), x.elements, "fp32", save=(wide,))
            inverse = tape.op((square,), rows, "fp32", save_output=True)
            normed = tape.mul(x, inverse)
            normed = tape.to(normed, weight_dtype) if weight_dtype != "fp32" else normed
        else:
            wide = tape.to(x, "fp32")
            square = tape.op((wide,), x.elements, "fp32", save=(wide,))
            inverse = tape.op((square,), rows, "fp32", save_output=True)
            normed = tape.mul(wide, inverse)
            tape.keep(wide)
            normed = tape.to(normed, x.dtype)
        out_dtype = weight_dtype if DTYPE_BYTES[weight_dtype] > DTYPE_BYTES[normed.dtype] else normed.dtype
        return tape.op(
            (normed,),
            x.elements,
            out_dtype,
            save=(normed,) if numerics.train_base else (),
            weight=weight,
            backward_temp=x.elements * DTYPE_BYTES[out_dtype] if numerics.train_base else 0.0,
        )

    def _plain_norm(self, x: Value, width: float) -> Value:
        """In fp32, without weights."""
        tape = self.tape
        wide = tape.to(x, "fp32")
        square = tape.op((wide,), x.elements, "fp32", save=(wide,))
        inverse = tape.op((square,), x.elements / width, "fp32", save_output=True)
        return tape.to(tape.mul(wide, inverse), x.dtype)

    def project(
        self,
        x: Value,
        slot: str,
        in_features: float,
        out_features: float,
        rows: float | None = None,
        copies: float = 1.0,
    ) -> Value:
        """A linear layer, with its adapter where it has one; ``copies`` of it share the rows (experts)."""
        tape, numerics = self.tape, self.numerics
        rows = self.n if rows is None else rows
        kernel = slot in numerics.lora_slots and _LORA_KERNEL.get(slot) in numerics.lora_kernels
        if kernel and copies == 1 and not self.shape.kv_lora_rank:
            return self._kernel_adapter(x, in_features, out_features, rows)
        weight = Weight(
            copies * in_features * out_features,
            numerics.weight_dtype,
            numerics.train_base,
            "packed" if numerics.packed else "plain",
        )
        result = tape.linear(x, weight, rows * out_features)
        if self.style.bias_apart and numerics.modeling:
            wider = max(result.dtype, numerics.weight_dtype, key=DTYPE_BYTES.__getitem__)
            result = tape.op((result,), result.elements, wider)
        if slot not in numerics.lora_slots:
            return result
        rank = numerics.lora_rank
        result_dtype = result.dtype
        inner = cast = tape.to(x, numerics.lora_dtype)
        if numerics.lora_dropout:
            mask = tape.op((), inner.elements, "bool")
            inner = tape.op((inner, mask), inner.elements, inner.dtype, save=(mask,))
        down = tape.linear(inner, Weight(copies * in_features * rank, numerics.lora_dtype, True), rows * rank)
        up = tape.linear(down, Weight(copies * rank * out_features, numerics.lora_dtype, True), rows * out_features)
        scaled = tape.scale(up)
        if numerics.dora:
            scaled = self._dora(inner, scaled, in_features, out_features, rows)
        total = tape.to(tape.add(result, scaled), result_dtype)
        if numerics.modeling and numerics.mlp_kernel != "fused":  # Unsloth's kernels call no PEFT layer
            tape.keep(x, cast)  # what PEFT's forward was called with, and what it names, until it returns
        return total

    def _kernel_adapter(self, x: Value, in_features: float, out_features: float, rows: float) -> Value:
        """A projection with its adapter in one kernel: saves the input and the factors in its dtype.

        axolotl ``kernels/lora.py``, ``LoRA_QKV`` and ``LoRA_O``.
        """
        saved = (*self._adapter_inputs(x), self._factors(in_features + out_features))
        temp = self._unpacked(in_features * out_features)
        factors = Weight(self.numerics.lora_rank * (in_features + out_features), self.numerics.lora_dtype, True)
        dtype = self.numerics.autocast or self.numerics.weight_dtype
        return self.tape.op(
            saved, rows * out_features, dtype, save=saved, forward_temp=temp, backward_temp=temp, weight=factors
        )

    def _adapter_inputs(self, x: Value) -> tuple[Value, ...]:
        """The input, and the one that dropout made for all adapters that read it."""
        if not self.numerics.lora_dropout:
            return (x,)
        if x.storage not in self._dropped:
            mask = self.tape.op((), x.elements, "bool")
            self._dropped[x.storage] = self.tape.op((x, mask), x.elements, x.dtype, save=(mask,))
        return (x, self._dropped[x.storage])

    def _factors(self, width: float) -> Value:
        return self.tape.op((), self.numerics.lora_rank * width, self.numerics.autocast or self.numerics.weight_dtype)

    def _unpacked(self, elements: float) -> float:
        return elements * DTYPE_BYTES[self.numerics.weight_dtype] if self.numerics.packed else 0.0

    def _kernel_mlp(self, x: Value, width: float) -> Value:
        """The whole gated MLP in one kernel: saves its input, gate and up; backward writes over these two.

        axolotl ``kernels/lora.py``, ``LoRA_MLP``; ``kernels/swiglu.py``.
        """
        tape, numerics, n, hidden = self.tape, self.numerics, self.n, self.shape.hidden
        dtype = numerics.autocast or numerics.weight_dtype
        gate, up = (tape.op((), n * width, dtype) for _ in range(2))
        factors = 3 * (hidden + width)
        saved = (*self._adapter_inputs(x), gate, up, self._factors(factors))
        temp = n * width * DTYPE_BYTES[dtype] + self._unpacked(hidden * width)
        weight = Weight(numerics.lora_rank * factors, numerics.lora_dtype, True)
        return tape.op(saved, n * hidden, dtype, save=saved, forward_temp=temp, backward_temp=temp, weight=weight)

    def _dora(self, x: Value, scaled: Value, in_features: float, out_features: float, rows: float) -> Value:
        """DoRA's magnitude: the base product again, scaled per output (PEFT ``lora/dora.py``)."""
        tape, numerics = self.tape, self.numerics
        matrix = in_features * out_features
        base = tape.op(
            (x,),
            rows * out_features,
            scaled.dtype,
            forward_temp=2 * matrix * DTYPE_BYTES[numerics.lora_dtype],
        )
        magnitude = tape.op((base,), rows * out_features, scaled.dtype, save=(base,))
        adapter = tape.op((scaled,), rows * out_features, scaled.dtype, save=(scaled,))
        return tape.add(magnitude, adapter)

    def rotate(self, x: Value, heads: float) -> Value:
        """``x * cos + rotate_half(x) * sin``."""
        tape, shape = self.tape, self.shape
        share = self.style.rotary
        if share == 0:
            return x
        elements = x.elements * share
        source = x
        if share < 1 or self.style.rotary_cat:
            rotated, passed = tape.slice(x, elements), tape.slice(x, x.elements - elements)
        else:
            rotated, passed = x, None
        if self.numerics.rotary_kernel == "fused" or self.numerics.compiled:
            return tape.op((x,), x.elements, x.dtype)
        tables = tape.external(shape.tokens, x.dtype, False)
        straight = tape.op((rotated, tables), elements, x.dtype)
        half = tape.op((rotated,), elements, x.dtype, forward_temp=elements / 2 * DTYPE_BYTES[x.dtype])
        turned = tape.op((half, tables), elements, x.dtype)
        out = tape.alias((straight, turned), elements, x.dtype)
        if passed is not None:
            out = tape.op((out, passed), x.elements, x.dtype)
        tape.keep(source)
        return out

    def attend(self, q: Value, k: Value, v: Value, width: float, cross: bool = False) -> Value:
        """The attention core; ``width`` is the output's elements."""
        tape, shape, numerics, style = self.tape, self.shape, self.numerics, self.style
        rows = shape.batch * shape.heads * shape.sequence
        if numerics.autocast:
            q, k, v = (tape.to(x, numerics.autocast) for x in (q, k, v))
        # a single key and value head is repeated by a view (``repeat_kv``), which eager's products copy all the same
        one_head = shape.kv_heads == 1
        broadcast = one_head and (style.math_attention or numerics.attention == "sdpa")
        repeated = (
            shape.heads > shape.kv_heads
            and (numerics.expand_kv or numerics.attention == "eager")
            and not broadcast
            and not numerics.joins_qkv
        )
        if repeated:
            times = shape.heads / shape.kv_heads
            k = tape.op((k,), k.elements * times, k.dtype)
            v = tape.op((v,), v.elements * times, v.dtype)
        exchanged = numerics.attention_ranks > 1 and not cross
        copies = 1.0
        if exchanged:
            copies = max(1.0, numerics.attention_ranks / shape.kv_heads)
            q = self._exchange(q, 1.0)
            k, v = self._exchange(k, copies), self._exchange(v, copies)
        keys = shape.keys or shape.sequence
        if numerics.attention != "eager":
            biased = style.position_bias and not cross
            if numerics.modeling and style.math_attention and numerics.attention == "sdpa" and shape.kv_heads == 1:
                return self._math_attention(q, k, v, width, rows * keys)
            if numerics.composed and numerics.attention == "sdpa":
                return self._math_attention(q, k, v, width, rows * keys)
            # the bias is trained, or under checkpointing the zeros that stand in for it in cross-attention are
            trained = numerics.checkpointed if cross else numerics.train_base
            if style.position_bias and trained and numerics.attention == "sdpa":
                return self._math_attention(q, k, v, width, rows * keys)
            lse = tape.op((), rows, "fp32")
            extra: tuple[Value, ...] = (lse,)
            if biased:
                # the bias becomes a contiguous additive mask of its own in every layer
                extra = (lse, tape.op((), shape.heads * shape.sequence * keys, q.dtype))
            elif style.alibi_mask and numerics.modeling and numerics.attention == "sdpa":
                mask = tape.to(tape.external(rows * keys, numerics.residual_dtype, False), q.dtype)
                extra = (lse, mask)
            elif numerics.mask and not cross:
                extra = (lse, tape.op((), shape.batch * shape.sequence * keys, q.dtype))
            temp = self._flash_workspace(q, rows, repeats=shape.heads > shape.kv_heads * copies and not repeated)
            out = tape.op(
                (q, k, v, *extra), width, q.dtype, save=(q, k, v, *extra), save_output=True, backward_temp=temp
            )
            by_head = 0 < style.rotary < 1 and not style.rotary_by_token
            if by_head or style.rotary_cat or numerics.joins_qkv or shape.kv_lora_rank or numerics.contiguous_queries:
                # concatenated or copied queries are laid out by head, and so is the output: transposing it copies
                out = tape.op((out,), width, q.dtype)
            return self._exchange(out, 1.0) if exchanged else out
        scores_elements = rows * keys
        if numerics.modeling and style.fused_qkv and shape.batch > 1 and not cross:
            # matmul folds batch and heads into one dimension: of views of the fused projection only by copying them
            q, k, v = (tape.op((x,), x.elements, x.dtype) if tape.is_view(x) else x for x in (q, k, v))
        if numerics.modeling and style.scores_fp32 and not numerics.autocast:
            q, k = tape.to(q, "fp32"), tape.to(k, "fp32")
        scores = tape.op((q, k), scores_elements, q.dtype, save=(q, k))
        if style.alibi_mask and numerics.modeling:
            return self._with_alibi(scores, v, width)
        scores = tape.scale(scores)
        if style.score_cap:
            scores = tape.scale(scores)
            scores = tape.unary(scores, save="output")
            scores = tape.scale(scores)
        if style.position_bias:
            scores = tape.alias((scores,), scores_elements, scores.dtype)
        named = scores
        scores = tape.alias((scores,), scores_elements, scores.dtype)
        if style.sinks:
            return self._with_sinks(scores, v, width, rows)
        if style.softmax_fp32 or (numerics.autocast and numerics.cuda):
            wide = scores if numerics.cuda and scores.dtype == "fp16" else tape.to(scores, "fp32")
            tape.keep(scores)
            probabilities = self._softmax(wide, "fp32")
            probabilities = tape.to(probabilities, v.dtype)
        else:
            probabilities = self._softmax(scores)
            if style.returns_scores and numerics.modeling:
                tape.keep(named)  # the name is bound anew to what the softmax gives
        if numerics.attention_dropout:
            mask = tape.op((), scores_elements, "bool")
            probabilities = tape.op((probabilities, mask), scores_elements, probabilities.dtype, save=(mask,))
        out = tape.op((probabilities, v), width, q.dtype, save=(probabilities, v))
        if rows:
            out = tape.op((out,), width, q.dtype)  # transpose(1, 2).contiguous()
        tape.keep(probabilities)
        return out

    def _exchange(self, x: Value, copies: float) -> Value:
        """Parts of the sequence for heads, or back: all-to-all of a contiguous copy, and what it gave laid out anew.

        Where ranks outnumber heads of keys and values, these are repeated first, so that each rank has one (DeepSpeed
        ``runtime/sequence_parallel/ulysses_sp.py``).
        """
        size = x.bytes * copies
        return self.tape.op((x,), x.elements * copies, x.dtype, forward_temp=2 * size, backward_temp=size)

    def _flash_workspace(self, q: Value, rows: float, repeats: bool) -> float:
        """What flash attention's backward makes beside the gradients.

        Queries' gradients are added up in fp32, each row has a sum, and grouped heads' gradients of keys and values are made for all
        heads first (flash-attn 2 ``csrc/flash_attn/flash_api.cpp``, ``mha_bwd``; torch ``native/transformers/cuda/flash_attn``).
        """
        if self.numerics.attention != "flash" and not self.numerics.cuda:
            return 0.0
        return (q.elements + rows) * 4 + (2 * q.bytes if repeats else 0.0)

    def _with_sinks(self, scores: Value, v: Value, width: float, rows: float) -> Value:
        """gpt-oss' eager attention: a score more in each row, the row's largest taken off, softmax, the added one cut off.

        transformers 5.24 ``models/gpt_oss/modeling_gpt_oss.py``, ``eager_attention_forward``; each step is a copy.
        """
        tape = self.tape
        joined = tape.op((scores,), scores.elements + rows, scores.dtype)
        largest = tape.op((joined,), rows, scores.dtype)
        shifted = tape.alias((joined, largest), joined.elements, joined.dtype)
        probabilities = self._softmax(shifted)
        cut = tape.slice(probabilities, scores.elements)
        out = tape.op((cut, v), width, v.dtype, save=(probabilities, v))
        out = tape.op((out,), width, v.dtype)
        tape.keep(scores, shifted, probabilities)
        return out

    def _with_alibi(self, scores: Value, v: Value, width: float) -> Value:
        """Falcon's eager attention with ALiBi: scores, biased and masked ones in fp32, softmax in the layer's dtype.

        transformers 5.24 ``models/falcon/modeling_falcon.py``, ``FalconAttention.forward``; local names hold each step.
        """
        tape = self.tape
        wide = tape.to(scores, "fp32")
        biased = tape.scale(tape.alias((wide,), wide.elements, "fp32"))
        masked = tape.alias((biased,), wide.elements, "fp32")
        probabilities = self._softmax(tape.to(masked, self.numerics.residual_dtype))
        tape.keep(masked)
        work = tape.to(probabilities, v.dtype)
        out = tape.op((work, v), width, v.dtype, save=(work, v))
        out = tape.op((out,), width, v.dtype)
        tape.keep(scores, wide, biased, probabilities)
        return out

    def _softmax(self, x: Value, dtype: str | None = None) -> Value:
        dtype = dtype or x.dtype
        temp = x.elements * DTYPE_BYTES[dtype] if self.numerics.cuda else 0.0
        return self.tape.op((x,), x.elements, dtype, save_output=True, backward_temp=temp)

    def _math_attention(self, q: Value, k: Value, v: Value, width: float, scores: float) -> Value:
        """``_scaled_dot_product_attention_math``: where the additive mask is trained or no kernel fits; all in fp32."""
        tape, dtype = self.tape, q.dtype
        q, k, v = (tape.to(x, "fp32") for x in (q, k, v))
        product = tape.op((q, k), scores, "fp32", save=(q, k))
        biased = tape.alias((product,), scores, "fp32")
        chances = self._softmax(biased)
        if self.numerics.attention_dropout:
            mask = tape.op((), scores, "bool")
            chances = tape.op((chances, mask), scores, "fp32", save=(mask,))
        out = tape.op((chances, v), width, "fp32", save=(chances, v))
        return tape.to(out, dtype)

    def drop(self, x: Value) -> Value:
        """Residual dropout: a byte mask is saved."""
        if not self.numerics.dropout:
            return x
        mask = self.tape.op((), x.elements, "bool")
        return self.tape.op((x, mask), x.elements, x.dtype, save=(mask,))

    # -- sublayers ---------------------------------------------------------------------------------------------------

    def mixer(self, x: Value) -> Value:
        scan = self.shape.scan
        if scan is None:
            return self.attention(x)
        scanned = self._scan(x, scan)
        return self.tape.add(self.attention(x), scanned) if scan.beside else scanned

    def attention(self, x: Value, cross: bool = False) -> Value:
        tape, shape, style = self.tape, self.shape, self.style
        if shape.kv_lora_rank:
            return self._latent_attention(x)
        if shape.convolves:
            return self._short_convolution(x)
        if shape.delta is not None:
            return self._gated_delta(x, shape.delta)
        gate: Value | None = None
        n, d = self.n, shape.head_dim
        width_q, width_kv = shape.heads * d, shape.kv_heads * d
        if self.numerics.joins_qkv and not cross:
            q, k, v = self._joined_qkv(x, width_q, width_kv)
        elif style.fused_qkv:
            qkv = self.project(x, "qkv", shape.hidden, width_q + 2 * width_kv)
            q, k, v = tape.split(qkv, n * width_q, n * width_kv, n * width_kv)
        else:
            q = self.project(x, "q", shape.hidden, width_q * (2 if style.output_gate else 1))
            if style.output_gate:
                q, half = tape.split(q, n * width_q, n * width_q)
                gate = tape.op((half,), n * width_q, half.dtype)
            if style.query_scaled:
                q = tape.scale(q)
            if style.qk_norm:
                q = self.norm(q, d if style.qk_norm == "head" else width_q)
            k = self.project(x, "k", shape.hidden, width_kv)
            if style.qk_norm:
                k = self.norm(k, d if style.qk_norm == "head" else width_kv)
            v = self.project(x, "v", shape.hidden, width_kv)
            if style.value_norm:
                v = self._plain_norm(v, d)
        tape.keep(x)
        q = self.rotate(q, shape.heads)
        k = self.rotate(k, shape.kv_heads)
        out = self.attend(q, k, v, n * width_q, cross)
        tape.keep(q, k, v)
        if gate is not None:
            out = tape.mul(out, tape.unary(gate, save="output"))
            tape.keep(gate)
        return self.project(out, "o", width_q, shape.hidden)

    def _joined_qkv(self, x: Value, width_q: float, width_kv: float) -> tuple[Value, Value, Value]:
        """litgpt's one projection with one adapter beside it, padded with zeros where a part has none.

        litgpt 0.5 ``model.py``, ``CausalSelfAttention.forward``, ``lora.py``, ``LoRAQKVLinear``. Of grouped heads all
        three parts are copied, since their views cannot be reshaped; of equal heads or a single one they stay views.
        """
        tape, numerics, shape, n = self.tape, self.numerics, self.shape, self.n
        whole = width_q + 2 * width_kv
        stored = "packed" if numerics.packed else "plain"
        weight = Weight(shape.hidden * whole, numerics.weight_dtype, numerics.train_base, stored)
        joined = tape.linear(x, weight, n * whole)
        widths = {"q": width_q, "k": width_kv, "v": width_kv}
        adapted = [width for slot, width in widths.items() if slot in numerics.lora_slots]
        if adapted:
            rank = numerics.lora_rank * len(adapted)
            inner = tape.to(x, numerics.lora_dtype)
            if numerics.lora_dropout:
                mask = tape.op((), inner.elements, "bool")
                inner = tape.op((inner, mask), inner.elements, inner.dtype, save=(mask,))
            low = tape.linear(inner, Weight(shape.hidden * rank, numerics.lora_dtype, True), n * rank)
            made = tape.linear(
                low, Weight(numerics.lora_rank * sum(adapted), numerics.lora_dtype, True), n * sum(adapted)
            )
            if len(adapted) < len(widths):
                # written into zeros by index_copy, which autograd lets keep what is written (``zero_pad``)
                made = tape.op((made,), joined.elements, made.dtype, save=(made,))
            joined = tape.to(tape.add(joined, tape.scale(made)), joined.dtype)
        q, k, v = tape.split(joined, *(n * width for width in widths.values()))
        normed = bool(self.style.qk_norm)
        if normed:
            by_head = self.style.qk_norm == "head"
            q = self.norm(q, shape.head_dim if by_head else width_q)
            k = self.norm(k, shape.head_dim if by_head else width_kv)
        times = shape.heads / shape.kv_heads
        if times > 1 and shape.kv_heads > 1:
            q = q if normed else tape.op((q,), n * width_q, q.dtype)
            k, v = (tape.op((part,), n * width_q, part.dtype) for part in (k, v))
        elif times > 1:
            k = tape.view(k, n * width_q)
        return q, k, v

    def _short_convolution(self, x: Value) -> Value:
        """``B * x``, a depthwise convolution over a few tokens, ``C *`` its output (transformers ``modeling_lfm2.py``)."""
        tape, width, whole = self.tape, self.shape.hidden, self.t * self.shape.hidden
        joined = self.project(x, "qkv", width, 3 * width)
        b, c, inner = tape.split(joined, whole, whole, whole)
        gated = tape.mul(b, inner)
        mixed = tape.op((gated,), whole, gated.dtype, save=(gated,))
        out = tape.mul(c, mixed)
        laid_out = tape.op((out,), whole, out.dtype)  # transpose(-1, -2).contiguous()
        tape.keep(x, joined)
        return self.project(laid_out, "o", width, width)

    def _gated_delta(self, x: Value, delta: Delta) -> Value:
        """Gated delta rule with its kernels: causal-conv1d's convolution, flash-linear-attention's scan and gated norm.

        transformers 5.24 ``models/qwen3_next/modeling_qwen3_next.py``; what the scan saves is in
        ``ChunkGatedDeltaRuleFunction`` (fla ``ops/gated_delta_rule/chunk.py``), its workspace is one state a chunk.
        """
        tape, hidden, n = self.tape, self.shape.hidden, self.n
        keys, values, inner = n * delta.keys, n * delta.values, 2 * delta.keys + delta.values
        if delta.joined:
            parts = tape.split(self.project(x, "qkv", hidden, inner + delta.values), n * inner, values)
            mixed, gate = (tape.op((part,), part.elements, part.dtype) for part in parts)
        else:
            mixed = self.project(x, "qkv", hidden, inner)
            gate = self.project(x, "qkv", hidden, delta.values)
        filtered = tape.op((mixed,), mixed.elements, mixed.dtype, save=(mixed,))
        q, k, v = (tape.op((x,), x.elements, x.dtype) for x in tape.split(filtered, keys, keys, values))
        within = tape.op((), n * delta.heads * DELTA_CHUNK, q.dtype)
        states = n / DELTA_CHUNK * delta.state * DTYPE_BYTES[q.dtype]
        saved = (q, k, v, within)
        out = tape.op(saved, values, q.dtype, save=saved, forward_temp=states, backward_temp=2 * states)
        out = tape.op((out, gate), values, out.dtype, save=(out, gate))
        tape.keep(x, filtered, gate)
        return self.project(out, "o", delta.values, hidden)

    def _scan(self, x: Value, scan: Scan) -> Value:
        """Mamba-2 with mamba-ssm's kernel, which transformers takes for training: from the projection to the output at once.

        ``MambaSplitConv1dScanCombinedFn`` (mamba_ssm ``ops/triton/ssd_combined.py``) saves the projection and the scan's
        output, and computes convolution, states and gated norm again in backward.
        """
        tape, numerics, hidden, n = self.tape, self.numerics, self.shape.hidden, self.n
        projected = self.project(x, "qkv", hidden, scan.projected)
        size = DTYPE_BYTES[projected.dtype]
        inner = n * scan.inner
        scanned = tape.op((), inner, projected.dtype)
        states = n / SCAN_CHUNK * scan.state * DTYPE_BYTES["fp32"]
        convolved = n * (scan.projected - scan.inner) * size
        return tape.op(
            (projected,),
            n * hidden,
            projected.dtype,
            save=(projected, scanned),
            forward_temp=states + convolved + inner * size,
            backward_temp=2 * states + 2 * convolved + inner * size,
            weight=Weight(scan.inner * hidden, numerics.weight_dtype, numerics.train_base),
        )

    def _latent_attention(self, x: Value) -> Value:
        """Multi-head latent attention as in DeepSeek-V2/V3's modeling code."""
        tape, shape, n = self.tape, self.shape, self.n
        nope = shape.head_dim - shape.rope_dim
        width_q = shape.heads * shape.head_dim
        if shape.q_lora_rank:
            low = self.project(x, "q", shape.hidden, shape.q_lora_rank)
            q = self.project(self.norm(low, shape.q_lora_rank), "q", shape.q_lora_rank, width_q)
        else:
            q = self.project(x, "q", shape.hidden, width_q)
        compressed = self.project(x, "qkv", shape.hidden, shape.kv_lora_rank + shape.rope_dim)
        latent, rope_k = tape.split(compressed, n * shape.kv_lora_rank, n * shape.rope_dim)
        latent = self.norm(latent, shape.kv_lora_rank)
        kv = self.project(latent, "qkv", shape.kv_lora_rank, shape.heads * (nope + shape.value_dim))
        k_nope, v = tape.split(kv, n * shape.heads * nope, n * shape.heads * shape.value_dim)
        tape.keep(x)
        q_pass, q_rope = tape.split(q, n * shape.heads * nope, n * shape.heads * shape.rope_dim)
        q_rope = self.rotate(q_rope, shape.heads)
        rope_k = self.rotate(rope_k, 1)
        q = tape.op((q_pass, q_rope), n * width_q, q.dtype)
        k = tape.op((k_nope, rope_k), n * width_q, k_nope.dtype)
        out = self.attend(q, k, v, n * shape.heads * shape.value_dim)
        tape.keep(q, k, v)
        return self.project(out, "o", shape.heads * shape.value_dim, shape.hidden)

    def feed_forward(self, x: Value, residual: Value) -> Value:
        shape = self.shape
        if not shape.experts:
            return self.mlp(x, shape.intermediate)
        apart = self.style.expert_norms
        out = self.moe(self.norm(residual, shape.hidden) if apart else x)
        if apart:
            out = self.norm(out, shape.hidden)
        if shape.shared_intermediate:
            shared = self.mlp(x, shape.shared_intermediate)
            if apart:
                shared = self.norm(shared, shape.hidden)
            out = self.tape.alias((out, shared), out.elements, out.dtype)
        return out

    def activate(self, x: Value) -> Value:
        tape, kind = self.tape, self.style.activation
        if kind == "relu":
            return tape.unary(x, save="output")
        if kind == "relu2":
            return tape.unary(self._as_pow_takes(tape.unary(x, save="output")))
        if kind == "quick_gelu":
            gate = tape.unary(tape.scale(x), save="output")
            return tape.mul(x, gate)
        if kind == "xielu" and self.numerics.modeling and not self.numerics.compiled:
            return self._xielu(x)
        if kind == "gelu_new" and self.numerics.modeling:
            half = tape.scale(x)
            cube = tape.scale(tape.unary(self._as_pow_takes(x)))
            inner = tape.scale(tape.add(x, cube))
            curve = tape.unary(inner, save="output")
            one = tape.alias((curve,), curve.elements, curve.dtype)
            tape.keep(x)
            return tape.mul(half, one)
        if kind == "gelu_fast" and self.numerics.modeling:
            half, width = tape.scale(x), tape.scale(x)
            square = tape.mul(tape.scale(x), x)
            inner = tape.mul(width, tape.alias((square,), x.elements, x.dtype))
            curve = tape.unary(inner, save="output")
            tape.keep(x)
            return tape.mul(half, tape.alias((curve,), curve.elements, curve.dtype))
        if kind == "gelu_python" and self.numerics.modeling:
            half = tape.scale(x)
            curve = tape.unary(tape.scale(x))
            tape.keep(x)
            return tape.mul(half, tape.alias((curve,), curve.elements, curve.dtype))
        return tape.unary(x)

    def _as_pow_takes(self, x: Value) -> Value:
        """What ``pow``, ``square`` and ``expm1`` read: autocast on CUDA has them in fp32 (``autocast_mode.h``)."""
        return self.tape.to(x, "fp32") if self.numerics.autocast and self.numerics.cuda else x

    def _xielu(self, x: Value) -> Value:
        """Apertus' activation as composed of torch operations (transformers 5.24 ``activations.py``, ``XIELUActivation``)."""
        tape = self.tape
        positive = tape.op((), x.elements, "bool")
        square = tape.mul(tape.scale(x), x)
        right = tape.alias((square, tape.scale(x)), x.elements, x.dtype)
        curve = tape.unary(self._as_pow_takes(tape.unary(x)), save="output")
        below = tape.add(curve, x)
        bent = tape.op((below,), x.elements, below.dtype, save=(below,) if self.numerics.train_base else ())
        left = tape.add(bent, tape.scale(x))
        return tape.op((right, left, positive), x.elements, left.dtype, save=(positive,))

    def mlp(self, x: Value, width: float) -> Value:
        tape, shape, style, n = self.tape, self.shape, self.style, self.n
        if self.numerics.tiled_mlp:
            return self._tiled_mlp(x, width)
        if "mlp" in self.numerics.lora_kernels and style.gated and style.activation in ("silu", "gelu"):
            return self._kernel_mlp(x, width)
        if not style.gated:
            up = self.project(x, "up", shape.hidden, width)
            return self.project(self.activate(up), "down", width, shape.hidden)
        if style.fused_gate_up and not self.numerics.joins_qkv:
            both = self.project(x, "gate_up", shape.hidden, 2 * width)
            gate, up = tape.split(both, n * width, n * width)
            product = tape.mul(up, self.activate(gate))
        elif self.numerics.mlp_kernel in ("fused", "in_place") or self.numerics.compiled:
            gate = self.project(x, "gate", shape.hidden, width)
            up = self.project(x, "up", shape.hidden, width)
            over = -(gate.bytes + up.bytes) if self.numerics.mlp_kernel == "in_place" else 0.0
            product = tape.op((gate, up), n * width, gate.dtype, save=(gate, up), backward_temp=over)
        else:
            gate = self.activate(self.project(x, "gate", shape.hidden, width))
            up = self.project(x, "up", shape.hidden, width)
            product = tape.mul(gate, up)
        return self.project(product, "down", width, shape.hidden)

    def _tiled_mlp(self, x: Value, width: float) -> Value:
        """Pieces of the sequence one after the other: only the input is kept, and each piece runs again in backward.

        DeepSpeed 0.17 ``runtime/sequence_parallel/ulysses_sp.py``, ``TiledMLP``; Axolotl ``monkeypatch/tiled_mlp``: as many pieces as
        the sequence holds hidden sizes. The pieces' results wait in a list that is put together.
        """
        shape, numerics = self.shape, self.numerics
        pieces = numerics.mlp_pieces or max(1, -(-shape.sequence // shape.hidden))
        dtype = numerics.autocast or numerics.weight_dtype
        size = DTYPE_BYTES[dtype]
        matrices = 3 if self.style.gated else 2
        weight = Weight(matrices * shape.hidden * width, numerics.weight_dtype, numerics.train_base)
        # projections and activation, each with a gradient; Liger's kernel writes the gradients over the projections
        held = 4 if numerics.mlp_kernel == "in_place" else 2 * matrices
        piece = self.n / pieces * width * size * held
        results = self.n * shape.hidden * size
        return self.tape.op(
            (x,), self.n * shape.hidden, dtype, save=(x,), forward_temp=results, backward_temp=piece, weight=weight
        )

    def moe(self, x: Value) -> Value:
        """Routed experts on ``top_k`` copies of the tokens."""
        tape, shape, numerics, n = self.tape, self.shape, self.numerics, self.n
        rows = n * shape.top_k
        router = tape.linear(
            x, Weight(shape.hidden * shape.experts, numerics.norm_dtype, numerics.train_base), n * shape.experts
        )
        chances = tape.unary(tape.to(router, "fp32"), save="output")
        picked = tape.op((chances,), rows, x.dtype)
        if shape.moe_loop:
            return self._looped_experts(x, picked)
        width = shape.expert_hidden or shape.hidden
        low = x if width == shape.hidden else self.project(x, "latent", shape.hidden, width)
        spread = tape.op((low,), rows * width, x.dtype)
        tape.keep(x)
        weighted = self._expert(spread, picked, rows, shape.local_experts, packed=False)
        weighted = tape.op((weighted,), rows * width, weighted.dtype)  # back to token order
        if numerics.modeling and not numerics.checkpointed:
            # transformers 5 names both in one function (``integrations/moe.py``, ``grouped_mm_experts_forward``), which a
            # block that runs again does not finish
            tape.keep(spread, *self._named)
        total = tape.op((weighted,), n * width, x.dtype)
        return total if width == shape.hidden else self.project(total, "latent", width, shape.hidden)

    def _looped_experts(self, x: Value, picked: Value) -> Value:
        """One expert after the other, results added in place (transformers 4): backward frees them one by one."""
        tape, shape, n = self.tape, self.shape, self.n
        groups = min(max(1, round(shape.local_experts)), MOST_LOOPED_EXPERTS)
        rows = n * shape.top_k / groups
        total: Value | None = None
        for _ in range(groups):
            spread = tape.op((x,), rows * shape.hidden, x.dtype)
            share = tape.slice(picked, rows)
            out = self._expert(spread, share, rows, shape.local_experts / groups, packed=True)
            if total is None:
                total = tape.op((out,), n * shape.hidden, x.dtype)
            else:
                total = tape.op((total, out), n * shape.hidden, x.dtype, in_place=True)
        assert total is not None
        tape.keep(x)
        return total

    def _expert(self, spread: Value, picked: Value, rows: float, experts: float, packed: bool) -> Value:
        """Gate and up, activation, down, times the router's weight."""
        tape, shape, numerics = self.tape, self.shape, self.numerics
        width, hidden = shape.expert_intermediate, shape.expert_hidden or shape.hidden
        gate_slot, up_slot, down_slot = ("", "", "") if numerics.bare_experts else ("gate", "up", "down")
        own = packed or (bool(numerics.lora_slots) and not numerics.modeling)  # modules that can carry adapters
        if numerics.weighs_activation:
            return self._weighted_expert(spread, picked, rows, experts, own)
        if not self.style.gated:
            slot = up_slot if own else ""
            up = self.project(spread, slot, hidden, width, rows, experts)
            down = self.project(self.activate(up), slot and down_slot, width, hidden, rows, experts)
            return tape.mul(down, picked)
        if own:
            gate = self.project(spread, gate_slot, hidden, width, rows, experts)
            if self._clamps:
                product = self._clamped_glu(gate, self.project(spread, up_slot, hidden, width, rows, experts))
            else:
                gate = self.activate(gate)
                product = tape.mul(gate, self.project(spread, up_slot, hidden, width, rows, experts))
            down = self.project(product, down_slot, width, hidden, rows, experts)
            return tape.mul(down, picked)

        up = self._fused_experts(spread, "gate_up", rows * 2 * width, experts, hidden, 2 * width)
        gate, right = tape.split(up, rows * width, rows * width)
        product = self._clamped_glu(gate, right) if self._clamps else tape.mul(self.activate(gate), right)
        down = self._fused_experts(product, "down", rows * hidden, experts, width, hidden)
        self._named = (down,)
        return tape.mul(down, picked)

    def _weighted_expert(self, spread: Value, picked: Value, rows: float, experts: float, own: bool) -> Value:
        """The same with the router's weight in the activation's kernel, so that nothing of the result is kept.

        No kernel has GELU: there activation, product and weighting are three operations (Megatron Core
        ``transformer/moe/experts.py``, ``bias_act_func``).
        """
        tape, shape, style = self.tape, self.shape, self.style
        width, hidden = shape.expert_intermediate, shape.expert_hidden or shape.hidden
        slots = own and not self.numerics.bare_experts
        ups = [
            self.project(spread, slot if slots else "", hidden, width, rows, experts)
            for slot in (("gate", "up") if style.gated else ("up",))
        ]
        if style.activation.startswith("gelu"):
            plain = self.activate(ups[0])
            plain = tape.mul(ups[1], plain) if style.gated else plain
            product = tape.op((plain, picked), rows * width, plain.dtype, save=(plain, picked))
        else:
            product = tape.op((*ups, picked), rows * width, ups[0].dtype, save=(*ups, picked))
        self._named = ()
        return self.project(product, "down" if slots else "", width, hidden, rows, experts)

    def _fused_experts(self, x: Value, name: str, out: float, experts: float, inner: float, outer: float) -> Value:
        """One product of all experts. An adapter is added into a copy of their whole weight, kept for backward.

        peft 0.21 ``tuners/lora/layer.py``, ``ParamWrapper``.
        """
        tape, numerics = self.tape, self.numerics
        elements = experts * inner * outer
        if name not in numerics.expert_adapters:
            return tape.linear(x, Weight(elements, numerics.weight_dtype, numerics.train_base), out)
        rank = numerics.lora_rank * (2 if name == "gate_up" else 1)
        factors = experts * rank * (inner + outer)
        trained = tape.op((), factors, numerics.weight_dtype, weight=Weight(factors, numerics.lora_dtype, True))
        merged = tape.op((trained,), elements, numerics.weight_dtype, save=(trained,))
        x = tape.to(x, numerics.weight_dtype)
        return tape.op((x, merged), out, x.dtype, save=(x, merged))

    @property
    def _clamps(self) -> bool:
        return self.style.activation == "clamped_glu" and self.numerics.modeling and not self.numerics.compiled

    def _clamped_glu(self, gate: Value, right: Value) -> Value:
        """``(clamp(up) + 1) * (gate * sigmoid(gate * 1.702))`` of a clamped gate: every step saves what it makes.

        transformers 5.24 ``models/gpt_oss/modeling_gpt_oss.py``, ``GptOssExperts._apply_gate``.
        """
        tape = self.tape
        gate, right = tape.unary(gate), tape.unary(right)
        glu = tape.mul(gate, tape.unary(tape.scale(gate), save="output"))
        return tape.mul(tape.alias((right,), right.elements, right.dtype), glu)

    # -- whole block -------------------------------------------------------------------------------------------------

    def scatter(self, x: Value) -> Value:
        """The reduce-scatter behind a row-parallel product: each rank's residual stream has its part of the sequence."""
        return x if self.t == self.n else self.tape.op((x,), self.t * self.shape.hidden, x.dtype)

    def block(self) -> Footprint:
        tape, shape, style = self.tape, self.shape, self.style
        x = tape.external(self.t * shape.hidden, self.numerics.residual_dtype, self.numerics.input_grad)
        width = shape.hidden
        if style.parallel and shape.has_mixer and shape.has_feed_forward:
            first = self.norm(x, width)
            attended = self.attention(first)
            second = first if style.one_norm else self.norm(x, width)
            both = self.scatter(tape.add(self.feed_forward(second, second), attended))
            return tape.footprint(x, tape.add(both, x))
        middle = x
        if shape.has_mixer:
            hidden = self.norm(x, width) if style.pre_norms else x
            hidden = self.scatter(self.mixer(hidden))
            if style.post_norms:
                hidden = self.norm(hidden, width)
            if style.residual_scale:
                hidden = tape.scale(hidden)
            middle = tape.add(x, self.drop(hidden))
        if shape.cross_sequence:
            middle = tape.add(middle, self.scatter(self.attention(self.norm(middle, width), cross=True)))
        if not shape.has_feed_forward:
            return tape.footprint(x, middle)
        hidden = self.norm(middle, width) if style.pre_norms else middle
        hidden = self.scatter(self.feed_forward(hidden, middle))
        if style.post_norms:
            hidden = self.norm(hidden, width)
        if style.residual_scale:
            hidden = tape.scale(hidden)
        return tape.footprint(x, tape.add(middle, self.drop(hidden)))


@lru_cache(maxsize=4096)
def block_footprint(shape: Shape, style: Style, numerics: Numerics) -> Footprint:
    """Bytes of one block's forward, recomputation and backward."""
    return BlockWriter(shape, style, numerics).block()
