"""Activations of one pipeline stage: its layers' footprints put together over forward and backward.

Figures are per run of equal layers, so the work does not grow with the number of layers or the sequence length.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import groupby
from operator import attrgetter
from typing import Final

from cfglint.catalog.architecture import Architecture, Layer
from cfglint.estimate.training.blocks import block_footprint
from cfglint.estimate.training.families import ALL_LINEAR, ENCODERS, Style, dropout_of, slots_of, style_of
from cfglint.estimate.training.formats import BITSANDBYTES
from cfglint.estimate.training.loss import Head, head_footprint
from cfglint.estimate.training.objectives import Scoring
from cfglint.estimate.training.parameters import adapter_slots, bare_experts, expert_adapters, separate_experts
from cfglint.estimate.training.plan import PREFERENCE, Plan
from cfglint.estimate.training.shapes import Delta, Numerics, Scan, Shape
from cfglint.estimate.training.states import outer_dtype, trainable_dtype, unquantized_dtype
from cfglint.estimate.training.tape import DTYPE_BYTES, Footprint
from cfglint.estimate.training.vision import Tower, tower_of

_KIND: Final = attrgetter(*(field.name for field in fields(Layer) if field.name not in ("index", "window")))
"""Layers that differ only in their index or window take the same memory."""

RECURRENT: Final = frozenset({"mamba", "mamba2", "linear_attention"})
QUERYLESS: Final = frozenset({*RECURRENT, "conv"})
"""Mixers that project their input at once, and call no part of it query, key or value."""
_KERNEL_SLOTS: Final = {"mlp": {"gate", "up", "down"}, "qkv": {"q", "k", "v"}, "o": {"o"}}
"""Projections that must all have adapters for a kernel to be patched in (axolotl ``monkeypatch/lora_kernels.py``)."""
MOST_PIECES: Final = 64
"""Pieces of a chunked loss that are written one by one."""
RECURRENT_HEAD: Final = 64
"""Head size of a recurrent mixer where it stands in for attention; only its product with the heads matters."""


@dataclass(frozen=True, slots=True)
class Run:
    """``count`` equal layers with the bytes that each keeps for backward."""

    count: int
    footprint: Footprint
    kept: float
    checkpointed: bool
    cache: float
    """Keys and values of one layer, where the model keeps them (``use_cache``)."""
    dropped: float = 0.0
    """What the footprint saves and parts of a block that are checkpointed by themselves do not keep."""
    reused: float = 0.0
    """What is kept of a checkpointed layer's operations: used up while it is computed again, or part of what that saves."""


@dataclass(frozen=True, slots=True)
class Activations:
    """Bytes on one rank of one micro-batch. Parameter gradients are inside ``Footprint.backward``."""

    runs: tuple[Run, ...]
    head: Footprint | None
    embedding_output: float
    shared_forward: float
    """Masks and relative biases that all blocks use, while forward runs."""
    shared_backward: float
    """The same until backward ends, with the gradients gathered for trained ones."""
    style: Style
    style_known: bool
    tower: Tower | None = None
    """The vision tower in front of the blocks."""
    carried: float = 0.0
    """What a loop's ``loss`` still keeps of the graph before while forward makes the next one."""
    last_logits: float = 0.0
    """Logits that the loop's name holds through the step and the next forward; where that makes new ones they are in ``head``."""
    returned: float = 0.0
    """Logits that the model returns, with which autocast and its cast cache end; 0 where the loss is the model's own."""

    @property
    def kept(self) -> float:
        return sum(run.kept * run.count for run in self.runs)

    @property
    def humps(self) -> tuple[float, float]:
        """Bytes of the head's peak and of the largest block's, beside what is kept."""
        head = max(self.head.forward_saving, self.head.backward) if self.head else 0.0
        blocks = (max(r.footprint.forward_saving + r.footprint.output, r.footprint.backward) for r in self.runs)
        return head, max(blocks, default=0.0)

    @property
    def casts(self) -> float:
        return sum(run.footprint.casts * run.count for run in self.runs)


