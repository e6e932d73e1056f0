"""verl: Hydra configs, and ``python3 -m verl.trainer.main_ppo`` with overrides.

The actor is what is trained: under FSDP its parameters are fp32 and gathered in bf16 (``actor.fsdp_config``), under
Megatron they are bf16 with fp32 copies. The defaults of the trainer's own config hold for what a command leaves out; a file
that names others in ``defaults`` says nothing about them. A mini-batch counts prompts: times ``rollout.n`` it is sequences.

Names and defaults: verl 0.3 to main of 2026 (``verl/trainer/config``, ``verl/workers/fsdp_workers.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from cfglint.dialects import hydra, megatron_core
from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import Program, basename
from cfglint.dialects.composition import ComposedReading
from cfglint.dialects.flags import open_ended
from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.overrides import is_override, nested
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import because, boolean, dtype, evidence, integer, text, without_defaults
from cfglint.jobs.facts import UNKNOWN, DerivedOrigin, Reading
from cfglint.source.node import Document, Mapping, Node, Scalar, Sequence, Span

_PPO: Final = ("actor_rollout_ref", "algorithm", "critic", "trainer", "reward_model", "data")
_ACTOR: Final = "actor_rollout_ref"
_FRAGMENT: Final = (
    "ppo_micro_batch_size_per_gpu", "ppo_mini_batch_size", "ppo_max_token_len_per_gpu", "log_prob_micro_batch_size_per_gpu",
    "log_prob_use_dynamic_bsz", "fsdp_config", "use_dynamic_bsz", "gpu_memory_utilization", "free_cache_engine",
)  # fmt: skip
_MODULE: Final = re.compile(
    r"^(?:verl|recipe)\.[\w.]*\bmain_[\w]*ppo\w*$|^(?:verl|recipe)\.[\w.]*(?:main_\w+|\w+_main|sft_trainer\w*|\w+_sft_trainer\w*)$"
)
_CLASSES: Final = re.compile(r"^(?:verl|recipe)\.")
_SERVES: Final = ("generation", "main_eval", "model_merger", "server")


def _has_class(node: Node | None) -> bool:
    """A list of tools, interactions or agents of verl (``class_name: verl.tools…``)."""
    if not isinstance(node, Sequence):
        return False
    for item in node.items[:3]:
        for key in ("class_name", "_target_"):
            found = item.get(key) if isinstance(item, Mapping) else None
            if isinstance(found, Scalar) and isinstance(found.value, str) and _CLASSES.match(found.value):
                return True
    return False


def _searches_verl(root: Mapping) -> bool:
    hydra = root.get("hydra")
    paths = hydra.get("searchpath") if isinstance(hydra, Mapping) else None
    items = paths.items if isinstance(paths, Sequence) else []
    return any(isinstance(i, Scalar) and isinstance(i.value, str) and "verl/" in i.value for i in items)


class Verl(Dialect):
    name = "verl"
    title = "verl"
    summary = "verl's Hydra configs, and `python3 -m verl.trainer.…` with overrides"
    markers = frozenset({_ACTOR, "ppo_micro_batch_size_per_gpu", "ppo_mini_batch_size", "n_gpus_per_node"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        if isinstance(root.get(_ACTOR), Mapping):
            return Recognition(90, because([_ACTOR, *evidence(root, _PPO[1:], 2)]))
        if _searches_verl(root):
            return Recognition(85, "hydra.searchpath")
        target = root.get("_target_")
        if isinstance(target, Scalar) and isinstance(target.value, str) and target.value.startswith("verl."):
            return Recognition(85, "_target_")
        for key in ("tools", "interaction", "agents"):
            if _has_class(root.get(key)):
                return Recognition(80, key)
        found = evidence(root, _FRAGMENT)
        if len(found) >= 2 and any(key.startswith(("ppo_", "log_prob_")) for key in found):
            return Recognition(75, because(found))
        trainer, model, data = (root.get(key) for key in ("trainer", "model", "data"))
        if isinstance(trainer, Mapping) and isinstance(data, Mapping) and isinstance(model, Mapping):
            own = evidence(model, ("partial_pretrain", "fsdp_config", "enable_gradient_checkpointing"))
            if len(own) >= 2 or ("partial_pretrain" in model and "micro_batch_size_per_gpu" in data):
                return Recognition(80, because([f"model.{key}" for key in own]))
        if isinstance(root.get("custom_reward_function"), Mapping) and isinstance(data, Mapping):
            return Recognition(70, "custom_reward_function + data")
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        reading = read_verl(document, root)
        hydra.attach(reading, lambda found: _composed(reading, found))
        yield reading

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        module = started.name if started.module else ""
        if started.script:
            path = started.word.text.removesuffix(".py").replace("/", ".").lstrip(".")
            module = path[path.find("verl.") :] if "verl." in path else path if path.startswith("recipe.") else ""
        overrides = [word for word in started.arguments if is_override(word)]
        own = any(word.text.lstrip("+").startswith(f"{_ACTOR}.") for word in overrides)
        if not (_MODULE.match(module) or (own and (started.script or started.module))):
            return
        words = [started.word, *started.arguments]
        span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
        tree = nested(overrides, span)
        reading = read_verl(
            launch.document, tree, why=f"{basename(started.name)} with overrides", command=_config(started)
        )
        if open_ended(started.arguments):
            reading.facts = without_defaults(reading.facts)
        if any(part in module for part in _SERVES):
            reading.role = "part"
            reading.context["trains"] = False
        reading.context["standalone"] = True
        reading.context["program"] = started.name
        reading.context["choices"] = hydra.choices(started.arguments)
        yield reading


def _config(started: Program) -> str:
    """The trainer's config a command runs with: ``--config-name`` without its suffix, else named after its module."""
    words = started.arguments
    for i, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if name in ("--config-name", "--config_name"):
            value = value if equals else words[i + 1].text if i + 1 < len(words) else ""
            return value.strip("'\"").removesuffix(".yaml")
    return "sft_trainer" if "sft" in started.name else "ppo_trainer"


