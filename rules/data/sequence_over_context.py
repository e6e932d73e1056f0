"""DAT001."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.values import boolean
from cfglint.jobs.facts import DefaultOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..peft.adapter_facts import given, hugging_face

_STRETCHED: Final = (
    "rope_scaling", "rope_theta", "rope_parameters", "overrides_of_model_config", "overrides_of_model_kwargs",
    "rope_scaling_type", "config_overrides", "shift_attn",
)  # fmt: skip
"""Keys with which people stretch the context."""


class SequenceOverContext(Rule):
    """Sequences may be longer than the context the model was made for.

    With rotary positions the model sees angles it never saw and gets worse without a word; with learned positions (GPT-2, OPT)
    the look-up fails: "index out of range in self". A longer limit than the context also trains on nothing where the data is
    short, so the number is often a leftover.

    How sure: ``max_position_embeddings`` of the model's own config, no stretching stated in either. Packed samples that each
    fit are fine, so runs that pack whole samples (Axolotl, TRL's bfd) are left out. Vision models are left out.
    """

    code = "DAT001"
    name = "sequence-over-context"
    family = "data"
    severity = "warning"
    confidence = "medium"
    evidence = ("https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/model/model_utils/rope.py",)
    catalogue = ("data.seq-len-over-context",)
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: TinyLlama/TinyLlama-1.1B-Chat-v1.0
            stage: sft
            finetuning_type: lora
            template: llama2
            dataset: identity
            output_dir: out
            cutoff_len: 2048
            """,
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: TinyLlama/TinyLlama-1.1B-Chat-v1.0
            stage: sft
            finetuning_type: lora
            template: llama2
            dataset: identity
            output_dir: out
            cutoff_len: 8192
            rope_scaling: linear
            """,
            note="stretched on purpose",
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: TinyLlama/TinyLlama-1.1B-Chat-v1.0
            stage: sft
            finetuning_type: lora
            template: llama2
            dataset: identity
            output_dir: out
            cutoff_len: 8192
            """,
            at="cutoff_len",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        length, architecture = job.sequence_length, job.architecture
        if not hugging_face(job):
            return
        if length is None or architecture is None or isinstance(length.origin, DefaultOrigin) or not architecture.exact:
            return
        limit = architecture.max_position_embeddings
        wanted = length.value
        if limit is None or not isinstance(wanted, int) or wanted <= limit:
            return
        if any(
            t.role in ("vision", "audio", "projector") or t.stack in ("vision", "audio") for t in architecture.tensors
        ):
            return
        if architecture.config.get("max_position_embeddings") is None or architecture.encoder_layers:
            return
        if any(given(reading, key) for reading in job.readings for key in _STRETCHED):
            return
        learned = any(tensor.role == "position_embedding" for tensor in architecture.tensors)
        if boolean(job.value("packing")) is True and job.reading("llamafactory") is None:
            return
        yield self.finding(
            f"sequences of up to {wanted} tokens for a model made for {limit}"
            + (", whose position table ends there" if learned else ""),
            length,
            (job.model_id, f"max_position_embeddings is {limit}"),
            help=f"lower it to {limit}, or stretch the positions (rope scaling) on purpose",
            job=job,
        )
