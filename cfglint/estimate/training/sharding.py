"""What sharding adds on top of the shards: gathered parameters, prefetch, reduction buffers.

FSDP2 as in torch 2.13 ``torch/distributed/fsdp/_fully_shard`` (blocks wrapped one by one, the rest in a root group):
a gathered block is its parameters plus the flat all-gather buffer, which is held until the next group was copied out of
its own (``FSDPParamGroup.wait_for_unshard``); backward gathers the root group again, prefetches the next block's buffer and
holds the reduce-scatter input of the block before. In a pipeline stage (``torch/distributed/pipelining/stage.py``) nothing is
resharded or reduced before the last micro-batch: all of its parameters stay gathered, its gradients whole in fp32.

Flat all-gather buffers and gradient shards are made on streams of their own (``_fsdp_collectives.py``), and the caching
allocator gives a stream no block that another one freed: what is reserved is the sum of the streams' peaks.

FSDP1 (``torch/distributed/fsdp/_runtime_utils.py``): one flat parameter per block; frozen blocks register hooks on
their inputs to know when to reshard, and these hold the recomputed blocks' inputs, with the gradients that reentrant
checkpointing leaves on them, until backward ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from cfglint.estimate.training.formats import format_of
from cfglint.estimate.training.parameters import Parameters
from cfglint.estimate.training.plan import Plan
from cfglint.estimate.training.states import SUB_GROUP, States, expert_padding, trainable_dtype
from cfglint.estimate.training.tape import DTYPE_BYTES

DEEPSPEED_BUCKET: Final = 5e8
"""``reduce_bucket_size`` and ``allgather_bucket_size``, elements (deepspeed ``runtime/zero/config.py``)."""

DEEPSPEED_LIVE: Final = 1e9
"""``stage3_max_live_parameters``, elements (deepspeed ``runtime/zero/config.py``)."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Bytes that are there only while parameters are gathered or gradients reduced."""

    outer: float = 0.0
    """Gathered parameters outside the blocks."""
    frees_outer: bool = False
    """The outer group is resharded before the loss, which is computed outside the model."""
    outer_buffer: float = 0.0
    """The flat all-gather buffer of the outer group: there until the next group was copied out of its own."""
    block: float = 0.0
    """One block's gathered parameters: the largest's where one is gathered at a time, else the average."""
    copied_blocks: float = 0.0
    """Blocks' worth of parameters and buffers while one block is copied out of its buffer, the one before still held."""
    forward_blocks: float = 0.0
    """Blocks' worth of parameters and buffers while one block runs forward."""
    head_blocks: float = 0.0
    backward_blocks: float = 0.0
    reshard: bool = True
    """False: blocks stay gathered from forward until their backward."""
    reduce: float = 0.0
    """Reduction buffer of one block."""
    outer_gradient: float = 0.0
    """Unsharded gradients of the outer group, held until backward ends."""
    outer_reduce: float = 0.0
    outer_joined: float = 0.0
    """The outer group's gradients put together into one, while its parameters are still gathered (FSDP1's flat parameter)."""
    embedding: float = 0.0
    """Gathered input embedding, where it is a unit of its own."""
    head: float = 0.0
    """Gathered head and last norm, where they are a unit of their own: from their forward to their backward."""
    head_reduce: float = 0.0
    """Reduction buffer of that unit."""
    gather_pool: float = 0.0
    """Peak of the stream that flat all-gather buffers are made on."""
    unsharded_gradients: bool = False
    """Gradients of a block exist whole before they are reduced."""
    whole_gradients: float = 0.0
    """All gradients unsharded, kept between the micro-steps of an accumulation."""
    keeps_inputs: bool = False
    """Checkpointed block inputs and their gradients stay until backward ends."""
    constant: float = 0.0
    """Buffers that live through the step: buckets, or what autograd gets in place of fused weight gradients."""
    step: float = 0.0
    """What the engine adds while the optimizer steps."""
    loading: float = 0.0
    """The largest part that is whole on the device while the model is cut into shards."""

    def copied_out(self, before: int) -> float:
        """Gathered, with its buffers, while a block is copied out of its own, after ``before`` others."""
        copied = self.block * self.copied_blocks if before else self.outer_buffer + self.block * 2
        return self.outer + copied + (0.0 if self.reshard else self.block * before)

    def in_block(self, through: int) -> float:
        """Gathered while a block runs forward; ``through``: blocks up to this one."""
        return self.outer + self.block * (self.forward_blocks if self.reshard else through + 1)

    def at_head(self, layers: int) -> float:
        """Gathered while the head and the loss run, after so many blocks."""
        blocks = self.head_blocks + (0 if self.reshard else layers)
        return self.outer_at_loss + self.head + self.block * blocks

    @property
    def outer_at_loss(self) -> float:
        return 0.0 if self.frees_outer else self.outer