def read_verl(document: Document, root: Mapping, *, why: str = "", command: str = "") -> Reading:
    """A reading of a config, or (``command``: the config it starts from) of the overrides of a command."""
    reading = Reading("verl", document, root, why=why, framework="verl")
    _read(reading, root, command)
    return reading


def _composed(alone: Reading, found: hydra.Composed) -> Reading:
    """The config over the files its defaults list names."""
    reading = ComposedReading("verl", alone.document, found.root, why=alone.why, framework="verl")
    reading.context["owners"] = found.owners
    _read(reading, found.root, "")
    return reading


def _read(reading: Reading, root: Mapping, command: str) -> None:
    facts = ResolvingReader(reading)
    if _ACTOR in root:
        _read_ppo(facts, command)
    elif facts.given("model", "partial_pretrain") or "sft" in command:
        _read_sft(facts, command)
    else:
        reading.role = "part"
        reading.context["trains"] = False
        reading.facts.state("framework", "verl", reading.origin())


def _read_ppo(facts: ResolvingReader, command: str) -> None:
    reading = facts.reading
    actor = facts.under(_ACTOR, "actor")
    model = facts.under(_ACTOR, "model")
    strategy = text(actor.value("strategy"))
    megatron = (
        strategy == "megatron" or "megatron" in command or (strategy is None and actor.mapping("megatron") is not None)
    )
    if megatron:
        reading.framework = "megatron"
        where = (_ACTOR, "actor", "strategy") if strategy else (_ACTOR,)
        facts.state("framework", "megatron", *where)
    else:
        reading.facts.state("framework", "verl", reading.origin())
    if not command and not model.given("path"):
        # a file that completes another: what it says still stands
        reading.role = "part"
        reading.context["trains"] = False
    _state_model(model)
    _state_lengths(facts)
    _state_micro_batch(actor)
    _state_mini_batch(facts, actor)
    if megatron:
        _state_megatron(actor)
    else:
        _state_fsdp(actor, strategy, command)
    checkpointing = boolean(model.value("enable_gradient_checkpointing"))
    if not megatron:
        if checkpointing is not None:
            model.state("gradient_checkpointing", "full" if checkpointing else "none", "enable_gradient_checkpointing")
        elif command:
            model.default("gradient_checkpointing", "full", "verl", "", "enable_gradient_checkpointing")
    _state_rollout(facts, actor, command)
    _state_method(facts, model, command)
    optimizer = actor.under("optim")
    _state_optimizer(optimizer, megatron, command)
    actor.number("max_grad_norm", "grad_clip", ("optim", "clip_grad"), low=0)
    _state_run(facts, command)


