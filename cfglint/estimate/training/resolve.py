"""From a job's facts to a resolved plan: every value that memory depends on, with its origin or the assumption made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cfglint.estimate.batch import derived_accumulation
from cfglint.estimate.training.losses import (
    evaluation_loss_kernel_of,
    flattens_samples,
    loss_kernel_of,
    loss_room_of,
    scoring_facts,
)
from cfglint.estimate.training.methods import (
    Method,
    adapter_dtype_of,
    adapter_of,
    compute_dtype_of,
    lora_kernels_of,
    method_of,
    outer_is_cast_back,
    packed_inputs_kept,
    stored_dtype_of,
    upcasts_unquantized,
    weight_dtype_of,
)
from cfglint.estimate.training.plan import RELEASE, RL_METHODS, Plan
from cfglint.estimate.training.profiles import Profile, for_model, profile_of, with_kernels
from cfglint.estimate.training.ranks import check_division, ranks_of
from cfglint.estimate.training.reader import Reader
from cfglint.estimate.training.releases import (
    in_release,
    library_release,
    release_of,
    stated_release_of,
    transformers_release_of,
)
from cfglint.jobs.defaults import in_force
from cfglint.jobs.job import TrainingJob, likely_architecture


def resolve(job: TrainingJob) -> Plan:
    """The plan of a job. What cannot be known is in ``missing``; impossible values are in ``problems``."""
    read = Reader(job)
    framework = read.text("framework")
    if framework is not None and framework.lower() == "nemo" and read.count("fsdp_version", None) == 2:
        framework = (
            "nemo-automodel"  # Megatron Core shards by its optimizer; NeMo runs FSDP2 on transformers' models alone
        )
    profile, known = profile_of(framework)
    if framework is not None and not known:
        read.assumptions.append(f"framework {framework} is not known: computed as a plain Hugging Face loop")
    if not known:
        read.loose.add("framework")
    default = f"{profile.name} default" if known else "common default"
    architecture = likely_architecture(job)
    if architecture is None:
        read.missing.append("model")
    else:
        profile = for_model(profile, architecture.model_type)
    profile = with_kernels(profile, read.get("block_kernels"))
    method = method_of(read, profile)
    adapter = adapter_of(read, profile, method, default)
    compute = compute_dtype_of(read, profile, method, default)
    weight = weight_dtype_of(read, profile, method, compute, default)
    ranks = ranks_of(read, profile)
    checkpointing = _checkpointing(read, profile, default)
    lora_kernels = lora_kernels_of(read, profile, method, adapter, ranks, architecture)
    tokens = _tokens_per_micro_batch(read)
    micro_batch = 1 if tokens else _needed(read, "micro_batch_size", profile.micro_batch_size, default)
    check_division(read, architecture, ranks, profile.name == "megatron")
    accumulation = _accumulation(read, micro_batch, ranks.data)
    sequence = tokens or _needed(read, "sequence_length", profile.sequence_length, default)
    evaluation = _evaluation(read, profile, method, micro_batch, sequence, default)
    loss_kernel = loss_kernel_of(read, profile, method, default)
    upcasts = upcasts_unquantized(read, method.quantization, profile, ranks.sharding)
    mixes_units = method.adapter and ranks.sharding == "fsdp1" and _mixes_units(read, profile)
    megatron = profile.name == "megatron"
    return Plan(
        architecture=architecture,
        profile=profile,
        objective=method.objective,
        pretrains=method.pretrains,
        adapter=method.adapter,
        dora=method.dora,
        lora_rank=adapter.rank,
        lora_dropout=adapter.dropout,
        lora_slots=adapter.slots,
        lora_all_linear=adapter.all_linear,
        lora_names=adapter.names,
        modules_to_save=adapter.modules_to_save,
        lora_kernels=frozenset() if lora_kernels is None else lora_kernels,
        may_use_lora_kernels=lora_kernels is None,
        quantization=method.quantization,
        upcast_unquantized=upcasts,
        upcast_outer=upcasts and not outer_is_cast_back(read, method.quantization, profile, compute),
        adapter_dtype=adapter_dtype_of(read, profile, method.quantization, weight),
        upcasts_trainable=profile.fsdp_upcasts_trainable
        and in_force(">=0.30", library_release(read, profile, "accelerate")),
        norm_kernel=_norm_kernel(read, profile),
        checkpoint_every=read.count("checkpoint_every", None) if checkpointing == "selective" else None,
        wraps_ends=read.flag("fsdp_wraps_ends", in_release(read, profile, profile.wraps_ends)),
        carries=not profile.drops_outputs,
        tiled_mlp=read.flag("tiled_mlp", False),
        mlp_pieces=read.count("mlp_pieces", None),
        upcasts_logits=read.flag("upcast_logits", profile.upcast_logits),
        weighs_activation=in_release(read, profile, profile.weighs_activation),
        expands_kv=in_release(read, profile, profile.expands_kv),
        caps_chunks=_caps_chunks(read, profile),
        keeps_packed_inputs=packed_inputs_kept(read, method.quantization, profile),
        weight_dtype=weight,
        compute_dtype=compute,
        master_weights=read.flag(
            "master_weights",
            # deepspeed/runtime/engine.py, _configure_fp16_optimizer: without ZeRO its engine has masters too
            megatron or ranks.sharding.startswith("zero") or (profile.name == "deepspeed" and compute is not None),
        ),
        optimizer=read.text("optimizer", profile.optimizer, default, loose=True) or profile.optimizer,
        foreach=read.get("optimizer_foreach"),
        gradient_dtype=stored_dtype_of(read, "gradient_dtype"),
        state_dtype=stored_dtype_of(read, "optimizer_state_dtype"),
        precision_aware=read.get("precision_aware_optimizer"),
        in_backward=read.flag("optimizer_in_backward", False),
        micro_batch=micro_batch,
        accumulation=accumulation,
        sequence=sequence,
        packing=read.flag("packing", bool(tokens)),
        flattens=read.flag("padding_free", flattens_samples(read, profile, method)),
        checkpointing=checkpointing,
        recompute_modules=_recompute_modules(read, checkpointing) if megatron else frozenset(),
        recompute_layers=read.count("recompute_layers", None) if megatron and checkpointing == "full" else None,
        attention=read.text("attention", profile.attention, default, loose=True) or "sdpa",
        composes_attention=_composes_attention(read, weight, compute),
        loss_kernel=loss_kernel,
        compile=read.flag("compile", False),
        fp8=read.flag("fp8_linear", False),
        offloads_activations=read.flag(
            "activation_offloading", profile.offloads_checkpoints and checkpointing == "full"
        ),
        sharding=ranks.sharding,
        shards_gradients=ranks.shards_gradients,
        reshard=ranks.reshard,
        shard_degree=ranks.shard_degree,
        world=ranks.world,
        data_parallel=ranks.data,
        tensor_parallel=ranks.tensor,
        pipeline_parallel=ranks.pipeline,
        context_parallel=ranks.context,
        expert_parallel=ranks.expert,
        expert_tensor_parallel=ranks.expert_tensor,
        sequence_parallel=read.flag("sequence_parallel", profile.sequence_parallel and ranks.tensor > 1),
        offload_optimizer=read.text("offload_optimizer") or "none",
        offload_parameters=read.text("offload_parameters") or "none",
        mixes_units=mixes_units,
        whole_gradients=""
        if method.adapter and not mixes_units
        else _whole_gradients(read, profile, ranks.sharding, accumulation),
        evaluates=evaluation.batch is not None,
        evaluation_batch=evaluation.batch,
        evaluation_sequence=evaluation.sequence,
        evaluation_loss_kernel=evaluation_loss_kernel_of(read, profile, loss_kernel),
        keeps_cache=evaluation.keeps_cache,
        state_dict=_state_dict(read, profile, ranks.sharding),
        saves_optimizer=read.flag("saves_optimizer", True),
        **scoring_facts(read, profile, method, loss_kernel),
        **loss_room_of(read, profile, loss_kernel),
        transformers_version=transformers_release_of(read, profile),
        trains_vision=read.flag("trains_vision", not profile.freezes_vision) and not method.adapter,
        quantizes_experts=read.flag("quantize_experts", False),
        inputs=read.inputs,
        assumptions=read.assumptions,
        missing=read.missing,
        problems=read.problems,
        loose=read.loose,
    )


def _needed(read: Reader, name: str, usual: int | None, default: str) -> int | None:
    """A count without which there are no activations; missing where neither stated nor a framework's default."""
    value = read.count(name, usual, default, loose=True)
    if value is None and name not in read.missing:
        read.missing.append(name)
    return value


