"""MDL007."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import integer
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example


class GenerationRefused(Rule):
    """Generation settings that transformers refuses: no new tokens, or more sequences than beams.

    `generate` stops with a ValueError where `max_new_tokens` is not above 0, `early_stopping` is neither a boolean nor
    "never", several sequences are asked for without sampling or beams, or more than there are beams.

    How sure: the checks of transformers' GenerationConfig (4.57 and 5.24).
    """

    code = "MDL007"
    name = "generation-refused"
    family = "model"
    severity = "error"
    kinds = ("train", "serve")
    catalogue = ("mc-gen-maxnew", "mc-gen-numseq")
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/generation/configuration_utils.py",
    )
    good = (
        example(
            "generation_config.json",
            """
            {"bos_token_id": 1, "eos_token_id": 2, "num_beams": 4, "num_return_sequences": 4, "max_new_tokens": 256}
            """,
        ),
    )
    bad = (
        example(
            "generation_config.json",
            """
            {"bos_token_id": 1, "eos_token_id": 2, "num_beams": 2, "num_return_sequences": 4, "max_new_tokens": 256}
            """,
            at="num_return_sequences",
            count=1,
        ),
        example(
            "generation_config.json",
            """
            {"bos_token_id": 1, "eos_token_id": 2, "do_sample": true, "temperature": 0.7, "max_new_tokens": 0}
            """,
            at="max_new_tokens",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "hf-generation-config":
            return
        new = integer(reading.value("max_new_tokens"))
        if new is not None and new <= 0:
            yield self.finding(
                f"max_new_tokens is {new}: generate stops with a ValueError",
                reading.origin("max_new_tokens"),
                help="1 or more, or leave it out",
            )
        early = reading.value("early_stopping")
        if early is not None and not isinstance(early, bool) and early != "never":
            yield self.finding(
                f'early_stopping is {early!r}: it takes true, false or "never"',
                reading.origin("early_stopping"),
                help='write true, false or "never"',
            )
        sequences, beams = integer(reading.value("num_return_sequences")), integer(reading.value("num_beams"))
        if sequences is None or sequences < 2:
            return
        beams = 1 if beams is None else beams
        if beams == 1 and reading.value("do_sample") is not True:
            yield self.finding(
                f"num_return_sequences is {sequences}, without sampling or beams there is only one sequence",
                reading.origin("num_return_sequences"),
                help=f"do_sample: true, or num_beams: {sequences}",
            )
        elif 1 < beams < sequences:
            yield self.finding(
                f"num_return_sequences {sequences} is above num_beams {beams}",
                reading.origin("num_return_sequences"),
                (reading.origin("num_beams"), f"{beams} beams"),
                help=f"num_beams: {sequences}, or fewer sequences",
            )
