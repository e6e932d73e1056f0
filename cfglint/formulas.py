"""The core formulas of LLM training and serving, as pure functions.

Bytes are ``int`` and rounded up where a per-element size is fractional; GiB are 2^30 bytes, GB 10^9. Every function
raises ``ValueError`` naming the argument when a value is impossible (negative, zero where something is counted, NaN).

Each docstring is the formula's own record: title, expression, variables with ``[unit]``, result, source, caveat.
:func:`describe` reads it, and the calculator and ``docs/reference.md`` are made from that, so that nothing is written
twice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

GIB: Final = 2**30
"""Bytes of a GiB, the unit of every memory figure of cfglint and of ``nvidia-smi``'s MiB."""
MIB: Final = 2**20
"""Bytes of a MiB."""
GB: Final = 10**9
"""Bytes of a GB, the unit on an accelerator's box and of code that divides by ``1e9``."""

FP32_BYTES: Final = 4
HALF_BYTES: Final = 2
"""Bytes of a BF16 or FP16 element."""
MASTER_WEIGHT_BYTES: Final = 4
"""Bytes per parameter of the FP32 copy kept beside 16-bit weights (Micikevicius et al. 2018, section 3.1)."""
ADAM_STATE_BYTES: Final = 8
"""Bytes per parameter of Adam's first and second moment in FP32 (Kingma & Ba 2015, algorithm 1)."""
MFU_TARGET: Final = (0.40, 0.60)
"""The range a well-kept training run reaches (../shared/reference; PaLM, appendix B, reports 46.2 %)."""
CHECKPOINTING_EXTRA_TIME: Final = (0.20, 0.30)
"""Extra step time seen in practice with full checkpointing, a fraction (../shared/reference)."""
FORWARD_FLOPS_PER_PARAMETER: Final = 2
"""One multiply and one add per parameter and token (Kaplan et al. 2020, section 2.1)."""
FORWARD_SHARE_OF_STEP: Final = 1 / 3
"""Forward FLOPs over forward + backward FLOPs: the backward pass costs two forward passes (Kaplan et al. 2020, 2.1)."""


# Arguments ----------------------------------------------------------------------------------------------------------


def _finite(name: str, value: float) -> None:
    try:
        finite = math.isfinite(value)
    except OverflowError:
        raise ValueError(f"{name} is beyond a 64-bit float") from None
    if not finite:
        raise ValueError(f"{name} is {value}, not a finite number")


def _positive(**arguments: float) -> None:
    for name, value in arguments.items():
        _finite(name, value)
        if value <= 0:
            raise ValueError(f"{name} is {value}, must be above 0")


def _not_negative(**arguments: float) -> None:
    for name, value in arguments.items():
        _finite(name, value)
        if value < 0:
            raise ValueError(f"{name} is {value}, must be 0 or more")


# Memory -------------------------------------------------------------------------------------------------------------


def weight_bytes(parameters: int, bytes_per_parameter: float = HALF_BYTES) -> int:
    """Memory of the weights

    weight_bytes = parameters × bytes_per_parameter

    Args:
        parameters: parameters of the model, tied ones counted once [parameters]
        bytes_per_parameter: stored size: 4 for FP32, 2 for BF16 and FP16, 0.5625 for NF4 [bytes]

    Returns:
        memory of the weights [bytes]

    Source:
        by definition; sizes from the precision table

    Caveat:
        Quantized checkpoints keep embeddings, norms and often the head in 16 bits; `cfglint estimate` counts them apart.
    """
    _positive(parameters=parameters, bytes_per_parameter=bytes_per_parameter)
    return math.ceil(parameters * bytes_per_parameter)


def master_weight_bytes(parameters: int, weight_size: float = HALF_BYTES) -> int:
    """Memory of the FP32 master copy

    master_weight_bytes = parameters × (4 if weight_size < 4 else 0)

    Args:
        parameters: trained parameters [parameters]
        weight_size: stored size of a weight [bytes]

    Returns:
        memory of the master copy [bytes]

    Source:
        Micikevicius et al. 2018, Mixed Precision Training, section 3.1

    Caveat:
        Weights that are FP32 themselves need no second copy. A framework that trains 16-bit parameters in place keeps
        none either, and loses small updates.
    """
    _positive(parameters=parameters, weight_size=weight_size)
    return MASTER_WEIGHT_BYTES * parameters if weight_size < FP32_BYTES else 0


