"""SGLang: ``python -m sglang.launch_server`` and ``sglang serve`` on command lines of any carrier, and its ``--config`` file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import program
from cfglint.dialects.server import (
    as_integer,
    flags_of,
    image_name,
    model_entry,
    own_name,
    server_reading,
    state_facts,
    state_surroundings,
)
from cfglint.jobs.facts import Reading, Reference
from cfglint.source.node import Document
from cfglint.source.node import Mapping as Table
from cfglint.source.shell import Word

MODULES: Final = frozenset({"sglang.launch_server", "sglang.srt.server", "sglang.cli.main"})
DYNAMO_MODULES: Final = frozenset({"dynamo.sglang", "dynamo.sglang.worker", "dynamo.sglang.decode_worker"})
"""Dynamo's workers take SGLang's arguments beside their own."""
ROUTERS: Final = frozenset({"sglang.srt.disaggregation.mini_lb", "sglang_router.launch_router"})
"""What stands before servers: no engine of its own."""
UNMISTAKABLE: Final = frozenset(
    {"mem_fraction_static", "chunked_prefill_size", "disable_radix_cache", "cuda_graph_max_bs"}
)
IMAGES: Final = frozenset({"sglang", "sglang-rocm"})
"""Base names of the project's images: ``lmsysorg/sglang``."""
FACTS: Final[Mapping[str, str]] = {
    "model_path": "model_id",
    "dtype": "dtype",
    "quantization": "quantization",
    "kv_cache_dtype": "kv_cache_dtype",
    "context_length": "max_model_len",
    "max_running_requests": "max_num_seqs",
    "chunked_prefill_size": "max_num_batched_tokens",
    "mem_fraction_static": "mem_fraction_static",
    "disable_cuda_graph": "enforce_eager",
    "disable_radix_cache": "enable_prefix_caching",
    "page_size": "block_size",
    "cpu_offload_gb": "cpu_offload_gb",
    "enable_lora": "enable_lora",
    "max_loras_per_batch": "max_loras",
    "max_lora_rank": "max_lora_rank",
    "tp_size": "tensor_parallel_size",
    "pp_size": "pipeline_parallel_size",
    "dp_size": "data_parallel_size",
    "ep_size": "expert_parallel_size",
    "trust_remote_code": "trust_remote_code",
}
"""SGLang's argument to the job's fact; every other argument goes to ``engine_args``."""
DISTINCTIVE: Final = frozenset(
    {
        "model_path", "tp_size", "dp_size", "mem_fraction_static", "chunked_prefill_size", "context_length",
        "max_running_requests", "disable_radix_cache", "schedule_policy", "cuda_graph_max_bs", "attention_backend",
        "enable_dp_attention", "disable_cuda_graph", "tensor_parallel_size", "max_total_tokens", "served_model_name",
        "schedule_conservativeness", "radix_eviction_policy", "max_prefill_tokens",
    }
)  # fmt: skip
OWN: Final = frozenset(
    {
        "mem_fraction_static", "chunked_prefill_size", "disable_radix_cache", "cuda_graph_max_bs", "max_running_requests",
        "schedule_conservativeness", "enable_dp_attention", "radix_eviction_policy", "disable_cuda_graph",
    }
)  # fmt: skip
"""Arguments that no other engine has by that name: a config file needs one of them."""


