"""What scalars mean, and how they become facts."""

import pytest

from cfglint.dialects.values import FactReader, attention, boolean, dtype, integer, number, optimizer, texts
from cfglint.jobs.facts import UNKNOWN, Reading
from cfglint.source.node import Document
from cfglint.source.yaml import parse_yaml


def _facts(text: str) -> FactReader:
    document: Document = parse_yaml("x.yaml", text).documents[0]
    assert document.root is not None
    return FactReader(Reading("test", document, document.root))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(8, 8), ("8", 8), (5e8, 500_000_000), ("5e8", 500_000_000), (2.5, None), (True, None), ("many", None),
     (float("inf"), None), (float("nan"), None), (None, None)],
)  # fmt: skip
def test_integers_in_every_spelling(value: object, expected: object) -> None:
    assert integer(value) == expected  # type: ignore[arg-type]


def test_numbers_as_text_are_numbers_and_booleans_are_none() -> None:
    assert number("2e-5") == 2e-5
    assert number(False) is None
    assert number("inf") is None


def test_switches() -> None:
    assert boolean("no") is False
    assert boolean("True") is True
    assert boolean(1) is True
    assert boolean(2) is None
    assert boolean("full") is None


def test_dtypes_attention_and_optimizers_in_the_words_of_jobs() -> None:
    assert dtype("torch.bfloat16") == "bf16"
    assert dtype("half") == "fp16"
    assert dtype("int7") is None
    assert attention("flash_attention_2") == "flash2"
    assert attention("magic") is None
    assert optimizer("adamw_bnb_8bit") == "adamw_8bit"
    assert optimizer("SGD") == "sgd"


def test_lists_of_names() -> None:
    facts = _facts("a: [q_proj, v_proj]\nb: q_proj, v_proj\nc: [1, q]\nd: {}\ne: []\n")
    assert texts(facts.node("a")) == ["q_proj", "v_proj"]
    assert texts(facts.node("b")) == ["q_proj", "v_proj"]
    assert texts(facts.node("c")) is None
    assert texts(facts.node("d")) is None
    assert texts(facts.node("e")) is None


def test_the_first_key_that_says_anything_is_stated() -> None:
    facts = _facts("a:\nb: oops\nc: 3\nd: 4\n")
    assert facts.integer("micro_batch_size", "a", "b", "c", "d") == 3
    fact = facts.reading.facts.fact("micro_batch_size")
    assert fact is not None and fact.describe() == "x.yaml:3"


def test_a_placeholder_is_stated_as_unknown() -> None:
    facts = _facts("a: ${MICRO}\nb: 4\n")
    assert facts.integer("micro_batch_size", "a", "b") is UNKNOWN
    assert facts.reading.facts.undecided("micro_batch_size")


def test_numbers_out_of_range_are_not_stated() -> None:
    facts = _facts("a: 0\nb: -1\n")
    assert facts.integer("max_steps", "a", "b", low=1) is None
    assert not facts.reading.facts.stated("max_steps")


def test_all_linear_in_its_spellings() -> None:
    for text in ("t: all-linear", "t: all_linear", "t: all", "t: [all-linear]"):
        facts = _facts(text)
        assert facts.names("lora_targets", "t") == ["all-linear"]
