"""Launch lines: torchrun, accelerate launch, deepspeed, colossalai run, and the trainers' own commands, which their dialects know.

A launch says how many processes run where, names the files of the run, and may carry the trainer's own arguments. Those
are read by the trainer's dialect from the flags, exactly as from a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from cfglint.dialects.accelerate import state_accelerate_flags
from cfglint.dialects.base import Dialect, Launch, OwnCommand
from cfglint.dialects.carriers.command import PER_NODE, Program, basename, program
from cfglint.dialects.flags import flag_name, is_flag, read_flags, typed
from cfglint.dialects.hf_training_args import TRAINING_ARGUMENTS
from cfglint.dialects.values import FactReader
from cfglint.jobs.facts import PROCESSES, UNKNOWN, FileOrigin, Reading, Reference
from cfglint.source.node import Entry, Mapping, Node, Scalar, Span
from cfglint.source.shell import Word
from cfglint.source.whole_number import whole_number

TORCHRUN_BOOLEANS = frozenset(
    ["standalone", "m", "module", "no_python", "run_path", "virtual_local_rank", "use_env", "use-env"]
)
ACCELERATE_BOOLEANS = frozenset(
    [
        "quiet",
        "cpu",
        "multi_gpu",
        "tpu",
        "ipex",
        "use_deepspeed",
        "use_fsdp",
        "use_megatron_lm",
        "use_xpu",
        "use_parallelism_config",
        "m",
        "module",
        "no_python",
        "debug",
        "same_network",
        "tpu_use_cluster",
        "tpu_use_sudo",
        "no_tpu_cluster",
        "enable_cpu_affinity",
        "use_mps_device",
        "dynamo_use_fullgraph",
        "dynamo_use_dynamic",
        "dynamo_use_regional_compilation",
    ]
)
DEEPSPEED_BOOLEANS = frozenset(
    [
        "module",
        "no_python",
        "no_local_rank",
        "no_ssh",
        "no_ssh_check",
        "force_multi",
        "save_pid",
        "m",
        "elastic_training",
    ]
)
CONFIG_FLAGS = ("config", "config_file", "config_name", "cfg", "job.config_file")
DEEPSPEED_FLAGS = ("deepspeed", "deepspeed_config", "deepspeed_config_file", "ds_config")
TRAINER_KEYS = frozenset(
    [
        "per_device_train_batch_size",
        "model_name_or_path",
        "gradient_accumulation_steps",
        "num_train_epochs",
        "learning_rate",
        "output_dir",
        "gradient_checkpointing",
        "max_steps",
        "lr_scheduler_type",
        "save_strategy",
        "bf16",
        "fp16",
        "warmup_ratio",
        "deepspeed",
        "max_seq_length",
        "max_length",
    ]
)
TRAINER_KEYS_NEEDED = 4
"""Trainer arguments a script's flags must hold to be read as Hugging Face's, where no model is among them."""
WITH_ITS_OWN_NAME = 3
"""As many are enough where ``per_device_train_batch_size``, transformers' own name for it, is one of them."""
BESIDE_A_MODEL = 2
"""Trainer arguments needed beside ``model_name_or_path``."""
TELLING_KEYS = frozenset({
    "fp16", "bf16", "tf32", "do_train", "deepspeed", "fsdp", "per_device_train_batch_size", "num_train_epochs",
    "lr_scheduler_type", "gradient_checkpointing", "evaluation_strategy", "eval_strategy", "save_strategy",
})  # fmt: skip
"""Those of them that scripts with a loop of their own seldom have."""
TORCHRUN = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "ft_launcher")
"""torchrun under its names; nvidia-resiliency-ext's launcher takes its options too."""
PRIMUS_SCRIPTS = ("run_pretrain.sh", "run_local_pretrain.sh", "run_slurm_pretrain.sh")
DEEPY_FOLDER = ("-d", "--conf_dir")
SERVERS = ("vllm", "sglang", "lmdeploy")


