"""Accelerate's YAML: how many processes, mixed precision, and DeepSpeed or FSDP settings inside it.

``num_processes`` counts the processes of all machines together. The ``deepspeed_config`` mapping holds Accelerate's own
short names (``zero_stage``, ``offload_optimizer_device``), or names a DeepSpeed file and little else.

Names and defaults: accelerate/commands/launch.py, accelerate/utils/launch.py, 0.16 to 1.15.
"""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.base import Dialect, Recognition
from cfglint.dialects.fsdp import state_fsdp_defaults, state_fsdp_settings
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import FactReader, because, evidence, integer, text
from cfglint.jobs.facts import UNKNOWN, DerivedOrigin, Reading
from cfglint.source.node import Document, Mapping, Route, Scalar

_TELLING = (
    "compute_environment",
    "distributed_type",
    "num_processes",
    "mixed_precision",
    "num_machines",
    "machine_rank",
)

_KEYS = frozenset({
    *_TELLING, "gpu_ids", "use_cpu", "fp8_config", "fsdp_config", "deepspeed_config", "parallelism_config", "debug",
    "dynamo_config", "dynamo_backend", "main_process_ip", "main_process_port", "main_training_function", "rdzv_backend",
    "same_network", "downcast_bf16", "tpu_env", "tpu_use_cluster", "tpu_use_sudo", "tpu_name", "tpu_zone", "ipex_config",
    "megatron_lm_config", "enable_cpu_affinity", "mpirun_config", "num_cpu_threads_per_process", "fp16", "commands",
    "command_file", "gradient_accumulation_steps", "use_xpu", "aws_accelerate_config",
})  # fmt: skip

_FSDP_VERSIONS = ((1, ""),)
"""Accelerate's own default is FSDP 1 in every release."""


def distributed_type(facts: FactReader) -> str:
    """``NO``, ``MULTI_GPU``, ``FSDP``, ``DEEPSPEED``, ``MEGATRON_LM`` …; an unquoted ``NO`` is false for YAML."""
    value = facts.value("distributed_type")
    if value is False:
        return "NO"
    return value.strip().upper().removeprefix("DISTRIBUTEDTYPE.") if isinstance(value, str) else ""


