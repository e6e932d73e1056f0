"""NVIDIA NeMo's configs: NeMo 1 (Lightning and Hydra), Megatron-Bridge overrides, NeMo-RL and Automodel.

NeMo 1 puts Megatron's names under ``model`` and the machine under ``trainer``; Megatron-Bridge spreads them over the parts
of its ``ConfigContainer``. The other two have modules of their own. A job's ``framework`` says whose memory it has:
``nemo`` is Megatron-Core, ``nemo-automodel`` PyTorch FSDP 2.

Names: NeMo 1.2x (``examples/nlp/language_modeling/conf``), Megatron-Bridge 0.2 to main (``training/config.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from cfglint.dialects import hydra, megatron_core, nemo2, nemo_automodel, nemo_rl
from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import Program, basename
from cfglint.dialects.composition import ComposedReading
from cfglint.dialects.flags import is_flag, read_flags
from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.launch import state_count
from cfglint.dialects.overrides import is_override, nest_flags, nested
from cfglint.dialects.values import because, boolean, evidence, integer, text, texts
from cfglint.jobs.facts import UNKNOWN, Reading
from cfglint.source.node import Document, Mapping, Scalar, Span

_TRAINER: Final = (
    "devices", "num_nodes", "accelerator", "precision", "max_epochs", "max_steps", "strategy", "gpus", "val_check_interval",
    "log_every_n_steps", "accumulate_grad_batches", "gradient_clip_val", "enable_checkpointing", "limit_val_batches",
)  # fmt: skip
_BRIDGE: Final = ("train", "scheduler", "checkpoint", "ddp", "dist", "rng", "optimizer", "dataset", "logger", "peft")
_LAUNCHER: Final = (
    "training_config",
    "fine_tuning_config",
    "conversion_config",
    "launcher_scripts_path",
    "cluster_type",
)
_SLURM: Final = ("job_name_prefix", "gpus_per_task", "srun_args", "exclusive", "partition")
"""A cluster of NeMo's launcher."""
_GPT_SIGNS: Final = ("micro_batch_size", "tensor_model_parallel_size", "encoder_seq_length", "megatron_amp_O2")
_MODULES = re.compile(r"nemo\.|nemo_run\.|nemo_")


def _is_nemo1(root: Mapping) -> list[str]:
    trainer, model = root.get("trainer"), root.get("model")
    if isinstance(trainer, Mapping) and len(evidence(trainer, _TRAINER)) >= 2:
        if isinstance(root.get("exp_manager"), Mapping):
            return ["trainer", "exp_manager"]
        if isinstance(model, Mapping) and evidence(model, (*_GPT_SIGNS, "restore_from_path", "hidden_size")):
            return ["trainer", "model"]
        if evidence(root, ("restore_from_path", "inference", "tensor_model_parallel_size", "infer")) and (
            "model" in root or "inference" in root
        ):
            return ["trainer", *evidence(root, ("inference", "infer", "tensor_model_parallel_size"), 2)]
    if isinstance(root.get("exp_manager"), Mapping) and isinstance(model, Mapping):
        return ["exp_manager", "model"]
    preset = ("micro_batch_size", "tensor_model_parallel_size")
    if isinstance(model, Mapping) and len(evidence(model, preset)) == len(preset) and "train" not in root:
        return [f"model.{key}" for key in preset]
    return []


def _targets_nemo(root: Mapping) -> list[str]:
    """Sections built from classes of NeMo (``_target_: nemo.collections…``)."""
    found = []
    sections = [("", root), *((f"{key}.", e.value) for key, e in root.index.items() if isinstance(e.value, Mapping))]
    sections += [
        (f"{name}{key}.", e.value)
        for name, section in sections[1:]
        for key, e in section.index.items()
        if isinstance(e.value, Mapping)
    ]
    for name, section in sections:
        target = section.get("_target_")
        if isinstance(target, Scalar) and isinstance(target.value, str) and _MODULES.match(target.value):
            found.append(f"{name}_target_")
    return found


