"""PAR025."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cfglint.dialects.values import boolean, integer
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Node, Scalar, Sequence


class NeoxSettings(Rule):
    """GPT-NeoX settings that exclude each other.

    ZeRO stage 2 or 3 with a pipeline: DeepSpeed's "ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism". Experts
    with stage 2 or 3: "MoE is not compatible with zero stages 2 and 3". `precision` beside an fp16 or bf16 section that says
    otherwise: "DeepSpeed fp16 field was set but precision conflicts". Mamba and RWKV layers with stage 3, RWKV with model
    parallelism.

    How sure: the checks of GPT-NeoX's `neox_arguments/arguments.py` (main of 2026) and of DeepSpeed's pipeline engine. A run
    is given several files, and a later one may change a value, so it is a warning.
    """

    code = "PAR025"
    name = "neox-settings"
    family = "parallel"
    severity = "warning"
    catalogue = ("par.zero-pp", "par.zero3-moe-native", "par.neox-conflicts", "par.neox-precision-conflict")
    evidence = (
        "https://github.com/EleutherAI/gpt-neox/blob/main/megatron/neox_arguments/arguments.py",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/pipe/engine.py",
    )
    good = (
        example(
            "125M.yml",
            """
            pipe_parallel_size: 1
            model_parallel_size: 1
            num_layers: 12
            hidden_size: 768
            num_attention_heads: 12
            seq_length: 2048
            train_micro_batch_size_per_gpu: 4
            precision: fp16
            fp16: {enabled: true}
            zero_optimization: {stage: 1}
            """,
        ),
    )
    bad = (
        example(
            "125M.yml",
            """
            pipe_parallel_size: 2
            model_parallel_size: 1
            num_layers: 12
            hidden_size: 768
            num_attention_heads: 12
            seq_length: 2048
            train_micro_batch_size_per_gpu: 4
            zero_optimization: {stage: 2}
            """,
            at="stage",
            count=1,
        ),
        example(
            "125M.yml",
            """
            "pipe-parallel-size": 1
            "model-parallel-size": 1
            "num-layers": 12
            "hidden-size": 768
            "num-attention-heads": 12
            "seq-length": 2048
            "train_micro_batch_size_per_gpu": 4
            "precision": "bfloat16"
            "fp16": {"enabled": true}
            """,
            at="precision",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "gpt-neox":
            return
        for clash in _clashes(reading):
            yield self.finding(
                clash.message,
                reading.origin(*clash.key),
                (reading.origin(*clash.other), "stated here"),
                help=clash.help,
            )


class _Clash(NamedTuple):
    key: tuple[str, ...]
    other: tuple[str, ...]
    message: str
    help: str


def _clashes(reading: Reading) -> Iterator[_Clash]:
    """Keys in the dialect's spelling, with underscores; the file may have dashes."""
    stage = integer(reading.value("zero_optimization", "stage"))
    where = ("zero_optimization", "stage")
    pipe, experts = "pipe_parallel_size", "moe_num_experts"
    pipeline, count = integer(reading.value(pipe)), integer(reading.value(experts))
    if stage is not None and stage >= 2:
        if pipeline is not None and pipeline >= 1:
            yield _Clash(
                where, (pipe,), f"ZeRO stage {stage} with a pipeline: DeepSpeed stops", f"stage 1, or {pipe}: 0"
            )
        if count is not None and count > 1:
            yield _Clash(where, (experts,), f"ZeRO stage {stage} with experts: GPT-NeoX stops", "stage 1")
    layers = "attention_config"
    kinds = set(_words(reading.at(layers)))
    if stage == 3 and kinds & {"mamba", "rwkv"}:
        kind = "mamba" if "mamba" in kinds else "rwkv"
        yield _Clash(where, (layers,), f"ZeRO stage 3 with {kind} layers: GPT-NeoX stops", "stage 2 or lower")
    shards = "model_parallel_size"
    if "rwkv" in kinds and (integer(reading.value(shards)) or 1) > 1:
        yield _Clash((shards,), (layers,), "rwkv layers are not split over GPUs: GPT-NeoX stops", f"{shards}: 1")
    for section, word in (("fp16", "fp16"), ("bf16", "bfloat16")):
        precision = reading.value("precision")
        if boolean(reading.value(section, "enabled")) is True and isinstance(precision, str) and precision != word:
            yield _Clash(
                ("precision",),
                (section, "enabled"),
                f"precision {precision} beside {section}.enabled: GPT-NeoX stops",
                f"precision: {word}, or take the {section} section out",
            )


def _words(node: Node | None) -> Iterator[str]:
    """The words of a nested list."""
    if isinstance(node, Sequence):
        for item in node.items:
            yield from _words(item)
    elif isinstance(node, Scalar) and isinstance(node.value, str):
        yield node.value
