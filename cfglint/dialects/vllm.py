"""vLLM: its config file (``--config``), ``vllm serve`` and the ``api_server`` module, on command lines of any carrier."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import ContainerRun, basename, image_version, program
from cfglint.dialects.flags import read_flags
from cfglint.dialects.server import as_integer, as_number, not_known, place_model, values_of
from cfglint.jobs.facts import LARGEST, UNKNOWN, FileOrigin, Reading, Reference
from cfglint.source.node import Document, Entry, Mapping, Node, Scalar, Span, at, plain
from cfglint.source.shell import Word

MODULES = frozenset({"vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", "vllm.entrypoints.cli.main"})
DYNAMO_MODULES = frozenset({"dynamo.vllm", "dynamo.vllm.main"})
"""Dynamo's workers take vLLM's arguments beside their own."""
IMAGES = ("vllm-openai", "vllm-tpu", "vllm-rocm", "vllm-openai-rocm", "vllm-openai-cpu", "vllm-openai-xpu")
"""Images whose entrypoint is the API server: args alone make a server."""
DISTINCTIVE = frozenset(
    [
        "gpu_memory_utilization",
        "max_model_len",
        "tensor_parallel_size",
        "max_num_seqs",
        "max_num_batched_tokens",
        "enforce_eager",
        "kv_cache_dtype",
        "served_model_name",
        "enable_prefix_caching",
        "swap_space",
        "enable_chunked_prefill",
        "tool_call_parser",
        "enable_auto_tool_choice",
        "reasoning_parser",
        "pipeline_parallel_size",
    ]
)
GENERIC = frozenset(
    [
        "model",
        "dtype",
        "port",
        "host",
        "seed",
        "tokenizer",
        "revision",
        "config",
        "quantization",
        "api_key",
        "device",
        "task",
        "runner",
        "hf_token",
        "root_path",
        "download_dir",
        "log_config_file",
        "disable_log_stats",
        "allowed_origins",
        "allowed_methods",
        "allowed_headers",
    ]
)
"""vLLM's arguments whose names stand in many other tools' files."""
FACTS: dict[str, str] = {
    "model": "model_id",
    "dtype": "dtype",
    "quantization": "quantization",
    "kv_cache_dtype": "kv_cache_dtype",
    "max_model_len": "max_model_len",
    "max_num_seqs": "max_num_seqs",
    "max_num_batched_tokens": "max_num_batched_tokens",
    "gpu_memory_utilization": "gpu_memory_utilization",
    "enforce_eager": "enforce_eager",
    "block_size": "block_size",
    "cpu_offload_gb": "cpu_offload_gb",
    "swap_space": "swap_space",
    "enable_prefix_caching": "enable_prefix_caching",
    "enable_lora": "enable_lora",
    "max_loras": "max_loras",
    "max_lora_rank": "max_lora_rank",
    "tensor_parallel_size": "tensor_parallel_size",
    "pipeline_parallel_size": "pipeline_parallel_size",
    "data_parallel_size": "data_parallel_size",
    "enable_expert_parallel": "enable_expert_parallel",
    "trust_remote_code": "trust_remote_code",
    "limit_mm_per_prompt": "limit_mm_per_prompt",
    "speculative_config": "speculative",
}
"""vLLM's argument to the job's fact; every other argument goes to ``engine_args``."""
SHORT = {"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "dp": "data_parallel_size", "q": "quantization"}
INTEGERS = frozenset(
    [
        "max_model_len",
        "max_num_seqs",
        "max_num_batched_tokens",
        "block_size",
        "max_loras",
        "max_lora_rank",
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
    ]
)
NUMBERS = frozenset({"gpu_memory_utilization", "cpu_offload_gb", "swap_space"})
SIZES = frozenset({"max_model_len", "max_num_batched_tokens"})
"""Arguments that take ``32k`` (decimal) and ``32K`` (binary): vllm/engine/arg_utils.py, human_readable_int."""
_HUMAN = re.compile(r"^(\d+(?:\.\d+)?)([kmgtKMGT])$")


def human_readable_int(text: str) -> int | None:
    """``1k`` is 1,000 and ``1K`` is 1,024, as vLLM reads them; None for other text."""
    match = _HUMAN.match(text.strip())
    if not match:
        return None
    number, unit = match.groups()
    power = "kmgt".index(unit.lower()) + 1
    if "." in number and unit.isupper():
        return None
    size = float(number) * (1000 if unit.islower() else 1024) ** power
    return int(size) if size < LARGEST else None


class VllmDialect(Dialect):
    name = "vllm"
    title = "vLLM"
    kind = "serve"
    schema = "vllm"
    summary = "config files and `vllm serve` command lines in shell, Dockerfiles, compose and Kubernetes"
    markers = frozenset({"gpu-memory-utilization", "max-model-len", "tensor-parallel-size", "gpu_memory_utilization"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        if any(isinstance(e.value, Mapping) and e.name not in _STRUCTURED for e in root.index.values()):
            return None
        keys = {k.replace("-", "_").removeprefix("no_") for k in root.keys()}  # noqa: SIM118
        hits = keys & DISTINCTIVE
        if len(hits) < 2 and not ("model" in keys and hits):
            # a short file: nothing but arguments of vLLM, one of them its own
            if "model" not in keys:
                return None
            hits = keys & _known_arguments() - GENERIC
            if not hits or keys - _known_arguments():
                return None
        known = _known_arguments()
        foreign = keys - known - {"model_tag", "config"}
        if len(foreign) * 4 > len(keys):
            return None
        return Recognition(60, " + ".join(sorted(hits)[:3]))

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        reading = Reading(self.name, document, root, role="run", kind="serve", framework="vllm")
        _read_facts(reading)
        yield reading

    def read_launch(self, launch: Launch) -> Iterator[Reading]:
        arguments = _server_arguments(launch)
        if arguments is None:
            return
        words, positional_model = arguments
        parsed = read_flags(words, booleans=_booleans(), several=SEVERAL)
        entries: list[Entry] = []
        for entry in parsed.mapping.entries:
            name = SHORT.get(entry.name, entry.name)
            if name != entry.name:
                entry = Entry(Scalar(entry.key.span, name, entry.key.raw), entry.value)
            entries.append(entry)
        positionals = list(parsed.positionals)
        own = values_of(positionals)
        if positional_model and own:
            word = own[0]
            entries.insert(0, Entry(Scalar(word.span, "model", word.raw), Scalar(word.span, word.text, word.raw)))
        span_words = words or launch.words or ([launch.image] if launch.image else [])
        span = (
            Span(min(w.span.start for w in span_words), max(w.span.end for w in span_words))
            if span_words
            else Span(0, 0)
        )
        reading = Reading(
            self.name,
            launch.document,
            Mapping(span, entries),
            role="run",
            kind="serve",
            framework="vllm",
            carrier=launch.carrier,
            why="vllm serve" if positional_model else "vLLM API server",
        )
        if launch.context.get("wrapper") is not None:
            reading.context["wrapper"] = launch.context["wrapper"]
        elif (started := program(launch.words)) is not None and started.name in DYNAMO_MODULES:
            reading.context["wrapper"] = "dynamo"
        if launch.image is None and launch.container is not None and launch.words[:1] and words is launch.words:
            reading.role = "part"  # a patch of a container: its image and its other arguments stand elsewhere
        reading.context["command_line"] = True
        reading.context["program"] = _program_name(launch)
        reading.context["positionals"] = positionals
        reading.context["environment"] = launch.environment
        if launch.image is not None:
            reading.context["image"] = launch.image
            version = engine_version(launch.image.text)
            if version is not None and launch.image.known:
                reading.context["versions"] = {"vllm": version}
                origin = FileOrigin(launch.document, ("image",), launch.image.span, launch.image.span)
                reading.facts.state("framework_version", version, origin)
        config = reading.value("config")
        if isinstance(config, str):
            reading.references.append(Reference("config", config, reading.origin("config"), base="cwd"))
        _read_facts(reading)
        place_model(reading, launch)
        for name, pair in (("gpu", launch.gpu), ("gpus_per_node", launch.gpus), ("nodes", launch.nodes)):
            if pair is not None:
                origin_ = pair[1]
                if isinstance(origin_, Word):
                    origin_ = FileOrigin(launch.document, (name,), origin_.span, origin_.span)
                reading.facts.state(name, pair[0], origin_)
        if launch.host_memory is not None:
            reading.facts.state("host_memory_bytes", launch.host_memory[0], launch.host_memory[1])
        own_script = (started := program(launch.words)) is not None and bool(
            SERVER_SCRIPT.match(basename(started.name))
        )
        own_image = "docker" in launch.context and launch.image is not None and words is launch.words
        first_word = bool(values_of(positionals)) and not positional_model and started is not None and started.module
        known = reading.facts.stated("model_id") or reading.references or first_word
        if known or len(entries) >= 2 or own_script or own_image:
            yield reading


SEVERAL = frozenset(
    [
        "served_model_name",
        "lora_modules",
        "cuda_graph_sizes",
        "cudagraph_capture_sizes",
        "allowed_origins",
        "allowed_methods",
        "middleware",
        "api_key",
        "allowed_media_domains",
    ]
)
_STRUCTURED = frozenset(
    spelling
    for name in (
        "speculative_config", "compilation_config", "hf_overrides", "limit_mm_per_prompt", "override_generation_config",
        "kv_transfer_config", "kv_events_config", "rope_scaling", "mm_processor_kwargs", "additional_config",
        "structured_outputs_config", "attention_config", "eplb_config", "pooler_config", "profiler_config",
        "ec_transfer_config", "model_loader_extra_config", "default_chat_template_kwargs", "kernel_config",
    )
    for spelling in (name, name.replace("_", "-"))
)  # fmt: skip
"""Arguments whose value is a mapping."""


_BUILT_ON: Final = re.compile(r"v\d+\.\d+\.\d+(?:\.post\d+)?-[a-z0-9]")


def tag_is_engine_version(image: str) -> bool:
    """Whether the image's tag is vLLM's own version: the project's images and mirrors of them, not builds of others
    (``lmcache/vllm-openai`` counts its own releases)."""
    repository, _, tag = image.split("@")[0].rpartition(":")
    parts = (repository or image).split("/")
    if len(parts) > 1 and parts[-2] == "lmcache":
        return False
    # `vllm-openai-nixl:v0.10.2-nixl-0.7.1`: others' builds keep the release they build on in front
    return parts[-1] in IMAGES or (parts[-1].startswith("vllm-openai-") and _BUILT_ON.match(tag) is not None)


_NAMED_RELEASE: Final = re.compile(r"(?:^|[-_.])vllm[-_]?v?(\d+\.\d+\.\d+(?:\.post\d+)?)(?=$|[-_+])", re.IGNORECASE)


def engine_version(image: str) -> str | None:
    """vLLM's release in an image: its tag, or what the tag of another's image says of vLLM
    (``gpustack/runner:cuda12.8-vllm0.13.0``)."""
    if tag_is_engine_version(image):
        return image_version(image)
    named = _NAMED_RELEASE.search(image.split("@")[0].rpartition("/")[2].partition(":")[2])
    return named[1] if named is not None else None


def _program_name(launch: Launch) -> str:
    started = program(launch.words)
    return started.name if started else ""


def _server_arguments(launch: Launch) -> tuple[list[Word], bool] | None:
    """The server's own arguments, and whether its first positional is the model; None where it is no vLLM server."""
    words = launch.words
    started = program(words)
    if started is not None:
        if started.name == "vllm" and not started.script:
            if started.arguments and started.arguments[0].text == "serve":
                return started.arguments[1:], True
            return None
        if started.module and started.name in DYNAMO_MODULES:
            return started.arguments, False
        if started.module and started.name in MODULES:
            if started.name.endswith("cli.main"):
                return (started.arguments[1:], True) if started.arguments[:1] else None
            return started.arguments, False
        if started.script and started.name.endswith(("vllm/entrypoints/openai/api_server.py",)):
            return started.arguments, False
        if started.script and SERVER_SCRIPT.match(basename(started.name)) and speaks_vllm(started.arguments, least=1):
            return started.arguments, False
    image = basename(launch.image.text.split("@")[0]).split(":")[0] if launch.image else ""
    own = words and (started is None or words[0].text.startswith("-") or "/" in words[0].text)
    if image in IMAGES and own and not words[0].text.endswith((".sh", ".bash", ".py")):
        # args only: the image's entrypoint is the server; its first word may be the model (vllm serve as entrypoint)
        return words, not words[0].text.startswith("-")
    if image in IMAGES and words and words[0].text == "serve":
        return words[1:], True
    run = launch.context.get("docker")
    if image in IMAGES and not words and isinstance(run, ContainerRun) and "model" in run.options:
        return words, False  # its arguments stand before the image
    options = bool(words) and words[0].text.startswith("-")
    if options and launch.container is not None and speaks_vllm(words):
        return words, False
    if options and "docker" in launch.context and "vllm" in image and speaks_vllm(words, least=0):
        return words, False  # others' builds: ghcr.io/sasha0552/vllm
    if "vllm" in image and own and _MODEL_PATH.match(words[0].text) and speaks_vllm(words[1:], least=1):
        return words, True
    return None


