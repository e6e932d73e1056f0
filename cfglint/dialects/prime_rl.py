"""prime-rl's TOML: one file for trainer, orchestrator and inference, or one for each.

The trainer packs micro-batches of ``seq_len`` tokens; it shards with FSDP 2, holds parameters in fp32 and gathers them in bf16.

Names and defaults: prime-rl main of 2026-08 (``src/prime_rl/configs``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import Program
from cfglint.dialects.flags import read_flags
from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.overrides import nest_flags
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import because, evidence, integer, text
from cfglint.jobs.facts import FileOrigin, Reading, Reference
from cfglint.source.node import Document, Mapping, Span
from cfglint.source.shell import Word

FRAMEWORK: Final = "prime-rl"
_PARTS: Final = ("trainer", "orchestrator", "inference")
_AROUND: Final = (
    "ckpt",
    "optim",
    "scheduler",
    "weight_broadcast",
    "monitors",
    "deployment",
    "slurm",
    "wandb",
    "log",
    "renderer",
)
_ATTENTION: Final = {"flash_attention_2": "flash2", "flash_attention_3": "flash3", "sdpa": "sdpa"}


def _state_model(facts: ResolvingReader, trainer: ResolvingReader) -> None:
    model = trainer.under("model")
    for reader in (model, facts.under("model")):
        if reader.text("model_id", "name") is not None:
            if not is_unknown(reader.value("name")):
                reader.reference("model", "name", base="cwd")
            break
    for fact, key in (
        ("tensor_parallel_size", "tp"), ("context_parallel_size", "cp"), ("expert_parallel_size", "ep"),
    ):  # fmt: skip
        model.integer(fact, key, low=1)
    kernel = _ATTENTION.get(str(model.value("attn")))
    if kernel is not None:
        model.state("attention", kernel, "attn")
    if model.mapping("compile") is not None:
        model.state("compile", True, "compile")
    checkpointing = model.mapping("ac")
    if checkpointing is not None:
        every = integer(model.value("ac", "freq")) or 1
        model.state("gradient_checkpointing", "full" if every == 1 else "selective", "ac")
        if every > 1:
            model.state("checkpoint_every", every, "ac", "freq")
    if model.on("fsdp_cpu_offload"):
        for fact in ("offload_parameters", "offload_optimizer"):
            model.state(fact, "cpu", "fsdp_cpu_offload")
    if model.on("optim_cpu_offload"):
        model.state("offload_optimizer", "cpu", "optim_cpu_offload")
    if model.given("fused_lm_head_token_chunk_size"):
        model.state("loss_kernel", "fused_linear", "fused_lm_head_token_chunk_size")
    replicas = integer(model.value("dp_replicate"))
    if replicas is not None and replicas > 1:
        model.state("fsdp", "hybrid_shard", "dp_replicate")
    for key in ("lora", "experimental.lora"):
        adapter = model.under(*key.split("."))
        if adapter.given("rank"):
            adapter.integer("lora_rank", "rank", low=1)
            adapter.number("lora_alpha", "alpha", low=0)
            adapter.names("lora_targets", "target_modules")


class PrimeRl(Dialect):
    name = "prime-rl"
    title = "prime-rl"
    summary = "prime-rl's TOML, and its commands with flags over it"
    markers = frozenset({"orchestrator", "weight_broadcast", "oversampling_factor", "max_off_policy_steps"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        parts = [key for key in _PARTS if isinstance(root.get(key), Mapping)]
        around = [key for key in _AROUND if isinstance(root.get(key), Mapping)]
        if "policy" in root or "exp_manager" in root or "job" in root:
            return None
        if len(parts) >= 2 or ("orchestrator" in parts and around) or (parts == ["trainer"] and len(around) >= 2):
            return Recognition(78, because([*parts, *around][:3]))
        model = root.get("model")
        if (
            isinstance(model, Mapping)
            and "name" in model
            and len(around) >= 2
            and evidence(root, ("max_steps", "seq_len", "data"))
        ):
            return Recognition(70, because(["model.name", *around[:2]]))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        reading = Reading(FRAMEWORK, document, root, framework=FRAMEWORK)
        _read(reading, root)
        if reading.role == "run":
            _state_defaults(reading, rollouts=isinstance(root.get("orchestrator"), Mapping))
        yield reading

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        """``rl @ run.toml --trainer.model.name org/m``, ``sft @ sft.toml``, and ``--trainer @ trainer.toml`` of older releases."""
        own = started.name in _COMMANDS if not started.script else "prime_rl/" in started.word.text
        if not own or not any(word.text == "@" for word in started.arguments):
            return
        files, words = _files_and_flags(started.arguments)
        parsed = read_flags(words)
        span = Span(started.word.span.start, max(word.span.end for word in started.arguments))
        root = nest_flags(parsed.mapping, span)
        reading = Reading(FRAMEWORK, launch.document, root, why=f"{started.name} @ file", framework=FRAMEWORK)
        for word in files:
            origin = FileOrigin(launch.document, ("@",), word.span, word.span)
            reading.references.append(Reference("config", word.text, origin, base="cwd"))
        _read(reading, root)
        reading.role = "arguments"
        reading.context.pop("trains", None)
        facts = ResolvingReader(reading)
        facts.integer("gpus_per_node", "trainer_gpus", "trainer_gpu_ids", low=1)
        yield reading


_COMMANDS: Final = frozenset({"rl", "sft", "trainer", "inference", "orchestrator"})


def _files_and_flags(words: list[Word]) -> tuple[list[Word], list[Word]]:
    """The files behind ``@``, and the words that are neither those nor the flag a file is for."""
    files: list[Word] = []
    flags: list[Word] = []
    i = 0
    while i < len(words):
        if words[i].text == "@" and i + 1 < len(words):
            files.append(words[i + 1])
            if flags and flags[-1].text.startswith("--") and "=" not in flags[-1].text:
                flags.pop()
            i += 2
            continue
        flags.append(words[i])
        i += 1
    return files, flags


def _read(reading: Reading, root: Mapping) -> None:
    facts = ResolvingReader(reading)
    reading.facts.state("framework", FRAMEWORK, reading.origin())
    trainer = facts.under("trainer") if isinstance(root.get("trainer"), Mapping) else facts
    supervised = isinstance(root.get("data"), Mapping) and facts.given("data", "batch_size")
    if not (isinstance(root.get("trainer"), Mapping) or facts.given("optim") or supervised):
        reading.role = "part"
        reading.context["trains"] = False
    _state_model(facts, trainer)
    facts.integer(
        "sequence_length",
        "seq_len",
        ("trainer", "model", "seq_len"),
        ("model", "seq_len"),
        ("data", "seq_len"),
        low=1,
    )
    facts.integer("global_batch_size", ("orchestrator", "batch_size"), ("data", "batch_size"), low=1)
    facts.integer("micro_batch_size", ("data", "micro_batch_size"), low=1)
    facts.integer("max_steps", "max_steps", ("trainer", "max_steps"), low=1)
    trainer.number("learning_rate", ("optim", "lr"), low=0)
    trainer.number("weight_decay", ("optim", "weight_decay"), low=0)
    trainer.integer("warmup_steps", ("scheduler", "warmup_steps"), low=0)
    name = text(trainer.value("optim", "type"))
    if name in ("adamw", "muon", "sgd"):
        trainer.state("optimizer", "adamw_torch" if name == "adamw" else name, "optim", "type")
    facts.integer("nodes", ("deployment", "num_train_nodes"), ("deployment", "num_nodes"), low=1)
    facts.integer("gpus_per_node", ("deployment", "num_train_gpus"), ("deployment", "gpus_per_node"), low=1)


def _state_defaults(reading: Reading, *, rollouts: bool) -> None:
    facts = ResolvingReader(reading)
    adapter = reading.facts.stated("lora_rank")
    word = ("grpo+lora" if adapter else "grpo") if rollouts else ("lora" if adapter else "full")
    facts.default("method", word, FRAMEWORK)
    for fact, value in (
        ("micro_batch_size", 1), ("packing", True), ("weight_dtype", "fp32"), ("compute_dtype", "bf16"),
        ("fsdp", "full_shard"), ("fsdp_version", 2), ("gradient_checkpointing", "none"),
    ):  # fmt: skip
        if not reading.facts.stated(fact):
            facts.default(fact, value, FRAMEWORK)


DIALECT = PrimeRl()