def stored_bytes(plan: Plan) -> float:
    """Bytes of an element that the ranks hold shards of."""
    return DTYPE_BYTES[trainable_dtype(plan) if not plan.adapter else plan.weight_dtype]


def outer_elements(parameters: Parameters) -> float:
    """Elements of the group around the blocks: embeddings, head, the last norm."""
    return parameters.embedding + parameters.head + parameters.outside


def windows_of(plan: Plan, parameters: Parameters, states: States, layers: int) -> Windows:
    """The windows of one rank."""
    if plan.sharding == "ddp" and not plan.profile.main_grads_fp32:
        # the reducer's buckets are a second copy of the gradients unless they are views of one another
        return Windows(constant=states.gradients)
    if plan.sharding in ("none", "ddp") or not layers or plan.profile.distributed_optimizer:
        fused = plan.profile.fuses_weight_gradients and not plan.adapter
        return Windows(constant=parameters.one_of_each * DTYPE_BYTES[plan.weight_dtype] if fused else 0.0)
    stored = stored_bytes(plan)
    gathered = DTYPE_BYTES[plan.compute_dtype] if plan.compute_dtype else stored
    reduced = 4.0 if plan.compute_dtype and stored == 4 and not plan.profile.reduces_in_compute else gathered
    outer = outer_elements(parameters)
    # packed weights are gathered as they are stored
    packed = format_of(plan).bytes_per_parameter / gathered if plan.quantization else 1.0
    alone = plan.leaves_experts_alone
    whole = 0.0
    if plan.whole_gradients and not plan.mixes_units:
        plain = parameters.routed if alone and not plan.adapter else 0.0
        whole = (states.trainable - plain) * (4.0 if plan.whole_gradients == "fp32" else gathered) + plain * stored
    experts = 0.0 if alone else parameters.experts * expert_padding(plan, parameters)
    routed = parameters.routed - parameters.experts
    dense = ((parameters.linear - routed) * packed + parameters.rest) / layers
    routed = 0.0 if alone else routed
    share, adjacent = _routed_layers(plan) if plan.reshard else (1.0, True)
    block = dense + (routed * packed + experts) / (layers * share)
    beside = 1.0 if adjacent else dense / block
    # only what is trained has gradients to reduce
    trained = states.trainable / layers if plan.adapter else block
    outer_trained = 0.0 if plan.adapter else outer
    if plan.sharding == "fsdp2" and plan.pipeline_parallel > 1:
        return Windows(
            outer=(outer + block * layers) * gathered,
            reduce=trained * reduced,
            outer_gradient=0.0 if plan.adapter else (parameters.head or parameters.embedding) * gathered,
            unsharded_gradients=not plan.adapter,
            whole_gradients=states.trainable * reduced,
        )
    if plan.sharding == "fsdp2":
        architecture = plan.architecture
        tied = architecture is not None and architecture.tie_word_embeddings
        ends = plan.wraps_ends and not tied and not plan.adapter
        head = outer - parameters.embedding
        if ends:
            outer = outer_trained = 0.0
        return Windows(
            embedding=parameters.embedding * gathered if ends else 0.0,
            head=head * gathered if ends else 0.0,
            head_reduce=head * reduced if ends else 0.0,
            gather_pool=(max(outer, parameters.embedding, head) if ends else outer) * gathered
            + block * gathered * beside,
            outer=outer * gathered,
            outer_buffer=outer * gathered,
            frees_outer=plan.profile.loss_outside,
            block=block * gathered,
            copied_blocks=2 + beside,
            forward_blocks=1 + beside,
            # the head's own unit is copied out before it runs, which frees the last block's buffer
            head_blocks=0 if ends else 1,
            backward_blocks=1 + beside if plan.reshard else 0,
            reshard=plan.reshard,
            reduce=trained * reduced,
            outer_gradient=0.0 if plan.adapter or ends else (parameters.head or parameters.embedding) * gathered,
            outer_reduce=(parameters.embedding if ends else outer_trained) * reduced,
            unsharded_gradients=not plan.adapter,
            whole_gradients=whole,
            # accelerate hands shards out parameter by parameter; others make the model in shards
            loading=parameters.largest * stored if plan.profile.fsdp_upcasts_trainable else 0.0,
        )
    if plan.sharding == "fsdp1":
        mixed = block * layers * gathered if plan.mixes_units else 0.0
        return Windows(
            outer=outer * gathered,
            block=block * gathered,
            forward_blocks=1 + beside,
            head_blocks=0,
            backward_blocks=1 + beside if plan.reshard else 0,
            reshard=plan.reshard,
            reduce=0.0 if plan.adapter and not mixed else block * gathered,
            outer_gradient=0.0 if plan.adapter else (parameters.head or parameters.embedding) * gathered,
            outer_reduce=outer * gathered,
            outer_joined=0.0 if plan.adapter else outer * gathered,
            unsharded_gradients=not plan.adapter or bool(mixed),
            whole_gradients=mixed if plan.whole_gradients and mixed else whole,
            # the shards of units' gradients, of which adapters are a small part
            constant=mixed / plan.shard_degree if mixed and not plan.whole_gradients else 0.0,
            # units without anything trained wait for the gradients of their inputs
            keeps_inputs=plan.adapter
            and plan.checkpointing == "full"
            and not mixed
            and not plan.profile.checkpoints_inside_units,
            # each unit is moved to the device whole and then cut (``_init_utils.py``), the outer one last
            loading=max(outer, block) * stored,
        )
    return _zero(plan, parameters, states, gathered)