def _tokens_per_micro_batch(read: Reader) -> int | None:
    """Tokens of a micro-batch that is filled up to a number of them, in one row without padding (verl's dynamic batches)."""
    if read.job.value("micro_batch_size") is not None:
        return None
    for reading in read.job.readings:
        tokens = reading.context.get("tokens_per_micro_batch")
        if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0:
            read.note("micro_batch_size", f"{tokens} tokens", f"{reading.document.path}")
            read.assumptions.append(f"micro-batches are filled up to {tokens} tokens: counted as one row of them")
            return tokens
    return None


def _accumulation(read: Reader, micro_batch: int | None, data: int) -> int:
    """Micro-steps of an optimizer step: stated, or what a stated global batch comes to."""
    derived = derived_accumulation(read.job, micro_batch, data)
    if derived is None:
        return read.count("gradient_accumulation_steps", 1) or 1
    total = read.job.value("global_batch_size")
    read.note(
        "gradient_accumulation_steps", derived, f"global batch {total} / (micro-batch {micro_batch} × {data} ranks)"
    )
    return derived


@dataclass(frozen=True, slots=True)
class _Evaluation:
    batch: int | None = None
    sequence: int | None = None
    keeps_cache: bool = False


def _evaluation(
    read: Reader, profile: Profile, method: Method, micro_batch: int | None, sequence: int | None, default: str
) -> _Evaluation:
    """What one batch of evaluation is, where the run evaluates. RL evaluates by generating: that is the rollout's memory."""
    if not read.flag("evaluates", False) or method.objective in RL_METHODS:
        return _Evaluation()
    own = profile.evaluation_batch_size
    if own is None:
        batch = read.count("eval_micro_batch_size", micro_batch)
    else:
        batch = read.count("eval_micro_batch_size", own, default)
    return _Evaluation(
        batch,
        read.count("eval_sequence_length", sequence),
        # transformers 5's Trainer switches the cache off (``use_cache`` of TrainingArguments); before, the model's config has it
        read.flag("use_cache", profile.name == "transformers" and _before_5(transformers_release_of(read, profile))),
    )


