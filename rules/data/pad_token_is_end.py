"""DAT008."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from cfglint.dialects.values import boolean, scalar
from cfglint.jobs.facts import Reading
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Place, Severity, Where
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Node, Route, SourceFile, Span

MASKS_BY_LENGTH_SINCE: Final = "0.16"
"""First TRL release whose collator masks padding by length; before, transformers' masked it by token."""

PLACES: Final[tuple[Route, ...]] = ((), ("special_tokens",), ("tokenizer",), ("tokenizer_kwargs",), ("tokenizer_args",))
"""Where scripts name special tokens."""

TOKENIZER_FILES: Final = ("tokenizer_config.json", "special_tokens_map.json")

END_WORDS: Final = ("eos", "eos_token")


class PadTokenIsEnd(Rule):
    """The padding token ends texts too, and padding is left out of the loss: the model does not learn to stop.

    transformers' `DataCollatorForLanguageModeling(mlm=False)` gives every label that equals the padding token the value -100.
    Where that token is the end of text too, no sample's end is trained on, and the model goes on after its answer until the
    length limit. TRL's SFT used that collator before 0.16, and padded with the end of text where the tokenizer had no
    padding token. Packed samples have no padding.

    How sure: the collator's source. Which collator a script uses is not in its arguments, so it is information there, and a
    warning for a TRL release that is known to be older than 0.16. Axolotl and LLaMA-Factory mask by position.
    """

    code = "DAT008"
    name = "pad-token-is-end"
    family = "data"
    severity = "warning"
    confidence = "medium"
    catalogue = ("data.pad-eq-eos",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/data/data_collator.py",
        "https://github.com/huggingface/trl/blob/v0.15.2/trl/trainer/sft_trainer.py",
        "https://github.com/huggingface/transformers/issues/22794",
        "https://github.com/huggingface/trl/issues/976",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: meta-llama/Llama-2-7b-hf
            pad_token: <pad>
            eos_token: </s>
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
        ),
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                dataset_name: our/data
                max_length: 2048
                eos_token: <|im_end|>
                pad_token: <|im_end|>
                per_device_train_batch_size: 4
                learning_rate: 2.0e-5
                """,
                "requirements.txt": "trl==0.19.0",
            },
            note="masked by length",
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: meta-llama/Llama-2-7b-hf
            pad_token: </s>
            eos_token: </s>
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            at="pad_token",
            count=1,
        ),
        example(
            {
                "train.yaml": """
                model_name_or_path: .
                per_device_train_batch_size: 4
                num_train_epochs: 1
                """,
                "tokenizer_config.json": """
                {"tokenizer_class": "LlamaTokenizer", "eos_token": {"content": "</s>"}, "pad_token": "</s>"}
                """,
            },
            at="pad_token",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        reading = job.reading("trl", "hf-training-args")
        if reading is None or job.reading("axolotl", "llamafactory") is not None or job.value("packing") is True:
            return
        if reading.dialect == "trl" and reading.context.get("trainer") != "sft":
            return
        stated = context.version(job, "trl")
        if reading.dialect == "trl" and always_at_least(stated, MASKS_BY_LENGTH_SINCE):
            return
        stated_here = (_stated(reading, place) for place in PLACES)
        found = next((f for f in stated_here if f is not None), None) or _in_tokenizer(job, reading, context)
        if found is None:
            return
        where, token = found
        old = reading.dialect == "trl" and always_below(stated, MASKS_BY_LENGTH_SINCE)
        severity: Severity = "warning" if old else "info"
        by = "TRL masks" if old else "where the collator masks"
        yield self.finding(
            f"the padding token is the end of text ({token}): {by} padding by token, no sample's end is trained on",
            where,
            help="use a padding token of its own, or a collator that masks by the attention mask",
            severity=severity,
            job=job,
        )


def _stated(reading: Reading, place: Route) -> tuple[Where, str] | None:
    """A padding token that the arguments set to the end of text."""
    pad, end = reading.value(*place, "pad_token"), reading.value(*place, "eos_token")
    if isinstance(pad, str) and pad and (pad == end or pad.strip().lower() in END_WORDS):
        return reading.origin(*place, "pad_token"), pad
    pad_id, end_id = reading.value(*place, "pad_token_id"), reading.value(*place, "eos_token_id")
    if isinstance(pad_id, int) and not isinstance(pad_id, bool) and pad_id == end_id:
        return reading.origin(*place, "pad_token_id"), f"id {pad_id}"
    switch = next((key for key in ("pad_token_is_eos", "use_eos_as_pad") if boolean(reading.value(*place, key))), None)
    return (reading.origin(*place, switch), "eos_token") if switch else None


def _in_tokenizer(job: TrainingJob, reading: Reading, context: Context) -> tuple[Where, str] | None:
    """The same in a tokenizer's file beside the arguments, or in the model's folder that they name."""
    folder = PurePosixPath(reading.document.path).parent
    named = job.value("model_id")
    folders = {folder, folder / named} if isinstance(named, str) and named.startswith(".") else {folder}
    for parent, file in _tokenizer_files(context):
        for document in file.documents if parent in folders else ():
            root = document.root
            if not isinstance(root, Mapping):
                continue
            pad, end = _token(root.get("pad_token")), _token(root.get("eos_token"))
            entry = root.entry("pad_token")
            if pad and pad == end and entry is not None:
                span = Span(entry.key.span.start, entry.value.span.end)
                return Place(document, span, ("pad_token",)), pad
    return None


def _token(node: Node | None) -> str | None:
    """A special token: text, or a mapping that holds it as ``content``."""
    value = scalar(node.get("content")) if isinstance(node, Mapping) else scalar(node)
    return value if isinstance(value, str) else None


def _tokenizer_files(context: Context) -> list[tuple[PurePosixPath, SourceFile]]:
    """The run's tokenizer files with their folders, looked up once."""
    found: list[tuple[PurePosixPath, SourceFile]] | None = context.shared.get(PadTokenIsEnd.code)
    if found is None:
        found = [(PurePosixPath(p).parent, f) for p, f in context.files.items() if p.endswith(TOKENIZER_FILES)]
        context.shared[PadTokenIsEnd.code] = found
    return found