def optimizer_bytes(parameters: int, bytes_per_parameter: float = ADAM_STATE_BYTES) -> int:
    """Memory of the optimizer states

    optimizer_bytes = parameters × bytes_per_parameter

    Args:
        parameters: trained parameters [parameters]
        bytes_per_parameter: states per parameter: 8 for AdamW with m and v in FP32, 4 for SGD with momentum [bytes]

    Returns:
        memory of the optimizer states, without the master copy [bytes]

    Source:
        Kingma & Ba 2015, Adam, algorithm 1; Loshchilov & Hutter 2019, Decoupled Weight Decay, algorithm 2

    Caveat:
        Training in BF16 or FP16 adds 4 bytes per parameter for the FP32 master copy; pure FP32 training adds none.
    """
    _positive(parameters=parameters)
    _not_negative(bytes_per_parameter=bytes_per_parameter)
    return math.ceil(parameters * bytes_per_parameter)


def training_bytes(
    parameters: int,
    weight_size: float = HALF_BYTES,
    master_size: float = MASTER_WEIGHT_BYTES,
    gradient_size: float = HALF_BYTES,
    optimizer_size: float = ADAM_STATE_BYTES,
    activations: int = 0,
    overhead: int = 0,
) -> int:
    """Memory of full training in mixed precision

    training_bytes = parameters × (weight_size + master_size + gradient_size + optimizer_size) + activations + overhead

    Args:
        parameters: parameters of the model, all of them trained [parameters]
        weight_size: stored size of a weight, 2 for BF16 [bytes]
        master_size: FP32 master copy, 4 beside 16-bit weights, 0 in pure FP32 [bytes]
        gradient_size: stored size of a gradient [bytes]
        optimizer_size: optimizer states, 8 for AdamW in FP32 [bytes]
        activations: activations at their peak [bytes]
        overhead: CUDA context, libraries, communication buffers, fragmentation [bytes]

    Returns:
        memory on one device that holds everything [bytes]

    Source:
        Rajbhandari et al. 2020, ZeRO, section 3.1: 2 + 2 + 12 bytes per parameter in 16-bit Adam training

    Caveat:
        16 bytes per parameter before activations in BF16, and 16 in pure FP32 too (4 + 0 + 4 + 8). Sharding divides it:
        see the ZeRO formula.
    """
    _positive(parameters=parameters, weight_size=weight_size)
    _not_negative(
        master_size=master_size,
        gradient_size=gradient_size,
        optimizer_size=optimizer_size,
        activations=activations,
        overhead=overhead,
    )
    return math.ceil(parameters * (weight_size + master_size + gradient_size + optimizer_size)) + activations + overhead


def lora_adapter_parameters(rank: int, in_features: int, out_features: int) -> int:
    """Parameters of one LoRA adapter

    lora_adapter_parameters = rank × (in_features + out_features)

    Args:
        rank: LoRA rank r [1]
        in_features: columns of the adapted matrix [elements]
        out_features: rows of the adapted matrix [elements]

    Returns:
        elements of A (r × in) and B (out × r) [parameters]

    Source:
        Hu et al. 2021, LoRA, section 4.1

    Caveat:
        DoRA adds a magnitude vector of out_features; `modules_to_save` trains whole modules on top.
    """
    _positive(rank=rank, in_features=in_features, out_features=out_features)
    return rank * (in_features + out_features)


def lora_parameters(rank: int, matrices: Iterable[tuple[int, int]]) -> int:
    """Parameters of all adapters: the sum of :func:`lora_adapter_parameters` over ``(in_features, out_features)``.

    Units: parameters. Source: Hu et al. 2021, LoRA, section 4.1.
    """
    return sum(lora_adapter_parameters(rank, width, height) for width, height in matrices)


