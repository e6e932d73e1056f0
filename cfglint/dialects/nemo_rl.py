"""NeMo-RL's YAML: ``policy`` trained by DTensor (Automodel under FSDP 2) or by Megatron, ``cluster`` for the machine.

A file may build on others, named in ``defaults`` relative to itself. Alone it states nothing about keys it leaves out; where
its parents are at hand the linker asks for the merged file. Under DTensor weights are fp32 masters computed in ``policy.precision``.

Names and defaults: NeMo-RL main of 2026-08 (``nemo_rl/models/automodel/setup.py``, ``examples/configs``).
"""

from __future__ import annotations

from typing import Final

from cfglint.dialects import megatron_core
from cfglint.dialects.composition import ComposedReading, merged
from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import because, boolean, dtype, evidence, text, texts
from cfglint.jobs.facts import UNKNOWN, Reading, Reference
from cfglint.source.node import Document, Mapping, Scalar, Sequence

FRAMEWORK: Final = "nemo-rl"

_TASKS: Final = {
    "sft": "full", "dpo": "dpo", "rm": "reward", "ppo": "ppo", "grpo": "grpo", "distillation": "distill",
    "on_policy_distillation": "distill",
}  # fmt: skip
_SHAPE = (
    "policy", "grpo", "sft", "dpo", "rm", "ppo", "distillation", "on_policy_distillation", "cluster", "checkpointing", "logger",
    "loss_fn", "data_plane", "env", "data", "value", "teacher", "teachers", "reward_penalties", "async_rl",
)  # fmt: skip
_OWN = frozenset({"policy", "cluster", "checkpointing", *_TASKS})
_EVALUATION = ("generation", "eval", "tokenizer", "data", "env", "cluster")


def parents(root: Mapping) -> list[Scalar]:
    """Files named in ``defaults``: a text or a list of texts that end in ``.yaml``; empty where it is something else."""
    node = root.get("defaults")
    items = node.items if isinstance(node, Sequence) else [node]
    found = [item for item in items if isinstance(item, Scalar) and isinstance(item.value, str)]
    named = len(found) == len(items) and all(str(item.value).endswith((".yaml", ".yml")) for item in found)
    return found if named else []


def evidence_of(root: Mapping) -> str | None:
    """Why ``root`` is NeMo-RL's, None where it is not."""
    shape = evidence(root, _SHAPE, most=len(_SHAPE))
    sections = [key for key in shape if isinstance(root.get(key), Mapping)]
    if parents(root):
        # Hydra's own defaults are a list: one path alone is how NeMo-RL names a parent
        alone = isinstance(root.get("defaults"), Scalar) and all(
            key in _SHAPE for key in root.index if key != "defaults"
        )
        if alone or any(key in _OWN for key in sections):
            return because(["defaults", *sections[:2]])
        return None
    policy = root.get("policy")
    if isinstance(policy, Mapping) and ("model_name" in policy or "dtensor_cfg" in policy or "megatron_cfg" in policy):
        if len(sections) >= 2:
            return because(sections[:3])
        return None
    tasks = [key for key in sections if key in _TASKS]
    if tasks and "policy" in sections and "cluster" in sections:
        return because(["policy", tasks[0], "cluster"])
    found = evidence(root, _EVALUATION, most=6)
    cluster = root.get("cluster")
    if len(found) >= 4 and "generation" in found and isinstance(cluster, Mapping) and "gpus_per_node" in cluster:
        return because(found[:3])
    return None


def _backend(facts: ResolvingReader, inherits: bool) -> str | None:
    """``megatron``, ``dtensor``; None where only a parent could say."""
    if facts.on("policy", "megatron_cfg", "enabled"):
        return "megatron"
    if facts.on("policy", "dtensor_cfg", "enabled"):
        return "dtensor"
    if inherits:
        return None
    return "dtensor" if facts.mapping("policy", "dtensor_cfg") is not None else None