def _state_model(model: ResolvingReader, key: str = "path") -> None:
    if model.text("model_id", key) is not None and not is_unknown(model.value(key)):
        model.reference("model", key, base="cwd")
    model.boolean("trust_remote_code", "trust_remote_code")
    if model.on("use_fused_kernels"):
        model.state("loss_kernel", "fused_linear", "use_fused_kernels")
    elif model.on("use_liger"):
        model.reading.context["liger"] = True
    model.attention("attention", ("override_config", "attn_implementation"))


def _state_lengths(facts: ResolvingReader) -> None:
    """Prompt and response stand in one sequence when the policy is updated."""
    lengths = [integer(facts.value("data", key)) for key in ("max_prompt_length", "max_response_length")]
    prompt, response = lengths
    if prompt is not None and response is not None and prompt > 0 and response > 0:
        inputs = tuple(facts.origin("data", key) for key in ("max_prompt_length", "max_response_length"))
        how = f"max_prompt_length {prompt} + max_response_length {response}"
        facts.reading.facts.state("sequence_length", prompt + response, DerivedOrigin(how, inputs))
    elif any(is_unknown(facts.value("data", key)) for key in ("max_prompt_length", "max_response_length")):
        facts.state("sequence_length", UNKNOWN, "data", "max_response_length")


def _state_micro_batch(actor: ResolvingReader) -> None:
    """With ``use_dynamic_bsz`` sequences are packed up to a number of tokens: how many there are is not known."""
    if actor.on("use_dynamic_bsz"):
        actor.state("micro_batch_size", UNKNOWN, "use_dynamic_bsz")
        tokens = integer(actor.value("ppo_max_token_len_per_gpu"))
        if tokens is not None:
            actor.reading.context["tokens_per_micro_batch"] = tokens
    else:
        actor.integer("micro_batch_size", "ppo_micro_batch_size_per_gpu", low=1)


def _state_mini_batch(facts: ResolvingReader, actor: ResolvingReader) -> None:
    prompts = integer(actor.value("ppo_mini_batch_size"))
    samples = integer(facts.value(_ACTOR, "rollout", "n"))
    if prompts is None or prompts < 1:
        return
    origin = actor.origin("ppo_mini_batch_size")
    if samples is not None and samples > 1:
        inputs = (origin, facts.origin(_ACTOR, "rollout", "n"))
        how = f"ppo_mini_batch_size {prompts} × rollout.n {samples}"
        facts.reading.facts.state("global_batch_size", prompts * samples, DerivedOrigin(how, inputs))
    else:
        facts.reading.facts.state("global_batch_size", prompts, origin)


def _state_megatron(actor: ResolvingReader) -> None:
    settings = actor.under("megatron")
    megatron_core.state_parallel(settings)
    megatron_core.state_expert_tensor_default(settings)
    override = settings.under("override_transformer_config")
    megatron_core.state_memory(override)
    megatron_core.state_memory(settings)
    megatron_core.state_precision(settings)
    megatron_core.state_optimizer_device(actor.under("optim", "override_optimizer_config"))
    for fact, value in (
        ("weight_dtype", "bf16"),
        ("compute_dtype", "bf16"),
        ("master_weights", True),
        ("zero_stage", 1),
    ):
        if not actor.reading.facts.stated(fact):
            actor.default(fact, value, "megatron", "", "verl/trainer/config/engine/megatron.yaml")


