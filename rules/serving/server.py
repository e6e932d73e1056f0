"""What several rules ask of a server: its engine, its arguments by their own names, its version, the place it runs in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from cfglint.catalog.architecture import Architecture
from cfglint.dialects.base import Launch
from cfglint.dialects.carriers.command import ContainerRun
from cfglint.dialects.vllm import FACTS, canonical
from cfglint.jobs.facts import UNKNOWN, Fact, FileOrigin, Reading, beyond_counting
from cfglint.jobs.job import ServingJob
from cfglint.jobs.named_models import stated_name, without_format
from cfglint.jobs.versions import always_at_least, always_below, exact
from cfglint.source.node import Entry, plain
from cfglint.source.node import Mapping as Table

NEWEST_SAMPLED = "0.33.0"
"""The newest vLLM release whose source the rules were checked against."""
DEFAULT_PORT = 8000
"""vllm/entrypoints/common/cli_args.py, ``port``."""
ENGINES = {
    "vllm": "vLLM", "sglang": "SGLang", "tgi": "TGI", "trtllm": "TensorRT-LLM", "lmdeploy": "LMDeploy",
    "llama.cpp": "llama.cpp",
}  # fmt: skip
"""Serving engines by the name jobs bear, with the name people use."""
OWN_NAMES = {
    "sglang": {
        "tensor_parallel_size": "tp_size", "pipeline_parallel_size": "pp_size", "data_parallel_size": "dp_size",
        "max_model_len": "context_length", "expert_parallel_size": "ep_size",
    },
    "tgi": {"tensor_parallel_size": "num_shard", "max_model_len": "max_total_tokens", "quantization": "quantize"},
    "lmdeploy": {"tensor_parallel_size": "tp", "data_parallel_size": "dp", "max_model_len": "session_len"},
    "trtllm": {"tensor_parallel_size": "tp_size", "pipeline_parallel_size": "pp_size", "max_model_len": "max_seq_len"},
    "llama.cpp": {"max_model_len": "ctx_size"},
}  # fmt: skip
"""What engines call an argument that vLLM calls otherwise."""
DEFAULT_PORTS = {"vllm": DEFAULT_PORT, "sglang": 30000, "lmdeploy": 23333, "trtllm": 8000, "llama.cpp": 8080}
"""Ports engines listen on. TGI's binary takes 3000 and its image sets 80."""
PORT_ARGUMENTS = {"lmdeploy": "server_port"}
HOST_ARGUMENTS = {"lmdeploy": "server_name", "tgi": "hostname"}
LOOPBACK_DEFAULT = frozenset({"sglang", "llama.cpp", "trtllm"})
"""Engines that listen on the loopback address unless told otherwise."""
MANAGED = frozenset(
    {"kserve", "kubeai", "production-stack", "llm-d", "dynamo", "ray-serve-llm", "ray-llm", "vllm-recipe"}
)
"""Wrappers whose controller or chart writes the pod: probes, ports, shared memory and tokens come from it."""
DTYPES = {
    "half": "float16", "float16": "float16", "fp16": "float16", "bfloat16": "bfloat16", "bf16": "bfloat16",
    "float": "float32", "float32": "float32", "fp32": "float32",
}  # fmt: skip
"""vllm/config/model.py, ``_STR_DTYPE_TO_TORCH_DTYPE``, and the job file's short names."""


def engine(job: ServingJob) -> str:
    return str(job.value("framework") or "").lower()


def engine_title(job: ServingJob) -> str:
    return ENGINES.get(engine(job), engine(job))


def runs_vllm(job: ServingJob) -> bool:
    return engine(job) == "vllm"


def runs(job: ServingJob, *engines: str) -> bool:
    """Whether the job is a server of one of these engines; of any known one where none is named."""
    return engine(job) in (engines or ENGINES)


def called(job: ServingJob, name: str) -> str:
    """What the job's engine calls an argument that vLLM calls ``name``."""
    return OWN_NAMES.get(engine(job), {}).get(name, name)


def wrapper(job: ServingJob) -> str:
    """What makes the server's command: ``kserve``, ``kubeai``, ``dynamo`` …; empty where the files say it themselves."""
    for reading in job.readings:
        stated_by = reading.context.get("wrapper")
        if isinstance(stated_by, str):
            return stated_by
        launch = reading.context.get("launch")
        if isinstance(launch, Launch) and isinstance(launch.context.get("wrapper"), str):
            return str(launch.context["wrapper"])
    return ""


def managed(job: ServingJob) -> bool:
    return wrapper(job) in MANAGED


def readings(job: ServingJob) -> Iterator[Reading]:
    """The job's readings of vLLM arguments, those that win first."""
    for reading in job.readings:
        if reading.dialect == "vllm":
            yield reading