_MODEL_PATH: Final = re.compile(r"(/(.*/)?|[\w.-]+/)[^/]*\d[^/]*/?(?<!\.sh)(?<!\.py)(?<!\.bash)$")
"""A Hub id, or a folder, whose name has a figure in it, as those of models do and programs' hardly."""
UNMISTAKABLE = frozenset(
    {
        "gpu_memory_utilization",
        "max_model_len",
        "max_num_seqs",
        "max_num_batched_tokens",
        "enforce_eager",
        "enable_prefix_caching",
        "tensor_parallel_size",
        "served_model_name",
        "kv_transfer_config",
    }
)


SERVER_SCRIPT = re.compile(r"(\w*_)?(api_)?serve(r)?(_\w*)?\.py$")
"""Scripts of users that put vLLM's arguments around its engine, as its own ``api_server.py`` does."""


def speaks_vllm(words: list[Word], *, least: int = 2) -> bool:
    """Whether arguments alone, of an image of another name or a patch, are a vLLM server's: a model or two of the
    arguments that servers of its kind alone have, and none that vLLM does not have. Of a script that says by its name that
    it serves one of them is enough, of an image that has vLLM in its name the model."""
    names = {canonical(w.text.partition("=")[0])[0] for w in words if w.text.startswith("--")}
    hits = len(names & UNMISTAKABLE)
    if hits + ("model" in names) < max(least, 1) or hits < min(least, 1):
        return False
    return names <= _known_arguments()