def lora_training_bytes(
    parameters: int,
    adapter_parameters: int,
    weight_size: float = HALF_BYTES,
    adapter_size: float = FP32_BYTES,
    master_size: float = 0,
    gradient_size: float = FP32_BYTES,
    optimizer_size: float = ADAM_STATE_BYTES,
    activations: int = 0,
    overhead: int = 0,
) -> int:
    """Memory of LoRA training

    lora_training_bytes = parameters × weight_size + adapter_parameters × (adapter_size + master_size + gradient_size + optimizer_size) + activations + overhead

    Args:
        parameters: frozen base parameters [parameters]
        adapter_parameters: trained adapter parameters [parameters]
        weight_size: stored size of a base weight: 2 for BF16, 0.5625 for NF4 [bytes]
        adapter_size: stored size of an adapter weight, 4 where PEFT upcasts it to FP32 [bytes]
        master_size: FP32 copy of the adapters, 4 where they are 16-bit with a master copy [bytes]
        gradient_size: gradient of an adapter weight [bytes]
        optimizer_size: optimizer states of an adapter weight, 8 for AdamW in FP32 [bytes]
        activations: activations at their peak [bytes]
        overhead: CUDA context, libraries, communication buffers, fragmentation [bytes]

    Returns:
        memory on one device that holds everything [bytes]

    Source:
        Hu et al. 2021, LoRA, section 4.2: no gradients or optimizer states for the frozen parameters

    Caveat:
        Adapters are often about 1 % of the parameters, but activations are not smaller: the backward pass still goes
        through every layer.
    """
    _positive(parameters=parameters, adapter_parameters=adapter_parameters, weight_size=weight_size)
    _positive(adapter_size=adapter_size)
    _not_negative(
        master_size=master_size,
        gradient_size=gradient_size,
        optimizer_size=optimizer_size,
        activations=activations,
        overhead=overhead,
    )
    adapter = math.ceil(adapter_parameters * (adapter_size + master_size + gradient_size + optimizer_size))
    return math.ceil(parameters * weight_size) + adapter + activations + overhead