def _before_5(version: str | None) -> bool:
    found = RELEASE.match(version or "")
    return found is not None and int(found[1]) < 5


def _state_dict(read: Reader, profile: Profile, sharding: str) -> str:
    """How sharded parameters are handed to a checkpoint; accelerate's default is full for FSDP 1, sharded for FSDP 2."""
    if not read.flag("saves", True):
        return "none"
    by_default = {"fsdp1": "full", "fsdp2": "sharded"} if profile.fsdp_upcasts_trainable else {}
    stated = read.text("state_dict", by_default.get(sharding, "none")) or "none"
    return stated if sharding in ("fsdp1", "fsdp2", "zero3") else "none"


def _checkpointing(read: Reader, profile: Profile, default: str) -> str:
    stated = read.text("gradient_checkpointing", profile.gradient_checkpointing, default, loose=True) or "none"
    return {"true": "full", "unsloth": "full", "false": "none"}.get(stated, stated)


def _recompute_modules(read: Reader, checkpointing: str) -> frozenset[str]:
    stated = read.get("recompute_modules")
    return frozenset(map(str, stated)) if checkpointing == "selective" and isinstance(stated, list) else frozenset()


def _composes_attention(read: Reader, weight: str, compute: str | None) -> bool:
    """Whether every device the job may mean is older than Ampere while sdpa computes in bf16.

    Flash attention needs compute capability 8.0, and below it the memory-efficient kernel takes fp16 and fp32 alone
    (``less_than_sm80_mem_efficient_dtypes``, torch ``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp``).
    """
    known = [a.compute_capability for a in read.job.hardware.candidates]
    return (compute or weight) == "bf16" and bool(known) and all(c is not None and c < (8, 0) for c in known)


def _whole_gradients(read: Reader, profile: Profile, sharding: str, accumulation: int) -> str:
    """What FSDP keeps whole between the micro-steps of an accumulation (:attr:`Profile.defers_reduction`)."""
    if accumulation < 2 or not sharding.startswith("fsdp") or read.flag("reduces_each_micro_step", False):
        return ""
    if sharding == "fsdp2" and profile.defers_fsdp2:
        release = library_release(read, profile, "accelerate")
        if release is None:
            read.loose.add("reduces_each_micro_step")
        elif not in_force(profile.defers_fsdp2, release):
            return ""
    if profile.defers_reduction:
        read.assumptions.append("gradients are reduced in the last micro-step only: FSDP keeps them whole until then")
    return profile.defers_reduction


def _mixes_units(read: Reader, profile: Profile) -> bool:
    release = release_of(read, profile)
    return bool(profile.mixes_units) and release is not None and in_force(profile.mixes_units, release)


COMPOSED_NORMS: Final = ((">=2.6,<2.7", "modeling"), (">=2.7,<2.9", "float"))
"""What ``torch.nn.RMSNorm`` was composed of before CUDA had one kernel for it, by torch's release: saved tensors of each."""


def _norm_kernel(read: Reader, profile: Profile) -> str:
    release = release_of(read, profile)
    if profile.modeling_norms and release is not None and in_force(profile.modeling_norms, release):
        return "modeling"
    torch = (read.job.versions.get("torch") or "").removeprefix("==") if profile.torch_norms else ""
    if torch[:1].isdigit():
        return next((kernel for releases, kernel in COMPOSED_NORMS if in_force(releases, torch)), profile.norm_kernel)
    if profile.torch_norms and not read.flag("compile", False):
        read.loose.add("torch")
    return profile.norm_kernel


def _caps_chunks(read: Reader, profile: Profile) -> bool:
    """As in releases before the change where the release is not known: those are the ones measured."""
    own = stated_release_of(read)
    return not profile.caps_chunks or (own is not None and in_force(profile.caps_chunks, own))
