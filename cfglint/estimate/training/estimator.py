"""Training memory of a job: plan, states, activations and phases put together, with components and intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from cfglint.estimate.batch import estimate_batch
from cfglint.estimate.compute import estimate_compute
from cfglint.estimate.result import Component, Estimate, Interval, MemoryEstimate
from cfglint.estimate.training.activations import Activations, activations_of
from cfglint.estimate.training.device import reserved_of, used_of, with_cached_blocks
from cfglint.estimate.training.evaluation import evaluation_of, evaluation_peak
from cfglint.estimate.training.explain import components_of
from cfglint.estimate.training.intervals import allocated_interval, earlier, favourable
from cfglint.estimate.training.optimizers import optimizer_kind
from cfglint.estimate.training.parameters import Parameters, count_parameters
from cfglint.estimate.training.phases import Peak, walk
from cfglint.estimate.training.plan import PAIRED, RL_METHODS, Plan
from cfglint.estimate.training.reference import reference_moments
from cfglint.estimate.training.resolve import resolve
from cfglint.estimate.training.rollout import described, rollout_of, shared_use
from cfglint.estimate.training.saving import Saving, saving_of
from cfglint.estimate.training.sharding import on_compute_stream, windows_of
from cfglint.estimate.training.states import States, left_by_loading, state_bytes, trainable_dtype
from cfglint.estimate.training.tape import DTYPE_BYTES
from cfglint.estimate.verdict import decide
from cfglint.jobs.job import TrainingJob


@dataclass(frozen=True, slots=True)
class Stage:
    """One pipeline stage's memory."""

    peak: Peak
    states: States
    parameters: Parameters
    activations: Activations | None
    saving: Saving
    pools: float = 0.0
    """Sum of the peaks of the streams that allocate, where there are several (FSDP2)."""


def fullest_stage(plan: Plan, cuda: bool = False) -> Stage | None:
    """Peak of live tensors on the fullest pipeline stage; None where the architecture is not known.

    ``cuda``: with what CUDA's kernels need beyond the CPU's, on which the derivation was checked.
    """
    architecture = plan.architecture
    if architecture is None or not (architecture.tensors or architecture.total_parameters):
        return None
    best: Stage | None = None
    stages = plan.pipeline_parallel
    total = len(architecture.layers)
    for stage in sorted({0, stages - 1}):
        start, stop = total * stage // stages, total * (stage + 1) // stages
        first, last = stage == 0, stage == stages - 1
        parameters = count_parameters(architecture, plan, (start, stop), first, last)
        states = state_bytes(plan, parameters)
        saving = saving_of(plan, parameters, states, stop - start)
        layers_known = architecture.layers and architecture.num_attention_heads
        if plan.micro_batch is None or plan.sequence is None or not layers_known:
            found = Stage(_states_only(states), states, parameters, None, saving)
        else:
            if plan.loss_fills and plan.loss_room is not None:
                plan = replace(plan, loss_room=max(0.0, plan.loss_room - states.weights), loss_fills=False)
            activations = activations_of(plan, architecture, (start, stop), last, cuda)
            windows = windows_of(plan, parameters, states, stop - start)
            dtype = plan.compute_dtype if plan.engine_casts and plan.compute_dtype else trainable_dtype(plan)
            embedding = 0.0 if plan.adapter or not first else parameters.embedding * DTYPE_BYTES[dtype]
            step = partial(
                walk,
                activations=activations,
                accumulating=bool(plan.accumulation > 1 or plan.profile.main_grads_fp32 or windows.whole_gradients)
                and not plan.in_backward,
                embedding_gradient=embedding,
                tied=architecture.tie_word_embeddings and not plan.profile.unties and not plan.scores_sequences,
                gradient_share=states.gradients / max(1.0, states.trainable * DTYPE_BYTES[dtype]),
                in_flight=min(stages - stage, max(1, plan.accumulation)),
                passes=reference_moments(plan, architecture, (start, stop), last, windows, cuda),
            )
            peak = step(states, windows=windows)
            pools = 0.0
            if plan.sharding == "fsdp2":
                own = step(replace(states, gradients=0.0), windows=on_compute_stream(windows))
                pools = own.total + states.gradients + windows.gather_pool
            pauses = {}
            if plan.evaluates:
                span = (start, stop)
                pauses["evaluation"] = evaluation_peak(plan, architecture, span, last, states, windows, cuda)
            if saving.device:
                resident = states.resident + windows.constant
                pauses["save"] = (resident + saving.device, {"gathered": saving.device})
            found = Stage(peak.with_phases(pauses), states, parameters, activations, saving, pools)
        if best is None or found.peak.total > best.peak.total:
            best = found
    return best


