"""LMDeploy: ``lmdeploy serve api_server`` on command lines of any carrier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cfglint.dialects.base import Dialect, Launch
from cfglint.dialects.carriers.command import program
from cfglint.dialects.server import flags_of, model_entry, server_reading, state_facts, state_surroundings
from cfglint.jobs.facts import Reading

SERVERS: Final = frozenset({"api_server", "gradio"})
FACTS: Final[Mapping[str, str]] = {
    "model_path": "model_id",
    "dtype": "dtype",
    "session_len": "max_model_len",
    "max_batch_size": "max_num_seqs",
    "max_prefill_token_num": "max_num_batched_tokens",
    "tp": "tensor_parallel_size",
    "dp": "data_parallel_size",
    "ep": "expert_parallel_size",
    "cache_block_seq_len": "block_size",
    "enable_prefix_caching": "enable_prefix_caching",
    "eager_mode": "enforce_eager",
}
FORMATS: Final = frozenset({"awq", "gptq", "fp8", "mxfp4"})
"""Values of ``--model-format`` that say how weights are quantized (``hf`` and ``llama`` do not)."""
SWITCHES: Final = frozenset(
    {
        "enable_prefix_caching", "eager_mode", "allow_terminate_by_client", "disable_fastapi_docs", "ssl",
        "enable_microbatch", "enable_eplb", "enable_metrics", "disable_vision_encoder", "use_logn_attn",
        "allow_credentials", "stream_output", "trust_remote_code",
    }
)  # fmt: skip
SEVERAL: Final = frozenset({"adapters", "api_keys", "allow_origins", "allow_methods", "allow_headers"})


class LmdeployDialect(Dialect):
    name = "lmdeploy"
    title = "LMDeploy"
    kind = "serve"
    summary = "`lmdeploy serve api_server` in shell, Dockerfiles, compose and Kubernetes"

    def read_launch(self, launch: Launch) -> Iterator[Reading]:
        started = program(launch.words)
        if started is None or started.name not in ("lmdeploy", "lmdeploy.cli.entrypoint"):
            return
        words = [word.text for word in started.arguments[:2]]
        if len(words) < 2 or words[0] != "serve" or words[1] not in SERVERS:
            return
        entries, positionals = flags_of(started.arguments[2:], {}, SWITCHES, SEVERAL)
        if positionals:
            entries.insert(0, model_entry(positionals[0], "model_path"))
        reading = server_reading(self.name, launch, entries, f"lmdeploy serve {words[1]}", own_images=("lmdeploy",))
        state_facts(reading, FACTS, {}, also_arguments=("max_prefill_token_num",))
        stored = reading.value("model_format")
        if isinstance(stored, str) and stored in FORMATS:
            reading.facts.state("quantization", stored, reading.origin("model_format"))
        state_surroundings(reading, launch)
        yield reading


DIALECT = LmdeployDialect()
