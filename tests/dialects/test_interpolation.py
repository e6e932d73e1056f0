"""Interpolation inside a file, and overrides on a command line."""

import pytest

from cfglint.dialects.interpolation import resolve
from cfglint.dialects.overrides import groups, nested
from cfglint.source.node import Mapping, Scalar, Span, at, plain
from cfglint.source.shell import Word
from cfglint.source.yaml import parse_yaml

TEXT = """
a: 8
b: {c: 4, d: text, e: [1, 2], f: "${.c}", g: "${..a}"}
whole: ${a}
deep: ${b.c}
item: ${b.e.1}
joined: x-${b.d}-${a}
chosen: ${oc.select:missing,7}
found: ${oc.select:b.c,7}
product: ${mul:${a}, 3}
half: ${div:${a},2}
variable: ${MODEL_SIZE:13}
loop: ${other}
other: ${loop}
gone: ${nowhere.x}
environment: ${oc.env:HOME}
assumed: ${oc.env:NGPU,8}
decoded: ${oc.decode:${oc.env:NGPU,4}}
own: ${our_resolver:${a},3}
mandatory: ${todo}
todo: ???
open: ${a
mapping: ${b}
"""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("whole", 8), ("deep", 4), ("item", 2), ("joined", "x-text-8"), ("chosen", 7), ("found", 4), ("product", 24),
        ("half", 4), ("variable", 13), ("loop", "${other}"), ("gone", "${nowhere.x}"), ("open", "${a"),
        ("environment", "${oc.env:HOME}"), ("assumed", 8), ("decoded", 4), ("own", "${our_resolver:${a},3}"), ("mandatory", "${todo}"),
    ],
)  # fmt: skip
def test_what_an_interpolation_stands_for(key: str, value: object) -> None:
    root = parse_yaml("a.yaml", TEXT).documents[0].root
    assert root is not None
    node = resolve(root, at(root, key), (key,))
    assert isinstance(node, Scalar)
    assert node.value == value


def test_relative_ones_start_from_their_place_and_mappings_stay_mappings() -> None:
    root = parse_yaml("a.yaml", TEXT).documents[0].root
    assert root is not None
    found = [resolve(root, at(root, "b", key), ("b", key)) for key in ("f", "g")]
    assert [n.value for n in found if isinstance(n, Scalar)] == [4, 8]
    assert isinstance(resolve(root, at(root, "mapping"), ("mapping",)), Mapping)


def _words(*texts: str) -> list[Word]:
    return [Word(text, text, Span(10 * i, 10 * i + len(text))) for i, text in enumerate(texts)]


def test_overrides_make_a_tree_with_places() -> None:
    words = _words("a.b=1", "+a.c=[x,y]", "++d=1e-5", "train", "a.b=2", 'e="q"', "~f.g", "m@n.o=hf")
    tree = nested(words, Span(0, 99))
    assert plain(tree) == {"a": {"b": 2, "c": ["x", "y"]}, "d": "1e-5", "e": "q"}
    inner = tree.get("a")
    assert isinstance(inner, Mapping)
    entry = inner.entry("b")
    assert entry is not None
    assert (entry.key.span, entry.value.span) == (Span(40, 43), Span(44, 45))
    assert groups(words) == {"n.o": "hf"}


def test_an_override_whose_value_is_not_known_stays_unknown() -> None:
    tree = nested([Word("a=${N}", "a=${N}", Span(0, 6), known=False)], Span(0, 6))
    node = tree.get("a")
    assert isinstance(node, Scalar)
    assert node.value == "${N}"