def numerics_of(plan: Plan, style: Style, cuda: bool = False) -> Numerics:
    """Dtypes and kernels of the run as the blocks see them."""
    autocast = plan.autocast
    engine = plan.compute_dtype if plan.engine_casts and plan.compute_dtype else None
    packed = plan.quantization is not None
    if packed:
        weight = plan.compute_dtype or plan.weight_dtype
        if weight == "fp32":
            weight = "bf16"
        norm = unquantized_dtype(plan)
    elif plan.adapter:
        weight = engine or plan.weight_dtype
        norm = weight
    else:
        weight = engine or trainable_dtype(plan)
        norm = weight
    attention = {
        "flash2": "flash",
        "flash3": "flash",
        "flash_attention_2": "flash",
        "xformers": "flash",
        "flex": "flash",
        "eager": "eager",
    }.get(plan.attention, "sdpa")
    profile = plan.profile
    if profile.composes_capped and style.score_cap:
        attention = "eager"
    # On CUDA autocast runs layer_norm in fp32, and bitsandbytes' linears return the dtype they get: so do the blocks
    wide = (
        plan.quantization in BITSANDBYTES
        and style.norm == "layernorm"
        and plan.compute_dtype is not None
        and profile.modeling
    )
    mask = attention == "sdpa" and _dense_mask(plan) and profile.modeling and style.packed_mask
    return Numerics(
        weight_dtype=weight,
        norm_dtype=norm,
        residual_dtype="fp32" if wide else norm,
        autocast=autocast,
        train_base=not plan.adapter,
        packed=packed,
        packed_keeps=packed and plan.keeps_packed_inputs is not False,
        packed_copies=_unpacked_copies(plan, weight) if packed else 1,
        attention=attention,
        expand_kv=mask or plan.expands_kv or (attention == "sdpa" and plan.repeats_keys),
        contiguous_queries=attention == "sdpa" and plan.contiguous_queries,
        joins_qkv=profile.joins_qkv,
        composed=plan.composes_attention,
        mask=mask,
        norm_kernel=plan.norm_kernel,
        modeling=profile.modeling,
        norm_autocasts=profile.norms_follow_autocast,
        wide_norms=wide,
        fuses_weight_gradients=profile.fuses_weight_gradients and not plan.adapter,
        checkpointed=plan.checkpointing == "full",
        compiled=plan.compile,
        rotary_kernel=profile.rotary_kernel,
        mlp_kernel=profile.mlp_kernel,
        weighs_activation=plan.weighs_activation,
        tiled_mlp=plan.tiled_mlp,
        mlp_pieces=plan.mlp_pieces,
        attention_ranks=plan.context_parallel if _exchanges_heads(plan) else 1,
        lora_rank=plan.lora_rank,
        lora_dtype=engine or trainable_dtype(plan) if plan.adapter else "fp32",
        dora=plan.dora,
        lora_dropout=plan.lora_dropout,
        cuda=cuda,
    )


def _unpacked_copies(plan: Plan, dtype: str) -> int:
    """Copies of a quantized weight that are there while it is unpacked.

    torchao ``dtypes/nf4tensor.py``, ``get_original_weight``: two index tensors of eight bytes for every other element,
    their values, these scaled, and both stacked: 14 bytes an element.
    """
    if plan.profile.unpacks_in_steps and plan.quantization in ("nf4", "nf4-double") and not plan.compile:
        return 7
    return 2 if plan.profile.quantizes_fp16 and dtype != "fp16" else 1


def _classifies(plan: Plan, architecture: Architecture) -> bool:
    """Encoders are fine-tuned with a head on one token; their vocabulary is only for pretraining."""
    return architecture.model_type in ENCODERS and not plan.pretrains