def _is_bridge(root: Mapping) -> list[str]:
    train = root.get("train")
    if not isinstance(train, Mapping) or not evidence(train, ("train_iters", "global_batch_size", "micro_batch_size")):
        return []
    found = [key for key in _BRIDGE if isinstance(root.get(key), Mapping)]
    return found[:3] if len(found) >= 4 else []


class Nemo(Dialect):
    name = "nemo"
    title = "NVIDIA NeMo"
    summary = "NeMo 1, NeMo 2's and Megatron-Bridge's commands with their recipes, Megatron-Bridge overrides, NeMo-RL and Automodel"
    programs = frozenset({"nemo", "automodel"})
    markers = frozenset({
        "exp_manager", "step_scheduler", "dist_env", "megatron_cfg", "dtensor_cfg", "megatron_amp_O2", "_target_",
        "train_micro_batch_size", "max_total_sequence_length", "packed_sequence",
    })  # fmt: skip

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        if "_component_" in root or "actor_rollout_ref" in root:
            return None
        for find in (nemo_automodel.evidence_of, nemo_rl.evidence_of):
            why = find(root)
            if why is not None:
                return Recognition(84, why)
        for keys in (_is_nemo1(root), _is_bridge(root)):
            if keys:
                return Recognition(80, because(keys))
        for keys in (evidence(root, _LAUNCHER, most=5), evidence(root, _SLURM, most=5)):
            if len(keys) >= 3:
                return Recognition(80, because(keys[:3]))
        targets = _targets_nemo(root)
        return Recognition(70, because(targets[:3])) if targets else None

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        for command in (nemo2.read_nemo2, _nemo1_command, nemo2.read_bridge_command, _command):
            found = list(command(started, launch))
            if found:
                yield from found
                return

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        if nemo_automodel.evidence_of(root) is not None:
            yield nemo_automodel.read_automodel(document, root)
        elif nemo_rl.evidence_of(root) is not None:
            yield nemo_rl.read_nemo_rl(document, root)
        elif _is_bridge(root):
            yield _read_bridge(document, root)
        else:
            reading, _ = _begin(document, root, "nemo1")
            _read_nemo1(reading)
            hydra.attach(reading, lambda found: _composed(reading, found))
            yield reading


_RL_SCRIPT: Final = re.compile(
    r"run_(?:vlm_|async_|xtoken_|off_policy_|qa_)*(?:grpo|sft|dpo|rm|ppo|distillation)\w*\.py"
)
_RL_KEYS: Final = ("policy.", "cluster.", "grpo.", "sft.", "dpo.", "distillation.", "checkpointing.")


def _command(started: Program, launch: Launch) -> Iterator[Reading]:
    """``run_grpo.py --config FILE a.b=c`` of NeMo-RL; ``automodel FILE --a.b c`` and Automodel's recipe scripts."""
    words = [started.word, *started.arguments]
    span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
    name = basename(started.word.text)
    plain = [word for word in started.arguments if not is_flag(word)]
    if started.script and _RL_SCRIPT.fullmatch(name):
        if any(word.text.lstrip("+~").startswith(_RL_KEYS) for word in plain):
            yield nemo_rl.read_nemo_rl(
                launch.document, nested(plain, span), why=f"{name} with overrides", arguments=True
            )
        return
    flags = read_flags(started.arguments)
    tree = nest_flags(flags.mapping, span)
    recipe = started.script and any(isinstance(tree.get(key), Mapping) for key in ("step_scheduler", "distributed"))
    if name in ("automodel", "am") or (recipe and "config" in tree):
        reading = nemo_automodel.read_automodel(launch.document, tree, why=f"{name} with overrides", arguments=True)
        for fact, flag in (("gpus_per_node", "nproc_per_node"), ("nodes", "nnodes")):
            state_count(reading, fact, flag)
        yield reading


def _begin(document: Document, root: Mapping, layout: str) -> tuple[Reading, ResolvingReader]:
    reading = Reading("nemo", document, root, framework="nemo")
    reading.context["layout"] = layout
    reading.facts.state("framework", "nemo", reading.origin())
    return reading, ResolvingReader(reading)


