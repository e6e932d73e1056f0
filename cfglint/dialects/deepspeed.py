"""DeepSpeed's JSON: ZeRO stage, offload, precision, batch, and the optimizer it builds itself.

``"auto"`` is no value: transformers and Accelerate put their own there before DeepSpeed sees the file, so such a key
is stated as unknown and what the trainer's file says is in force.

Names and defaults: deepspeed/runtime/config.py, runtime/zero/config.py, runtime/constants.py (0.8 to 0.19).
"""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.base import Dialect, Recognition
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import FactReader, because, boolean, evidence, integer, text
from cfglint.jobs.facts import UNKNOWN, Reading
from cfglint.source.node import Document, Mapping, Route

SECTIONS = frozenset({
    "activation_checkpointing", "aio", "amp", "autotuning", "bf16", "bfloat16", "comms_logger", "communication_data_type",
    "compression_training", "csv_monitor", "curriculum_learning", "data_efficiency", "data_types", "dataloader_drop_last",
    "dump_state", "elasticity", "flops_profiler", "fp16", "fp32_allreduce", "gradient_accumulation_steps",
    "gradient_clipping", "gradient_predivide_factor", "monitor_config", "optimizer", "pipeline", "pld",
    "prescale_gradients", "progressive_layer_drop", "scheduler", "sparse_attention", "sparse_gradients",
    "steps_per_print", "tensor_parallel", "tensorboard", "torch_autocast", "train_batch_size",
    "train_micro_batch_size_per_gpu", "wall_clock_breakdown", "wandb", "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer", "zero_optimization", "data_parallel_size", "hybrid_engine", "compile", "checkpoint",
    "sequence_parallel_size", "eigenvalue", "quantize_training", "amp_enabled", "seq_parallel_communication_data_type",
    "memory_breakdown", "use_data_before_expert_parallelism", "vocabulary_size",
})  # fmt: skip
"""Top-level names DeepSpeed's engine reads. Most of a DeepSpeed file consists of them; a file of another trainer that
carries DeepSpeed's keys inline (GPT-NeoX) has many others."""

_TELLING = (
    "zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size", "gradient_clipping", "fp16", "bf16",
    "steps_per_print", "wall_clock_breakdown", "zero_allow_untested_optimizer", "gradient_accumulation_steps",
    "flops_profiler", "prescale_gradients", "autotuning", "activation_checkpointing",
)  # fmt: skip
"""What DeepSpeed files are known by, the most telling first."""

_MINE = frozenset({
    "zero_optimization", "train_micro_batch_size_per_gpu", "steps_per_print", "wall_clock_breakdown",
    "zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "prescale_gradients", "flops_profiler",
    "sparse_attention", "gradient_predivide_factor", "compression_training", "data_efficiency", "elasticity",
})  # fmt: skip
"""Names few other programs use at the top of a file."""

_OPTIMIZERS = {
    "adam": "adamw_torch_fused", "adamw": "adamw_torch_fused", "lamb": "lamb", "onebitadam": "onebit_adam",
    "zerooneadam": "zero_one_adam", "onebitlamb": "onebit_lamb", "lion": "lion", "adagrad": "adagrad", "sgd": "sgd",
    "muon": "muon", "muadam": "muadam", "muadamw": "muadamw", "musgd": "musgd", "mushadam": "mushadam",
}  # fmt: skip
"""``optimizer.type`` to the Hugging Face name of what it needs: DeepSpeed's Adam is its fused kernel (no foreach copies)."""

_SCHEDULERS = {
    "warmuplr": "constant_with_warmup", "warmupdecaylr": "linear", "warmupcosinelr": "cosine",
    "onecycle": "onecycle", "lrrangetest": "lr_range_test",
}  # fmt: skip


def state_deepspeed(facts: FactReader) -> None:
    """State what DeepSpeed's settings say; ``facts`` looks keys up in DeepSpeed's mapping."""
    _state_zero(facts)
    _state_precision(facts)
    facts.integer("micro_batch_size", "train_micro_batch_size_per_gpu", low=1)
    facts.integer("gradient_accumulation_steps", "gradient_accumulation_steps", low=1)
    facts.integer("global_batch_size", "train_batch_size", low=1)
    facts.number("max_grad_norm", "gradient_clipping", low=0)
    facts.integer("tensor_parallel_size", ("tensor_parallel", "autotp_size"), low=1)
    if facts.on("compile", "enabled"):
        facts.state("compile", True, "compile", "enabled")
    _state_optimizer(facts)
    _state_scheduler(facts)


def _state_zero(facts: FactReader) -> None:
    zero: Route = ("zero_optimization",)
    stage = facts.value(*zero, "stage")
    if is_unknown(stage):
        facts.state("zero_stage", UNKNOWN, *zero, "stage")
    elif (number := integer(stage)) is not None and 0 <= number <= 3:
        facts.state("zero_stage", number, *zero, "stage")
    elif isinstance(switch := facts.value(*zero), bool):
        # releases before 0.2 took a boolean for stage 1
        facts.state("zero_stage", 1 if switch else 0, *zero)
    for key in ("stage3_gather_16bit_weights_on_model_save", "stage3_gather_fp16_weights_on_model_save"):
        if facts.on(*zero, key):
            facts.state("state_dict", "full", *zero, key)
    for fact, key, old in (
        ("offload_optimizer", "offload_optimizer", "cpu_offload"),
        ("offload_parameters", "offload_param", "cpu_offload_params"),
    ):
        if facts.mapping(*zero, key) is not None:
            _state_device(facts, fact, (*zero, key, "device"), (*zero, key))
        elif (on := boolean(facts.value(*zero, old))) is not None:
            facts.state(fact, "cpu" if on else "none", *zero, old)


