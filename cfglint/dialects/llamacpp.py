"""llama.cpp: ``llama-server`` (and its image) on command lines of any carrier, with its ``LLAMA_ARG_*`` variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cfglint.dialects.base import Dialect, Launch
from cfglint.dialects.carriers.command import program
from cfglint.dialects.server import (
    environment_entries,
    flags_of,
    image_name,
    server_reading,
    state_facts,
    state_surroundings,
)
from cfglint.jobs.facts import UNKNOWN, Reading
from cfglint.source.shell import Word

PROGRAMS: Final = frozenset({"llama-server", "llama.cpp-server"})
IMAGE: Final = "llama.cpp"
"""``ghcr.io/ggml-org/llama.cpp:server-cuda``: the server is the entrypoint of tags that begin with ``server``."""
NAMES: Final[Mapping[str, str]] = {
    "m": "model", "hf": "hf_repo", "hfr": "hf_repo", "hff": "hf_file", "c": "ctx_size", "ngl": "n_gpu_layers",
    "gpu_layers": "n_gpu_layers", "b": "batch_size", "ub": "ubatch_size", "np": "parallel", "fa": "flash_attn",
    "ctk": "cache_type_k", "ctv": "cache_type_v", "ts": "tensor_split", "sm": "split_mode", "mg": "main_gpu",
    "a": "alias", "t": "threads", "md": "model_draft", "hfd": "hf_repo_draft", "ngld": "n_gpu_layers_draft",
    "gpu_layers_draft": "n_gpu_layers_draft", "ot": "override_tensor", "ncmoe": "n_cpu_moe", "cmoe": "cpu_moe",
    "nkvo": "no_kv_offload", "cb": "cont_batching", "mm": "mmproj", "dev": "device",
}  # fmt: skip
"""Short options of common/arg.cpp to the long ones."""
SWITCHES: Final = frozenset(
    {
        "jinja", "mlock", "no_mmap", "no_kv_offload", "cont_batching", "no_cont_batching", "cpu_moe", "embedding",
        "embeddings", "reranking", "rerank", "metrics", "slots", "no_slots", "no_webui", "verbose", "v", "no_warmup",
        "swa_full", "no_context_shift", "context_shift", "kv_unified", "no_mmproj", "no_jinja", "props", "offline",
        "log_verbose", "log_disable", "no_perf", "kvu", "special", "check_tensors",
    }
)  # fmt: skip
VARIABLES: Final[Mapping[str, str]] = {
    "LLAMA_ARG_MODEL": "model", "LLAMA_ARG_HF_REPO": "hf_repo", "LLAMA_ARG_HF_FILE": "hf_file",
    "LLAMA_ARG_CTX_SIZE": "ctx_size", "LLAMA_ARG_N_GPU_LAYERS": "n_gpu_layers", "LLAMA_ARG_N_PARALLEL": "parallel",
    "LLAMA_ARG_BATCH": "batch_size", "LLAMA_ARG_UBATCH": "ubatch_size", "LLAMA_ARG_FLASH_ATTN": "flash_attn",
    "LLAMA_ARG_CACHE_TYPE_K": "cache_type_k", "LLAMA_ARG_CACHE_TYPE_V": "cache_type_v",
    "LLAMA_ARG_SPLIT_MODE": "split_mode", "LLAMA_ARG_TENSOR_SPLIT": "tensor_split", "LLAMA_ARG_HOST": "host",
    "LLAMA_ARG_PORT": "port", "LLAMA_ARG_ALIAS": "alias", "LLAMA_ARG_N_CPU_MOE": "n_cpu_moe",
}  # fmt: skip
FACTS: Final[Mapping[str, str]] = {"model": "model_id", "ctx_size": "max_model_len", "parallel": "max_num_seqs"}


class LlamaCppDialect(Dialect):
    name = "llama.cpp"
    title = "llama.cpp"
    kind = "serve"
    summary = "`llama-server` and the llama.cpp server image in shell, Dockerfiles, compose and Kubernetes"

    def read_launch(self, launch: Launch) -> Iterator[Reading]:
        words = _server_arguments(launch)
        if words is None:
            return
        entries, _ = flags_of(words, NAMES, SWITCHES)
        stated = {entry.name for entry in entries}
        entries += [entry for entry in environment_entries(launch, VARIABLES) if entry.name not in stated]
        if not entries:
            return
        reading = server_reading(self.name, launch, entries, "llama-server")
        # a context of 0 is the model's own; slots of -1 are chosen by the server
        state_facts(reading, FACTS, {}, positive=("ctx_size", "parallel"))
        if reading.value("ctx_size") == 0:
            reading.facts.state("max_model_len", UNKNOWN, reading.origin("ctx_size"))
        repository = reading.value("hf_repo")
        if isinstance(repository, str) and "$" not in repository:
            name, _, quantization = repository.partition(":")
            reading.facts.state("model_id", name, reading.origin("hf_repo"))
            if quantization:
                reading.facts.state("quantization", quantization, reading.origin("hf_repo"))
        state_surroundings(reading, launch)
        yield reading


def _server_arguments(launch: Launch) -> list[Word] | None:
    started = program(launch.words)
    if started is not None and started.name in PROGRAMS:
        return started.arguments
    if started is not None and started.module and started.name == "llama_cpp.server":
        return started.arguments
    if launch.image is not None and launch.image.known and image_name(launch.image.text) == IMAGE:
        tag = launch.image.text.rpartition(":")[2]
        if tag.startswith("server") and (started is None or launch.words[0].text.startswith("-")):
            return list(launch.words)
        if started is not None and launch.words[0].text in ("-s", "--server"):
            return list(launch.words[1:])
    return None


DIALECT = LlamaCppDialect()