def _state_fsdp(actor: ResolvingReader, strategy: str | None, command: str) -> None:
    settings = actor.under("fsdp_config")
    stated = actor.reading.facts.stated
    size = integer(settings.value("fsdp_size"))
    if size is not None and size > 0:
        settings.state("fsdp", "hybrid_shard", "fsdp_size")
    reshard = boolean(settings.value("reshard_after_forward"))
    if reshard is False:
        settings.state("fsdp", "shard_grad_op", "reshard_after_forward")
    if strategy in ("fsdp", "fsdp2"):
        actor.state("fsdp", "full_shard", "strategy")
        actor.state("fsdp_version", 2 if strategy == "fsdp2" else 1, "strategy")
    elif command:
        actor.default("fsdp", "full_shard", "verl")
        actor.default("fsdp_version", 1, "verl", "", "actor.strategy is fsdp")
    if settings.on("offload_policy"):
        for fact in ("offload_parameters", "offload_optimizer"):
            settings.state(fact, "cpu", "offload_policy")
    for key in ("param_offload", "optimizer_offload"):
        # moved to the host between the phases of a step, back on the device while the policy is updated
        if settings.on(key):
            actor.reading.context[key] = True
    stored = settings.dtype("weight_dtype", "model_dtype")
    if not stated("weight_dtype") and (command or actor.mapping("fsdp_config") is not None):
        actor.default("weight_dtype", "fp32", "verl", "", "fsdp_config.model_dtype")
    mixed = settings.under("mixed_precision")
    if mixed.dtype("compute_dtype", "param_dtype") is None and settings.dtype("compute_dtype", "dtype") is None:
        if stored == "bf16":
            settings.state("compute_dtype", "none", "model_dtype")  # gathered in the dtype they are stored in
        else:
            actor.default("compute_dtype", "bf16", "verl", "", "fsdp_config.mixed_precision")
    if not stated("loss_kernel") and command:
        actor.default("loss_kernel", "triton", "verl", "", "flash-attn's cross entropy")
    actor.integer(
        "context_parallel_size",
        "ulysses_sequence_parallel_size",
        ("fsdp_config", "ulysses_sequence_parallel_size"),
        low=1,
    )


def _state_rollout(facts: ResolvingReader, actor: ResolvingReader, command: str) -> None:
    """The engine on the actor's own devices: its share, and who makes room for whom (``trainer/config/rollout/rollout.yaml``)."""
    rollout = facts.under(_ACTOR, "rollout")
    if text(rollout.value("name")) == "hf":
        return
    share = rollout.number("rollout_gpu_memory_utilization", "gpu_memory_utilization", low=0)
    if share is None and command and not rollout.given("gpu_memory_utilization"):
        rollout.default("rollout_gpu_memory_utilization", 0.5, "verl", "", "rollout.gpu_memory_utilization")
    if rollout.boolean("rollout_sleeps", "free_cache_engine") is None and command:
        rollout.default("rollout_sleeps", True, "verl", "", "rollout.free_cache_engine")
    for place in (actor.under("fsdp_config"), actor.under("megatron")):
        if place.on("param_offload") and place.on("optimizer_offload"):
            place.state("trainer_sleeps", True, "param_offload")


def _state_method(facts: ResolvingReader, model: ResolvingReader, command: str) -> None:
    estimator = text(facts.value("algorithm", "adv_estimator"))
    base = "ppo" if estimator == "gae" or estimator is None else "grpo"
    rank = integer(model.value("lora_rank"))
    adapter = rank is not None and rank > 0
    word = f"{base}+lora" if adapter else base
    if is_unknown(estimator):
        facts.state("method", UNKNOWN, "algorithm", "adv_estimator")
    elif estimator is not None:
        facts.state("method", word, "algorithm", "adv_estimator")
    elif command:
        facts.default("method", word, "verl", "", "algorithm.adv_estimator is gae")
    if adapter:
        model.integer("lora_rank", "lora_rank", low=1)
        model.number("lora_alpha", "lora_alpha", low=0)
        if model.names("lora_targets", "target_modules") is None:
            model.default("lora_targets", ["all-linear"], "verl")