def _exchanges_heads(plan: Plan) -> bool:
    """DeepSpeed's Ulysses in transformers: a rank has all tokens of some heads in attention, some tokens of all elsewhere."""
    return plan.profile.modeling and plan.sharding.startswith("zero") and plan.context_parallel > 1


def _dense_mask(plan: Plan) -> bool:
    """Packed samples under sdpa need a block-diagonal mask, which each layer converts to the queries' dtype.

    transformers >= 4.53 (``masking_utils.find_packed_sequence_indices``); a mask also switches grouped-query attention
    to repeated keys and values (``integrations/sdpa_attention.py``). So do padded rows: chosen and rejected answers, and
    sampled ones, are of unequal length. Ulysses does without masks (DeepSpeed ``runtime/sequence_parallel/ulysses_sp.py``).
    """
    if _exchanges_heads(plan):
        return False
    padded = plan.objective in PREFERENCE and plan.rows > 1
    return padded or (plan.finds_packed and (plan.packing or plan.flattens))


def _adapted(layer: Layer, numerics: Numerics) -> bool:
    """Whether a block may have adapters: mixers without queries, keys and values have none on these names."""
    own = ALL_LINEAR - {"q", "k", "v"} if layer.mixer in QUERYLESS else ALL_LINEAR
    return bool(numerics.lora_slots & own or numerics.expert_adapters)