@lru_cache(maxsize=1)
def _known_arguments() -> frozenset[str]:
    from cfglint.catalog.engines import argument_names

    names = argument_names("vllm")
    return (
        frozenset(names).union(*names.values()) | frozenset(FACTS) | DISTINCTIVE | {"model", "config", "port", "host"}
    )


@lru_cache(maxsize=1)
def _booleans() -> frozenset[str]:
    """Switches: arguments that take no value, with their ``no_`` forms."""
    from cfglint.catalog.engines import engine_arguments

    names: set[str] = set()
    for argument in engine_arguments("vllm"):
        kind = argument.type or ""
        if kind in ("bool", "Optional[bool]", "bool | None") or (not kind and isinstance(argument.default, bool)):
            for name in (argument.name, *argument.aliases):
                plain_name = name.lstrip("-").replace("-", "_")
                names.update((plain_name, f"no_{plain_name}"))
    return frozenset(names)


@lru_cache(maxsize=1024)
def canonical(key: str) -> tuple[str, bool]:
    """The argument's own name with underscores, and whether the key negates it: ``tp`` and ``tensor-parallel`` are
    ``tensor_parallel_size``, ``no-enable-prefix-caching`` is its negation. A key of no known argument stays as it is."""
    from cfglint.catalog.engines import engine_argument

    name = key.strip().lstrip("-").replace("-", "_")
    if name in FACTS:
        return name, False
    negated = name.startswith("no_")
    argument = engine_argument("vllm", f"--{name}")
    if argument is None and name.startswith("disable_"):
        # vllm/utils/argparse_utils.py, EnableDisableAction: --disable-x is the negation of --enable-x
        opposite = engine_argument("vllm", f"--enable_{name[len('disable_') :]}")
        if opposite is not None and "bool" in str(opposite.type):
            return opposite.name.lstrip("-").replace("-", "_"), True
    if argument is None:
        return name, False
    own = argument.name.lstrip("-").replace("-", "_")
    return own, negated and not own.startswith("no_")