def arguments(reading: Reading) -> Iterator[tuple[str, bool, str, Entry]]:
    """(argument's own name, negated, key as written, entry) of every key of a vLLM reading."""
    if isinstance(reading.root, Table):
        for key, entry in reading.root.index.items():
            name, negated = canonical(key)
            yield name, negated, key, entry


def statement(job: ServingJob, name: str) -> Fact[Any] | None:
    """The winning statement of one of vLLM's arguments, by its own name with underscores; None where none is known."""
    fact = _winning(job, name)
    if fact is not None and beyond_counting(fact.value):
        return Fact(UNKNOWN, fact.origin, fact.certain)
    return fact


def _winning(job: ServingJob, name: str) -> Fact[Any] | None:
    if name in FACTS:
        fact = job.fact(FACTS[name])
        if fact is not None:
            return fact
    for reading in readings(job):
        for found, negated, key, entry in arguments(reading):
            if found != name:
                continue
            value: Any = plain(entry.value)
            if isinstance(value, str) and "$" in value:
                value = UNKNOWN
            if negated:
                value = not value if isinstance(value, bool) else False
            origin = FileOrigin(reading.document, (*reading.base, key), entry.key.span, entry.value.span)
            return Fact(value, origin)
    own = None if runs_vllm(job) else _own_statement(job, called(job, name))
    if own is not None:
        return own
    rest = job.fact("engine_args")
    if rest is not None and isinstance(rest.value, dict) and name in rest.value:
        return Fact(rest.value[name], rest.origin, rest.certain)
    return None


def _own_statement(job: ServingJob, name: str) -> Fact[Any] | None:
    """An argument of an engine other than vLLM, by its own name with underscores."""
    for reading in job.readings:
        if reading.dialect != engine(job) or not isinstance(reading.root, Table):
            continue
        for key, entry in reading.root.index.items():
            if key.replace("-", "_") != name:
                continue
            value: Any = plain(entry.value)
            if isinstance(value, str) and "$" in value:
                value = UNKNOWN
            return Fact(value, FileOrigin(reading.document, (*reading.base, key), entry.key.span, entry.value.span))
    return None


def stated(job: ServingJob, name: str) -> bool:
    """Whether the argument is stated at all, even with a value that is not known here."""
    return statement(job, name) is not None or (name in FACTS and job.stated(FACTS[name]))


def number(job: ServingJob, name: str) -> Fact[int] | None:
    """A positive whole number that an argument states."""
    fact = statement(job, name)
    if fact is None or isinstance(fact.value, bool) or not isinstance(fact.value, int) or fact.value < 1:
        return None
    return fact


def text(job: ServingJob, name: str) -> Fact[str] | None:
    fact = statement(job, name)
    return fact if fact is not None and isinstance(fact.value, str) and fact.value else None


def json_argument(job: ServingJob, name: str) -> Fact[Mapping[str, Any]] | None:
    """An argument that takes JSON, as a mapping; None where it is not stated, or is none."""
    fact = statement(job, name)
    value = fact.value if fact is not None else None
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return Fact(value, fact.origin, fact.certain) if fact is not None and isinstance(value, Mapping) else None


def switch(job: ServingJob, name: str) -> bool | None:
    """A switch as stated: None where it is not, or not known."""
    fact = statement(job, name)
    return fact.value if fact is not None and isinstance(fact.value, bool) else None


def dtype(job: ServingJob) -> Fact[str] | None:
    """The stated dtype under torch's name; None for ``auto``."""
    fact = text(job, "dtype")
    name = DTYPES.get(fact.value.lower()) if fact else None
    return None if fact is None or name is None else Fact(name, fact.origin, fact.certain)


def size(job: ServingJob, name: str) -> int | None:
    """A parallel size: 1 where it is not stated, None where it is stated as something not known."""
    fact = number(job, name)
    if fact is not None:
        return fact.value
    return None if stated(job, name) else 1


def version(job: ServingJob) -> str | None:
    return job.versions.get(engine(job) or "vllm")


def exact_version(job: ServingJob) -> str | None:
    return exact(version(job))


def since(job: ServingJob, release: str) -> bool:
    """Every version the files allow is at least ``release``."""
    return always_at_least(version(job), release) is True


def before(job: ServingJob, release: str) -> bool:
    """Every version the files allow is below ``release``."""
    return always_below(version(job), release)


def launch_of(job: ServingJob) -> Launch | None:
    """The command and the container around it; None for a config file that nothing here starts."""
    for reading in job.readings:
        launch = reading.context.get("launch")
        if isinstance(launch, Launch):
            return launch
    return None