def _states_only(states: States) -> Peak:
    parts = {"gradients": states.gradients, "workspace": states.workspace}
    return Peak({"load": states.weights, "step": states.resident + sum(parts.values())}, "step", parts)


def estimate_training(job: TrainingJob) -> Estimate:
    """Memory per device, batch and compute of a training job.

    Never raises on what the job says: a missing or impossible fact is named in ``memory.missing`` and
    ``assumptions``, and the verdict is then ``unknown``.
    """
    plan = resolve(job)
    memory = MemoryEstimate(missing=list(dict.fromkeys(plan.missing)))
    batch = estimate_batch(job, 2 if plan.objective in PAIRED else 1)
    problems = list(plan.problems)
    guess = job.model.guess if job.model is not None and job.model.architecture is None else None
    if job.model is not None and job.model.problem and guess is None:
        problems.append(job.model.problem)
    estimate = Estimate(memory=memory, batch=batch, assumptions=[*problems, *plan.assumptions], problems=problems)
    architecture = plan.architecture
    if job.model is not None and job.model.taken_as:
        estimate.assumptions.append(job.model.taken_as)
    if guess is not None:
        name = job.model.id if job.model is not None else ""
        estimate.assumptions.append(f"{name} is taken as {guess.id}, as its name says: no verdict on it is certain")
        plan.loose.add("model")
    if architecture is not None:
        estimate.parameters = architecture.total_parameters
        if not architecture.tensors and not architecture.total_parameters:
            memory.missing.append("model")
            estimate.assumptions.append(
                f"the parameters of {architecture.model_type} models cannot be counted from this config"
            )
        if not (architecture.layers and architecture.num_attention_heads):
            memory.missing.append("model")
            estimate.assumptions.append(f"the layers of {architecture.model_type} models are not known")
    stage = fullest_stage(plan, _on_cuda(plan))
    if stage is None:
        memory.missing = list(dict.fromkeys(memory.missing))
        memory.verdict, memory.capacity = decide(None, job.hardware.candidates, memory.missing)
        return estimate
    if not optimizer_kind(plan)[1]:
        estimate.assumptions.append(f"optimizer {plan.optimizer} is not known: counted as adamw_torch")
        plan.loose.add("optimizer")
    if stage.activations is not None and not stage.activations.style_known and architecture is not None:
        estimate.assumptions.append(
            f"the blocks of {architecture.model_type} models are not known here: activations as of a Llama block"
        )
        plan.loose.add("model_type")
    if stage.activations is not None and stage.activations.tower is not None:
        how = "trained" if plan.trains_vision else "frozen"
        patches = stage.activations.tower.patches
        estimate.assumptions.append(f"images: one of {patches} patches a sequence, through a {how} vision tower")
        plan.loose.add("images")
    estimate.trainable_parameters = _trainable(plan, stage)
    if architecture is not None and not architecture.tensors:
        estimate.assumptions.append(
            f"{architecture.model_type}: only the number of parameters is known, its split over layers is assumed"
        )
        plan.loose.add("parameters")
    if architecture is not None and any(layer.recurrent and layer.mixer != "conv" for layer in architecture.layers):
        kernels = {"gated-deltanet": "flash-linear-attention", "mamba2": "mamba-ssm"}
        package = kernels.get(architecture.ssm.kind) if architecture.ssm is not None else None
        how = f"with the kernels of {package}" if package else "like attention of their inner width"
        estimate.assumptions.append(f"recurrent layers are counted {how}")
        plan.loose.add("mixer")
    rollout = rollout_of(job) if plan.objective in RL_METHODS else None
    if rollout is not None:
        estimate.assumptions.append(f"{plan.objective}: {described(rollout)}")
    elif plan.objective in RL_METHODS:
        estimate.assumptions.append(f"{plan.objective}: the rollout engine's share of the device is not counted")
    if plan.objective in RL_METHODS and (rollout is None or not rollout.certain):
        plan.loose.add("method")
    peak, states = stage.peak, stage.states
    memory.phases = dict(peak.phases)
    at_peak = evaluation_of(plan) if peak.at == "evaluation" else plan
    memory.components = components_of(at_peak, stage.parameters, states, peak)
    memory.saving = stage.saving.host
    floor = states.resident
    if stage.activations is None:
        best = favourable(plan)
        best_stage = fullest_stage(best, _on_cuda(best)) if best is not None else None
        # without a sequence length the peak is that of the optimizer's step, at which all gradients are there
        least = best_stage.peak.total if best_stage is not None else peak.total
        allocated = Interval(least, peak.total, peak.total)
        used = used_of(reserved_of(allocated, plan, (0.0, 0.0), 0.0), allocated, plan, job.hardware.candidates)
        memory.floor = used.low
    else:
        best = favourable(plan)
        best_stage = fullest_stage(best, _on_cuda(best)) if best is not None else None
        least = best_stage.peak.total if best_stage is not None else peak.total
        if best_stage is not None:
            floor = min(floor, best_stage.states.resident)
        allocated = allocated_interval(peak.total, least, floor, plan)
        before = earlier(plan)
        before_stage = fullest_stage(before, _on_cuda(before)) if before is not None else None
        if before_stage is not None and before_stage.peak.total > peak.total:
            # no file says which release runs
            high = allocated.high * before_stage.peak.total / peak.total
            allocated = Interval(allocated.low, allocated.expected, high)
        live = allocated
        if not _on_cuda(plan) and (plan.attention == "eager" or plan.autocast is not None):
            wider = fullest_stage(plan, cuda=True)
            more = max(1.0, wider.peak.total / peak.total) if wider else 1.0
            allocated = Interval(allocated.low, allocated.expected, allocated.high * more)
            live = Interval(allocated.low, allocated.expected * more, allocated.high)
        memory.allocated = allocated
        certainty = min(1.0, least / peak.total)
        memory.reserved = reserved_of(live, plan, stage.activations.humps, certainty, stage.pools)
        used = used_of(memory.reserved, live, plan, job.hardware.candidates, states.paged)
        memory.reserved, used = with_cached_blocks(
            memory.reserved,
            used,
            live.expected,
            states.resident,
            plan,
            job.hardware.candidates,
            left_by_loading(plan, stage.parameters),
        )
        memory.used = used
        if rollout is not None:
            between = Interval(min(floor, states.resident), states.resident, states.resident)
            waiting = used_of(reserved_of(between, plan, (0.0, 0.0), 0.0), between, plan, job.hardware.candidates)
            both = shared_use(used, waiting, rollout, job.hardware.candidates)
            if both is not None:
                used, engine = both
                memory.used = used
                memory.phases["generation"] = engine + (0.0 if rollout.trainer_sleeps else states.resident)
        if memory.used.expected < memory.reserved.expected or memory.used.high < memory.reserved.high:
            # a full device: blocks that were cached are given back. Elsewhere the low ends are those that rows of each
            # figure hold by themselves, and what nvidia-smi showed lies lower below its estimate than what was reserved
            memory.nest()
        ranks = job.hardware.gpus_per_node or plan.world
        memory.host = _host(states.host * max(1, min(ranks, plan.world)), stage.saving.host)
    memory.missing = list(dict.fromkeys(memory.missing))
    memory.verdict, memory.capacity = decide(used, job.hardware.candidates, memory.missing)
    if guess is not None and memory.verdict == "oom":
        memory.verdict = "likely-oom"
    if not job.hardware.candidates:
        estimate.assumptions.append("no accelerator is known for this job: no verdict")
    estimate.compute = estimate_compute(job, batch, _active_trained(plan, stage))
    return estimate