def _composed(alone: Reading, found: hydra.Composed) -> Reading:
    """A config of NeMo 1 over the files its defaults list names."""
    reading = ComposedReading("nemo", alone.document, found.root, why=alone.why, framework="nemo")
    reading.context.update(layout="nemo1", owners=found.owners)
    reading.facts.state("framework", "nemo", reading.origin())
    _read_nemo1(reading)
    return reading


def _nemo1_command(started: Program, launch: Launch) -> Iterator[Reading]:
    """``megatron_gpt_pretraining.py --config-path=DIR --config-name=NAME trainer.devices=8 model.micro_batch_size=2``."""
    overrides = [
        word for word in started.arguments if word.text.lstrip("+~").startswith(_NEMO1_KEYS) and is_override(word)
    ]
    keys = {word.text.lstrip("+").partition("=")[0] for word in overrides}
    beside = any(key.startswith(("trainer.", "exp_manager.")) for key in keys)
    if not started.script or not beside or not keys & _NEMO1_SIGNS:
        return
    words = [started.word, *started.arguments]
    span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
    reading, _ = _begin(launch.document, nested(overrides, span), "nemo1")
    reading.why = f"{basename(started.name)} with overrides"
    reading.context.update(standalone=True, choices=hydra.choices(started.arguments))
    _read_nemo1(reading, command=True)
    yield reading


_NEMO1_KEYS: Final = ("trainer.", "model.", "exp_manager.")
_NEMO1_SIGNS: Final = frozenset({
    "model.tensor_model_parallel_size", "model.pipeline_model_parallel_size", "model.micro_batch_size", "model.global_batch_size",
    "model.encoder_seq_length", "model.megatron_amp_O2", "model.restore_from_path", "model.data.train_ds.file_names",
    "model.data.data_prefix", "model.peft.peft_scheme", "model.optim.name", "model.mcore_gpt",
})  # fmt: skip


def _read_nemo1(reading: Reading, *, command: bool = False) -> None:
    """State what a config says, or (``command``) the overrides of one, which need not hold what tells a config."""
    facts = ResolvingReader(reading)
    trainer, model = facts.under("trainer"), facts.under("model")
    if not command and not (model.given("micro_batch_size") and model.given("tensor_model_parallel_size")):
        # speech, vision and generation configs: no language model is trained with Megatron here
        reading.role = "part"
        reading.context["trains"] = False
        return
    trainer.integer("gpus_per_node", "devices", "gpus", low=1)
    trainer.integer("nodes", "num_nodes", low=1)
    trainer.integer("max_steps", "max_steps", low=1)
    trainer.number("max_grad_norm", "gradient_clip_val", low=0)
    word = megatron_core.precision_word(trainer.value("precision"))
    if word is not None:
        trainer.state("compute_dtype", "none" if word == "fp32" else word, "precision")
        if word in ("bf16", "fp16") and model.on("megatron_amp_O2"):
            trainer.state("weight_dtype", word, "precision")
            trainer.state("master_weights", True, "precision")
        else:
            # without O2 parameters stay fp32 under autocast
            trainer.state("weight_dtype", "fp32", "precision")
            trainer.state("master_weights", False, "precision")
    megatron_core.state_parallel(model)
    megatron_core.state_expert_tensor_default(model)
    megatron_core.state_batch(model)
    model.integer("sequence_length", ("data", "train_ds", "max_seq_length"), ("data", "seq_length"), low=1)
    megatron_core.state_memory(model)
    megatron_core.state_precision(model)
    optimizer = model.under("optim")
    name = text(optimizer.value("name"))
    if name is not None:
        sharded = name in ("distributed_fused_adam", "mcore_distributed_optim")
        optimizer.state("optimizer", "adamw_torch_fused" if "adam" in name or sharded else name.lower(), "name")
        optimizer.state("zero_stage", 1 if sharded else 0, "name")
    optimizer.number("learning_rate", "lr", low=0)
    optimizer.number("weight_decay", "weight_decay", low=0)
    if model.on("fsdp"):
        kinds = {"full": "full_shard", "hybrid": "hybrid_shard", "grad": "shard_grad_op"}
        model.state("fsdp", kinds.get(text(model.value("fsdp_sharding_strategy")) or "full", "full_shard"), "fsdp")
    if (
        not command
        or model.given("restore_from_path")
        or model.given("data")
        or facts.mapping("model", "data") is not None
        or _aligned(facts) is not None
    ):
        _state_nemo1_method(facts)
    if not model.given("restore_from_path"):
        megatron_core.state_dimensions(model)