def activations_of(
    plan: Plan, architecture: Architecture, layers: tuple[int, int], last: bool, cuda: bool = False
) -> Activations:
    """Activations of the layers of one stage, with the head where it is the last."""
    style, known = style_of(architecture)
    if style.own_loss and plan.transformers_since(4, 46):
        style = replace(style, own_loss=False)
    if plan.profile.splits_projections:
        style = replace(style, fused_qkv=False, fused_gate_up=False, rotary_cat=False)
    if plan.profile.caps_before_head:
        style = replace(style, logit_cap=False)
    numerics = numerics_of(plan, style, cuda)
    if plan.adapter:
        numerics = replace(
            numerics,
            lora_slots=frozenset() if plan.adapters_off else adapter_slots(architecture, plan),
            expert_adapters=expert_adapters(architecture, plan),
            bare_experts=bare_experts(architecture, plan),
        )
        numerics = replace(
            numerics,
            lora_kernels=frozenset(
                kernel
                for kernel in plan.lora_kernels
                if numerics.lora_slots >= _KERNEL_SLOTS[kernel] and not (kernel == "mlp" and style.fused_gate_up)
            ),
        )
    attention_dropout, dropout = dropout_of(architecture)
    if not plan.evaluating and (attention_dropout or dropout):
        numerics = replace(numerics, attention_dropout=attention_dropout, dropout=dropout)
    batch, sequence = plan.rows, plan.local_sequence
    if plan.flattens:
        batch, sequence = 1, batch * sequence
    runs: list[Run] = []
    by_layers = plan.checkpoint_every
    selective = plan.checkpointing == "selective" and plan.profile.name != "megatron" and by_layers is None
    checkpointed = plan.checkpointing == "full" or selective or by_layers is not None
    selected = architecture.layers[layers[0] : layers[1]]
    if layers[0] == 0:
        selected = (*architecture.encoder_layers, *selected)
    frozen_input = plan.adapter and not checkpointed and layers[0] == 0 and not plan.modules_to_save
    alike = [list(group) for _, group in groupby(selected, key=_KIND)]
    groups = [(replace(same[0], index=0, window=None), len(same), numerics) for same in alike]
    if frozen_input and groups:
        # without checkpointing nothing makes the embeddings' output require a gradient, until a block has adapters
        still = 0
        while still < len(groups) - 1 and not _adapted(groups[still][0], numerics):
            kind, count, _ = groups[still]
            groups[still] = (kind, count, replace(numerics, input_grad=False))
            still += 1
        kind, count, _ = groups[still]
        groups[still : still + 1] = [
            (kind, 1, replace(numerics, input_grad=False)),
            *([(kind, count - 1, numerics)] if count > 1 else []),
        ]
    if checkpointed and plan.recompute_layers is not None:
        groups, kept_whole = _first_layers(groups, plan.recompute_layers)
    elif by_layers is not None:
        groups, kept_whole = _each_so_many(groups, by_layers), []
    else:
        kept_whole = []
    for key, count, own in (*groups, *kept_whole):
        checkpointed = own.checkpointed or selective
        shape = _shape(architecture, key, plan, batch, sequence, style.all_experts and plan.profile.modeling)
        footprint = block_footprint(shape, style, own)
        if (
            (checkpointed or plan.evaluating)
            and style.returns_scores
            and numerics.modeling
            and numerics.attention == "eager"
        ):
            returned = shape.batch * shape.heads * shape.sequence**2 * DTYPE_BYTES[numerics.residual_dtype]
            footprint = replace(footprint, forward_plain=footprint.forward_plain + returned)
        kept = footprint.input if checkpointed else footprint.saved + (footprint.input if footprint.saves_input else 0)
        if checkpointed and plan.profile.checkpoints_sublayers:
            kept += 3 * footprint.input
        reused = _selected(shape, style, numerics) if selective else 0.0
        kept += reused
        dropped = _recomputed(shape, style, own, footprint, plan.recompute_modules)
        kept -= dropped
        if plan.offloads_activations:
            kept = 0.0
        if plan.reentrant:
            footprint = replace(footprint, waiting=footprint.output)
        runs.append(Run(count, footprint, kept, checkpointed, _cached(key, shape, style, numerics), dropped, reused))
    head = None
    tp = plan.tensor_parallel
    if last:
        width = architecture.config.get("word_embed_proj_dim")  # OPT-350m projects down before the head
        width = width if isinstance(width, int) and width > 0 else architecture.hidden_size
        shape = Shape(batch, sequence, width, 1, 1, 1, 1, 1)
        packed_head = plan.quantization is not None and plan.profile.quantizes_head
        engine = plan.compute_dtype if plan.engine_casts and plan.compute_dtype else None
        gathered = tp if plan.profile.follows_tp_plan and not plan.scores_sequences else 1
        head = head_footprint(
            shape,
            style,
            replace(numerics, lora_slots=frozenset(), packed=False, fuses_weight_gradients=False),
            Head(
                vocabulary=1 if plan.scores_sequences else architecture.vocab_size * gathered / tp,
                gathered=gathered,
                kernel=plan.loss_kernel,
                weight_dtype=engine
                or (
                    numerics.weight_dtype
                    if packed_head
                    else outer_dtype(plan)
                    if plan.adapter
                    else trainable_dtype(plan)
                ),
                trainable=not plan.adapter,
                tokens=batch if _classifies(plan, architecture) else batch * sequence,
                chunks=_pieces(plan, sequence),
                caps_chunks=plan.caps_chunks,
                room=plan.loss_room,
                splits_logits=plan.profile.chunk_tokens > 0 and not plan.adapter,
                hold_logits=plan.profile.hold_logits,
                holds_wide_logits=plan.profile.holds_wide_logits,
                carries=plan.carries,
                upcast=plan.upcasts_logits
                and ((style.upcast_loss and not plan.keeps_loss_narrow) or plan.compute_dtype is not None),
                shift_copy=plan.shifts_copy,
                keeps_logits=plan.loss_holds_logits and not plan.profile.widens_in_model,
                autocast=plan.compute_dtype is not None,
                saves_log_probabilities=not plan.compile,
                packed=packed_head,
                in_place=plan.profile.loss_in_place,
                scoring=_scoring(plan),
                scored=batch * min(plan.completion or sequence, sequence),
                metrics=plan.metrics,
                converts_outputs=plan.compute_dtype is not None and not plan.sharding.startswith("zero"),
                returns_logits=bool(plan.profile.whole_logits),
                widens_weight=plan.widens_head,
                distributed=plan.profile.parallel_loss and tp > 1,
            ),
        )
    hidden = batch * sequence * architecture.hidden_size * DTYPE_BYTES[numerics.residual_dtype]
    shared = _shared(architecture, plan, style, numerics, batch, sequence)
    tower = tower_of(architecture, plan, numerics) if layers[0] == 0 else None
    carried = 0.0
    if plan.profile.hold_logits and plan.carries:
        carried = sum(run.footprint.held * run.count for run in runs if not run.checkpointed)
    last_logits = head.held if head is not None and plan.profile.holds_wide_logits else 0.0
    cut = plan.completion if plan.scoring is not None and plan.scoring.cuts_logits else None
    returned = _returned(plan, architecture, batch * min(cut or sequence, sequence)) if last else 0.0
    return Activations(tuple(runs), head, hidden, *shared, style, known, tower, carried, last_logits, returned=returned)