def _read_facts(reading: Reading) -> None:
    root = reading.root
    assert isinstance(root, Mapping)
    others: dict[str, Any] = {}
    dotted: dict[str, tuple[dict[str, Any], FileOrigin]] = {}
    for key, entry in root.index.items():
        name, negated = canonical(key)
        origin = FileOrigin(reading.document, (*reading.base, key), entry.key.span, entry.value.span)
        value = plain(entry.value)
        base, dot, inner = name.partition(".")
        if dot and inner:
            _put(dotted.setdefault(canonical(base)[0], ({}, origin))[0], inner, value)
            continue
        if negated:
            value = not value if isinstance(value, bool) else False
        fact = FACTS.get(name)
        if fact is None:
            others[name] = value
            continue
        known = _value(name, value, entry.value)
        if known is not None:
            reading.facts.state(fact, known, origin)
    for name, (settings, origin) in dotted.items():
        fact = FACTS.get(name)
        if fact is None:
            stated = others.get(name)
            others[name] = {**stated, **settings} if isinstance(stated, dict) else settings
        elif not reading.facts.stated(fact):
            reading.facts.state(fact, settings, origin)
    model = at(root, "model_tag")
    if isinstance(model, Scalar) and isinstance(model.value, str):
        reading.facts.state("model_id", model.value, reading.origin("model_tag"))
    _adapters(reading, others.get("lora_modules"))
    if others:
        reading.facts.state("engine_args", others, reading.origin())
    if reading.facts.value("model_id"):
        model_origin = next(f.origin for f in reading.facts.statements("model_id"))
        if isinstance(model_origin, FileOrigin):
            target = str(reading.facts.value("model_id"))
            reading.references.append(Reference("model", target, model_origin, base="cwd"))