def split_at_script(words: list[Word], booleans: frozenset[str]) -> tuple[list[Word], list[Word]]:
    """A launcher's own words, and the script with its arguments."""
    i = 0
    while i < len(words):
        word = words[i]
        if not is_flag(word):
            return words[:i], words[i:]
        name = flag_name(word.text.partition("=")[0])
        i += 1 if "=" in word.text or name in booleans else 2
    return words, []


def state_surroundings(reading: Reading, launch: Launch) -> None:
    """Hardware that the carrier knows: SLURM, Kubernetes, CUDA_VISIBLE_DEVICES. The launcher's own words come first."""
    for name, pair in (("gpu", launch.gpu), ("gpus_per_node", launch.gpus), ("nodes", launch.nodes)):
        if pair is not None:
            origin = pair[1]
            if isinstance(origin, Word):
                origin = FileOrigin(launch.document, (name,), origin.span, origin.span)
            reading.facts.state(name, pair[0], origin)
    if launch.host_memory is not None:
        reading.facts.state("host_memory_bytes", launch.host_memory[0], launch.host_memory[1])


def state_count(reading: Reading, fact: str, *flags: str) -> None:
    """The whole number of the first of ``flags`` that is given; any other value is stated as unknown."""
    for flag in flags:
        if flag in _keys(reading.root):
            value = reading.value(flag)
            if isinstance(value, int) and not isinstance(value, bool):
                reading.facts.state(fact, value, reading.origin(flag))
            else:
                text = str(value)
                if re.fullmatch(r"\d+:\d+", text):  # torchrun's elastic MIN:MAX
                    low, high = text.split(":")
                    if low == high:
                        reading.facts.state(fact, int(low), reading.origin(flag))
                        return
                reading.facts.state(fact, UNKNOWN, reading.origin(flag))
            return


class LaunchDialect(Dialect):
    name = "launch"
    title = "Launch lines"
    kind = "train"
    summary = "torchrun, accelerate launch, deepspeed, colossalai run, axolotl train, llamafactory-cli train, trl, with their arguments"

    def read_launch(self, launch: Launch) -> Iterator[Reading]:
        started = program(launch.words)
        if started is None:
            return
        reader = _Reader(launch)
        if started.name in TORCHRUN:
            yield from reader.torchrun(started)
        elif started.name == "accelerate" and started.arguments and started.arguments[0].text == "launch":
            yield from reader.accelerate(Program("accelerate", started.word, started.arguments[1:]))
        elif started.name in ("accelerate.commands.launch", "accelerate-launch"):
            yield from reader.accelerate(started)
        elif started.name in ("deepspeed", "deepspeed.launcher.runner"):
            yield from reader.deepspeed(started)
        elif started.name == "colossalai" and started.arguments and started.arguments[0].text == "run":
            yield from reader.colossalai(Program("colossalai", started.word, started.arguments[1:]))
        elif own_command(started) is not None or reader.known_trainer(started):
            yield from reader.trainer(started, None)
        elif started.name == "primus-cli" or started.name in PRIMUS_SCRIPTS:
            yield from reader.primus(started)
        elif started.script and basename(started.word.text) == "deepy.py":
            yield from reader.deepy(started)
        elif started.script:
            yield from reader.plain_script(started)