def _state_dtensor(policy: ResolvingReader) -> None:
    settings = policy.under("dtensor_cfg")
    for fact, key in (
        ("tensor_parallel_size", "tensor_parallel_size"), ("context_parallel_size", "context_parallel_size"),
        ("expert_parallel_size", "expert_parallel_size"),
    ):  # fmt: skip
        settings.integer(fact, key, low=1)
    settings.boolean("sequence_parallel", "sequence_parallel")
    if (on := boolean(settings.value("activation_checkpointing"))) is not None:
        settings.state("gradient_checkpointing", "full" if on else "none", "activation_checkpointing")
    if (on := boolean(settings.value("cpu_offload"))) is not None:
        for fact in ("offload_parameters", "offload_optimizer"):
            settings.state(fact, "cpu" if on else "none", "cpu_offload")
    if settings.on("enabled"):
        settings.state("fsdp", "full_shard", "enabled")
        settings.state("fsdp_version", 2, "enabled")
    precision = dtype(policy.value("precision"))
    if precision is not None:
        # setup.py loads every policy in fp32 and gathers it in the precision named here
        policy.state("compute_dtype", precision, "precision")
        policy.state("weight_dtype", "fp32", "precision")
    optimizer = policy.under("optimizer")
    name = text(optimizer.value("name"))
    if name in ("torch.optim.Adam", "torch.optim.AdamW"):
        single = boolean(optimizer.value("kwargs", "foreach")) is False
        fused = optimizer.on("kwargs", "fused")
        word = "adamw_torch_fused" if fused else "adamw_loop" if single else "adamw_torch"
        optimizer.state("optimizer", word, "name")
    elif name is not None and name.endswith(".FusedAdam"):
        optimizer.state("optimizer", "adamw_apex_fused", "name")
    optimizer.number("learning_rate", ("kwargs", "lr"), low=0)
    optimizer.number("weight_decay", ("kwargs", "weight_decay"), low=0)
    _state_lora(settings.under("lora_cfg"))


def _state_megatron(policy: ResolvingReader) -> None:
    settings = policy.under("megatron_cfg")
    megatron_core.state_parallel(settings)
    on = boolean(settings.value("activation_checkpointing"))
    if on is False:
        settings.state("gradient_checkpointing", "none", "activation_checkpointing")
    elif on is True:
        selective = text(settings.value("recompute_granularity")) == "selective"
        settings.state("gradient_checkpointing", "selective" if selective else "full", "activation_checkpointing")
    optimizer = settings.under("optimizer")
    megatron_core.state_precision(optimizer)
    if not optimizer.reading.facts.stated("weight_dtype") and (precision := dtype(policy.value("precision"))):
        policy.state("weight_dtype", precision, "precision")
        policy.state("compute_dtype", precision, "precision")
    megatron_core.state_schedule(optimizer)
    if (on := boolean(optimizer.value("use_distributed_optimizer"))) is not None:
        optimizer.state("zero_stage", 1 if on else 0, "use_distributed_optimizer")
    if settings.on("fp8_cfg", "enabled"):
        settings.state("fp8_linear", True, "fp8_cfg", "enabled")
    _state_lora(settings.under("peft"))


def _state_rollout(policy: ResolvingReader) -> None:
    """An engine on the policy's devices: each sleeps, or waits on the host, while the other works (``algorithms/grpo.py``)."""
    generation = policy.under("generation")
    if not generation.on("colocated", "enabled") or text(generation.value("backend")) == "megatron":
        return
    keys = (("vllm_cfg", "gpu_memory_utilization"), ("sglang_cfg", "mem_fraction_static"))
    if generation.number("rollout_gpu_memory_utilization", *keys, low=0) is not None:
        generation.state("rollout_sleeps", True, "colocated", "enabled")
        generation.state("trainer_sleeps", True, "colocated", "enabled")


