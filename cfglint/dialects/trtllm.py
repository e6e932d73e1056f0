"""TensorRT-LLM: ``trtllm-serve`` command lines, and the YAML of LLM API options (``--extra_llm_api_options``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import program
from cfglint.dialects.server import (
    flags_of,
    model_entry,
    own_name,
    server_reading,
    state_facts,
    state_surroundings,
)
from cfglint.jobs.facts import Reading, Reference
from cfglint.source.node import Document, Scalar, at
from cfglint.source.node import Mapping as Table

SUBCOMMANDS: Final = frozenset({"serve", "disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve"})
DYNAMO_MODULES: Final = frozenset({"dynamo.trtllm", "dynamo.trtllm.worker"})
IMAGES: Final = frozenset({"release", "tensorrt-llm"})
"""``nvcr.io/nvidia/tensorrt-llm/release:1.0.0``."""
TRITON_BACKEND: Final = "tensorrtllm_backend/"
"""Folder of NVIDIA's repository in which Triton's model templates lie."""
OPTIONS_FILES: Final = ("extra_llm_api_options", "extra_engine_args", "config", "config_file")
NAMES: Final[Mapping[str, str]] = {
    "tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size", "cp_size": "context_parallel_size",
    "ep_size": "moe_expert_parallel_size", "model_path": "model", "model_name": "model",
    "tensor_parallel": "tensor_parallel_size", "expert_parallel_size": "moe_expert_parallel_size",
    "free_gpu_memory_fraction": "kv_cache_free_gpu_memory_fraction",
}  # fmt: skip
FACTS: Final[Mapping[str, str]] = {
    "model": "model_id",
    "dtype": "dtype",
    "kv_cache_dtype": "kv_cache_dtype",
    "max_seq_len": "max_model_len",
    "max_batch_size": "max_num_seqs",
    "max_num_tokens": "max_num_batched_tokens",
    "tensor_parallel_size": "tensor_parallel_size",
    "pipeline_parallel_size": "pipeline_parallel_size",
    "context_parallel_size": "context_parallel_size",
    "moe_expert_parallel_size": "expert_parallel_size",
    "trust_remote_code": "trust_remote_code",
}
SWITCHES: Final = frozenset({"trust_remote_code", "enable_attention_dp", "enable_chunked_prefill"})
OWN: Final = frozenset(
    {
        "kv_cache_config", "moe_expert_parallel_size", "moe_tensor_parallel_size", "cuda_graph_config",
        "enable_attention_dp", "disable_overlap_scheduler", "enable_overlap_scheduler", "cache_transceiver_config",
        "print_iter_log", "pytorch_backend_config", "use_cuda_graph", "cuda_graph_padding_enabled",
        "cuda_graph_batch_sizes", "moe_config", "enable_iter_perf_stats", "enable_autotuner", "attention_dp_config",
        "peft_cache_config", "scheduler_config", "guided_decoding_backend", "batched_logits_processor", "quant_config",
        "build_config", "torch_compile_config", "sparse_attention_config", "allreduce_strategy",
        "stream_interval", "gather_generation_logits", "enable_iter_req_stats", "autotuner_enabled",
    }
)  # fmt: skip
"""Fields of ``LlmArgs`` that no other engine's file has at its top."""
SHARED: Final = frozenset(
    {
        "backend", "tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size", "max_batch_size",
        "max_num_tokens", "max_seq_len", "max_beam_width", "trust_remote_code", "speculative_config", "model",
        "model_name", "model_path", "kv_cache_dtype", "enable_chunked_prefill", "gpus_per_node", "attn_backend",
        "max_input_len", "enable_block_reuse", "lora_config", "dtype", "load_format", "log_level", "tokenizer",
        "postprocess_tokenizer_dir", "reasoning_parser", "num_postprocess_workers", "skip_tokenizer_init",
    }
)  # fmt: skip
DISAGGREGATED: Final = frozenset({"context_servers", "generation_servers"})