def _put(settings: dict[str, Any], route: str, value: Any) -> None:
    """``--compilation-config.pass_config.fuse 1``: a setting inside a JSON argument; ``key+`` adds to a list
    (vllm/utils/argparse_utils.py)."""
    *above, last = route.split(".")
    for name in above:
        inner = settings.setdefault(name, {})
        if not isinstance(inner, dict):
            return
        settings = inner
    if last.endswith("+"):
        listed = settings.setdefault(last[:-1], [])
        if isinstance(listed, list):
            listed.append(value)
    else:
        settings[last] = value


def _adapters(reading: Reading, modules: Any) -> None:
    """``--lora-modules name=path`` (or a JSON object with ``path``): each adapter's ``adapter_config.json``."""
    assert isinstance(reading.root, Mapping)
    key = next((k for k in reading.root.index if canonical(k)[0] == "lora_modules"), None)
    if key is None:
        return
    for module in modules if isinstance(modules, list) else [modules]:
        if isinstance(module, dict):
            path = module.get("path")
        elif isinstance(module, str) and module.lstrip().startswith("{"):
            stated = _mapping(module)
            path = stated.get("path") if isinstance(stated, dict) else None
        else:
            path = module.partition("=")[2] if isinstance(module, str) else None
        if isinstance(path, str) and path:
            reading.references.append(Reference("adapter", path, reading.origin(key), base="cwd"))


def _value(name: str, value: Any, node: Node) -> Any:
    """The fact's value, UNKNOWN where it is stated but not known here, None where it is of a type vLLM would refuse."""
    if not_known(value):
        return UNKNOWN
    if name in INTEGERS:
        if value == -1 and name == "max_model_len":
            return UNKNOWN
        count = as_integer(value)
        return human_readable_int(value) or UNKNOWN if count is UNKNOWN and name in SIZES else count
    if name in NUMBERS:
        return as_number(value)
    if name in ("limit_mm_per_prompt", "speculative_config"):
        return _mapping(value)
    if name in ("model", "dtype", "quantization", "kv_cache_dtype"):
        return value if isinstance(value, str) else None
    return value if isinstance(value, bool) else None


def _mapping(value: Any) -> Any:
    if isinstance(value, dict):
        return value
    if isinstance(value, str):
        import json

        try:
            parsed = json.loads(value)
        except ValueError:
            return UNKNOWN
        return parsed if isinstance(parsed, dict) else UNKNOWN
    return None


DIALECT = VllmDialect()