def _state_lora(adapter: ResolvingReader) -> None:
    if not adapter.on("enabled"):
        return
    adapter.reading.context["adapter"] = adapter.origin("enabled")
    adapter.integer("lora_rank", "dim", low=1)
    adapter.number("lora_alpha", "alpha", low=0)
    adapter.number("lora_dropout", "dropout", low=0)
    names = texts(adapter.node("target_modules"))
    if adapter.on("match_all_linear") or (names is None and adapter.given("target_modules")):
        adapter.state("lora_targets", ["all-linear"], "enabled")
    elif names is not None:
        known = megatron_core.lora_targets(names)
        adapter.state("lora_targets", known or (UNKNOWN if any("*" in n for n in names) else names), "target_modules")


def _state_method(facts: ResolvingReader) -> None:
    for key, word in _TASKS.items():
        if facts.mapping(key) is None:
            continue
        adapter = facts.reading.context.pop("adapter", None)
        if adapter is not None:
            facts.reading.facts.state("method", "lora" if word == "full" else f"{word}+lora", adapter)
        else:
            facts.state("method", word, key)
        return
    facts.reading.context.pop("adapter", None)


def read_nemo_rl(document: Document, root: Mapping, *, why: str = "", arguments: bool = False) -> Reading:
    """A reading of a NeMo-RL config, or (``arguments``) of overrides on its command line."""
    reading = Reading("nemo", document, root, why=why, framework=FRAMEWORK)
    _read(reading, root, parents(root), arguments)
    return reading


def _composed(child: Reading, above: list[Reading]) -> Reading:
    """The child over the files it builds on, which are whole or composed themselves."""
    assert isinstance(child.root, Mapping)
    root, owners = merged(child.root, above)
    reading = ComposedReading("nemo", child.document, root, why=child.why, framework=FRAMEWORK)
    reading.context.update(owners=owners, parents=[parent.document.path for parent in above])
    # a parent that itself builds on a file not at hand leaves this one as open as it is
    open_ends = [item for parent in above if "inherits" in parent.context for item in parent.context["inherits"]]
    _read(reading, root, [], False, inherits=open_ends)
    if open_ends:
        reading.context["inherits"] = open_ends
    return reading


def _read(
    reading: Reading, root: Mapping, above: list[Scalar], arguments: bool, inherits: list[str] | None = None
) -> None:
    reading.context["layout"] = "nemo-rl"
    facts = ResolvingReader(reading)
    for item in above:
        reading.references.append(Reference("defaults", str(item.value), reading.origin("defaults"), base="file"))
    if above:
        reading.context["inherits"] = [str(item.value) for item in above]
        reading.context["compose"] = lambda found: _composed(reading, found)
    if arguments:
        reading.role = "arguments"
    elif (
        not above
        and not inherits
        and facts.mapping("policy") is None
        and not any(facts.mapping(key) is not None for key in _TASKS)
    ):
        reading.role = "part"
        reading.context["trains"] = False
    policy = facts.under("policy")
    backend = _backend(facts, bool(above) or bool(inherits) or arguments)
    if not arguments:
        framework = "nemo" if backend == "megatron" else FRAMEWORK
        reading.framework = framework
        reading.facts.state("framework", framework, reading.origin())
    if policy.text("model_id", "model_name") is not None and not is_unknown(policy.value("model_name")):
        policy.reference("model", "model_name", base="cwd")
    policy.integer("micro_batch_size", "train_micro_batch_size", low=1)
    policy.integer("global_batch_size", "train_global_batch_size", low=1)
    policy.integer("sequence_length", "max_total_sequence_length", low=1)
    policy.number("max_grad_norm", "max_grad_norm", low=0)
    if (on := boolean(policy.value("sequence_packing", "enabled"))) is not None:
        policy.state("packing", on, "sequence_packing", "enabled")
    if backend == "megatron":
        _state_megatron(policy)
    elif backend == "dtensor":
        _state_dtensor(policy)
    _state_rollout(policy)
    for key in ("sft", "dpo", "rm", "grpo", "distillation", "ppo"):
        facts.integer("max_steps", (key, "max_num_steps"), low=1)
        facts.number("epochs", (key, "max_num_epochs"), low=0)
    _state_method(facts)
    facts.integer("gpus_per_node", ("cluster", "gpus_per_node"), low=1)
    facts.integer("nodes", ("cluster", "num_nodes"), low=1)