class _Reader:
    """Reads one launch into a launch reading and, where the trainer's arguments are on the line, that trainer's reading."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.document = launch.document

    def reading(self, started: Program, words: list[Word], booleans: frozenset[str], why: str) -> Reading:
        arguments = read_flags(words, booleans)
        span = _span([started.word, *words])
        arguments.mapping.span = span
        reading = Reading("launch", self.document, arguments.mapping, role="launch", why=why, framework=None)
        reading.context["words"] = self.launch.words
        return reading

    def surroundings(self, reading: Reading) -> None:
        state_surroundings(reading, self.launch)

    def integer(self, reading: Reading, fact: str, *flags: str) -> None:
        state_count(reading, fact, *flags)

    def torchrun(self, started: Program) -> Iterator[Reading]:
        own, rest = split_at_script(started.arguments, TORCHRUN_BOOLEANS)
        reading = self.reading(started, own, TORCHRUN_BOOLEANS, "torchrun")
        self.integer(reading, "gpus_per_node", "nproc_per_node", "nproc-per-node")
        self.integer(reading, "nodes", "nnodes")
        self.surroundings(reading)
        yield from self.inner(reading, rest, "m" in _keys(reading.root) or "module" in _keys(reading.root))

    def accelerate(self, started: Program) -> Iterator[Reading]:
        own, rest = split_at_script(started.arguments, ACCELERATE_BOOLEANS)
        reading = self.reading(started, own, ACCELERATE_BOOLEANS, "accelerate launch")
        self.integer(reading, "nodes", "num_machines")
        self._processes(reading)
        state_accelerate_flags(FactReader(reading))
        self.integer(reading, "zero_stage", "zero_stage")
        self.integer(reading, "gradient_accumulation_steps", "gradient_accumulation_steps")
        self.reference(reading, "accelerate", "config_file")
        self.reference(reading, "deepspeed", "deepspeed_config_file")
        self.surroundings(reading)
        yield from self.inner(reading, rest, "m" in _keys(reading.root) or "module" in _keys(reading.root))

    def _processes(self, reading: Reading) -> None:
        """``num_processes`` counts those of all machines: how many those are may stand on the line, in SLURM's header or in a file."""
        if "num_processes" not in _keys(reading.root):
            return
        total = reading.value("num_processes")
        origin = reading.origin("num_processes")
        if not isinstance(total, int) or isinstance(total, bool) or total < 1:
            reading.facts.state("gpus_per_node", UNKNOWN, origin)
            return
        if PER_NODE in self.launch.context and "num_machines" not in _keys(reading.root):
            reading.facts.state("gpus_per_node", total, origin)
            return
        around = self.launch.nodes[0] if self.launch.nodes is not None else None
        nodes = reading.facts.value("nodes") or around
        if nodes is None and "config_file" in _keys(reading.root):
            reading.context[PROCESSES] = (total, origin)
        elif nodes is None and reading.facts.stated("nodes"):
            reading.facts.state("gpus_per_node", UNKNOWN, origin)
        elif total % (nodes or 1) == 0:
            reading.facts.state("gpus_per_node", total // (nodes or 1), origin)

    def deepspeed(self, started: Program) -> Iterator[Reading]:
        own, rest = split_at_script(started.arguments, DEEPSPEED_BOOLEANS)
        if not rest and not own:
            return
        reading = self.reading(started, own, DEEPSPEED_BOOLEANS, "deepspeed")
        self.integer(reading, "gpus_per_node", "num_gpus")
        self.integer(reading, "nodes", "num_nodes")
        include = reading.value("include")
        if include is not None and not reading.facts.stated("gpus_per_node"):
            hosts = re.findall(r"[\w.-]+:([\d,]+)", str(include))
            counts = {len(h.split(",")) for h in hosts}
            if len(counts) == 1:
                reading.facts.state("gpus_per_node", counts.pop(), reading.origin("include"))
                if not reading.facts.stated("nodes"):
                    reading.facts.state("nodes", len(hosts), reading.origin("include"))
        self.surroundings(reading)
        yield from self.inner(reading, rest, "module" in _keys(reading.root) or "m" in _keys(reading.root))

    def colossalai(self, started: Program) -> Iterator[Reading]:
        """A host file without a number of nodes means all hosts in it (colossalai/cli/launcher/run.py)."""
        own, rest = split_at_script(started.arguments, frozenset({"m"}))
        reading = self.reading(started, own, frozenset({"m"}), "colossalai run")
        self.integer(reading, "gpus_per_node", "nproc_per_node")
        self.integer(reading, "nodes", "num_nodes")
        hosts = reading.value("host")
        if isinstance(hosts, str) and not reading.facts.stated("nodes"):
            reading.facts.state("nodes", len([h for h in hosts.split(",") if h]), reading.origin("host"))
        elif "hostfile" in _keys(reading.root) and not reading.facts.stated("nodes"):
            reading.facts.state("nodes", UNKNOWN, reading.origin("hostfile"))
        self.surroundings(reading)
        yield from self.inner(reading, rest, "m" in _keys(reading.root))

    def primus(self, started: Program) -> Iterator[Reading]:
        """``primus-cli direct -- train pretrain --config FILE``, and Primus' scripts, which take the file from ``EXP``."""
        if started.name == "primus-cli":
            last = max((i for i, word in enumerate(started.arguments) if word.text == "--"), default=-1)
            words = started.arguments[last + 1 :]
            if words and words[0].text == "train":
                yield from self.trainer(Program(started.name, started.word, words[2:]), None)
            return
        experiment = self.launch.environment.get("EXP")
        if experiment is None or not _is_config(experiment.text):
            return
        reading = self.reading(started, [], frozenset(), started.name)
        if experiment.known:
            origin = FileOrigin(self.document, ("EXP",), experiment.span, experiment.span)
            reading.references.append(Reference("config", experiment.text, origin, base="cwd"))
        self.surroundings(reading)
        yield reading

    def deepy(self, started: Program) -> Iterator[Reading]:
        """``deepy.py train.py [-d FOLDER] a.yml b.yml``: gpt-neox starts DeepSpeed's launcher with what the files say."""
        words = started.arguments[1:]
        reading = self.reading(started, [], frozenset(), "deepy.py")
        reading.root.span = _span([started.word, *started.arguments])
        folder = next((w.text for before, w in pairwise(words) if before.text in DEEPY_FOLDER), "")
        for before, word in pairwise([started.word, *words]):
            if word.text.startswith("-") or before.text in DEEPY_FOLDER or not word.known:
                continue
            target = word.text if _is_config(word.text) else f"{word.text}.yml"
            origin = FileOrigin(self.document, (word.text,), word.span, word.span)
            reading.references.append(Reference("config", os.path.join(folder, target), origin, base="cwd"))
        if reading.references:
            self.surroundings(reading)
            yield reading

    def reference(self, reading: Reading, role: str, *flags: str) -> None:
        for flag in flags:
            target = reading.value(flag)
            if isinstance(target, str) and target:
                reading.references.append(Reference(role, target, reading.origin(flag), base="cwd"))

    def inner(self, reading: Reading, rest: list[Word], module: bool) -> Iterator[Reading]:
        """What the launcher starts: a script or module with its arguments."""
        if not rest:
            yield reading
            return
        started = program(rest)
        if started is None:
            yield reading
            return
        if module:
            started = Program(rest[0].text, rest[0], rest[1:], module=True)
        yield from self.trainer(started, reading)

    def known_trainer(self, started: Program) -> list[Reading]:
        """Readings of the dialects that know this script, module or command as their own."""
        from cfglint.dialects.recognise import dialects

        return [reading for dialect in dialects() for reading in dialect.read_program(started, self.launch)]

    def trainer(self, started: Program, launcher: Reading | None) -> Iterator[Reading]:
        """A trainer's script or command: its config files, overrides and arguments."""
        own = own_command(started)
        words = started.arguments if own is None else own[1].arguments
        reading = launcher or self.reading(
            started, [], frozenset(), f"{started.name} {'train' if own is not None else ''}".strip()
        )
        arguments = read_flags(words, several=SEVERAL)
        if launcher is None:
            reading.root.span = _span([started.word, *started.arguments])
            if own is not None and not started.module:
                own[0].state_launcher(reading, arguments.mapping, arguments.positionals)
            self.surroundings(reading)
            self.environment(reading)
        reading.context["program"] = started.name
        self.config_references(reading, arguments.mapping, arguments.positionals)
        self.hydra_reference(reading, arguments.mapping, started)
        overrides = _overrides(arguments.positionals)
        mapping = Mapping(arguments.mapping.span, [*arguments.mapping.entries, *overrides])
        has_config = any(r.role == "config" for r in reading.references)
        inline = self.known_trainer(started)
        for extra in inline:
            if has_config and extra.role == "run" and not extra.context.get("standalone"):
                extra.role = "arguments"
            extra.context["command_line"] = True
        inline = inline or list(self.inline(mapping, started, own, has_config))
        for extra in inline:
            if extra.role != "part":  # a part (a conversion, an evaluation) makes no job of the launch
                extra.context["launched_by"] = reading
        if inline and all(extra.role == "part" for extra in inline):
            reading.context["trains"] = False
        reading.context["arguments"] = mapping
        yield reading
        yield from inline

    def plain_script(self, started: Program) -> Iterator[Reading]:
        """``python train.py`` with enough trainer arguments, or with a DeepSpeed config, is a launch on one process."""
        arguments = read_flags(started.arguments, several=SEVERAL)
        keys = set(arguments.mapping.keys())
        if _trainer_arguments(keys) or {"deepspeed", "deepspeed_config"} <= keys:
            yield from self.trainer(started, None)

    def environment(self, reading: Reading) -> None:
        """``NNODES`` and ``NPROC_PER_NODE``, which llamafactory-cli and swift read."""
        for variable, fact in (("NPROC_PER_NODE", "gpus_per_node"), ("NNODES", "nodes")):
            word = self.launch.environment.get(variable)
            count = whole_number(word.text) if word is not None and word.known else None
            if word is not None and count is not None and not reading.facts.stated(fact):
                reading.facts.state(fact, count, FileOrigin(self.document, (variable,), word.span, word.span))

    def config_references(self, reading: Reading, mapping: Mapping, positionals: list[Word]) -> None:
        for flag in CONFIG_FLAGS:
            entry = mapping.entry(flag)
            if entry is not None and isinstance(entry.value, Scalar) and _is_config(entry.value.value):
                origin = FileOrigin(self.document, (flag,), entry.key.span, entry.value.span)
                reading.references.append(Reference("config", str(entry.value.value), origin, base="cwd"))
        for word in positionals:
            if _is_config(word.text) and "=" not in word.text:
                origin = FileOrigin(self.document, (word.text,), word.span, word.span)
                reading.references.append(Reference("config", word.text, origin, base="cwd"))
        for flag in DEEPSPEED_FLAGS:
            entry = mapping.entry(flag)
            if entry is not None and isinstance(entry.value, Scalar) and _is_config(entry.value.value):
                origin = FileOrigin(self.document, (flag,), entry.key.span, entry.value.span)
                reading.references.append(Reference("deepspeed", str(entry.value.value), origin, base="cwd"))

    def hydra_reference(self, reading: Reading, mapping: Mapping, started: Program) -> None:
        """``--config-path DIR --config-name NAME``: the folder starts from that of the script or module, as Hydra has it."""
        folder, name = (_known_text(mapping, *flags) for flags in (("config_path", "config_dir"), ("config_name",)))
        if name is None or folder is None or (_is_config(name) and "/" in name):
            return
        base = started.name.replace(".", "/") if started.module else started.word.text
        if "config_dir" not in mapping.index and not folder.startswith("/"):
            folder = os.path.join(os.path.dirname(base), folder)
        entry = mapping.entry("config_name")
        if entry is not None:
            origin = FileOrigin(self.document, ("config_name",), entry.key.span, entry.value.span)
            target = os.path.normpath(os.path.join(folder, name.removesuffix(".yaml") + ".yaml"))
            reading.references.append(Reference("config", target, origin, base="cwd"))

    def inline(
        self, mapping: Mapping, started: Program, own: tuple[Dialect, OwnCommand] | None, has_config: bool
    ) -> Iterator[Reading]:
        """Trainer arguments on the line, read by their dialect. They override a config file that is named as well."""
        from cfglint.dialects.recognise import dialect_named

        keys = set(mapping.keys())
        reader: Dialect | None
        if own is not None:
            reader, task = own[0], own[1].task
        elif _trainer_arguments(keys) or (has_config and TRAINER_KEYS & keys):
            reader, task = self.by_script(mapping, started) or (dialect_named("hf-training-args"), "")
        else:
            return
        if reader is None or not keys or (has_config and not (keys - set(CONFIG_FLAGS))):
            return
        for reading in reader.read_flags(self.document, mapping, task):
            reading.why = reading.why or "trainer arguments on the command line"
            reading.role = "arguments" if has_config else "run"
            reading.context["command_line"] = True
            yield reading

    def by_script(self, mapping: Mapping, started: Program) -> tuple[Dialect, str] | None:
        """The dialect whose trainers a script is named for, where it knows the flags too."""
        from cfglint.dialects.recognise import dialects

        name = basename(started.name)
        for dialect in dialects() if started.script else ():
            if name in dialect.scripts and dialect.recognise(self.document, mapping):
                return dialect, name.removesuffix(".py")
        return None


def own_command(started: Program) -> tuple[Dialect, OwnCommand] | None:
    """A tool's own training command, and whose it is."""
    from cfglint.dialects.recognise import dialects

    for dialect in dialects():
        found = dialect.own_command(started)
        if found is not None:
            return dialect, found
    return None


SEVERAL = frozenset(
    ["lora_target_modules", "lora_target", "report_to", "dataset_mixer_list", "fsdp", "modules_to_save", "datasets"]
)
"""Trainer flags that take several words (``nargs="+"``)."""

_CONFIG = re.compile(r"\.(ya?ml|json|toml|cfg)$", re.IGNORECASE)


def _trainer_arguments(keys: set[str]) -> bool:
    """Whether a script's flags are those of Hugging Face's ``TrainingArguments``."""
    needed = WITH_ITS_OWN_NAME if "per_device_train_batch_size" in keys else TRAINER_KEYS_NEEDED
    if len(TRAINER_KEYS & keys) >= needed:
        return True
    known = keys & frozenset(TRAINING_ARGUMENTS)
    return "model_name_or_path" in keys and len(known) >= BESIDE_A_MODEL and bool(known & TELLING_KEYS)


def _is_config(value: Any) -> bool:
    return isinstance(value, str) and bool(_CONFIG.search(value)) and not value.startswith("http")


def _overrides(positionals: list[Word]) -> list[Entry]:
    """``key=value`` words, as llamafactory-cli and Hydra-like trainers take them."""
    entries = []
    for word in positionals:
        name, equals, text = word.text.partition("=")
        name = name.lstrip("+")
        if equals and re.fullmatch(r"[A-Za-z_][\w.]*", name):
            key = Scalar(Span(word.span.start, min(word.span.start + len(name), word.span.end)), name, name)
            value: Node = Scalar(word.span, typed(text) if word.known else text, text)
            entries.append(Entry(key, value))
    return entries


def _known_text(mapping: Mapping, *flags: str) -> str | None:
    for flag in flags:
        node = mapping.get(flag)
        if isinstance(node, Scalar) and isinstance(node.value, str) and node.value and "$" not in node.value:
            return node.value.strip("'\"")
    return None


def _keys(node: Node) -> list[str]:
    return node.keys() if isinstance(node, Mapping) else []


def _span(words: list[Word]) -> Span:
    return Span(min(w.span.start for w in words), max(w.span.end for w in words))


DIALECT = LaunchDialect()