class SglangDialect(Dialect):
    name = "sglang"
    title = "SGLang"
    kind = "serve"
    schema = "sglang"
    summary = "`sglang.launch_server` and `sglang serve` in shell, Dockerfiles, compose and Kubernetes; config files"
    markers = frozenset({"mem-fraction-static", "chunked-prefill-size", "disable-radix-cache", "mem_fraction_static"})

    def recognise(self, document: Document, root: Table) -> Recognition | None:
        if any(isinstance(e.value, Table) for e in root.index.values()):
            return None
        keys = {own_name(k, names()) for k in root.keys()}  # noqa: SIM118
        hits = keys & DISTINCTIVE
        if len(hits) < 2 or not keys & OWN:
            return None
        if len(keys - known_arguments()) * 4 > len(keys):
            return None
        return Recognition(61, " + ".join(sorted(hits)[:3]))

    def read(self, document: Document, root: Table) -> Iterator[Reading]:
        reading = Reading(self.name, document, root, role="run", kind="serve", framework=self.name)
        _state(reading)
        yield reading

    def read_launch(self, launch: Launch) -> Iterator[Reading]:
        words = _server_arguments(launch)
        if words is None:
            started = program(launch.words)
            if started is not None and started.module and started.name in ROUTERS:
                router = server_reading(self.name, launch, flags_of(started.arguments, {})[0], started.name)
                router.role = "carrier"
                yield router
            return
        entries, positionals = flags_of(words, names(), switches(), several())
        if positionals and not any(entry.name == "model_path" for entry in entries):
            entries.insert(0, model_entry(positionals[0], "model_path"))
        reading = server_reading(self.name, launch, entries, "sglang.launch_server", own_images=IMAGES)
        if reading.context["program"] in DYNAMO_MODULES:
            reading.context["wrapper"] = "dynamo"
        config = reading.value("config")
        if isinstance(config, str):
            reading.references.append(Reference("config", config, reading.origin("config"), base="cwd"))
        _state(reading)
        nodes = as_integer(reading.value("nnodes"))
        if isinstance(nodes, int):
            reading.facts.state("nodes", nodes, reading.origin("nnodes"))
        state_surroundings(reading, launch)
        if launch.image is None and launch.container is not None:
            reading.role = "part"  # a patch of a container: its image stands elsewhere
        if reading.facts.stated("model_id") or reading.references or len(entries) >= 2:
            yield reading


def _server_arguments(launch: Launch) -> list[Word] | None:
    """The server's own arguments; None where no SGLang server is started."""
    started = program(launch.words)
    if started is None:
        return None
    if started.module and started.name in MODULES | DYNAMO_MODULES:
        return started.arguments[1:] if started.name.endswith("cli.main") else started.arguments
    if started.script and started.name.endswith("sglang/launch_server.py"):
        return started.arguments
    if started.name == "sglang" and started.arguments and started.arguments[0].text == "serve":
        return started.arguments[1:]
    if launch.image is not None and image_name(launch.image.text) in IMAGES:
        rest = launch.words
        if len(rest) > 2 and rest[0].text == "-m" and rest[1].text in MODULES:
            return rest[2:]
    if launch.container is not None:
        return _spoken(launch.words)
    return None


def _spoken(words: list[Word]) -> list[Word] | None:
    """The arguments behind a wrapper's own name, where they can be no other engine's."""
    first = next((i for i, word in enumerate(words) if word.text.startswith("--")), None)
    if first is None:
        return None
    spoken = {own_name(word.text.partition("=")[0], names()) for word in words[first:] if word.text.startswith("--")}
    if spoken & UNMISTAKABLE and "model_path" in spoken and spoken <= known_arguments():
        return words[first:]
    return None


def _state(reading: Reading) -> None:
    # a chunk of -1 switches chunked prefill off
    state_facts(reading, FACTS, names(), negations=("disable_radix_cache",), positive=("chunked_prefill_size",))


@lru_cache(maxsize=1)
def names() -> Mapping[str, str]:
    """Every alias, and every beginning of a name that stands in use, to the argument's own name."""
    from cfglint.catalog.engines import argument_names

    found = {"tp": "tp_size", "dp": "dp_size", "pp": "pp_size", "ep": "ep_size", "mem_fraction": "mem_fraction_static"}
    for own, aliases in argument_names("sglang").items():
        for alias in aliases:
            found.setdefault(alias, own)
    return found


@lru_cache(maxsize=1)
def known_arguments() -> frozenset[str]:
    from cfglint.catalog.engines import argument_names

    return frozenset(argument_names("sglang")) | {"config"}


@lru_cache(maxsize=1)
def switches() -> frozenset[str]:
    """Arguments that take no value."""
    from cfglint.catalog.engines import engine_arguments

    found: set[str] = set()
    for argument in engine_arguments("sglang"):
        kind = argument.type or ""
        prefix = argument.name.lstrip("-").split("-", 1)[0]
        if kind in ("bool", "Optional[bool]", "bool | None") or (
            not kind and (isinstance(argument.default, bool) or prefix in ("enable", "disable"))
        ):
            for name in (argument.name, *argument.aliases):
                found.add(name.lstrip("-").replace("-", "_"))
    return frozenset(found)


@lru_cache(maxsize=1)
def several() -> frozenset[str]:
    """Arguments that take a list of words."""
    from cfglint.catalog.engines import engine_arguments

    listed = {a.name.lstrip("-").replace("-", "_") for a in engine_arguments("sglang") if "List" in str(a.type or "")}
    return frozenset(listed | {"cuda_graph_bs", "lora_paths"})


DIALECT = SglangDialect()
