"""Which engine estimates a serving job, for which accelerators; what is said where facts are missing."""

from __future__ import annotations

from collections.abc import Callable

from cfglint.catalog.accelerators import Accelerator
from cfglint.catalog.architecture import Architecture
from cfglint.estimate.open_arguments import ARGUMENTS, HIDDEN, hides_arguments
from cfglint.estimate.result import Estimate, Interval, MemoryEstimate, ServingEstimate
from cfglint.estimate.serving.llamacpp import estimate_llamacpp
from cfglint.estimate.serving.lmdeploy import estimate_lmdeploy
from cfglint.estimate.serving.model_source import ServedModel, served_model
from cfglint.estimate.serving.rank import rank_of, report
from cfglint.estimate.serving.settings_in_force import SettingsInForce
from cfglint.estimate.serving.sglang import estimate_sglang
from cfglint.estimate.serving.tgi import estimate_tgi
from cfglint.estimate.serving.trtllm import estimate_trtllm
from cfglint.estimate.serving.verdicts import VERDICTS
from cfglint.estimate.serving.versions import EngineVersion, engine_laws, read_version
from cfglint.estimate.serving.vllm import UNKNOWN_VERSION_ERROR, estimate_vllm
from cfglint.jobs.job import ServingJob

DECIDING = (
    "quantization", "dtype", "kv_cache_dtype", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization",
    "mem_fraction_static", "tensor_parallel_size", "pipeline_parallel_size", "cpu_offload_gb",
)  # fmt: skip
"""Facts that decide a verdict: stated, but with a value not known here (``${VAR}``), they leave it open."""
DEALS_OUT_HEADS = frozenset({"vllm", "sglang", "tgi", "trtllm", "lmdeploy"})
"""Engines that split attention by whole heads; llama.cpp splits rows by what each device has room for."""
LATENT_SAVING = 8
"""How much smaller a latent cache is than keys and values of all heads (DeepSeek-V2-Lite: 576 elements for 4,096)."""


EngineEstimator = Callable[[SettingsInForce, Architecture, EngineVersion, "Accelerator | None"], Estimate]

_ENGINES: dict[str, EngineEstimator] = {
    "vllm": estimate_vllm,
    "sglang": estimate_sglang,
    "tgi": estimate_tgi,
    "trtllm": estimate_trtllm,
    "lmdeploy": estimate_lmdeploy,
    "llama.cpp": estimate_llamacpp,
}


def estimate_serving(job: ServingJob) -> Estimate:
    """Memory of one rank's device and the KV cache that is left, as the engine's own log counts them.

    Where the accelerator's name means several, a verdict is given only if they agree; where a fact that decides is
    missing the verdict is ``unknown`` and ``memory.missing`` names it.
    """
    engine = str(job.value("framework") or "").lower()
    estimator = _ENGINES.get(engine)
    if estimator is None:
        missing = ["framework"] if not engine else [f"memory model of {engine}"]
        return Estimate(MemoryEstimate(missing=missing), serving=ServingEstimate(engine))
    model = served_model(job)
    if model.architecture is None:
        return Estimate(MemoryEstimate(missing=[model.problem]), serving=ServingEstimate(engine))
    if not model.architecture.tensors and not model.architecture.total_parameters:
        return Estimate(
            MemoryEstimate(missing=[f"parameter count of {model.id} (its config.json gives the dimensions alone)"]),
            serving=ServingEstimate(engine),
        )
    if not model.architecture.layers:
        return _weights_alone(job, engine, model)
    version = read_version(job.value("framework_version") or job.versions.get(engine))
    candidates: tuple[Accelerator | None, ...] = job.hardware.candidates or (None,)
    estimates = [_one(estimator, job, engine, model, version, gpu) for gpu in candidates]
    measured = next((index for index, gpu in enumerate(candidates) if gpu is not None and gpu.usable_measured), 0)
    first = estimates[measured]
    for other in estimates:
        _widen(first, other)
    verdicts = {estimate.memory.verdict for estimate in estimates}
    if len(verdicts) > 1:
        first.memory.verdict = "unknown" if not _close(candidates) else _milder(verdicts)
    if first.memory.verdict == "unknown" and len(candidates) > 1 and not first.problems:
        named = ", ".join(gpu.id for gpu in candidates if gpu is not None)
        first.memory.missing.append(f"gpu: {job.hardware.name} can mean {named}")
    return first


def _loosen(estimate: Estimate) -> None:
    """Widen the cache's interval: what a newer release changed is not known."""
    serving = estimate.serving
    if serving is None:
        return
    for name in ("kv_cache", "kv_tokens"):
        cache: Interval | None = getattr(serving, name)
        if cache is not None:
            spread = UNKNOWN_VERSION_ERROR * abs(cache.expected)
            setattr(serving, name, Interval(cache.low - spread, cache.expected, cache.high + spread))


def _check_heads(estimate: Estimate, settings: SettingsInForce, engine: str, architecture: Architecture) -> None:
    """Heads that cannot be dealt out to the ranks: no engine starts so, and there is no verdict."""
    heads, tensor = architecture.num_attention_heads, settings.positive("tensor_parallel_size") or 1
    if not heads or not heads % tensor or engine not in DEALS_OUT_HEADS:
        return
    if settings.boolean("enable_dp_attention") or settings.positive("attn_dp_size"):
        return  # attention is split over fewer ranks
    problem = f"{heads} attention heads do not divide by tensor_parallel_size {tensor}"
    estimate.problems.append(problem)
    settings.assume(problem)
    estimate.memory.verdict = "unknown"
    estimate.memory.missing.append("tensor_parallel_size")


