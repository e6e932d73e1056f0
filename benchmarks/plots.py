"""Plots of estimated against measured figures as SVG, and the quantile that all benchmarks print."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

SIZE, LEFT, TOP, RIGHT, BOTTOM = 420, 64, 34, 16, 46
"""Pixels: the plotting square and the margins around it."""
LEGEND_LINE = 16


class Point(NamedTuple):
    """One row of measurements; both figures above zero."""

    name: str
    series: str
    measured: float
    estimated: float


def scatter(title: str, points: Sequence[Point], series: Mapping[str, str]) -> str:
    """Logarithmic axes, the diagonal, a band of 10 %, a point a row with its id as its title.

    ``series`` gives each series its colour, in the order of the legend; the first is drawn last, on top.
    """
    values = [value for point in points for value in (point.measured, point.estimated)]
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values)))
    span = math.log10(high / low)

    def x(value: float) -> float:
        return LEFT + SIZE * math.log10(value / low) / span

    def y(value: float) -> float:
        return TOP + SIZE * (1 - math.log10(value / low) / span)

    width, height = LEFT + SIZE + RIGHT, TOP + SIZE + BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="13" font-weight="bold">{escape(title)}</text>',
        f'<clipPath id="area"><rect x="{LEFT}" y="{TOP}" width="{SIZE}" height="{SIZE}"/></clipPath>',
        f'<polygon clip-path="url(#area)" fill="#e6eef7" points="{x(low):.1f},{y(low * 1.1):.1f} {x(high):.1f},{y(high * 1.1):.1f} '
        f'{x(high):.1f},{y(high * 0.9):.1f} {x(low):.1f},{y(low * 0.9):.1f}"/>',
        f'<line x1="{x(low):.1f}" y1="{y(low):.1f}" x2="{x(high):.1f}" y2="{y(high):.1f}" stroke="#888"/>',
        f'<rect x="{LEFT}" y="{TOP}" width="{SIZE}" height="{SIZE}" fill="none" stroke="#444"/>',
    ]
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        mark = 10.0**power
        lines.append(f'<line x1="{x(mark):.1f}" y1="{TOP}" x2="{x(mark):.1f}" y2="{TOP + SIZE}" stroke="#ddd"/>')
        lines.append(f'<line x1="{LEFT}" y1="{y(mark):.1f}" x2="{LEFT + SIZE}" y2="{y(mark):.1f}" stroke="#ddd"/>')
        lines.append(f'<text x="{x(mark):.1f}" y="{TOP + SIZE + 15}" text-anchor="middle">{mark:,g}</text>')
        lines.append(f'<text x="{LEFT - 6}" y="{y(mark) + 4:.1f}" text-anchor="end">{mark:,g}</text>')
    lines.append(f'<text x="{LEFT + SIZE / 2}" y="{height - 10}" text-anchor="middle">measured</text>')
    lines.append(
        f'<text x="14" y="{TOP + SIZE / 2}" text-anchor="middle" transform="rotate(-90 14 {TOP + SIZE / 2})">estimated</text>'
    )
    for point in sorted(points, key=lambda point: list(series).index(point.series), reverse=True):
        label = f"{point.name}: measured {point.measured:,g}, estimated {point.estimated:,.4g}"
        lines.append(
            f'<circle cx="{x(point.measured):.1f}" cy="{y(point.estimated):.1f}" r="3.5" fill="{series[point.series]}" '
            f'fill-opacity="0.75"><title>{escape(label)}</title></circle>'
        )
    for index, (name, colour) in enumerate(series.items()):
        below = TOP + 14 + LEGEND_LINE * index
        lines.append(f'<circle cx="{LEFT + 12}" cy="{below}" r="4" fill="{colour}"/>')
        count = sum(1 for point in points if point.series == name)
        lines.append(f'<text x="{LEFT + 22}" y="{below + 4}">{escape(name)} ({count})</text>')
    return "\n".join([*lines, "</svg>", ""])


def quantile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of the others do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
