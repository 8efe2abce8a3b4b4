"""Draw the figures of the page as SVG: shares with intervals, differences, and quality against cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

from duologue.evals.report import phrases
from duologue.evals.report.eval_report import AgentRow, Amount, EvalReport
from duologue.evals.statistics.comparison import PairedComparison
from duologue.evals.statistics.intervals import Interval
from duologue.markup import html_text
from duologue.sanitize import escape_line

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 56, 24, 34, 52
MOST_LABEL = 28
"""Characters of a label next to a point."""


def share_bar(value: float | None, interval: Interval | None, *, width: int = 110, tone: str = "mixed") -> str:
    """Return a bar for a share from 0 to 1, with a line for its interval."""
    parts = [f'<rect class="track" x="0" y="3" width="{width}" height="10" rx="2"/>']
    if value is not None:
        parts.append(f'<rect class="fill-{tone}" x="0" y="3" width="{value * width:.1f}" height="10" rx="2"/>')
    if interval is not None:
        low, high = interval.low * width, interval.high * width
        parts.append(f'<line class="whisker" x1="{low:.1f}" y1="8" x2="{high:.1f}" y2="8"/>')
        parts += [
            f'<line class="whisker" x1="{at:.1f}" y1="4" x2="{at:.1f}" y2="12"/>'
            for at in (min(max(low, 0.8), width - 0.8), min(max(high, 0.8), width - 0.8))
        ]
    label = html_text(f"{phrases.number(value)}, interval {phrases.limits(interval)}")
    return _svg(width, 16, label, parts)


def difference_bar(found: PairedComparison, *, width: int = 220) -> str:
    """Return the interval of a difference from -1 to 1, with a line at 0."""

    def position(value: float) -> float:
        return (value + 1) / 2 * width

    parts = [
        f'<rect class="track" x="0" y="6" width="{width}" height="4" rx="2"/>',
        f'<line class="zero" x1="{width / 2}" y1="0" x2="{width / 2}" y2="16"/>',
    ]
    if found.interval is not None:
        low, high = position(found.interval.low), position(found.interval.high)
        parts.append(f'<line class="limits" x1="{low:.1f}" y1="8" x2="{high:.1f}" y2="8"/>')
    if found.difference is not None:
        parts.append(f'<circle class="point" cx="{position(found.difference):.1f}" cy="8" r="4"/>')
    return _svg(width, 16, html_text(f"difference {phrases.signed(found.difference)}"), parts)


def quality_plot(report: EvalReport) -> str:
    """Return quality against cost, a point for each agent; empty if there is nothing to draw.

    The cost is that of a trial. If not every agent reports one in the same currency, it is the tokens, else the time.
    """
    amounts = _shared_amounts(report.agents)
    estimates = [agent.estimate_of(report.metric) for agent in report.agents]
    points = [
        (agent, amount, found.value, found.interval)
        for agent, amount, found in zip(report.agents, amounts, estimates, strict=True)
        if amount is not None and found is not None and found.value is not None
    ]
    if not points:
        return ""
    most = _nice(max(amount.mean for _, amount, _, _ in points))
    unit = points[0][1].unit
    parts = _axes(most, f"{_axis_name(unit)} of a trial", report.metric)
    parts.append(_front([(_x(amount.mean, most), _y(value)) for _, amount, value, _ in points]))
    taken: list[tuple[float, float]] = []
    for agent, amount, value, interval in points:
        parts += _point(agent.label, _x(amount.mean, most), value, interval, taken)
    return _svg(WIDTH, HEIGHT, html_text(f"{report.metric} against {_axis_name(unit)}"), parts)


def _point(
    label: str, x: float, value: float, interval: Interval | None, taken: list[tuple[float, float]]
) -> list[str]:
    y = _y(value)
    parts: list[str] = []
    if interval is not None:
        parts.append(
            f'<line class="limits" x1="{x:.1f}" y1="{_y(interval.low):.1f}" x2="{x:.1f}" y2="{_y(interval.high):.1f}"/>'
        )
    parts.append(f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="5"/>')
    # The front comes from the lower left and goes on to the upper right, so that the other two sides are free.
    is_right = x > WIDTH * 0.75
    is_above = is_right or y + 16 > HEIGHT - BOTTOM
    anchor, offset, at = "end" if is_right else "start", -9 if is_right else 9, y - 8 if is_above else y + 16
    # A label that would cover another one goes below it.
    while any(abs(at - other) < 14 and abs(x - x_other) < 150 for x_other, other in taken):
        at += 15
    taken.append((x, at))
    text = html_text(escape_line(label, MOST_LABEL))
    return [*parts, f'<text x="{x + offset:.1f}" y="{at:.1f}" text-anchor="{anchor}">{text}</text>']


def _front(points: Sequence[tuple[float, float]]) -> str:
    """Return a line through the agents that no other agent is both cheaper and better than."""
    best, front = math.inf, list[tuple[float, float]]()
    for x, y in sorted(points):
        if y < best:
            front.append((x, y))
            best = y
    steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in front)
    return f'<polyline class="front" points="{steps}"/>' if len(front) > 1 else ""


def _axes(most: float, x_name: str, y_name: str) -> list[str]:
    parts: list[str] = []
    for step in range(6):
        value = step / 5
        y, x = _y(value), _x(most * value, most)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>')
        parts.append(f'<text class="soft" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.1f}</text>')
        shown = html_text(f"{most * value:.3g}")
        parts.append(f'<text class="soft" x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{shown}</text>')
    bottom = HEIGHT - BOTTOM
    parts.append(f'<line class="axis" x1="{LEFT}" y1="{bottom}" x2="{WIDTH - RIGHT}" y2="{bottom}"/>')
    parts.append(f'<line class="axis" x1="{LEFT}" y1="{TOP}" x2="{LEFT}" y2="{bottom}"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="soft" x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{html_text(x_name)}</text>')
    parts.append(f'<text class="soft" x="{LEFT - 44}" y="{TOP - 16}">{html_text(y_name)}</text>')
    return parts


def _shared_amounts(agents: Sequence[AgentRow]) -> list[Amount | None]:
    """Return an amount that all agents have in one unit: cost, else tokens, else time."""
    for amounts in (
        [agent.cost for agent in agents],
        [agent.tokens for agent in agents],
        [agent.seconds for agent in agents],
    ):
        if None not in amounts and len({amount.unit for amount in amounts if amount is not None}) == 1:
            return amounts
    return [None] * len(agents)


def _axis_name(unit: str) -> str:
    return {"tokens": "tokens", "s": "seconds"}.get(unit, f"cost ({escape_line(unit, 10) or 'no currency'})")


def _nice(value: float) -> float:
    """Return a round number that is not smaller, for the end of an axis."""
    if not 0 < value < math.inf:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if factor * power >= value)


def _x(value: float, most: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * min(max(value / most, 0.0), 1.0)


def _y(value: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value)


def _svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f"{''.join(parts)}</svg>"
    )