def _may_be_in_fp8(serving: ServingEstimate | None) -> None:
    """Let the cache have what weights in FP8 would leave: of this family neither tensors nor the published dtype are known."""
    if serving is None or serving.kv_cache is None or serving.weights is None or serving.kv_cache.expected <= 0:
        return
    cache, tokens = serving.kv_cache, serving.kv_tokens
    most = cache.high + serving.weights / 2
    if tokens is not None:
        serving.kv_tokens = Interval(tokens.low, tokens.expected, tokens.high * most / cache.high)
    serving.kv_cache = Interval(cache.low, cache.expected, most)


def _too_heavy(estimate: Estimate) -> bool:
    """Whether the weights alone exceed the device: no release changes that."""
    serving, capacity = estimate.serving, estimate.memory.capacity
    return serving is not None and serving.weights is not None and capacity is not None and serving.weights > capacity


def _a_latent_cache_would_hold(estimate: Estimate) -> bool:
    """Whether a failure hangs on keys and values that a family whose attention is not known may keep smaller."""
    serving = estimate.serving
    if serving is None or serving.kv_tokens is None or estimate.memory.verdict not in ("likely-oom", "kv-too-small"):
        return False
    return serving.max_model_len is None or serving.kv_tokens.high >= serving.max_model_len


def _weights_alone(job: ServingJob, engine: str, model: ServedModel) -> Estimate:
    """Of a model whose size alone is known: its weights, no verdict."""
    arch = model.architecture
    assert arch is not None
    rank = rank_of(SettingsInForce(job, engine, format_in_name=model.format), arch, None)
    estimate = report(engine, rank, None, 0.0)
    estimate.memory.missing[:] = [f"dimensions of {model.id}"]
    return estimate


def _close(candidates: tuple[Accelerator | None, ...]) -> bool:
    """Variants whose memory differs by less than 2 % (PCIe and SXM boards of one size)."""
    sizes = [gpu.usable_gib for gpu in candidates if gpu is not None]
    return max(sizes) < 1.02 * min(sizes)


def _milder(verdicts: set[str]) -> str:
    return min(verdicts, key=VERDICTS.index)


def _widen(estimate: Estimate, other: Estimate) -> None:
    """Let the KV intervals hold another variant's too."""
    mine, theirs = estimate.serving, other.serving
    if mine is None or theirs is None or estimate is other:
        return
    if mine.kv_cache and theirs.kv_cache:
        mine.kv_cache = _hull(mine.kv_cache, theirs.kv_cache)
    if mine.kv_tokens and theirs.kv_tokens:
        mine.kv_tokens = _hull(mine.kv_tokens, theirs.kv_tokens)


def _hull(a: Interval, b: Interval) -> Interval:
    return Interval(min(a.low, b.low), a.expected, max(a.high, b.high))


def _one(
    estimator: EngineEstimator,
    job: ServingJob,
    engine: str,
    model: ServedModel,
    version: EngineVersion,
    gpu: Accelerator | None,
) -> Estimate:
    arch = model.architecture
    assert arch is not None
    settings = SettingsInForce(job, engine, format_in_name=model.format)
    if model.assumption:
        settings.assume(model.assumption)
    laws = engine_laws(engine)
    newer = laws.newer_than_known(version)
    if version.release is None:
        settings.assume(f"{engine} version not known: laws of {laws.newest} taken")
    elif newer:
        settings.assume(f"{engine} {version.text} is newer than any known here: laws of {laws.newest} taken")
    elif not version.exact:
        settings.assume(f"{engine} version {version.text!r} read as {'.'.join(map(str, version.release))}")
    estimate = estimator(settings, arch, version, gpu)
    if not arch.exact:
        settings.assume(f"tensors of {arch.model_type} are not known: weights come from the parameter count")
    if model.certain:
        _check_heads(estimate, settings, engine, arch)
    undecided = [name for name in DECIDING if job.undecided(name) or name in settings.unreadable]
    if undecided:
        estimate.memory.verdict = "unknown"
        estimate.memory.missing += undecided
    if estimate.memory.verdict in ("oom", "likely-oom", "kv-too-small") and hides_arguments(job):
        estimate.memory.verdict = "unknown"
        estimate.memory.missing.append(ARGUMENTS)
        settings.assume(HIDDEN)
    if not arch.tensors and not model.certain and arch.quantization is None:
        _may_be_in_fp8(estimate.serving)
    if not arch.tensors and estimate.serving is not None and estimate.serving.kv_tokens is not None:
        tokens = estimate.serving.kv_tokens
        estimate.serving.kv_tokens = Interval(tokens.low, tokens.expected, tokens.high * LATENT_SAVING)
        settings.assume(
            f"attention of {arch.model_type} is taken as its head counts say; a latent cache would be smaller"
        )
    if (not arch.tensors or not model.certain) and estimate.memory.verdict in ("oom", "kv-too-small"):
        estimate.memory.verdict = "likely-oom"
    if not arch.tensors and not _too_heavy(estimate) and _a_latent_cache_would_hold(estimate):
        estimate.memory.verdict = "unknown"
        estimate.memory.missing.append(
            f"how {arch.model_type} keeps keys and values: its config.json's class is not known"
        )
    if newer and engine != "vllm":  # which widens its own parts
        _loosen(estimate)
    estimate.memory.nest()
    if newer and estimate.memory.verdict in ("oom", "kv-too-small") and not _too_heavy(estimate):
        estimate.memory.verdict = "likely-oom"
    # The length of a server whose version is not known either may come from anywhere.
    if estimate.memory.verdict == "kv-too-small" and not version.exact and job.value("max_model_len") is None:
        estimate.memory.verdict = "likely-oom"
    return estimate