_ALIGNER: Final = {"dpo": "dpo", "kto": "kto", "spin": "dpo", "ppo": "ppo", "reinforce": "ppo", "rm": "reward"}
"""Sections of NeMo-Aligner's configs below ``trainer`` or ``model``, with the method whose models they hold in memory."""


def _aligned(facts: ResolvingReader) -> tuple[str, str] | None:
    """The section of NeMo-Aligner that a config or its overrides have: ``("model", "dpo")``."""
    places = ((part, key) for key in _ALIGNER for part in ("trainer", "model"))
    return next((place for place in places if facts.mapping(*place) is not None), None)


def _state_nemo1_method(facts: ResolvingReader) -> None:
    model = facts.under("model")
    scheme = text(model.value("peft", "peft_scheme"))
    section = _aligned(facts)
    if section is not None:
        tuned = scheme in ("lora", "canonical_lora", "qlora", "mcore_lora")
        facts.state("method", f"{_ALIGNER[section[1]]}+lora" if tuned else _ALIGNER[section[1]], *section)
        if tuned:
            megatron_core.state_lora(model.under("peft", "lora_tuning"))
        return
    if scheme in ("lora", "canonical_lora", "qlora", "mcore_lora"):
        model.state("method", "qlora" if scheme == "qlora" else "lora", "peft", "peft_scheme")
        lora = model.under("peft", "lora_tuning")
        megatron_core.state_lora(lora)
        names = texts(lora.node("target_modules"))
        if names is not None:
            lora.state("lora_targets", megatron_core.lora_targets(names) or UNKNOWN, "target_modules")
    elif scheme is not None and scheme != "none":
        model.state("method", UNKNOWN, "peft", "peft_scheme")
    elif model.given("restore_from_path") or model.given("data", "train_ds"):
        model.state("method", "full", "restore_from_path" if model.given("restore_from_path") else "data")
    else:
        model.state("method", "pretrain", "data")


def _read_bridge(document: Document, root: Mapping) -> Reading:
    """Overrides of a Megatron-Bridge recipe: the recipe itself (model, defaults) is Python."""
    reading, facts = _begin(document, root, "megatron-bridge")
    model, train = facts.under("model"), facts.under("train")
    megatron_core.state_parallel(model)
    megatron_core.state_batch(train)
    megatron_core.state_batch(model)
    facts.integer("sequence_length", ("dataset", "seq_length"), ("dataset", "sequence_length"), low=1)
    megatron_core.state_memory(model)
    megatron_core.state_schedule(facts.under("optimizer"))
    schedule = facts.under("scheduler")
    megatron_core.state_schedule(schedule)
    megatron_core.state_optimizer_precision(facts.under("ddp"))
    if (on := boolean(facts.value("ddp", "use_distributed_optimizer"))) is not None:
        facts.state("zero_stage", 1 if on else 0, "ddp", "use_distributed_optimizer")
    precision = text(facts.value("mixed_precision"))
    word = megatron_core.precision_word((precision or "").partition("_")[0])
    if word is not None:
        facts.state("weight_dtype", word, "mixed_precision")
        facts.state("compute_dtype", word, "mixed_precision")
    if facts.mapping("peft") is not None:
        megatron_core.state_lora(facts.under("peft"))
        facts.state("method", "lora", "peft")
    elif facts.mapping("model", "kd_config") is not None:
        facts.state("method", "distill", "model", "kd_config")
    nodes = integer(facts.value("num_nodes"))
    if nodes is not None and nodes > 0:
        facts.state("nodes", nodes, "num_nodes")
    return reading


DIALECT = Nemo()
