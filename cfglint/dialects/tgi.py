"""Text Generation Inference: ``text-generation-launcher`` and its image, with arguments from words and environment.

Every argument of the launcher is also an environment variable of the same name; a flag wins over it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from cfglint.dialects.base import Dialect, Launch
from cfglint.dialects.carriers.command import program
from cfglint.dialects.flags import CALLERS
from cfglint.dialects.server import (
    environment_entries,
    flags_of,
    image_name,
    server_reading,
    state_facts,
    state_surroundings,
)
from cfglint.jobs.facts import DerivedOrigin, FileOrigin, Reading
from cfglint.source.node import Entry
from cfglint.source.shell import Word

LAUNCHER: Final = "text-generation-launcher"
IMAGES: Final = frozenset({"text-generation-inference", "tgi", "text-generation-inference-gpu"})
"""Images whose entrypoint is the launcher; only the first is tagged with the engine's version."""
ARGUMENTS: Final = (
    "model_id", "revision", "validation_workers", "sharded", "num_shard", "quantize", "speculate", "dtype",
    "kv_cache_dtype", "trust_remote_code", "max_concurrent_requests", "max_best_of", "max_stop_sequences",
    "max_top_n_tokens", "max_input_tokens", "max_input_length", "max_total_tokens", "waiting_served_ratio",
    "max_batch_prefill_tokens", "max_batch_total_tokens", "max_waiting_tokens", "max_batch_size", "cuda_graphs",
    "hostname", "port", "prometheus_port", "shard_uds_path", "master_addr", "master_port", "huggingface_hub_cache",
    "weights_cache_override", "disable_custom_kernels", "cuda_memory_fraction", "rope_scaling", "rope_factor",
    "json_output", "otlp_endpoint", "otlp_service_name", "cors_allow_origin", "api_key", "watermark_gamma",
    "watermark_delta", "ngrok", "ngrok_authtoken", "ngrok_edge", "tokenizer_config_path", "disable_grammar_support",
    "env", "max_client_batch_size", "lora_adapters", "usage_stats", "payload_limit", "enable_prefill_logprobs",
    "graceful_termination_timeout", "disable_usage_stats", "disable_crash_reports", "messages_api_enabled",
)  # fmt: skip
"""launcher/src/main.rs of 0.9 to 3.3."""
_GOOGLE_BUILD: Final = re.compile(r"/huggingface-text-generation-inference-[a-z]+\d*\.(\d+)-(\d+)\.")
"""Google's builds have the release in their name: ``huggingface-text-generation-inference-cu124.2-3.ubuntu2204.py311``."""
NOT_FROM_ENVIRONMENT: Final = frozenset({"env"})
SWITCHES: Final = frozenset(
    {
        "trust_remote_code", "disable_custom_kernels", "json_output", "ngrok", "disable_grammar_support", "env",
        "enable_prefill_logprobs", "disable_usage_stats", "disable_crash_reports",
    }
)  # fmt: skip
FACTS: Final[Mapping[str, str]] = {
    "model_id": "model_id",
    "dtype": "dtype",
    "quantize": "quantization",
    "kv_cache_dtype": "kv_cache_dtype",
    "num_shard": "tensor_parallel_size",
    "max_total_tokens": "max_model_len",
    "max_batch_prefill_tokens": "max_num_batched_tokens",
    "max_batch_size": "max_num_seqs",
    "trust_remote_code": "trust_remote_code",
}


class TgiDialect(Dialect):
    name = "tgi"
    title = "Text Generation Inference"
    kind = "serve"
    summary = "`text-generation-launcher` and the TGI image in shell, Dockerfiles, compose and Kubernetes, environment included"

    def read_launch(self, launch: Launch) -> Iterator[Reading]:
        words = _launcher_arguments(launch)
        if words is None:
            return
        given, _ = flags_of(words, {}, SWITCHES)
        variables = {name.upper(): name for name in ARGUMENTS if name not in NOT_FROM_ENVIRONMENT}
        stated = {entry.name for entry in given}
        entries: list[Entry] = [
            *given,
            *(entry for entry in environment_entries(launch, variables) if entry.name not in stated),
        ]
        if not entries and not any(word.text in CALLERS for word in words):
            return
        reading = server_reading(self.name, launch, entries, LAUNCHER, own_images=("text-generation-inference",))
        built = _GOOGLE_BUILD.search(launch.image.text) if launch.image is not None else None
        if built is not None and launch.image is not None:
            release = f"{built[1]}.{built[2]}"
            reading.context["versions"] = {self.name: release}
            origin = FileOrigin(launch.document, ("image",), launch.image.span, launch.image.span)
            reading.facts.state("framework_version", release, origin)
        state_facts(
            reading, FACTS, {}, also_arguments=("max_total_tokens", "max_batch_prefill_tokens"), positive=("num_shard",)
        )
        state_surroundings(reading, launch)
        _shards(reading)
        if not entries:
            reading.role = "part"  # an image's entrypoint: the caller's arguments and environment say what is served
        yield reading


def _launcher_arguments(launch: Launch) -> list[Word] | None:
    started = program(launch.words)
    if started is not None and started.name == LAUNCHER:
        return started.arguments
    image = image_name(launch.image.text) if launch.image else ""
    own = image in IMAGES or image.startswith("huggingface-text-generation-inference")  # Google's builds of it
    if own and (started is None or launch.words[0].text.startswith("-")):
        return list(launch.words)
    return None


def _shards(reading: Reading) -> None:
    """``find_num_shards`` of the launcher: without a number, one shard for each device it is given."""
    if reading.facts.stated("tensor_parallel_size"):
        return
    sharded = reading.value("sharded")
    gpus = next(iter(reading.facts.statements("gpus_per_node")), None)
    if sharded is False:
        reading.facts.state("tensor_parallel_size", 1, reading.origin("sharded"))
    elif gpus is not None and isinstance(gpus.value, int):
        how = f"one shard for each of {gpus.value} devices"
        reading.facts.state("tensor_parallel_size", gpus.value, DerivedOrigin(how, (gpus.origin,)))


DIALECT = TgiDialect()