def _state_optimizer(optimizer: ResolvingReader, megatron: bool, command: str) -> None:
    optimizer.number("learning_rate", "lr", low=0)
    optimizer.number("weight_decay", "weight_decay", low=0)
    steps = integer(optimizer.value("lr_warmup_steps"))
    if steps is not None and steps >= 0:
        optimizer.integer("warmup_steps", "lr_warmup_steps", low=0)
    else:
        optimizer.number("warmup_ratio", "lr_warmup_steps_ratio", low=0)
    name = text(optimizer.value("optimizer"))
    if name in ("AdamW", "Adam") and (text(optimizer.value("optimizer_impl")) or "torch.optim") == "torch.optim":
        optimizer.state("optimizer", "adamw_torch", "optimizer")
    elif command and name is None:
        optimizer.default("optimizer", "adamw_torch_fused" if megatron else "adamw_torch", "verl")


def _state_run(facts: ResolvingReader, command: str) -> None:
    trainer = facts.under("trainer")
    trainer.integer("gpus_per_node", "n_gpus_per_node", low=1)
    trainer.integer("nodes", "nnodes", low=1)
    trainer.number("epochs", "total_epochs", low=0)
    trainer.integer("max_steps", "total_training_steps", low=1)
    if command and "sft" not in command:
        # ppo_trainer.yaml: one node of eight
        trainer.default("gpus_per_node", 8, "verl")
        trainer.default("nodes", 1, "verl")


def _read_sft(facts: ResolvingReader, command: str) -> None:
    reading = facts.reading
    reading.facts.state("framework", "verl", reading.origin())
    model, data = facts.under("model"), facts.under("data")
    if not command and not (model.given("partial_pretrain") or model.given("path")):
        reading.role = "part"
        reading.context["trains"] = False
    _state_model(model, "partial_pretrain" if model.given("partial_pretrain") else "path")
    data.integer("micro_batch_size", "micro_batch_size_per_gpu", low=1)
    data.integer("global_batch_size", "train_batch_size", low=1)
    data.integer("sequence_length", "max_length", low=1)
    checkpointing = boolean(model.value("enable_gradient_checkpointing"))
    if checkpointing is not None:
        model.state("gradient_checkpointing", "full" if checkpointing else "none", "enable_gradient_checkpointing")
    else:
        model.default("gradient_checkpointing", "full", "verl")
    strategy = text(model.value("strategy"))
    if strategy in ("fsdp", "fsdp2"):
        model.state("fsdp", "full_shard", "strategy")
        model.state("fsdp_version", 2 if strategy == "fsdp2" else 1, "strategy")
    else:
        model.default("fsdp", "full_shard", "verl")
        model.default("fsdp_version", 2, "verl", "", "model.strategy is fsdp2")
    for key in ("cpu_offload", "offload_params"):
        if model.on("fsdp_config", key):
            for fact in ("offload_parameters", "offload_optimizer"):
                model.state(fact, "cpu", "fsdp_config", key)
    stored = dtype(model.value("fsdp_config", "model_dtype"))
    if stored is not None:
        model.state("weight_dtype", stored, "fsdp_config", "model_dtype")
    else:
        model.default("weight_dtype", "fp32", "verl")
    model.default("compute_dtype", "bf16", "verl")
    rank = integer(model.value("lora_rank"))
    if rank is not None and rank > 0:
        model.state("method", "lora", "lora_rank")
        model.integer("lora_rank", "lora_rank", low=1)
        model.number("lora_alpha", "lora_alpha", low=0)
        if model.names("lora_targets", "target_modules") is None:
            model.default("lora_targets", ["all-linear"], "verl")
    else:
        model.default("method", "full", "verl", "", "lora_rank is 0")
    facts.integer("context_parallel_size", "ulysses_sequence_parallel_size", low=1)
    _state_optimizer(facts.under("optim"), False, command)
    facts.number("max_grad_norm", ("optim", "clip_grad"), low=0)
    _state_run(facts, command)


DIALECT = Verl()