def zero_bytes(
    parameters: int,
    stage: int,
    data_parallel_size: int,
    weight_size: float = HALF_BYTES,
    master_size: float = MASTER_WEIGHT_BYTES,
    gradient_size: float = HALF_BYTES,
    optimizer_size: float = ADAM_STATE_BYTES,
) -> int:
    """Model states per rank under ZeRO

    zero_bytes = parameters × (weight_size ÷ (data_parallel_size if stage ≥ 3 else 1) + gradient_size ÷ (data_parallel_size if stage ≥ 2 else 1) + (master_size + optimizer_size) ÷ (data_parallel_size if stage ≥ 1 else 1))

    Args:
        parameters: trained parameters [parameters]
        stage: ZeRO stage, 0 to 3; FSDP `full_shard` is 3, `shard_grad_op` about 2 [1]
        data_parallel_size: ranks the states are sharded over [ranks]
        weight_size: stored size of a weight [bytes]
        master_size: FP32 master copy, 0 in pure FP32 [bytes]
        gradient_size: stored size of a gradient [bytes]
        optimizer_size: optimizer states, 8 for AdamW in FP32 [bytes]

    Returns:
        weights, gradients, master copy and optimizer states on one rank; a shard is rounded up to whole parameters [bytes]

    Source:
        Rajbhandari et al. 2020, ZeRO, section 5 and figure 1

    Caveat:
        Communication buckets, and at stage 3 the layers gathered at the moment, come on top.
    """
    _positive(parameters=parameters, data_parallel_size=data_parallel_size, weight_size=weight_size)
    _not_negative(master_size=master_size, gradient_size=gradient_size, optimizer_size=optimizer_size)
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"stage is {stage}, must be 0, 1, 2 or 3")
    shard = -(-parameters // data_parallel_size)
    weights = (shard if stage >= 3 else parameters) * weight_size
    gradients = (shard if stage >= 2 else parameters) * gradient_size
    states = (shard if stage >= 1 else parameters) * (master_size + optimizer_size)
    return math.ceil(weights + gradients + states)


def activation_bytes(
    batch: int, sequence_length: int, hidden_size: int, layers: int, bytes_per_element: float = HALF_BYTES
) -> int:
    """Memory of the activations, rough lower bound

    activation_bytes = batch × sequence_length × hidden_size × layers × bytes_per_element

    Args:
        batch: micro-batch, sequences on one device [sequences]
        sequence_length: tokens of a sequence [tokens]
        hidden_size: width of the residual stream [elements]
        layers: transformer blocks [layers]
        bytes_per_element: 2 in BF16 or FP16 [bytes]

    Returns:
        one hidden state per layer [bytes]

    Source:
        ../shared/reference; it is what checkpointing of every block keeps (Chen et al. 2016, section 4)

    Caveat:
        A proxy for scale. Without checkpointing each block keeps many such tensors (34 bytes × batch × sequence × hidden
        in 16 bits, attention matrices aside: Korthikanti et al. 2022, equation 1); FlashAttention, packing and the
        logits change it. For a real figure use `cfglint estimate`.
    """
    _positive(batch=batch, sequence_length=sequence_length, hidden_size=hidden_size, layers=layers)
    _positive(bytes_per_element=bytes_per_element)
    return math.ceil(batch * sequence_length * hidden_size * layers * bytes_per_element)


def checkpointing_extra_flops(recomputed: float = 1.0) -> float:
    """Extra compute of activation checkpointing

    checkpointing_extra_flops = recomputed ÷ 3

    Args:
        recomputed: share of the layers whose forward pass is run again, 1 for full checkpointing [fraction]

    Returns:
        extra FLOPs over those of a step without checkpointing [fraction]

    Source:
        Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost, section 4: one extra forward pass; a step is
        three forward passes' worth of FLOPs (Kaplan et al. 2020, section 2.1)

    Caveat:
        In FLOPs it is a third; in time 20–30 % is usual (../shared/reference), as not everything in a step is
        recomputed. Selective recomputation costs a few per cent (Korthikanti et al. 2022, section 5).
    """
    _not_negative(recomputed=recomputed)
    if recomputed > 1:
        raise ValueError(f"recomputed is {recomputed}, a fraction of at most 1")
    return recomputed * FORWARD_SHARE_OF_STEP


def kv_cache_bytes(
    sequence_length: int,
    layers: int,
    kv_heads: int,
    head_dim: int,
    bytes_per_element: float = HALF_BYTES,
    batch: int = 1,
) -> int:
    """Memory of the KV cache

    kv_cache_bytes = 2 × sequence_length × layers × kv_heads × head_dim × bytes_per_element × batch

    Args:
        sequence_length: tokens held per request [tokens]
        layers: layers with full attention [layers]
        kv_heads: key-value heads (GQA has fewer than query heads) [heads]
        head_dim: width of a head [elements]
        bytes_per_element: 2 for a BF16 or FP16 cache, 1 for FP8 [bytes]
        batch: requests held at once [sequences]

    Returns:
        keys and values of every request [bytes]

    Source:
        Pope et al. 2022, Efficiently Scaling Transformer Inference; GQA: Ainslie et al. 2023

    Caveat:
        Grows linearly with context. Layers with a sliding window hold at most the window, recurrent layers hold none;
        engines allocate whole blocks.
    """
    _positive(sequence_length=sequence_length, layers=layers, kv_heads=kv_heads, head_dim=head_dim, batch=batch)
    _positive(bytes_per_element=bytes_per_element)
    return math.ceil(2 * sequence_length * layers * kv_heads * head_dim * bytes_per_element * batch)


def mla_kv_cache_bytes(
    sequence_length: int,
    layers: int,
    kv_lora_rank: int,
    qk_rope_head_dim: int,
    bytes_per_element: float = HALF_BYTES,
    batch: int = 1,
) -> int:
    """Memory of the KV cache with multi-head latent attention

    mla_kv_cache_bytes = sequence_length × layers × (kv_lora_rank + qk_rope_head_dim) × bytes_per_element × batch

    Args:
        sequence_length: tokens held per request [tokens]
        layers: layers with latent attention [layers]
        kv_lora_rank: width of the compressed key-value vector [elements]
        qk_rope_head_dim: width of the shared rotary key [elements]
        bytes_per_element: 2 for a BF16 or FP16 cache [bytes]
        batch: requests held at once [sequences]

    Returns:
        latent vectors and rotary keys of every request [bytes]

    Source:
        DeepSeek-AI 2024, DeepSeek-V2, section 2.1 and table 1: (d_c + d_h^R) × l elements per token

    Caveat:
        Every tensor-parallel rank holds all of it, as there are no heads to split. An engine that expands the latent
        to full keys and values needs as much as multi-head attention.
    """
    _positive(sequence_length=sequence_length, layers=layers, kv_lora_rank=kv_lora_rank, batch=batch)
    _not_negative(qk_rope_head_dim=qk_rope_head_dim)
    _positive(bytes_per_element=bytes_per_element)
    return math.ceil(sequence_length * layers * (kv_lora_rank + qk_rope_head_dim) * bytes_per_element * batch)


# Batch and schedule -------------------------------------------------------------------------------------------------


def data_parallel_size(
    world_size: int,
    tensor_parallel_size: int = 1,
    pipeline_parallel_size: int = 1,
    context_parallel_size: int = 1,
) -> int:
    """Data-parallel ranks

    data_parallel_size = world_size ÷ (tensor_parallel_size × pipeline_parallel_size × context_parallel_size)

    Args:
        world_size: processes, one per device [ranks]
        tensor_parallel_size: devices that share each matrix [ranks]
        pipeline_parallel_size: pipeline stages [ranks]
        context_parallel_size: devices that share each sequence [ranks]

    Returns:
        ranks that see different sequences [ranks]

    Source:
        Narayanan et al. 2021, Efficient Large-Scale Language Model Training, section 3; Megatron-LM adds context
        parallelism as a further divisor

    Caveat:
        Must divide without remainder. Expert parallelism reuses data-parallel ranks in Megatron-LM and does not divide
        again.
    """
    _positive(
        world_size=world_size,
        tensor_parallel_size=tensor_parallel_size,
        pipeline_parallel_size=pipeline_parallel_size,
        context_parallel_size=context_parallel_size,
    )
    model_parallel = tensor_parallel_size * pipeline_parallel_size * context_parallel_size
    if world_size % model_parallel:
        raise ValueError(
            f"world_size {world_size} is not a multiple of {model_parallel} = tensor_parallel_size {tensor_parallel_size}"
            f" × pipeline_parallel_size {pipeline_parallel_size} × context_parallel_size {context_parallel_size}"
        )
    return world_size // model_parallel


def effective_batch_sequences(
    micro_batch_size: int, gradient_accumulation_steps: int = 1, data_parallel_size: int = 1
) -> int:
    """Effective batch in sequences

    effective_batch_sequences = micro_batch_size × gradient_accumulation_steps × data_parallel_size

    Args:
        micro_batch_size: sequences per device and forward pass [sequences]
        gradient_accumulation_steps: micro-batches per optimizer step [1]
        data_parallel_size: data-parallel ranks; the number of GPUs where nothing else is parallel [ranks]

    Returns:
        sequences per optimizer step [sequences]

    Source:
        Goyal et al. 2017, Accurate, Large Minibatch SGD, section 2; DeepSpeed's train_batch_size identity

    Caveat:
        Ranks of tensor, pipeline and context parallelism work on the same sequences and do not count.
    """
    _positive(
        micro_batch_size=micro_batch_size,
        gradient_accumulation_steps=gradient_accumulation_steps,
        data_parallel_size=data_parallel_size,
    )
    return micro_batch_size * gradient_accumulation_steps * data_parallel_size


def effective_batch_tokens(
    micro_batch_size: int,
    sequence_length: int,
    gradient_accumulation_steps: int = 1,
    data_parallel_size: int = 1,
) -> int:
    """Effective batch in tokens

    effective_batch_tokens = micro_batch_size × gradient_accumulation_steps × data_parallel_size × sequence_length

    Args:
        micro_batch_size: sequences per device and forward pass [sequences]
        sequence_length: tokens of a sequence [tokens]
        gradient_accumulation_steps: micro-batches per optimizer step [1]
        data_parallel_size: data-parallel ranks; the number of GPUs where nothing else is parallel [ranks]

    Returns:
        tokens per optimizer step [tokens]

    Source:
        the effective batch in sequences, each of sequence_length tokens

    Caveat:
        An upper bound where sequences are padded; packing comes close to it. Gradient accumulation trades step time for
        memory and leaves the gradient the same.
    """
    _positive(sequence_length=sequence_length)
    return (
        effective_batch_sequences(micro_batch_size, gradient_accumulation_steps, data_parallel_size) * sequence_length
    )


def steps_per_epoch(dataset_tokens: int, batch_tokens: int, drop_last: bool = False) -> int:
    """Optimizer steps per epoch

    steps_per_epoch = (floor if drop_last else ceil)(dataset_tokens ÷ batch_tokens)

    Args:
        dataset_tokens: tokens of one pass over the data [tokens]
        batch_tokens: effective batch in tokens [tokens]
        drop_last: drop the last batch where it is not full [bool]

    Returns:
        steps, rounded up; rounded down with drop_last [steps]

    Source:
        by definition; drop_last as torch.utils.data.DataLoader means it

    Caveat:
        Trainers count sequences, not tokens: with padding an epoch has more steps than this.
    """
    _positive(dataset_tokens=dataset_tokens, batch_tokens=batch_tokens)
    return dataset_tokens // batch_tokens if drop_last else -(-dataset_tokens // batch_tokens)


def pipeline_bubble_fraction(pipeline_parallel_size: int, micro_batches: int) -> float:
    """Pipeline bubble

    pipeline_bubble_fraction = (pipeline_parallel_size - 1) ÷ (micro_batches + pipeline_parallel_size - 1)

    Args:
        pipeline_parallel_size: pipeline stages p [stages]
        micro_batches: micro-batches per step and pipeline m, the gradient accumulation steps [micro-batches]

    Returns:
        share of the step in which a stage waits [fraction]

    Source:
        Huang et al. 2019, GPipe, section 2; Narayanan et al. 2021, section 2.2, gives it over the ideal time:
        (p - 1) ÷ m

    Caveat:
        The same for GPipe and 1F1B schedules; interleaving v chunks per device divides the waiting time by v.
    """
    _positive(pipeline_parallel_size=pipeline_parallel_size, micro_batches=micro_batches)
    return (pipeline_parallel_size - 1) / (micro_batches + pipeline_parallel_size - 1)


# Compute ------------------------------------------------------------------------------------------------------------


def attention_forward_flops_per_token(
    layers: int, attention_width: int, sequence_length: int, causal: bool = False
) -> int:
    """FLOPs of the attention scores, forward, per token

    attention_forward_flops_per_token = (2 if causal else 4) × layers × attention_width × sequence_length

    Args:
        layers: layers with attention [layers]
        attention_width: query heads × head_dim, often the hidden size [elements]
        sequence_length: tokens attended to [tokens]
        causal: count only what a causal mask leaves, half of it [bool]

    Returns:
        FLOPs of the scores QK^T and of the weighted sum of V [FLOPs/token]

    Source:
        Chowdhery et al. 2022, PaLM, appendix B: 12LHQT for forward and backward, a third of it forward

    Caveat:
        PaLM counts the whole square; FlashAttention skips the masked half. Say which when comparing MFU.
    """
    _positive(layers=layers, attention_width=attention_width, sequence_length=sequence_length)
    return (2 if causal else 4) * layers * attention_width * sequence_length


def forward_flops_per_token(parameters: int, attention_flops: int = 0) -> int:
    """FLOPs of a forward pass per token

    forward_flops_per_token = 2 × parameters + attention_flops

    Args:
        parameters: parameters used per token; the active ones of a mixture of experts [parameters]
        attention_flops: forward FLOPs of the attention scores [FLOPs/token]

    Returns:
        FLOPs per token [FLOPs/token]

    Source:
        Kaplan et al. 2020, Scaling Laws, section 2.1

    Caveat:
        An embedding look-up costs nothing: leave an untied input embedding out of the parameters for an exact count.
    """
    _positive(parameters=parameters)
    _not_negative(attention_flops=attention_flops)
    return FORWARD_FLOPS_PER_PARAMETER * parameters + attention_flops


def training_flops_per_token(parameters: int, attention_flops: int = 0, trained_parameters: int | None = None) -> int:
    """Model FLOPs of training per token

    training_flops_per_token = 4 × parameters + 2 × trained_parameters + 3 × attention_flops

    Args:
        parameters: parameters used per token; the active ones of a mixture of experts [parameters]
        attention_flops: forward FLOPs of the attention scores [FLOPs/token]
        trained_parameters: those that get gradients; all of them unless said otherwise [parameters]

    Returns:
        FLOPs per token, 6N with everything trained [FLOPs/token]

    Source:
        Kaplan et al. 2020, section 2.1 (6N); Chowdhery et al. 2022, PaLM, appendix B (6N + 12LHQT). Frozen weights
        save only the FLOPs of their own gradients

    Caveat:
        Model FLOPs: what the mathematics needs, recomputation left out. MFU is counted with these.
    """
    _positive(parameters=parameters)
    _not_negative(attention_flops=attention_flops)
    trained = parameters if trained_parameters is None else trained_parameters
    _not_negative(trained_parameters=trained)
    return 2 * FORWARD_FLOPS_PER_PARAMETER * parameters + FORWARD_FLOPS_PER_PARAMETER * trained + 3 * attention_flops


def hardware_flops_per_token(parameters: int, attention_flops: int = 0, trained_parameters: int | None = None) -> int:
    """Hardware FLOPs of training with full checkpointing, per token

    hardware_flops_per_token = 6 × parameters + 2 × trained_parameters + 4 × attention_flops

    Args:
        parameters: parameters used per token; the active ones of a mixture of experts [parameters]
        attention_flops: forward FLOPs of the attention scores [FLOPs/token]
        trained_parameters: those that get gradients; all of them unless said otherwise [parameters]

    Returns:
        FLOPs per token with one more forward pass, 8N with everything trained [FLOPs/token]

    Source:
        Narayanan et al. 2021, section 5.1, and Korthikanti et al. 2022, appendix A

    Caveat:
        Utilization counted with these is HFU: above MFU by a third, by up to a half where most weights are frozen, with no
        more progress made.
    """
    return training_flops_per_token(parameters, attention_flops, trained_parameters) + forward_flops_per_token(
        parameters, attention_flops
    )


def achieved_flops_per_second(tokens_per_second: float, flops_per_token: float) -> float:
    """FLOPS reached

    achieved_flops_per_second = tokens_per_second × flops_per_token

    Args:
        tokens_per_second: measured throughput of the whole job [tokens/s]
        flops_per_token: model FLOPs for MFU, hardware FLOPs for HFU [FLOPs/token]

    Returns:
        FLOPS of the whole job [FLOPs/s]

    Source:
        Chowdhery et al. 2022, PaLM, appendix B

    Caveat:
        Count the tokens that are trained on, not the padding.
    """
    _positive(tokens_per_second=tokens_per_second, flops_per_token=flops_per_token)
    return tokens_per_second * flops_per_token


def model_flops_utilization(actual_flops_per_second: float, peak_flops_per_second: float) -> float:
    """Model FLOPs utilization (MFU)

    model_flops_utilization = actual_flops_per_second ÷ peak_flops_per_second

    Args:
        actual_flops_per_second: FLOPS reached, from model FLOPs [FLOPs/s]
        peak_flops_per_second: dense peak of all devices in the type computed in [FLOPs/s]

    Returns:
        utilization, 0.40 to 0.60 is a good training run [fraction]

    Source:
        Chowdhery et al. 2022, PaLM, section 4.1 and appendix B; target from ../shared/reference

    Caveat:
        Take the dense peak: figures with 2:4 sparsity are twice as high. Above 1 an input is wrong.
    """
    _not_negative(actual_flops_per_second=actual_flops_per_second)
    _positive(peak_flops_per_second=peak_flops_per_second)
    return actual_flops_per_second / peak_flops_per_second


def step_seconds(flops_per_step: float, peak_flops_per_second: float, mfu: float) -> float:
    """Time of a step at a given MFU

    step_seconds = flops_per_step ÷ (peak_flops_per_second × mfu)

    Args:
        flops_per_step: model FLOPs of the effective batch [FLOPs]
        peak_flops_per_second: dense peak of all devices in the type computed in [FLOPs/s]
        mfu: model FLOPs utilization, above 0 and at most 1 [fraction]

    Returns:
        time of an optimizer step [s]

    Source:
        the MFU formula, solved for time

    Caveat:
        The MFU is yours to know: small models, long pipelines and slow links stay below 40 %.
    """
    _positive(flops_per_step=flops_per_step, peak_flops_per_second=peak_flops_per_second, mfu=mfu)
    if mfu > 1:
        raise ValueError(f"mfu is {mfu}, a fraction of at most 1 (0.4 is 40 %)")
    return flops_per_step / (peak_flops_per_second * mfu)


# Evaluation ---------------------------------------------------------------------------------------------------------


def perplexity(loss: float) -> float:
    """Perplexity

    perplexity = exp(loss)

    Args:
        loss: mean cross-entropy per token [nats/token]

    Returns:
        perplexity; 20 is the surprise of a uniform guess among 20 tokens [1]

    Source:
        Jelinek et al. 1977, Perplexity: a measure of the difficulty of speech recognition tasks

    Caveat:
        Lower is better. Comparable only on the same test set and with the same tokenizer; across tokenizers compare
        bits per byte.
    """
    _not_negative(loss=loss)
    try:
        return math.exp(loss)
    except OverflowError:
        raise ValueError(f"loss is {loss}, its perplexity is beyond a 64-bit float") from None


def loss_from_perplexity(perplexity: float) -> float:
    """Loss from perplexity

    loss_from_perplexity = ln(perplexity)

    Args:
        perplexity: at least 1 [1]

    Returns:
        mean cross-entropy per token [nats/token]

    Source:
        the perplexity formula, solved for the loss

    Caveat:
        Natural logarithm, as torch.nn.functional.cross_entropy reports it.
    """
    _finite("perplexity", perplexity)
    if perplexity < 1:
        raise ValueError(f"perplexity is {perplexity}, must be 1 or more")
    return math.log(perplexity)


def bits_per_byte(loss: float, tokens: int, text_bytes: int) -> float:
    """Bits per byte

    bits_per_byte = loss ÷ ln(2) × tokens ÷ text_bytes

    Args:
        loss: mean cross-entropy per token [nats/token]
        tokens: tokens the test set has with this tokenizer [tokens]
        text_bytes: UTF-8 bytes of the test set [bytes]

    Returns:
        information per byte of text [bits/byte]

    Source:
        Gao et al. 2020, The Pile, section 3.1

    Caveat:
        Comparable across tokenizers, still only on the same test set.
    """
    _not_negative(loss=loss)
    _positive(tokens=tokens, text_bytes=text_bytes)
    return loss / math.log(2) * tokens / text_bytes


# The registry -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """An argument of a formula. ``default`` is None where it must be given."""

    name: str
    meaning: str
    unit: str
    default: float | None = None


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula as data. ``expression`` names its variables as the function's arguments do."""

    name: str
    title: str
    expression: str
    variables: tuple[Variable, ...]
    result: str
    unit: str
    source: str
    caveat: str
    function: Callable[..., float]

    def working(self, **values: object) -> str:
        """The right-hand side with numbers put in for the names and conditions decided."""

        def number(name: re.Match[str]) -> str:
            return format_number(values[name[0]]) if name[0] in values else name[0]

        right = self.expression.partition(" = ")[2]
        return _CONDITION.sub(_decide, re.sub(r"[a-z]\w*", number, right))


_CONDITION: Final = re.compile(r"\(([^\s()]+) if ([^\s()]+)(?: ([<≥]) ([^\s()]+))? else ([^\s()]+)\)")


def _decide(condition: re.Match[str]) -> str:
    """``(2 if 3 ≥ 1 else 4)`` as ``2``."""
    then, left, operator, right, otherwise = condition.groups()
    if operator is None:
        holds = left == "True"
    else:
        first, second = (float(text.replace(",", "")) for text in (left, right))
        holds = first < second if operator == "<" else first >= second
    return then if holds else otherwise


FORMULAS: Final[tuple[Callable[..., float], ...]] = (
    weight_bytes,
    training_bytes,
    optimizer_bytes,
    master_weight_bytes,
    lora_adapter_parameters,
    lora_training_bytes,
    zero_bytes,
    activation_bytes,
    checkpointing_extra_flops,
    kv_cache_bytes,
    mla_kv_cache_bytes,
    data_parallel_size,
    effective_batch_sequences,
    effective_batch_tokens,
    steps_per_epoch,
    pipeline_bubble_fraction,
    forward_flops_per_token,
    attention_forward_flops_per_token,
    training_flops_per_token,
    hardware_flops_per_token,
    achieved_flops_per_second,
    model_flops_utilization,
    step_seconds,
    perplexity,
    loss_from_perplexity,
    bits_per_byte,
)
"""Every formula with a record, in the order of the reference page."""


def format_number(value: object) -> str:
    """``8030261248`` as ``8,030,261,248``, ``0.5625`` as it is, large floats as ``9.89e+14``."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
    return str(value)


@cache
def describe(function: Callable[..., float]) -> Formula:
    """The record in a formula's docstring; texts are empty where Python runs with ``-OO`` and has none."""
    sections = _sections(function.__doc__ or "")
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults = dict(zip(reversed(names), reversed(function.__defaults__ or ()), strict=False))
    stated = {name: (meaning, unit) for name, meaning, unit in _variables(sections.get("Args", ""))}
    variables = tuple(Variable(name, *stated.get(name, ("", "")), defaults.get(name)) for name in names)
    result, unit = _unit(_joined(sections.get("Returns", "")))
    return Formula(
        name=function.__name__,
        title=sections["title"],
        expression=sections["expression"],
        variables=variables,
        result=result,
        unit=unit,
        source=_joined(sections.get("Source", "")),
        caveat=_joined(sections.get("Caveat", "")),
        function=function,
    )


def all_formulas() -> tuple[Formula, ...]:
    """The records of :data:`FORMULAS`."""
    return tuple(describe(function) for function in FORMULAS)


def _sections(docstring: str) -> dict[str, str]:
    title, _, rest = docstring.strip().partition("\n\n")
    expression, _, rest = rest.strip().partition("\n\n")
    found = {"title": title, "expression": _joined(expression)}
    for block in re.split(r"\n\s*\n", rest):
        head, _, body = block.strip().partition(":\n")
        found[head] = body
    return found


def _variables(body: str) -> Iterable[tuple[str, str, str]]:
    for line in body.splitlines():
        name, _, text = line.strip().partition(": ")
        yield (name, *_unit(text))


def _unit(text: str) -> tuple[str, str]:
    found = re.fullmatch(r"(.*) \[([^\]]+)\]", text)
    return (found[1], found[2]) if found else (text, "")


def _joined(text: str) -> str:
    return " ".join(text.split())
