"""What a vLLM server takes of each GPU, as its start-up log counts it: requested memory, weights, activation peak,
non-torch memory, CUDA graphs, and the KV cache that is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cfglint.catalog.accelerators import GDDR_ECC, Accelerator
from cfglint.catalog.architecture import Architecture
from cfglint.estimate.result import Component, Estimate, Interval, MemoryEstimate, ServingEstimate
from cfglint.estimate.serving.activations import (
    PIXEL_CHANNELS,
    Profile,
    ProfiledPeak,
    embedding_bytes,
    image_tokens,
    pixel_side,
    profiled_peak,
)
from cfglint.estimate.serving.graphs import ESTIMATE_HIGH, ESTIMATE_LOW, capture_sizes, graph_bytes
from cfglint.estimate.serving.graphs import HIGH as GRAPH_HIGH
from cfglint.estimate.serving.graphs import LOW as GRAPH_LOW
from cfglint.estimate.serving.host import host_memory
from cfglint.estimate.serving.kv_layout import (
    FP8_DS_MLA_BYTES,
    KvLayout,
    attention_bytes,
    cache_dtype_bytes,
    compressed_layout,
    compresses_keys,
    vllm_layout,
)
from cfglint.estimate.serving.model_source import named_model
from cfglint.estimate.serving.parallel import Sharding, pipeline_stages
from cfglint.estimate.serving.precision import checkpoint_scheme, model_element_bytes, weight_scheme
from cfglint.estimate.serving.settings_in_force import SettingsInForce
from cfglint.estimate.serving.unified import shares_host_memory
from cfglint.estimate.serving.verdicts import cache_verdict, worst
from cfglint.estimate.serving.versions import EngineLaws, EngineVersion, engine_laws, read_version
from cfglint.estimate.serving.weights import RankWeights, draft_head_bytes, lora_slot_bytes, rank_weights
from cfglint.estimate.verdict import verdict_for
from cfglint.formulas import GIB, MIB
from cfglint.source.whole_number import whole_number

DEFAULT_BLOCK = 16
CONTEXT_LOW, CONTEXT, CONTEXT_HIGH = 0.2 * GIB, 0.48 * GIB, 0.7 * GIB
"""CUDA context before the engine's first snapshot, as "free memory on startup" shows it: 0.23 GiB (L4, 16 GiB cards),
0.41 (A100), 0.45 to 0.51 (RTX 4090, 3090), 0.51 to 0.60 (H100, H200)."""
COMPRESSED_SPREAD = 0.35
"""Relative error of the pool's blocks for layers that compress keys: releases lay them out differently, and two logs of
builds between releases hold 20 to 25 % more requests than the law of the release that is known."""
COMPRESSED_NOTE = "the cache of compressed keys follows vLLM 0.22 to 0.28; other builds lay it out differently, so its tokens are uncertain"
HOPPER = 9
LARGE_WORKSPACE = (9, 10)
"""Compute capabilities on which PyTorch gives cuBLAS its large workspace."""
DEFAULT_MULTIPROCESSORS = 132
ACTIVATION_ERROR = {"sampler": 0.03, "forward": 0.12, "encoder": 0.30, "compile": 0.08}
"""Relative error of each driver against 0.10-0.19 logs."""
FP32_BYTES, FRAMES = 4, 2
"""Bytes of a pixel as the old engine moves it to the device, and frames that a patch covers."""
UNKNOWN_VERSION_ERROR = 0.10
AMD_PEAK, AMD_NON_TORCH = 3.0, 2.4 * GIB
"""What ROCm may take at most: a peak of so many times the law's, and so much beside torch. Fitted on one log: 0.29.1 on an MI300X
shows 2.8 times and 2.27 GiB (11.88 consumed less the weights)."""
AMD_NOTE = "the laws of the activation peak, of graphs and of non-torch memory were measured on NVIDIA's devices"
GEFORCE = ("RTX-20", "RTX-30", "RTX-40", "RTX-50", "GTX")
SORT_BYTES = 36
"""The dearest sampler kernel of any version."""


@dataclass
class Stage:
    """One pipeline stage: weights, activations and the cache of its layers."""

    weights: RankWeights
    extra: float
    peak: ProfiledPeak
    layout: KvLayout
    cache: Interval
    blocks: Interval


@dataclass
class VllmSettings:
    """Settings in force for one GPU type."""

    utilization: float
    max_num_seqs: int
    batched_tokens: int
    max_model_len: int | None
    auto_length: bool
    block_size: int
    eager: bool
    runner: str


def estimate_vllm(
    job_settings: SettingsInForce, arch: Architecture, version: EngineVersion, gpu: Accelerator | None
) -> Estimate:
    """Estimate for one accelerator; without one everything that does not need its memory."""
    return _Vllm(job_settings, arch, version, gpu).run()


class _Vllm:
    def __init__(
        self, settings: SettingsInForce, arch: Architecture, version: EngineVersion, gpu: Accelerator | None
    ) -> None:
        self.s, self.arch, self.version, self.gpu = settings, arch, version, gpu
        self.laws: EngineLaws = engine_laws("vllm")
        self.runner = self._runner()
        self.capacity = gpu.usable_bytes if gpu else None
        self.element = model_element_bytes(settings, arch)
        self.scheme = weight_scheme(settings, arch)
        self.sharding = self._sharding()
        self.missing: list[str] = []
        self._layouts: dict[tuple[int, int], KvLayout] = {}

    def _runner(self) -> str:
        """``V0``, ``V1`` or ``V2`` (the second model runner of the V1 engine)."""
        arguments = self.s.arguments
        if str(arguments.get("VLLM_USE_V2_MODEL_RUNNER")) == "1":
            return "V2"
        law = self.laws.value("runner", self.version)
        plain = self.arch.moe is None and self.arch.ssm is None
        runner: str = law["dense" if plain or self.arch.architecture in law.get("v2_architectures", ()) else "other"]
        if self._pools():
            runner = law.get("pooling", runner)
        if runner == "V2" and str(arguments.get("VLLM_USE_V2_MODEL_RUNNER")) == "0":
            return "V1"
        if str(arguments.get("VLLM_USE_V1")) == "0" and self.laws.value("v0_engine", self.version):
            return "V0"
        return runner

    # -- settings -----------------------------------------------------------------------------------------------

    def _sharding(self) -> Sharding:
        s = self.s
        tp = s.positive("tensor_parallel_size", "tp") or 1
        pp = s.positive("pipeline_parallel_size", "pp") or 1
        dp = s.positive("data_parallel_size", "dp") or 1
        expert = s.boolean("enable_expert_parallel") or (s.positive("expert_parallel_size", "expert_parallel") or 1) > 1
        partition = s.text("VLLM_PP_LAYER_PARTITION")
        counts: tuple[int, ...] = ()
        if partition:
            parts = [whole_number(part.strip()) for part in partition.split(",")]
            counts = tuple(part for part in parts if part is not None) if None not in parts else ()
        return Sharding(
            tensor=tp,
            encoder=1 if s.text("mm_encoder_tp_mode") == "data" else 0,
            data=dp,
            # Data-parallel ranks of a mixture of experts share the experts, split or whole (vLLM FusedMoEParallelConfig).
            expert_ranks=tp * dp if self.arch.moe and (expert or dp > 1) else 1,
            decode_context=s.positive("decode_context_parallel_size", "dcp") or 1,
            stages=pipeline_stages(self.arch.num_hidden_layers, pp, counts),
        )

    def _settings(self) -> VllmSettings | None:
        s, version = self.s, self.version
        utilization = s.number("gpu_memory_utilization")
        if utilization is None:
            utilization = float(self.laws.value("gpu_memory_utilization", version))
            s.note_default("gpu_memory_utilization", utilization, version.text)
        auto = str(s.raw("max_model_len")).strip().lower() in ("auto", "-1")
        length = None if auto else s.positive("max_model_len")
        if length is None:
            length = self.arch.max_position_embeddings
            if length is not None and not auto:
                s.note_default("max_model_len", length, "model")
        seqs, tokens = s.positive("max_num_seqs"), s.positive("max_num_batched_tokens")
        default = self._default_batch()
        if (seqs is None or tokens is None) and default is None:
            return None
        if seqs is None:
            assert default is not None
            seqs = default[0]
            s.note_default("max_num_seqs", seqs, version.text)
        if tokens is None:
            assert default is not None
            tokens = self._default_tokens(default[1], length)
            s.note_default("max_num_batched_tokens", tokens, version.text)
        if self.runner != "V0" and length is not None:
            tokens = min(tokens, max(seqs * length, 1))
        return VllmSettings(
            utilization, min(seqs, tokens), tokens, length, auto,
            s.positive("block_size") or DEFAULT_BLOCK, s.boolean("enforce_eager"), self.runner,
        )  # fmt: skip

    def _default_batch(self) -> tuple[int, int | None] | None:
        # The old engine keeps its own defaults while both are there.
        rows = (
            self.laws.oldest_value("default_batch")
            if self.runner == "V0"
            else self.laws.value("default_batch", self.version)
        )
        if len(rows) == 1:
            return rows[0][1], rows[0][2]
        if self.gpu is None:
            return None
        name = self.gpu.id.upper()
        small = "A100" in name or "GB10" in name
        for floor, seqs, tokens in rows:
            if (not small and self.gpu.usable_gib >= floor) or floor == 0:
                return seqs, tokens
        return None

    def _default_tokens(self, tokens: int | None, length: int | None) -> int:
        if tokens is not None:
            return tokens
        chunked = self.s.raw("enable_chunked_prefill")
        law = self.laws.value("unchunked_batch", self.version)
        sees = isinstance(self.arch.config.get("vision_config"), Mapping)
        least: int = law["least_with_images"] if sees else law["least"]
        long = (length or 0) > law["chunked_above"] and (not sees or law["chunked_with_images"])
        on = self.s.boolean("enable_chunked_prefill") if chunked is not None else long
        return max(int(law["chunk"]), least if sees else 0) if on else max(length or least, least)

    # -- parts --------------------------------------------------------------------------------------------------

    def _cache_element(self) -> float:
        name = self.s.text("kv_cache_dtype")
        quantization = self.arch.quantization if self.s.format_in_name is None else None
        if name in (None, "auto") and isinstance(quantization, Mapping) and _asks_for_fp8_cache(quantization):
            self.s.assume("the checkpoint asks for an FP8 KV cache, which kv_cache_dtype auto follows")
            return 1.0
        size = cache_dtype_bytes(name, self.element, self.arch.head_dim)
        if size is None:
            self.s.assume(f"kv_cache_dtype {name} is not known here: taken as the model's dtype")
            return self.element
        return size

    def _layout(self, stage: int, block: int) -> KvLayout:
        if (stage, block) not in self._layouts:
            self._layouts[stage, block] = self._make_layout(stage, block)
        return self._layouts[stage, block]

    def _make_layout(self, stage: int, block: int) -> KvLayout:
        name = (self.s.text("kv_cache_dtype") or "").lower()
        if compresses_keys(self.arch):
            self.s.assume(COMPRESSED_NOTE)
            return compressed_layout(
                self.arch,
                self.sharding.stages[stage],
                draft_layers=1 if self._draft_head() and stage == self.sharding.pipeline - 1 else 0,
                packed=bool(self.laws.value("packed_pages", self.version)),
            )
        explicit = float(FP8_DS_MLA_BYTES) if name == "fp8_ds_mla" else None
        tp = self.sharding.tensor
        return vllm_layout(
            self.arch,
            self.sharding.stages[stage],
            tp=tp,
            element=self._cache_element(),
            model_element=self.element,
            block_size=block,
            hybrid=bool(self.laws.value("hybrid_kv", self.version))
            and not self.s.boolean("disable_hybrid_kv_cache_manager"),
            latent=bool(self.laws.value("mla_cache", self.version)),
            decode_context=self.sharding.decode_context,
            explicit_page=explicit,
            draft_layers=1 if self._draft_head() and stage == self.sharding.pipeline - 1 else 0,
            draft_token_bytes=self._draft_token_bytes() if stage == self.sharding.pipeline - 1 else 0.0,
            speculative_tokens=self._draft_tokens(),
            group_tolerance=float(self.laws.value("group_tolerance", self.version)),
            unified_pages=bool(self.laws.value("unified_pages", self.version)),
            state_blocks=(2 if self._keeps_prefixes() else 1) + self._draft_tokens(),
        )

    def _weights(self, stage: int) -> tuple[RankWeights, float]:
        padding = self.laws.value("mxfp4_padding", self.version)
        weights = rank_weights(
            self.arch, self.sharding, stage=stage, parameter_bytes=self.element, scheme=self.scheme,
            mxfp4_padding=(padding["intermediate"], padding["hidden"]),
            latent=str(self.laws.value("latent_projections", self.version)),
        )  # fmt: skip
        extra = 0.0
        if self.s.boolean("enable_lora"):
            rank = self.s.positive("max_lora_rank") or 16
            slots = self.s.positive("max_loras") or 1
            embeds = self.arch.model_type in self.laws.value("lora_embeddings", self.version)
            extra += lora_slot_bytes(self.arch, self.sharding, stage, slots, rank, self.element, embeds=embeds)
        extra += self._draft_bytes(stage)
        return weights, extra

    def _speculative(self) -> tuple[str, int]:
        """Method and draft tokens: a ``speculative_config``, or words such as ``mtp-3``."""
        stated = self.s.raw("speculative", "speculative_config")
        if isinstance(stated, Mapping):
            tokens = stated.get("num_speculative_tokens")
            method = str(stated.get("method") or stated.get("model") or "").lower()
            return method, whole_number(tokens) or 0
        method = "" if stated is None else str(stated).lower()
        tail = method.rsplit("-", 1)[-1]
        return method, whole_number(tail) or 0

    def _draft_tokens(self) -> int:
        return self._speculative()[1]

    def _draft_head(self) -> bool:
        """Whether drafting adds a decoder layer of the model's own shape."""
        return any(key in self._speculative()[0] for key in ("mtp", "eagle", "nextn"))

    def _draft_model(self) -> Architecture | None:
        stated = self.s.raw("speculative", "speculative_config")
        named = stated.get("model") if isinstance(stated, Mapping) else stated
        return named_model(named) if isinstance(named, str) and "/" in named else None

    def _draft_token_bytes(self) -> float:
        draft = None if self._draft_head() else self._draft_model()
        if draft is None:
            return 0.0
        element, tp = self._cache_element(), self.sharding.tensor
        return sum(attention_bytes(layer, draft, tp, element) for layer in draft.layers)

    def _keeps_prefixes(self) -> bool:
        if self.s.raw("enable_prefix_caching") is not None:
            return self.s.boolean("enable_prefix_caching")
        return bool(self.laws.value("hybrid_prefix_caching", self.version)) and not self.s.boolean(
            "no_enable_prefix_caching"
        )

    def _draft_bytes(self, stage: int) -> float:
        """A draft head's weights: one decoder layer and a projection from two hidden states (MTP, EAGLE)."""
        method, _ = self._speculative()
        if not method or stage != self.sharding.pipeline - 1 or "ngram" in method or "suffix" in method:
            return 0.0
        if not self._draft_head():
            draft = self._draft_model()
            if draft is not None:
                whole = Sharding(self.sharding.tensor, stages=pipeline_stages(draft.num_hidden_layers, 1))
                return rank_weights(draft, whole, parameter_bytes=self.element, scheme=checkpoint_scheme(draft)).bytes
            self.s.assume(f"the draft model of {method} is not counted: its dimensions are not known")
            return 0.0
        self.s.assume("the draft head is taken as one more decoder layer")
        return draft_head_bytes(self.arch, self.sharding, self.scheme, self.element)

    def _non_torch(self) -> Interval:
        law = self.laws.value("non_torch", self.version)
        if self.sharding.tensor > 1:
            capability = self.gpu.compute_capability if self.gpu else None
            key = {9: "parallel", 10: "parallel_blackwell"}.get(capability[0] if capability else 9, "parallel_other")
            low, expected, high = law.get(key, law["parallel"])
        elif self.sharding.pipeline > 1:
            low, expected, high = law["pipeline"]
        else:
            low, expected, high = law["single"]
        if self.version.release is None:
            low = min(
                low,
                self.laws.value("non_torch", self._oldest_v1())[
                    "single" if self.sharding.tensor == 1 else "parallel_other"
                ][0],
            )
        if self.gpu is not None and shares_host_memory(self.gpu):
            ranks = "single" if self.sharding.tensor * self.sharding.pipeline == 1 else "parallel"
            more, most = self.laws.constant("unified_other_gib")[ranks]
            expected, high = expected + more, high + most
        found = Interval(low * GIB, expected * GIB, high * GIB)
        return Interval(found.low, found.expected, max(found.high, AMD_NON_TORCH)) if self._amd() else found

    def _graphs(self, settings: VllmSettings, layers: int) -> Interval:
        if settings.eager:
            return Interval.exactly(0.0)
        size = self._graph_bytes(settings, layers, self.laws.value("graph_per_layer", self.version))
        return Interval(size * GRAPH_LOW, size, size * GRAPH_HIGH)

    def _estimated_graphs(self, settings: VllmSettings, layers: int) -> Interval:
        """What the engine itself estimates before capture, and takes from the cache."""
        if settings.eager:
            return Interval.exactly(0.0)
        size = self._graph_bytes(settings, layers, self.laws.value("estimated_graph_per_layer", self.version))
        return Interval(size * ESTIMATE_LOW, size, size * ESTIMATE_HIGH)

    def _graph_bytes(self, settings: VllmSettings, layers: int, law: Mapping[str, float]) -> float:
        captures, largest = self._captures(settings)
        per_layer = law["layer"]
        if self.arch.moe:
            per_layer += law["mxfp4_experts" if self._mxfp4() else "experts"]
        # FlashAttention 3 alone keeps its splits between captures; elsewhere version 2 or Triton runs.
        per_head = law["head"] if self._hopper() or self.gpu is None else 0.0
        return graph_bytes(self.arch, layers, self.sharding.tensor, per_layer, per_head, captures, largest)

    def _mxfp4(self) -> bool:
        return self.scheme is not None and self.scheme.name == "mxfp4"

    def _captures(self, settings: VllmSettings) -> tuple[int, int]:
        """Graphs captured and the largest batch among them."""
        law = self.laws.value("capture_sizes", self.version)
        compilation = self.s.raw("compilation_config")
        sizes = compilation.get("cudagraph_capture_sizes") if isinstance(compilation, Mapping) else None
        if isinstance(sizes, (list, tuple)) and sizes and all(isinstance(size, int) for size in sizes):
            return law["modes"] * len(sizes), max(sizes)
        limit = law["families"].get(self.arch.model_type)
        if limit is None:
            limit = min(law["largest"], law["per_sequence"] * settings.max_num_seqs * (1 + self._draft_tokens()))
        largest = min(limit, settings.batched_tokens)
        captures = capture_sizes(largest, law["coarse_from"])
        if law["modes"] > 1 and not self._pools():
            # Whole graphs are captured for decoding batches, which no more requests than may run can make.
            captures += capture_sizes(
                min(largest, settings.max_num_seqs * (1 + self._draft_tokens())), law["coarse_from"]
            )
        # With adapters every size is captured with and without them.
        return captures * (2 if self.s.boolean("enable_lora") else 1), largest

    def _profile(self, settings: VllmSettings, stage: int, *, videos: bool = True, sees: bool = True) -> Profile:
        counts = self.laws.constant("multiprocessors")
        name = self.gpu.id.upper().replace(" ", "") if self.gpu else ""
        units = next(
            (n for key, n in sorted(counts.items(), key=lambda kv: -len(kv[0])) if key.upper() in name),
            DEFAULT_MULTIPROCESSORS,
        )
        limits = self._item_limits()
        images = not (limits and not any(limits.values()))
        if self.s.boolean("language_model_only") or self.s.boolean("skip_mm_profiling") or not sees:
            images = False
        bounds = self.laws.value("image_tokens", self.version)
        video, budget = self._video_tokens(settings, image_tokens(self.arch, bounds)) if images and videos else (0, 0)
        if video:
            bounds = {**bounds, self.arch.model_type: video}
        tokens, sequences = settings.batched_tokens, settings.max_num_seqs
        one, passing, pixels = image_tokens(self.arch, bounds) if images else 0, 0, 0.0
        if self.runner == "V0" and one:
            # V0 profiles a model with images on as many prompts as hold one image each, and a video where it sees those.
            frames = int(self.laws.value("v0_prompt", self.version).get(self.arch.model_type, 0))
            sequences = max(1, min(sequences, tokens // (one + frames)))
            if frames:
                passing = sequences * max(one, frames)
                tokens = max(tokens, sequences * (one + frames))
                pixels = FP32_BYTES * tokens * (pixel_side(self.arch) ** 2) * PIXEL_CHANNELS * FRAMES
        return Profile(
            tokens=tokens,
            sequences=sequences,
            element=self.element,
            runner=self.runner,
            sampler=self._sampler(),
            workspace_kept=bool(self.laws.value("moe_workspace_kept", self.version)),
            workspace_bytes=self._workspace_mib() * MIB,
            multiprocessors=units,
            last_stage=stage == self.sharding.pipeline - 1 and not self._pools(),
            pipelined=self.sharding.pipeline > 1,
            images=images,
            image_tokens=bounds,
            vision_tokens=passing,
            pixel_bytes=pixels,
            expert_chunk=int(self.laws.value("expert_chunk", self.version)),
            encoder_budget=budget,
            eager_rotary=bool(self.laws.value("eager_vision_rotary", self.version)),
            compiles_tables="no" if settings.eager else str(self.laws.value("compile_benchmarks", self.version)),
        )

    def _item_limits(self) -> dict[str, int]:
        """Items of each modality that a prompt may hold, where stated."""
        stated = self.s.raw("limit_mm_per_prompt")
        if not isinstance(stated, Mapping):
            return {}
        counts = {
            str(name): limit.get("count", 1) if isinstance(limit, Mapping) else limit for name, limit in stated.items()
        }
        read = {name.strip(): whole_number(str(count).strip()) for name, count in counts.items()}
        return {name: count for name, count in read.items() if count is not None}

    def _peak(self, settings: VllmSettings, stage: int, profile: Profile) -> ProfiledPeak:
        peak = profiled_peak(self.arch, self.sharding, stage, profile, self.scheme)
        unread = self.s.job.undecided("limit_mm_per_prompt") or self.s.raw("mm_processor_kwargs") is not None
        smaller = profile.images and unread
        if smaller or (profile.encoder_budget and self.s.raw("max_model_len") is None):
            # Images may be bounded; a length that nobody states here may be stated elsewhere, and then the video is shorter.
            shorter = self._profile(settings, stage, videos=False, sees=not smaller)
            least = profiled_peak(self.arch, self.sharding, stage, shorter, self.scheme)
            peak = replace(peak, low=min(peak.low, least.low))
        return peak

    def _video_tokens(self, settings: VllmSettings, image: int) -> tuple[int, int]:
        """Tokens of the video that the encoder is profiled with, and of its cache, where they are more than an image's."""
        law = self.laws.value("video_tokens", self.version).get(self.arch.model_type)
        if (
            law is None
            or self._item_limits().get("video", 1) == 0
            or self.runner == "V0"
            or settings.max_model_len is None
        ):
            return 0, 0
        room = settings.max_model_len - (image if law.get("beside_image") else 0)
        tokens = int(law["frames"]) * max(1, min(int(law["most"]), room // int(law["frames"])))
        budget = int(law.get("budget", tokens))
        return (tokens, budget) if budget > image else (0, 0)

    def _workspace_mib(self) -> float:
        """cuBLAS' workspace and small buffers; the old engine's runs leave as much on any device."""
        capability = self.gpu.compute_capability if self.gpu else None
        small = self.runner != "V0" and capability and capability[0] not in LARGE_WORKSPACE
        size = "small" if small else "large"
        return float(self.laws.constant("workspace_mib")) + float(self.laws.constant("cublas_workspace_mib")[size])

    def _sampler(self) -> Mapping[str, Any]:
        """The sampler's law; of an unknown version every kernel is possible."""
        law: Mapping[str, Any] = self.laws.value("sampler_v2" if self.runner == "V2" else "sampler", self.version)
        return law if self.version.release is not None else {**law, "or": SORT_BYTES}

    def _pools(self) -> bool:
        """Pooling models (embedding, classification, reward) have no sampler."""
        task = str(self.s.raw("task", "runner", "convert") or "").lower()
        if task and task not in ("auto", "generate", "none"):
            return True
        name = self.arch.architecture or ""
        return name.endswith(("ForSequenceClassification", "ForTokenClassification", "Model"))

    # -- the whole ----------------------------------------------------------------------------------------------

    def run(self) -> Estimate:
        s = self.s
        settings = self._settings()
        parts = [self._weights(stage) for stage in range(self.sharding.pipeline)]
        fullest = max(range(len(parts)), key=lambda index: parts[index][0].bytes)
        weights, extra = parts[fullest]
        memory = MemoryEstimate(missing=self.missing, capacity=self.capacity)
        held = [part.bytes + besides for part, besides in parts]
        # Each stage logs a line when its weights are loaded; the first is that of the stage with the least to load.
        serving = ServingEstimate("vllm", weights=min(held))
        if len(held) > 1:
            listed = ", ".join(f"{size / GIB:.2f}" for size in held)
            s.assume(f"pipeline stages hold {listed} GiB of weights; weights_gib is the lightest's, which logs first")
        memory.components.append(self._weights_component(weights, extra, fullest))
        ranks = self.sharding.tensor * self.sharding.pipeline
        memory.host = host_memory(s, self.arch, weights, ranks, swap_gib=self._swap())
        estimate = Estimate(memory, serving=serving, assumptions=s.assumptions, parameters=self.arch.total_parameters)
        block = s.positive("block_size") or DEFAULT_BLOCK
        serving.kv_bytes_per_token = self._layout(fullest, block).token_bytes
        if settings is None or self.capacity is None:
            memory.missing.append("gpu")
            if settings is not None:
                peak = self._peak(settings, fullest, self._profile(settings, fullest))
                serving.activation_peak = peak.bytes
            return estimate
        self._fill(estimate, settings, parts)
        return estimate

    def _oldest_v1(self) -> EngineVersion:
        """How old a version that nobody states may be."""
        return read_version(self.laws.constant("first_v1"))

    def _swap(self) -> float:
        """GiB of pinned memory for swapped blocks, which the old engine alone has."""
        if self.runner != "V0":
            return 0.0
        stated = self.s.number("swap_space")
        return float(self.laws.value("swap_space_gib", self.version)) if stated is None else stated

    def _weights_component(self, weights: RankWeights, extra: float, stage: int) -> Component:
        names = (
            "dtype",
            "quantization",
            "tensor_parallel_size",
            "pipeline_parallel_size",
            "max_loras",
            "max_lora_rank",
            "speculative",
        )
        shown = " + ".join(
            f"{role} {size / GIB:.2f}"
            for role, size in sorted(weights.parts.items(), key=lambda kv: -kv[1])
            if size > 0.005 * GIB
        )
        text = f"{shown} GiB"
        if self.scheme is not None:
            text += f", quantized weights at {self.scheme.text}"
        if extra:
            text += f" + LoRA slots and draft head {extra / GIB:.2f} GiB"
        return Component("weights", weights.bytes + extra, text, self.s.inputs(*names), names)

    def _fill(self, estimate: Estimate, settings: VllmSettings, parts: list[tuple[RankWeights, float]]) -> None:
        assert self.capacity is not None and estimate.serving is not None
        capacity, s, serving, memory = self.capacity, self.s, estimate.serving, estimate.memory
        spread = 0.0 if self.gpu is None or self.gpu.usable_measured else 0.015
        least = settings.utilization
        if self.version.release is None and s.number("gpu_memory_utilization") is None:
            least = min(least, float(self.laws.value("gpu_memory_utilization", self._oldest_v1())))
        requested = Interval(
            capacity * (1 - spread) * least,
            capacity * settings.utilization,
            capacity * (1 + spread) * settings.utilization,
        )
        offload = (s.number("cpu_offload_gb") or 0.0) * GIB
        non_torch = self._non_torch()
        budget = "graphs_in_budget_v2" if self.runner == "V2" else "graphs_in_budget"
        inside = bool(self.laws.value(budget, self.version)) and str(
            s.raw("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS")
        ) not in ("0", "False")
        unsure = (
            0.0
            if self.version.release is not None and not self.laws.newer_than_known(self.version)
            else UNKNOWN_VERSION_ERROR
        )
        more = _more_shown(self.gpu) * requested.expected
        if self._amd():
            s.assume(AMD_NOTE)
        stages: list[Stage] = []
        graphs = Interval.exactly(0.0)
        estimated = graphs
        for index, (weights, extra) in enumerate(parts):
            profile = self._profile(settings, index)
            peak = self._peak(settings, index, profile)
            error = ACTIVATION_ERROR[peak.driver] + unsure
            activation = Interval(
                peak.low * (1 - error), peak.bytes, peak.high * (AMD_PEAK if self._amd() else 1 + error)
            )
            resident = Interval(weights.low + extra, weights.bytes + extra, weights.high + extra) + (
                -min(offload, weights.bytes)
            )
            graphs = self._graphs(settings, len(self.sharding.stages[index]))
            estimated = self._estimated_graphs(settings, len(self.sharding.stages[index]))
            taken = resident + activation + non_torch
            if (
                index == 0
                and profile.compiles_tables == "yes"
                and (unsure or self.laws.value("pinned_fragments", self.version))
            ):
                taken = taken + Interval(0.0, 0.0, embedding_bytes(self.arch, profile, self.sharding.tensor))
            if inside:
                taken = taken + estimated
            cache = Interval(
                requested.low - taken.high, requested.expected - taken.expected, requested.high + more - taken.low
            )
            fixed = s.positive("kv_cache_memory_bytes")
            if fixed is not None:
                cache = Interval.exactly(float(fixed))
            layout = self._layout(index, settings.block_size)
            spread = COMPRESSED_SPREAD if compresses_keys(self.arch) else 0.0
            blocks = Interval(
                layout.blocks(cache.low * (1 - spread)),
                layout.blocks(cache.expected),
                layout.blocks(cache.high * (1 + spread)),
            )
            override = s.positive("num_gpu_blocks_override")
            if override is not None:
                blocks = Interval.exactly(override)
                cache = Interval.exactly(override * layout.page_bytes * layout.group_size)
            stages.append(Stage(weights, extra, peak, layout, cache, blocks))
        first = stages[0]
        tight = min(stages, key=lambda stage: stage.blocks.expected)
        blocks = tight.blocks
        self._answers(serving, settings, tight.layout, blocks)
        # The log's line is the first rank's; the pool that counts is the smallest stage's.
        cache = Interval(min(st.cache.low for st in stages), tight.cache.expected, max(st.cache.high for st in stages))
        if self.runner == "V0" and self.sharding.tensor > 1:
            # V0 gathers logits on the driver alone: the other ranks' lines show the sampler's share as cache.
            cache = Interval(cache.low, cache.expected, cache.high + tight.peak.sampler_bytes)
        serving.kv_cache = cache
        logged = first.peak if self.sharding.pipeline > 1 else tight.peak
        serving.activation_peak = logged.bytes
        if self.laws.value("peak_is_transient", self.version):
            serving.activation_peak -= logged.kept_bytes
        if inside and self.laws.value("peak_includes_graphs", self.version):
            serving.activation_peak += estimated.expected
        serving.non_torch = non_torch.expected
        serving.graph = graphs.expected
        self._components(memory, settings, tight, non_torch, graphs, cache, requested)
        context = self._context()
        outside = Interval.exactly(0.0) if inside else graphs
        peak_bytes = tight.peak.bytes
        # After capture the sampler's warm-up needs the profiled peak again: graphs come on top of what was requested.
        holes = self._holes(tight.weights)
        warming = self._beyond_the_profile(settings, tight.peak)
        # Graphs were measured on Hopper; on other devices the least that they may take is counted against a start.
        counted = outside.expected if self._hopper() else outside.low
        used = Interval(
            context.low + requested.low,
            context.expected + requested.expected + counted + holes.expected + warming,
            context.high + requested.high + outside.high + holes.high + warming,
        )
        if s.positive("kv_cache_memory_bytes") or s.positive("num_gpu_blocks_override"):
            held = (
                tight.weights.bytes
                + tight.extra
                + tight.peak.bytes
                + non_torch.expected
                + cache.expected
                + outside.expected
            )
            used = Interval(
                held * 0.97, held + context.expected, held * 1.03 + context.high + outside.high - outside.expected
            )
        # Without room for any cache the start fails: what it would take is what was requested and what that lacks.
        short = Interval(max(0.0, -cache.high), max(0.0, -cache.expected), max(0.0, -cache.low))
        memory.used = used + short
        allocated = tight.weights.bytes + tight.extra + max(0.0, cache.expected) + peak_bytes
        # What one part takes less the cache takes more: together they are what was requested, less what is beside torch.
        memory.allocated = Interval(
            min(allocated, requested.low - non_torch.high + short.low),
            allocated,
            max(allocated, requested.high - non_torch.low + short.high),
        )
        memory.reserved = memory.allocated
        memory.phases = {
            "load": tight.weights.unquantized_bytes if self._loads_unquantized() else tight.weights.bytes,
            "profile": tight.weights.bytes + tight.extra + tight.peak.bytes,
            "serve": tight.weights.bytes + tight.extra + max(0.0, cache.expected),
        }
        memory.verdict = self._verdict(serving, settings, tight, used, cache, offload)

    def _context(self) -> Interval:
        """Memory outside the requested share; V0 counts the context within it."""
        if self.runner == "V0":
            return Interval(0.0, 0.0, CONTEXT)
        parallel, constants = 0.0, self.laws.constant("parallel_context_gib")
        if self.sharding.tensor > 1:
            parallel = (constants["all"] + (constants["experts"] if self.arch.moe else 0.0)) * GIB
        expected = parallel if self._hopper() else constants["elsewhere"] * parallel
        return Interval(CONTEXT_LOW, CONTEXT + expected, CONTEXT_HIGH + parallel)

    def _beyond_the_profile(self, settings: VllmSettings, peak: ProfiledPeak) -> float:
        """What the second runner's warm-up of the sampler needs beyond the profiled peak, which saw no parameters."""
        law = self._sampler()
        if self.runner != "V2" or law["kernel"] != "none" or self._pools():
            return 0.0
        entries = settings.max_num_seqs * self.arch.vocab_size / (self.sharding.tensor if law.get("split") else 1)
        kernel: float = self.laws.newest_value("sampler_v2")["bytes"]
        return max(0.0, entries * (self.element + kernel) - peak.bytes)

    def _amd(self) -> bool:
        return self.gpu is not None and self.gpu.vendor == "AMD"

    def _hopper(self) -> bool:
        capability = self.gpu.compute_capability if self.gpu else None
        return capability is not None and capability[0] == HOPPER

    def _holes(self, weights: RankWeights) -> Interval:
        """Memory that repacking MXFP4 experts leaves reserved and unusable, which no line of the log counts."""
        if not self._mxfp4() or not self._hopper() or self.runner == "V0":
            return Interval.exactly(0.0)
        left = float(self.laws.constant("mxfp4_holes")) * weights.parts.get("expert", 0.0)
        return Interval(0.0, left, 1.5 * left)

    def _loads_unquantized(self) -> bool:
        return self.scheme is not None and self.scheme.runtime

    def _in_flight(self, settings: VllmSettings) -> int:
        """Tokens scheduled and not yet settled, whose blocks a window keeps."""
        batches: int = self.laws.value("batches_in_flight", self.version)
        off = self.s.raw("async_scheduling") is not None and not self.s.boolean("async_scheduling")
        if off or self.s.boolean("no_async_scheduling") or self._pools():
            batches = 1
        return batches * settings.batched_tokens

    def _answers(self, serving: ServingEstimate, settings: VllmSettings, layout: KvLayout, blocks: Interval) -> None:
        length, batched = settings.max_model_len, self._in_flight(settings)
        printed = self.laws.value("printed_tokens", self.version)

        def tokens(count: float) -> float:
            if printed == "concurrency" and length and len(layout.groups) > 1:
                return layout.concurrency(int(count), length, batched) * length
            return float(layout.pool_tokens(int(count)))

        serving.kv_tokens = Interval(tokens(blocks.low), tokens(blocks.expected), tokens(blocks.high))
        if length:
            serving.max_model_len = layout.largest_request(int(blocks.expected), batched, length)
            serving.max_concurrency = layout.concurrency(int(blocks.expected), length, batched)
        limit = self.arch.max_position_embeddings or length
        if limit:
            serving.max_model_len = layout.largest_request(int(blocks.expected), batched, limit)

    def _components(
        self,
        memory: MemoryEstimate,
        settings: VllmSettings,
        stage: Stage,
        non_torch: Interval,
        graphs: Interval,
        cache: Interval,
        requested: Interval,
    ) -> None:
        s = self.s
        batch = ("max_num_seqs",) if stage.peak.driver == "sampler" else ("max_num_batched_tokens",)
        memory.components.append(
            Component(
                "activation peak",
                stage.peak.bytes,
                stage.peak.text,
                s.inputs("max_num_seqs", "max_num_batched_tokens"),
                batch,
            )
        )
        memory.components.append(
            Component(
                "non-torch",
                non_torch.expected,
                f"measured in logs of such versions: {non_torch.low / GIB:.2g} to {non_torch.high / GIB:.2g} GiB",
                s.inputs("tensor_parallel_size"),
                ("tensor_parallel_size",),
            )
        )
        memory.components.append(
            Component(
                "CUDA graphs",
                graphs.expected,
                "0 (eager)"
                if settings.eager
                else f"{len(self.arch.layers)} layers × {self._captures(settings)[0]} captures",
                s.inputs("enforce_eager", "compilation_config"),
                ("enforce_eager",),
            )
        )
        names = (
            "gpu_memory_utilization",
            "kv_cache_dtype",
            "block_size",
            "kv_cache_memory_bytes",
            "num_gpu_blocks_override",
        )
        text = f"{requested.expected / GIB:.2f} GiB requested ({settings.utilization:g} × {(self.capacity or 0) / GIB:.2f}) less the above; {stage.layout.text}"
        memory.components.append(Component("KV cache", max(0.0, cache.expected), text, s.inputs(*names), names))

    def _verdict(
        self,
        serving: ServingEstimate,
        settings: VllmSettings,
        stage: Stage,
        used: Interval,
        cache: Interval,
        offload: float,
    ) -> str:
        assert self.capacity is not None
        load = (
            (stage.weights.unquantized_bytes if self._loads_unquantized() else stage.weights.bytes)
            + stage.extra
            - offload
        )
        loading = Interval(
            min(load, stage.weights.low - offload), stage.weights.bytes + stage.extra - offload, load * 1.01
        )
        verdicts = [verdict_for(loading, self.capacity - CONTEXT_LOW), verdict_for(used, self.capacity)]
        blocks = stage.blocks
        largest: Interval | None = None
        if settings.max_model_len and not settings.auto_length:
            want = settings.max_model_len
            largest = Interval(*(
                float(stage.layout.largest_request(max(0, int(b)), self._in_flight(settings), want)) for b in (blocks.low, blocks.expected, blocks.high)
            ))  # fmt: skip
            # A pool that holds the request exactly is enough; one that does not is reported by the block.
        verdicts.append(cache_verdict(cache, largest, settings.max_model_len))
        return worst(*verdicts)


def _more_shown(gpu: Accelerator | None) -> float:
    """Share by which a card may show more memory: a GeForce under Windows and WSL, where the driver keeps none of it back,
    and a card with GDDR whose ECC is off."""
    if gpu is None:
        return 0.0
    most = gpu.usable_range[1] if gpu.usable_range else gpu.usable_gib
    if gpu.id.upper().startswith(GEFORCE) or (gpu.id in GDDR_ECC and not gpu.usable_measured):
        most = max(most, gpu.memory_gb)
    return max(0.0, most / gpu.usable_gib - 1.0)


def _asks_for_fp8_cache(quantization: Mapping[str, Any]) -> bool:
    return str(quantization.get("kv_cache_quant_algo") or "").upper() == "FP8" or bool(
        quantization.get("kv_cache_scheme")
    )