class TrtllmDialect(Dialect):
    name = "trtllm"
    title = "TensorRT-LLM"
    kind = "serve"
    summary = "LLM API options (YAML), `trtllm-serve` in shell, Dockerfiles, compose and Kubernetes"
    markers = frozenset({"kv_cache_config", "moe_expert_parallel_size", "enable_attention_dp", "cuda_graph_config"})

    def recognise(self, document: Document, root: Table) -> Recognition | None:
        keys = set(root.keys())
        if keys >= DISAGGREGATED:
            return Recognition(70, "context_servers + generation_servers")
        own, shared = keys & OWN, keys & SHARED
        if not own or len(own) + len(shared) < 2:
            return None
        if len(own) + len(shared) < 0.5 * len(keys) or (len(own) < 2 and not shared & _PLAIN):
            return None
        return Recognition(63, " + ".join([*sorted(own)[:2], *sorted(shared)[:1]]))

    def read(self, document: Document, root: Table) -> Iterator[Reading]:
        if set(root.keys()) >= DISAGGREGATED:
            for part in sorted(DISAGGREGATED):
                inner = root.get(part)
                if isinstance(inner, Table):
                    yield from self._options(document, inner, (part,), root)
            return
        yield from self._options(document, root, (), None)

    def _options(
        self, document: Document, root: Table, route: tuple[str, ...], outer: Table | None
    ) -> Iterator[Reading]:
        reading = Reading(self.name, document, root, role="run", kind="serve", framework=self.name, base=route)
        reading.name = route[-1].partition("_")[0] if route else ""
        state_facts(reading, FACTS, NAMES)
        for fact, key in (("kv_cache_dtype", "dtype"),):
            value = at(root, "kv_cache_config", key)
            if isinstance(value, Scalar) and isinstance(value.value, str):
                reading.facts.state(fact, value.value, reading.origin("kv_cache_config", key))
        fraction = at(root, "kv_cache_config", "free_gpu_memory_fraction")
        if isinstance(fraction, Scalar) and isinstance(fraction.value, (int, float)):
            others = dict(reading.facts.value("engine_args") or {})
            others["free_gpu_memory_fraction"] = fraction.value
            reading.facts.state_first(
                "engine_args", others, reading.origin("kv_cache_config", "free_gpu_memory_fraction")
            )
        named = at(outer, "model")
        if isinstance(named, Scalar) and isinstance(named.value, str) and not reading.facts.stated("model_id"):
            whole = Reading(self.name, document, outer) if outer is not None else reading
            reading.facts.state("model_id", named.value, whole.origin("model"))
        yield reading

    def read_launch(self, launch: Launch) -> Iterator[Reading]:
        started = program(launch.words)
        if started is None:
            return
        dynamo = started.module and started.name in DYNAMO_MODULES
        words = started.arguments
        if started.name == "trtllm-llmapi-launch" and words and words[0].text == "trtllm-serve":
            words = words[1:]
        elif started.name != "trtllm-serve" and not dynamo:
            if any(TRITON_BACKEND in word.text for word in started.arguments):
                triton = server_reading(self.name, launch, flags_of(words, NAMES)[0], "Triton's TensorRT-LLM backend")
                triton.role = "carrier"  # its settings stand in the model repository's config.pbtxt
                yield triton
            return
        if words and words[0].text in SUBCOMMANDS and not dynamo:
            words = words[1:]
        entries, positionals = flags_of(words, NAMES, SWITCHES)
        if positionals and not dynamo:
            entries.insert(0, model_entry(positionals[0], "model"))
        reading = server_reading(self.name, launch, entries, "trtllm-serve", own_images=IMAGES)
        if dynamo:
            reading.context["wrapper"] = "dynamo"
        for key in OPTIONS_FILES:
            target = reading.value(key)
            if isinstance(target, str):
                reading.references.append(Reference("config", target, reading.origin(key), base="cwd"))
        state_facts(reading, FACTS, NAMES)
        state_surroundings(reading, launch)
        if reading.facts.stated("model_id") or reading.references:
            yield reading


_PLAIN: Final = frozenset(
    {own_name(k, {}) for k in ("backend", "tensor_parallel_size", "max_batch_size", "max_num_tokens", "max_seq_len")}
)

DIALECT = TrtllmDialect()