def _pieces(plan: Plan, sequence: int) -> int:
    """Pieces of the chunked loss; of a long sequence they are put together, so that the work does not grow."""
    tokens = plan.profile.chunk_tokens
    return min(MOST_PIECES, -(-sequence // tokens)) if tokens else 8


def _returned(plan: Plan, architecture: Architecture, tokens: float) -> float:
    """Bytes of the logits that a model under autocast returns to a trainer that computes the loss itself."""
    # transformers 4 enters autocast around ``compute_loss`` too
    smoothed = plan.loss_kernel == "smoothed" and plan.transformers_5
    if plan.autocast is None or not (smoothed or (plan.scoring is not None and not plan.scoring.tiles)):
        return 0.0
    size = DTYPE_BYTES[plan.autocast] + (4 if plan.model_widens_logits else 0)
    return tokens * architecture.vocab_size / plan.tensor_parallel * size


def _scoring(plan: Plan) -> Scoring | None:
    """How tokens are scored.

    accelerate converts what a model under mixed precision returns, but not DeepSpeed's engine.
    """
    scoring = plan.scoring
    if scoring is None:
        return None
    converted = plan.compute_dtype is not None and not plan.sharding.startswith("zero")
    return replace(scoring, widens=scoring.widens or converted or plan.model_widens_logits)


def _shared(
    architecture: Architecture, plan: Plan, style: Style, numerics: Numerics, batch: int, sequence: int
) -> tuple[float, float]:
    """Bytes that all blocks share in forward and in backward: the attention mask, T5's relative biases."""
    size = DTYPE_BYTES[numerics.residual_dtype]
    mask = 0.0
    if numerics.attention == "eager":
        mask = batch * sequence * sequence * size
    elif numerics.mask:
        mask = batch * sequence * sequence
    if style.alibi_mask and numerics.modeling and numerics.attention != "flash":
        mask = batch * architecture.num_attention_heads / plan.tensor_parallel * sequence * sequence * size
    if not style.position_bias:
        return mask, mask
    bias = architecture.num_attention_heads / plan.tensor_parallel * sequence**2 * size
    trained = not plan.adapter
    # the bucket of each pair of positions, kept for the backward of encoder's and decoder's bias tables
    buckets = 2 * 8 * sequence**2 if trained else 0.0
    if plan.checkpointing != "full":
        # the decoder's bias and the zeros that stand in for one in cross-attention
        return mask + 2 * bias + buckets, mask + buckets
    # as arguments of checkpointed blocks both biases and the zeros stay; the zeros and trained biases gather gradients
    return mask + 3 * bias + buckets, mask + (5 if trained else 4) * bias + buckets


def _cached(layer: Layer, shape: Shape, style: Style, numerics: Numerics) -> float:
    """Keys and values of a layer as attention gets them, which transformers' cache keeps; recurrent layers keep no tokens."""
    if layer.mixer in QUERYLESS or not shape.has_mixer:
        return 0.0
    size = DTYPE_BYTES[numerics.autocast or numerics.weight_dtype]
    heads = shape.heads if style.broadcasts_kv and shape.kv_heads > 1 else shape.kv_heads
    return shape.tokens * heads * (shape.head_dim + shape.value_dim) * size


_Groups = list[tuple[Layer, int, Numerics]]


def _each_so_many(groups: _Groups, every: int) -> _Groups:
    """Of ``every`` layers that follow each other the last is checkpointed."""
    found: _Groups = []
    for kind, count, own in groups:
        plain = replace(own, checkpointed=False)
        behind = [(kind, every - 1, plain), (kind, 1, replace(own, checkpointed=True))]
        found += [*(behind * (count // every)), (kind, count % every, plain)]
    return [group for group in found if group[1]]


def _first_layers(groups: _Groups, count: int) -> tuple[_Groups, _Groups]:
    """The groups of the first ``count`` layers, and those of the others, which are not checkpointed."""
    first: _Groups = []
    others: _Groups = []
    for kind, layers, numerics in groups:
        inside = min(layers, max(0, count))
        count -= layers
        if inside:
            first.append((kind, inside, numerics))
        if layers > inside:
            others.append((kind, layers - inside, replace(numerics, checkpointed=False)))
    return first, others


def _recomputed(shape: Shape, style: Style, numerics: Numerics, footprint: Footprint, modules: frozenset[str]) -> float:
    """What a block does not keep of its footprint where parts of it are checkpointed: Megatron's ``recompute_modules``.

    ``megatron/core/transformer/transformer_config.py`` and the modules it names: MLP and experts keep their input,
    norms, the experts' activation and MLA's up-projections discard their output.
    """
    if not modules:
        return 0.0
    size = DTYPE_BYTES[numerics.weight_dtype]
    whole = shape.has_feed_forward and ("moe" if shape.experts else "mlp") in modules
    dropped = 0.0
    if whole:
        mixer = block_footprint(replace(shape, has_feed_forward=False), style, numerics)
        # the stream after the mixer and the norm of it
        dropped += footprint.saved - mixer.saved - footprint.input * (2 if shape.has_mixer else 1)
    elif shape.experts:
        if "moe_act" in modules:
            dropped += shape.tokens * shape.top_k * shape.expert_intermediate * size
        if "shared_experts" in modules:
            dropped += shape.tokens * shape.shared_intermediate * (3 if style.gated else 2) * size
    if "layernorm" in modules:
        dropped += footprint.input * (shape.has_mixer + shape.has_feed_forward)
    if "mla_up_proj" in modules and shape.kv_lora_rank:
        dropped += shape.tokens * shape.heads * (2 * shape.head_dim + shape.value_dim) * size
    return min(dropped, footprint.saved)


def _selected(shape: Shape, style: Style, numerics: Numerics) -> float:
    """What op-level selective checkpointing keeps beside the input: every second matrix product, and attention.

    torchtitan ``models/llama3/infra/parallelize.py``, since Aug 2025 ``distributed/activation_checkpoint.py``: of q, k, v, o,
    gate, up, down it keeps q, v, gate and down. Backward has no use for down's output: a compiled block leaves it out.
    """
    size = DTYPE_BYTES[numerics.autocast or numerics.weight_dtype]
    width = shape.expert_intermediate * shape.top_k if shape.experts else shape.intermediate
    attention = shape.heads * (shape.head_dim + shape.value_dim) + shape.kv_heads * shape.value_dim
    last = 0.0 if numerics.compiled else shape.hidden / (1 if style.gated else 2)
    return shape.tokens * size * (attention + width + last)


def _expert_hidden(architecture: Architecture) -> int:
    """Width that the routed experts read: 0 where it is the block's, or where their tensors are not known."""
    up = next((t for t in architecture.tensors if t.role == "expert" and slots_of((t.module,)) & {"up", "gate"}), None)
    width = up.shape[1] if up is not None and len(up.shape) == 2 else 0
    return 0 if width == architecture.hidden_size else width


def _scan(architecture: Architecture, layer: Layer, tp: int) -> Scan | None:
    """A Mamba-2 mixer, alone or beside attention, where the layer has one."""
    ssm = architecture.ssm
    if ssm is None or ssm.kind != "mamba2" or not layer.recurrent:
        return None
    projection = next((t for t in architecture.tensors if t.module == "in_proj" and t.role == "ssm" and t.linear), None)
    if projection is None:
        return None
    beside = layer.mixer != "mamba2"
    return Scan(projection.shape[0] // tp, ssm.inner_size // tp, ssm.recurrent_state_elements // tp, beside)


def _delta(architecture: Architecture, layer: Layer, tp: int) -> Delta | None:
    """Widths of a gated delta rule, where the layer has one."""
    config, ssm = architecture.config, architecture.ssm
    if layer.mixer != "linear_attention" or ssm is None or ssm.kind != "gated-deltanet":
        return None
    heads, dim = config.get("linear_num_key_heads"), config.get("linear_key_head_dim")
    values = config.get("linear_num_value_heads")
    if not (isinstance(heads, int) and isinstance(dim, int) and isinstance(values, int)):
        return None
    return Delta(
        heads=max(1, values // tp),
        keys=heads * dim // tp,
        values=ssm.inner_size // tp,
        state=ssm.recurrent_state_elements // tp,
        joined=architecture.model_type == "qwen3_next",
    )


def _shape(
    architecture: Architecture, layer: Layer, plan: Plan, batch: int, sequence: int, all_experts: bool = False
) -> Shape:
    tp = plan.tensor_parallel
    heads = layer.heads or architecture.num_attention_heads
    kv_heads = layer.kv_heads or architecture.num_key_value_heads or heads
    head_dim = layer.head_dim or architecture.head_dim
    if layer.mixer in RECURRENT and architecture.ssm is not None and architecture.ssm.inner_size:
        # a recurrent mixer's projections and scan, as an attention of its inner width without a score matrix
        head_dim = RECURRENT_HEAD
        heads = max(1, architecture.ssm.inner_size // head_dim)
        kv_heads = heads
    moe = architecture.moe if layer.feed_forward == "moe" else None
    mla = architecture.mla if layer.mixer == "mla" else None
    return Shape(
        batch=batch,
        sequence=sequence,
        hidden=architecture.hidden_size,
        heads=max(1, heads // tp),
        kv_heads=max(1, kv_heads // tp),
        head_dim=mla.qk_nope_head_dim + mla.qk_rope_head_dim if mla else head_dim,
        value_dim=mla.v_head_dim if mla else head_dim,
        intermediate=max(1, (layer.intermediate_size or architecture.intermediate_size) // tp),
        experts=moe.num_experts if moe else 0,
        local_experts=moe.num_experts / plan.expert_parallel if moe else 0,
        top_k=(moe.num_experts if all_experts else moe.top_k) * plan.expert_tensor_parallel / tp if moe else 0,
        expert_intermediate=max(1, moe.intermediate_size // plan.expert_tensor_parallel) if moe else 0,
        expert_hidden=_expert_hidden(architecture) if moe else 0,
        shared_intermediate=moe.shared_intermediate_size // tp if moe else 0,
        tensor_parallel=tp,
        sequence_parallel=plan.sequence_parallel,
        kv_lora_rank=mla.kv_lora_rank if mla else 0,
        q_lora_rank=(mla.q_lora_rank or 0) if mla else 0,
        rope_dim=mla.qk_rope_head_dim if mla else 0,
        cross_sequence=sequence if layer.cross_attention else 0,
        has_mixer=layer.mixer != "none",
        convolves=layer.mixer == "conv",
        delta=_delta(architecture, layer, tp),
        scan=_scan(architecture, layer, tp),
        has_feed_forward=layer.feed_forward != "none",
        moe_loop=moe is not None and plan.profile.modeling and separate_experts(plan),
    )