def _on_cuda(plan: Plan) -> bool:
    """Whether the expected figure itself is that of CUDA's kernels: for fp16, which measured runs hold (fitcheck-t4, 39
    eager rows within 2.3 %), and where sdpa has no fused kernel. For bf16 and fp32 it is that of the kernels the oracle
    ran, and CUDA's is in what is reserved and in the high end."""
    return plan.composes_attention or "fp16" in (plan.weight_dtype, plan.compute_dtype)


def _host(offloaded: float, saving: float) -> Interval:
    """Host memory of one node. Pinned buffers and copies at start-up come on top (DeepSpeed's own estimate: half more).

    ``saving``: what rank 0 gathers while it writes a full state dict; a run may end without one.
    """
    return Interval(offloaded, offloaded * 1.1 + saving, offloaded * 1.5 + saving)


def _trainable(plan: Plan, stage: Stage) -> int | None:
    architecture = plan.architecture
    if architecture is None:
        return None
    if not plan.adapter:
        total = architecture.total_parameters
        return total if total is None or plan.trains_vision else total - round(stage.parameters.frozen)
    one = count_parameters(architecture, _whole(plan), (0, len(architecture.layers)), True, True)
    return round(one.adapter + one.saved_modules)


def _whole(plan: Plan) -> Plan:
    """The same plan on one rank, for counts of the whole model."""
    return replace(plan, tensor_parallel=1, expert_parallel=1, expert_tensor_parallel=1, pipeline_parallel=1)


def _active_trained(plan: Plan, stage: Stage) -> int | None:
    return _trainable(plan, stage) if plan.adapter else None


__all__ = ["Component", "Stage", "estimate_training", "fullest_stage"]
