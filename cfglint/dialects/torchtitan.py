"""torchtitan's TOML, its ``--job.config_file`` command, and Primus experiments in its words.

Parameters are stored in ``training.dtype`` (fp32) and gathered in ``training.mixed_precision_param`` (bf16) by FSDP 2, over all ranks
unless ``data_parallel_shard_degree`` says otherwise. Older files keep degrees and batch under other names and tables.

Names and defaults: torchtitan 0.0.1 to 0.2 (``torchtitan/config/job_config.py``, ``torchtitan/config_manager.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.catalog.presets import preset
from cfglint.dialects import primus
from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import Program, basename
from cfglint.dialects.flags import read_flags
from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.overrides import nest_flags
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import because, boolean, evidence, integer, text, texts, word
from cfglint.jobs.facts import UNKNOWN, FileOrigin, Reading, Reference
from cfglint.source.node import Document, Mapping, Span
from cfglint.source.whole_number import whole_number

_TABLES: Final = (
    "job", "training", "parallelism", "activation_checkpoint", "experimental", "metrics", "profiling", "checkpoint", "optimizer",
    "lr_scheduler", "comm", "float8", "compile", "quantize", "model", "validation",
)  # fmt: skip
_TRAINING: Final = (
    "seq_len",
    "local_batch_size",
    "batch_size",
    "steps",
    "max_norm",
    "global_batch_size",
    "data_parallel_degree",
)
_MODES: Final = {"none": "none", "full": "full", "selective": "selective", "memory_budget": "selective"}


def _state_model(facts: ResolvingReader) -> None:
    name, flavor = text(facts.value("model", "name")), text(facts.value("model", "flavor"))
    if name is None and flavor is None:
        return
    if is_unknown(name) or is_unknown(flavor):
        facts.state("model_id", UNKNOWN, "model", "flavor")
        return
    if name is None or flavor is None:
        return
    known = preset("torchtitan", f"{name}/{flavor}") or preset("torchtitan", f"{name}/{flavor.lower()}")
    facts.state("model_id", known or f"{name}/{flavor}", "model", "flavor")


def _state_pipelined_batch(facts: ResolvingReader, training: ResolvingReader, steps_once: bool) -> None:
    """Pipeline stages take ``local_batch_size`` in micro-batches of ``pipeline_parallel_microbatch_size``, 1 unless stated.

    ``config/job_config.py``, Jul 2025 to Feb 2026; ``steps_once``: there is no larger global batch.
    """
    parallel = facts.under("parallelism")
    local = integer(training.value("local_batch_size"))
    if local is None or local < 1 or (integer(parallel.value("pipeline_parallel_degree")) or 1) < 2:
        return
    micro = parallel.integer("micro_batch_size", "pipeline_parallel_microbatch_size", low=1)
    if not parallel.given("pipeline_parallel_microbatch_size"):
        micro = 1
        facts.default("micro_batch_size", micro, "torchtitan", "", "pipeline_parallel_microbatch_size")
    if steps_once and isinstance(micro, int):
        training.state("gradient_accumulation_steps", max(1, local // micro), "local_batch_size")


def _state_training(facts: ResolvingReader) -> None:
    training = facts.under("training")
    total = integer(training.value("global_batch_size"))
    _state_pipelined_batch(facts, training, total is None or total <= 0)
    training.integer("micro_batch_size", "local_batch_size", "batch_size", low=1)
    if total is not None and total > 0:
        training.integer("global_batch_size", "global_batch_size", low=1)
    training.integer("sequence_length", "seq_len", low=1)
    training.integer("max_steps", "steps", low=1)
    training.number("max_grad_norm", "max_norm", low=0)
    facts.integer("warmup_steps", ("lr_scheduler", "warmup_steps"), ("training", "warmup_steps"), low=0)
    facts.number("learning_rate", ("optimizer", "lr"), low=0)
    facts.number("weight_decay", ("optimizer", "weight_decay"), low=0)
    style = text(facts.value("lr_scheduler", "decay_type"))
    if style in ("cosine", "linear"):
        facts.state("lr_scheduler", style, "lr_scheduler", "decay_type")
    validation = facts.under("validation")
    for key in ("enable", "enabled"):
        if validation.on(key):
            validation.state("evaluates", True, key)
    validation.integer("eval_micro_batch_size", "local_batch_size", low=1)
    validation.integer("eval_sequence_length", "seq_len", low=1)
    # its own defaults, while configs were TOML files (torchtitan config/job_config.py, Jul 2025 to Feb 2026)
    validation.default("eval_micro_batch_size", 8, "torchtitan")
    validation.default("eval_sequence_length", 2048, "torchtitan")
    training.dtype("weight_dtype", "dtype")
    training.dtype("compute_dtype", "mixed_precision_param")
    if training.on("enable_cpu_offload"):
        for fact in ("offload_parameters", "offload_optimizer"):
            training.state(fact, "cpu", "enable_cpu_offload")


def _state_optimizer(facts: ResolvingReader) -> None:
    optimizer = facts.under("optimizer")
    name = text(optimizer.value("name"))
    if name in ("Adam", "AdamW"):
        way = text(optimizer.value("implementation"))
        fused = boolean(optimizer.value("fused"))
        if way == "foreach" or (way is None and fused is False):
            kernel = "adamw_torch"
        elif way == "for-loop":
            kernel = "adamw_loop"
        else:
            kernel = "adamw_torch_fused"
        optimizer.state("optimizer", kernel, "name")
    elif name is not None:
        optimizer.state("optimizer", name.lower(), "name")
    optimizer.boolean("optimizer_in_backward", "early_step_in_backward")


def _state_parallel(facts: ResolvingReader) -> None:
    tables = [facts.under(table) for table in ("parallelism", "training", "experimental")]
    for table in tables:
        for fact, keys in (
            ("tensor_parallel_size", ("tensor_parallel_degree", "sequence_parallel_degree")),
            ("pipeline_parallel_size", ("pipeline_parallel_degree",)),
            ("context_parallel_size", ("context_parallel_degree",)),
            ("expert_parallel_size", ("expert_parallel_degree",)),
            ("expert_tensor_parallel_size", ("expert_tensor_parallel_degree",)),
        ):
            table.integer(fact, *keys, low=1)
    for table in tables:
        for key in ("data_parallel_shard_degree", "data_parallel_degree"):
            degree = integer(table.value(key))
            if degree is None:
                continue
            replicas = integer(table.value("data_parallel_replicate_degree")) or 1
            kind = "none" if degree == 1 else "hybrid_shard" if replicas != 1 else "full_shard"
            if kind == "full_shard" and text(table.value("fsdp_reshard_after_forward")) == "never":
                kind = "shard_grad_op"
            table.state("fsdp", kind, key)
            if degree > 0 and replicas > 0:
                table.state("data_parallel_size", degree * replicas, key)


def _state_memory(facts: ResolvingReader) -> None:
    mode = word(facts.node("activation_checkpoint", "mode"))
    if mode is not None:
        kind = UNKNOWN if is_unknown(mode) else _MODES.get(mode.lower(), UNKNOWN)
        facts.state("gradient_checkpointing", kind, "activation_checkpoint", "mode")
        option = text(facts.value("activation_checkpoint", "selective_ac_option"))
        if kind == "selective" and option is not None and option.isdigit() and int(option):
            facts.state("checkpoint_every", int(option), "activation_checkpoint", "selective_ac_option")
    for route in (("compile", "enable"), ("training", "compile")):
        value = boolean(facts.value(*route))
        if value is not None:
            facts.state("compile", value, *route)
    if facts.on("compile", "enable") and "loss" in (texts(facts.node("compile", "components")) or ["loss"]):
        facts.state("loss_kernel", "compiled", "compile", "enable")
    converters = texts(facts.node("model", "converters")) or []
    if any("float8" in name or "mx" in name for name in converters):
        facts.state("fp8_linear", True, "model", "converters")
    for route in (("float8", "enable_float8_linear"), ("training", "enable_float8_linear")):
        if facts.on(*route):
            facts.state("fp8_linear", True, *route)


def _state_defaults(facts: ResolvingReader) -> None:
    stated = facts.reading.facts.stated
    for fact, value in (
        ("weight_dtype", "fp32"), ("compute_dtype", "bf16"), ("fsdp", "full_shard"), ("gradient_checkpointing", "selective"),
        ("optimizer", "adamw_torch_fused"), ("optimizer_in_backward", False), ("packing", True),
        ("compile", facts.reading.context.get("layout") == "primus"),  # Primus' pre_trainer.yaml switches it on
    ):  # fmt: skip
        if not stated(fact):
            facts.default(fact, value, "torchtitan")
    facts.default("fsdp_version", 2, "torchtitan")
    tensor = facts.reading.facts.value("tensor_parallel_size")
    if isinstance(tensor, int) and tensor > 1:
        note = "the plan shards activations between the layers along the sequence"
        facts.default("sequence_parallel", True, "torchtitan", "", note)
    facts.default("method", "pretrain", "torchtitan")


def read_torchtitan(reading: Reading, facts: ResolvingReader, *, arguments: bool = False) -> None:
    """State what a config says, or (``arguments``) the flags beside one, which bring no defaults."""
    _state_model(facts)
    _state_training(facts)
    _state_optimizer(facts)
    _state_parallel(facts)
    _state_memory(facts)
    if not arguments:
        _state_defaults(facts)


class TorchTitan(Dialect):
    name = "torchtitan"
    title = "torchtitan"
    summary = "torchtitan's TOML, its command line, and Primus experiments in its words"
    markers = frozenset({"local_batch_size", "data_parallel_shard_degree", "tensor_parallel_degree", "dump_folder"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        module = primus.module_of(root, "torchtitan")
        if module is not None:
            return Recognition(92, f"modules.{module}.framework")
        tables = [key for key in evidence(root, _TABLES, most=len(_TABLES)) if isinstance(root.get(key), Mapping)]
        training = root.get("training")
        telling = {"job", "activation_checkpoint"} & set(tables)
        if not isinstance(training, Mapping) or not evidence(training, _TRAINING):
            return None
        if len(tables) >= 4 and telling:
            return Recognition(86, because(tables[:3]))
        model = root.get("model")
        if isinstance(model, Mapping) and "flavor" in model and "parallelism" in tables:
            return Recognition(80, because(["model", "training", "parallelism"]))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        module = primus.module_of(root, "torchtitan")
        reading = Reading("torchtitan", document, root, framework="torchtitan")
        reading.facts.state("framework", "torchtitan", reading.origin())
        facts = ResolvingReader(reading)
        if module is not None:
            reading.context["layout"] = "primus"
            primus.refer_to_bases(reading, root)
            primus.state_preset(facts.under("modules", module))
            facts = facts.under("modules", module, "overrides")
        read_torchtitan(reading, facts)
        yield reading

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        """``torchtitan.train``, and its own ``run_train.sh``, which takes the config from the environment."""
        named = started.name in ("torchtitan.train", "torchtitan.experiments.forge.example_train")
        script = basename(started.word.text) in ("train.py", "estimation.py")
        shell = started.name == "run_train.sh" and launch.environment.keys() & {
            "CONFIG_FILE",
            "CONFIG",
            "MODULE",
            "NGPU",
        }
        if not named and not shell and not (script and any("job.config_file" in w.text for w in started.arguments)):
            return
        parsed = read_flags(started.arguments)
        words = [started.word, *started.arguments]
        span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
        reading = Reading("torchtitan", launch.document, nest_flags(parsed.mapping, span), why=started.name)
        reading.role, reading.framework = "arguments", "torchtitan"
        facts = ResolvingReader(reading)
        reading.facts.state("framework", "torchtitan", reading.origin())
        config = _of_environment(launch, "CONFIG_FILE") if shell else None
        if config is not None:
            reading.references.append(Reference("config", config[0], config[1], base="cwd"))
        elif not any("job.config_file" in w.text for w in started.arguments):
            # a config of the registry: Python, which its name stands for
            reading.role = "run"
            _state_registered(facts, launch)
        read_torchtitan(reading, facts, arguments=True)
        gpus = _of_environment(launch, "NGPU") if shell else None
        count = whole_number(gpus[0]) if gpus is not None else None
        if gpus is not None and count is not None:
            reading.facts.state("gpus_per_node", count, gpus[1])
        yield reading


def _of_environment(launch: Launch, variable: str) -> tuple[str, FileOrigin] | None:
    word = launch.environment.get(variable)
    if word is None or not word.known or not word.text:
        return None
    return word.text, FileOrigin(launch.document, (variable,), word.span, word.span)


def _state_registered(facts: ResolvingReader, launch: Launch) -> None:
    """``--module llama3 --config llama3_8b``, or ``MODULE`` and ``CONFIG``: a function named for its flavor."""
    flags = [text(facts.value("module")), text(facts.value("config"))]
    given = [_of_environment(launch, "MODULE"), _of_environment(launch, "CONFIG")]
    module, config = (flag or (pair[0] if pair else None) for flag, pair in zip(flags, given, strict=True))
    facts.reading.context["held_elsewhere"] = (
        "config",
        "the config is Python and holds settings that are not known here: no verdict",
    )
    if module is None or config is None:
        return
    flavor = config.removeprefix(f"{module}_")
    known = preset("torchtitan", f"{module}/{flavor.upper()}") or preset("torchtitan", f"{module}/{flavor}")
    origin = facts.origin("config") if flags[1] else given[1][1] if given[1] else facts.reading.origin()
    facts.reading.facts.state("model_id", known or UNKNOWN, origin)


DIALECT = TorchTitan()
