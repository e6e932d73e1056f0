from __future__ import annotations

import pytest

from cfglint.source.whole_number import whole_number


@pytest.mark.parametrize(
    ("value", "count"),
    [("8", 8), ("007", 7), (0, 0), (12, 12), ("9" * 18, 10**18 - 1)],
)
def test_what_is_a_count(value: object, count: int) -> None:
    assert whole_number(value) == count


@pytest.mark.parametrize(
    "value", ["", " 8", "-1", "+1", "1.0", "²", "８", "9" * 19, "9" * 5000, -1, 10**18, 10**4000, True, 1.0, None, [1]]
)
def test_what_is_none(value: object) -> None:
    assert whole_number(value) is None