def state_processes(facts: FactReader) -> None:
    """GPUs per node and nodes from the total number of processes, one per GPU."""
    if facts.on("use_cpu") or distributed_type(facts) in ("MULTI_CPU", "XLA", "TPU", "MPS"):
        return
    total, machines = facts.value("num_processes"), facts.value("num_machines")
    if is_unknown(machines):
        facts.state("nodes", UNKNOWN, "num_machines")
        return
    nodes = integer(machines)
    if nodes is not None and nodes >= 1:
        facts.state("nodes", nodes, "num_machines")
    if is_unknown(total):
        facts.state("gpus_per_node", UNKNOWN, "num_processes")
        return
    processes = integer(total)
    if processes is None or processes < 1:
        return
    facts.reading.context["num_processes"] = processes
    if nodes is None or nodes <= 1:
        facts.state("gpus_per_node", processes, "num_processes")
    elif processes % nodes == 0:
        origin = DerivedOrigin(
            f"{processes} processes / {nodes} machines",
            (facts.reading.origin(*facts.prefix, "num_processes"), facts.reading.origin(*facts.prefix, "num_machines")),
        )
        facts.reading.facts.state("gpus_per_node", processes // nodes, origin)


def state_accelerate_deepspeed(facts: FactReader) -> None:
    """Accelerate's names for DeepSpeed's settings; the keys of a DeepSpeed file it names are read from that file."""
    facts.reference("deepspeed", "deepspeed_config_file", base="cwd")
    stage = integer(facts.value("zero_stage"))
    if is_unknown(facts.value("zero_stage")):
        facts.state("zero_stage", UNKNOWN, "zero_stage")
    elif stage is not None and 0 <= stage <= 3:
        facts.state("zero_stage", stage, "zero_stage")
    if facts.on("zero3_save_16bit_model"):
        facts.state("state_dict", "full", "zero3_save_16bit_model")
    state_offload_devices(facts)
    facts.integer("gradient_accumulation_steps", "gradient_accumulation_steps", low=1)
    facts.number("max_grad_norm", "gradient_clipping", low=0)


def state_offload_devices(facts: FactReader) -> None:
    """Where DeepSpeed keeps optimizer states and parameters, in Accelerate's names."""
    for fact, key in (
        ("offload_optimizer", "offload_optimizer_device"),
        ("offload_parameters", "offload_param_device"),
    ):
        node = facts.node(key)
        if not isinstance(node, Scalar):
            continue
        if is_unknown(node.value):
            facts.state(fact, UNKNOWN, key)
        elif node.value in ("cpu", "nvme", "none"):
            facts.state(fact, node.value, key)


def state_accelerate_parallelism(facts: FactReader) -> None:
    for fact, name in (
        ("tensor_parallel_size", "tp_size"),
        ("context_parallel_size", "cp_size"),
        ("context_parallel_size", "sp_size"),
    ):
        for key in (f"parallelism_config_{name}", name):
            facts.integer(fact, key, low=1 if fact == "tensor_parallel_size" else 2)


def state_precision(facts: FactReader) -> None:
    value = facts.value("mixed_precision")
    node = facts.node("mixed_precision")
    if is_unknown(value):
        facts.state("compute_dtype", UNKNOWN, "mixed_precision")
    elif value in ("fp16", "bf16", "fp8"):
        facts.state("compute_dtype", value, "mixed_precision")
        if value == "fp8":
            facts.state("fp8_linear", True, "mixed_precision")
    elif isinstance(node, Scalar) and (value == "no" or value is False):
        facts.state("compute_dtype", "none", "mixed_precision")
    if facts.on("fp16"):
        # the key of releases before mixed_precision
        facts.state("compute_dtype", "fp16", "fp16")


def state_dynamo(facts: FactReader) -> None:
    for route in (("dynamo_config", "dynamo_backend"), ("dynamo_backend",)):
        backend = text(facts.value(*route))
        if backend is not None and not is_unknown(backend):
            facts.state("compile", backend.strip().upper() != "NO", *route)
            return


def read_accelerate(document: Document, root: Mapping, *, base: Route = (), why: str = "") -> Reading:
    """A reading of an Accelerate configuration file's mapping."""
    reading = Reading("accelerate", document, root, role="part", base=base, why=why, framework="accelerate")
    facts = FactReader(reading)
    kind = distributed_type(facts)
    reading.context["distributed_type"] = kind
    state_processes(facts)
    state_precision(facts)
    state_dynamo(facts)
    deepspeed, fsdp = facts.mapping("deepspeed_config"), facts.mapping("fsdp_config")
    # Accelerate passes over the settings of an engine that distributed_type does not choose
    if deepspeed is not None and kind in ("DEEPSPEED", ""):
        reading.context["deepspeed"] = deepspeed
        state_accelerate_deepspeed(facts.under("deepspeed_config"))
    if fsdp is not None and kind in ("FSDP", ""):
        reading.context["fsdp"] = fsdp
        state_fsdp_settings(facts.under("fsdp_config"))
    if kind == "FSDP":
        state_fsdp_defaults(facts, "accelerate", _FSDP_VERSIONS)
    if facts.mapping("parallelism_config") is not None:
        state_accelerate_parallelism(facts.under("parallelism_config"))
    if facts.mapping("megatron_lm_config") is not None:
        _state_megatron(facts.under("megatron_lm_config"))
    return reading


def state_accelerate_flags(facts: FactReader) -> None:
    """What flags of ``accelerate launch`` say of precision and of how GPUs share the model."""
    state_precision(facts)
    state_dynamo(facts)
    state_offload_devices(facts)
    if facts.on("use_fsdp"):
        state_fsdp_settings(facts)
        state_fsdp_defaults(facts, "accelerate", _FSDP_VERSIONS)
    state_accelerate_parallelism(facts)


def _state_megatron(facts: FactReader) -> None:
    facts.integer("tensor_parallel_size", "megatron_lm_tp_degree", low=1)
    facts.integer("pipeline_parallel_size", "megatron_lm_pp_degree", low=1)
    facts.boolean("sequence_parallel", "megatron_lm_sequence_parallelism")
    if facts.on("megatron_lm_recompute_activations"):
        facts.state("gradient_checkpointing", "selective", "megatron_lm_recompute_activations")
    facts.number("max_grad_norm", "megatron_lm_gradient_clipping", low=0)


class Accelerate(Dialect):
    name = "accelerate"
    title = "Accelerate"
    summary = "Accelerate's configuration file: processes, mixed precision, DeepSpeed or FSDP inside"
    schema = "accelerate"
    markers = frozenset({
        "compute_environment", "distributed_type", "num_machines", "num_processes", "machine_rank", "downcast_bf16",
        "main_training_function", "rdzv_backend", "same_network", "tpu_use_cluster", "tpu_use_sudo", "tpu_env",
        "dynamo_backend", "fsdp_sharding_strategy", "fsdp_auto_wrap_policy", "offload_optimizer_device",
    })  # fmt: skip

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        found = evidence(root, _TELLING)
        if "distributed_type" in root and len(found) >= 2:
            return Recognition(95, because(found))
        if "compute_environment" in root and len(found) >= 2:
            return Recognition(95, because(found))
        if len([key for key in root.index if key in self.markers or key in _TELLING]) >= 4 and "num_processes" in root:
            return Recognition(80, because(found))
        if len(found) >= 2 and all(key in _KEYS for key in root.index):
            return Recognition(70, because(found))
        # a file may hold nothing but the engine's settings in Accelerate's own spelling
        for key, sign in (("fsdp_config", "fsdp_"), ("deepspeed_config", "zero_stage")):
            settings = root.get(key)
            if isinstance(settings, Mapping) and any(name.startswith(sign) for name in settings.index) and found:
                return Recognition(80, because([key, *found[:2]]))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield read_accelerate(document, root)


DIALECT = Accelerate()
