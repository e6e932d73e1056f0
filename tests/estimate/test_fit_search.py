"""The search for the largest size that fits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cfglint.estimate.fit.search import largest


@given(
    base=st.floats(0, 100), slope=st.floats(0.001, 50), bend=st.floats(0, 2), capacity=st.floats(0, 500),
    start=st.integers(1, 5000), most=st.integers(1, 4096),
)  # fmt: skip
def test_it_is_the_last_that_fits(
    base: float, slope: float, bend: float, capacity: float, start: int, most: int
) -> None:
    def need(n: int) -> float:
        return base + slope * n + bend * n * n

    found = largest(need, capacity, start, most)
    assert 0 <= found <= most
    if found:
        assert need(found) <= capacity
    if found < most:
        assert need(found + 1) > capacity


@given(edge=st.integers(0, 10_000), start=st.integers(1, 10_000))
def test_a_step_is_found_in_few_tries(edge: int, start: int) -> None:
    """A verdict has no slope: every guess then halves the interval."""
    tries = []

    def fails(n: int) -> float:
        tries.append(n)
        return float(n > edge)

    assert largest(fails, 0.5, start, 10_000) == edge
    assert len(tries) <= 60


def test_a_straight_line_is_found_at_once() -> None:
    tries = []

    def need(n: int) -> float:
        tries.append(n)
        return 10.0 + 0.5 * n

    assert largest(need, 1000.0, 8, 1_000_000) == 1980
    assert len(tries) <= 5


def test_nothing_fits() -> None:
    assert largest(lambda n: 10.0, 5.0, 4, 100) == 0


def test_everything_fits() -> None:
    assert largest(lambda n: 1.0, 5.0, 4, 100) == 100


def test_a_missing_figure_fits_nowhere() -> None:
    assert largest(lambda n: float("inf"), 5.0, 4, 100) == 0