def _state_device(facts: FactReader, fact: str, route: Route, section: Route) -> None:
    value = facts.value(*route)
    device = facts.node(*route)
    if is_unknown(value):
        facts.state(fact, UNKNOWN, *route)
    elif value in ("cpu", "nvme"):
        facts.state(fact, value, *route)
    elif device is not None and value is None:
        # DeepSpeed's own word for no offload is the text "none"
        facts.state(fact, "none", *route)
    elif device is None:
        facts.state(fact, "none", *section)


def _state_precision(facts: FactReader) -> None:
    for key, name in (("bf16", "bf16"), ("bfloat16", "bf16"), ("fp16", "fp16")):
        switch = facts.value(key, "enabled")
        if is_unknown(switch):
            facts.state("compute_dtype", UNKNOWN, key, "enabled")
            continue
        if boolean(switch) is not True:
            continue
        facts.state("compute_dtype", name, key, "enabled")
        facts.state("weight_dtype", name, key, "enabled")
        for masterless in ("bf16_master_weights_and_grads", "fp16_master_weights_and_grads"):
            if facts.on(key, masterless):
                facts.state("master_weights", False, key, masterless)
                break
        else:
            facts.state("master_weights", True, key, "enabled")
    if facts.on("torch_autocast", "enabled"):
        facts.dtype("compute_dtype", ("torch_autocast", "dtype"))
    if facts.on("amp", "enabled"):
        facts.state("compute_dtype", "fp16", "amp", "enabled")


def _state_optimizer(facts: FactReader) -> None:
    kind = text(facts.value("optimizer", "type"))
    if kind is not None:
        name: object = UNKNOWN if is_unknown(kind) else _OPTIMIZERS.get(kind.strip().lower(), kind.strip().lower())
        if name == "adamw_torch_fused" and facts.on("optimizer", "params", "torch_adam"):
            name = "adamw_torch"
        if name == "sgd" and facts.value("optimizer", "params", "momentum") not in (None, 0, 0.0):
            name = "sgd_momentum"
        facts.state("optimizer", name, "optimizer", "type")
    facts.number("learning_rate", ("optimizer", "params", "lr"), low=0)
    facts.number("weight_decay", ("optimizer", "params", "weight_decay"), low=0)


def _state_scheduler(facts: FactReader) -> None:
    kind = text(facts.value("scheduler", "type"))
    if kind is not None:
        known = _SCHEDULERS.get(kind.strip().lower())
        if is_unknown(kind):
            facts.state("lr_scheduler", UNKNOWN, "scheduler", "type")
        elif known is not None:
            facts.state("lr_scheduler", known, "scheduler", "type")
    facts.integer("warmup_steps", ("scheduler", "params", "warmup_num_steps"), low=0)


def read_deepspeed(document: Document, root: Mapping, *, base: Route = (), why: str = "") -> Reading:
    """A reading of DeepSpeed's settings, wherever in a document they stand."""
    reading = Reading("deepspeed", document, root, role="part", base=base, why=why, framework="deepspeed")
    reading.context["deepspeed"] = root
    state_deepspeed(FactReader(reading))
    return reading


class DeepSpeed(Dialect):
    name = "deepspeed"
    title = "DeepSpeed"
    summary = "DeepSpeed's JSON file: ZeRO, offload, precision, batch, optimizer"
    schema = "deepspeed"
    markers = frozenset({
        "zero_optimization", "train_micro_batch_size_per_gpu", "steps_per_print", "wall_clock_breakdown",
        "gradient_clipping", "train_batch_size", "zero_allow_untested_optimizer", "offload_optimizer", "offload_param",
        "stage3_gather_16bit_weights_on_model_save", "reduce_bucket_size", "allgather_bucket_size", "loss_scale_window",
        "initial_scale_power", "hysteresis", "overlap_comm", "contiguous_gradients", "stage3_prefetch_bucket_size",
    })  # fmt: skip

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        keys = [key for key in root.index if not key.startswith(("_", "#", "//"))]
        own = [key for key in keys if key in SECTIONS]
        # DeepSpeed passes over names it does not know, so a few may stand beside its own
        if len(own) * 2 <= len(keys):
            return None
        telling = [key for key in own if key in _MINE]
        zero = root.get("zero_optimization")
        if isinstance(zero, Mapping) or len(telling) >= 2 or (telling and len(own) >= 2):
            return Recognition(90, because(evidence(root, _TELLING) or own[:3]))
        if len(own) >= 2 and "train_batch_size" in root and len(evidence(root, _TELLING)) >= 2:
            return Recognition(75, because(evidence(root, _TELLING)))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield read_deepspeed(document, root)


DIALECT = DeepSpeed()