def docker_run(launch: Launch | None) -> ContainerRun | None:
    found = launch.context.get("docker") if launch is not None else None
    return found if isinstance(found, ContainerRun) else None


BACKEND_VARIABLE = "VLLM_ATTENTION_BACKEND"
BACKEND_VARIABLE_UNTIL = "0.15.1"
"""Read in 0.14.0 (vllm/envs.py) and not in this release."""


def attention_backend(job: ServingJob) -> Fact[str] | None:
    """The backend asked for, in capitals: by argument, or by the variable that earlier releases read. The variable's is
    not certain: those releases take another backend where the named one cannot run, in some cases."""
    asked = text(job, "attention_backend")
    if asked is not None:
        return Fact(asked.value.upper(), asked.origin, asked.certain)
    launch = launch_of(job)
    word = launch.environment.get(BACKEND_VARIABLE) if launch is not None else None
    if launch is None or word is None or not word.known or since(job, BACKEND_VARIABLE_UNTIL):
        return None
    name = word.text.strip().upper().removesuffix("_V1").removesuffix("_VLLM")
    return Fact(name, FileOrigin(launch.document, (BACKEND_VARIABLE,), word.span, word.span), certain=False)


def capability(job: ServingJob) -> tuple[int, int] | None:
    """The lowest CUDA compute capability that the job's accelerator can have, where all candidates are NVIDIA's."""
    found = [a.compute_capability for a in job.hardware.candidates]
    known = [c for c in found if c is not None]
    return min(known) if known and len(known) == len(found) else None


def all_below(job: ServingJob, needed: tuple[int, int]) -> bool:
    """Every accelerator that the name can mean has a lower CUDA compute capability than needed."""
    found = [a.compute_capability for a in job.hardware.candidates]
    return bool(found) and all(c is not None and c < needed for c in found)


MODELOPT = {
    "NVFP4": "modelopt_fp4", "NVFP4_AWQ": "modelopt_fp4", "W4A16_NVFP4": "modelopt_fp4", "MXFP8": "modelopt_mxfp8",
    "MIXED_PRECISION": "modelopt_mixed",
}  # fmt: skip
"""ModelOpt's checkpoints all say ``modelopt``; engines tell them apart by ``quant_algo`` (modelopt.py of vLLM)."""


def quantization_method(job: ServingJob) -> str | None:
    """The checkpoint's own method (``quant_method`` of its config), in small letters."""
    arch = job.architecture
    config: Any = arch.quantization if arch is not None else None
    if config is None and job.model is not None and job.model.config is not None:
        config = job.model.config.get("quantization_config")
    method = config.get("quant_method") if isinstance(config, Mapping) else None
    if not isinstance(method, str) or not method:
        return None
    algorithm = str(config.get("quant_algo") or "").upper()
    return MODELOPT.get(algorithm, "modelopt") if method.lower() == "modelopt" else method.lower()


def served(job: ServingJob) -> tuple[Architecture | None, bool]:
    """The model's architecture, and whether it is certain: for a quantized re-publication that is not known itself, the
    architecture of the model it is named after."""
    if job.architecture is not None:
        return job.architecture, True
    from cfglint.estimate.serving.model_source import served_model

    model = served_model(job)
    return model.architecture, model.architecture is not None and model.certain


METHODS_IN_NAMES = (
    (re.compile(r"(^|[-_.])awq([-_.]|$)"), "awq"),
    (re.compile(r"(^|[-_.])gptq([-_.]|$)"), "gptq"),
    (re.compile(r"(^|[-_.])(bnb|nf4)([-_.]|$)"), "bitsandbytes"),
    (re.compile(r"(^|[-_.])fp8([-_.]|$)"), "fp8"),
    (re.compile(r"(^|[-_.])gguf([-_.:]|$)"), "gguf"),
)
"""How names of checkpoints say what they were quantized with, those first that decide where two stand."""


def checkpoint_method(job: ServingJob) -> tuple[str | None, bool]:
    """The method the checkpoint was quantized with, and whether its config says so rather than its name alone."""
    own = quantization_method(job)
    if own is not None:
        return own, True
    if job.architecture is not None:
        return None, False
    name = stated_name(job).rstrip("/").rsplit("/", 1)[-1].lower()
    spelt = next((method for pattern, method in METHODS_IN_NAMES if pattern.search(name)), None)
    if spelt is None and without_format(name)[1] is None:
        arch, _ = served(job)  # published in one format alone: gpt-oss
        stored = (arch.quantization or {}).get("quant_method") if arch is not None else None
        spelt = stored.lower() if isinstance(stored, str) else None
    return spelt, False