def on_compute_stream(windows: Windows) -> Windows:
    """FSDP2's windows without what is made on other streams: parameters as they were copied out of their buffers."""
    return replace(
        windows,
        outer_buffer=0.0,
        copied_blocks=0.0,
        forward_blocks=min(1.0, windows.forward_blocks),
        backward_blocks=min(1.0, windows.backward_blocks),
    )


def _routed_layers(plan: Plan) -> tuple[float, bool]:
    """Share of the layers that have routed experts, and whether two of them follow each other; the others gather less."""
    layers = plan.architecture.layers if plan.architecture is not None else ()
    routed = [layer.feed_forward == "moe" for layer in layers]
    if not any(routed):
        return 1.0, True
    return sum(routed) / len(routed), any(map(all, pairwise(routed)))


def _zero(plan: Plan, parameters: Parameters, states: States, size: float) -> Windows:
    """DeepSpeed ZeRO (``runtime/zero/stage_1_and_2.py``, ``stage3.py``).

    Hugging Face's ``auto`` makes buckets of hidden² elements (``integrations/deepspeed.py``). The step turns the
    partition's gradients into fp32, group by group in stage 3.
    """
    hidden = plan.architecture.hidden_size if plan.architecture else 0
    bucket = float(hidden * hidden) if plan.profile.modeling and plan.profile.name != "deepspeed" else DEEPSPEED_BUCKET
    trainable = states.trainable
    bucket = min(bucket, trainable) * size
    partition = trainable / plan.shard_degree
    offloaded = plan.offload_optimizer != "none"
    if plan.sharding == "zero3":
        live = min(DEEPSPEED_LIVE, parameters.base) * size
        return Windows(
            block=live,
            forward_blocks=1,
            head_blocks=1,
            backward_blocks=1,
            reduce=bucket,
            constant=bucket,
            unsharded_gradients=not plan.adapter,
            step=0.0 if offloaded else min(SUB_GROUP, partition) * 4,
        )
    return Windows(
        constant=bucket,
        reduce=bucket,
        unsharded_gradients=plan.sharding == "zero2" and not plan.adapter,
        step=0.0 if offloaded else partition * 4 + bucket,
    )
