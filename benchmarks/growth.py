"""Whether an update costs the same when much is open already, and a plot of that. No plotting library is needed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from benchmarks.measures import Row, within
from benchmarks.peers import OURS, OURS_PUBLIC, PROGRAMS, ROOT, Peer
from benchmarks.runs import ENVIRONMENT, RunFailed, Sample, interleave, run_program

PLOT = ROOT / "benchmarks" / "growth.svg"
"""Not committed; `--write` copies it into the documentation."""
UPDATES = 5_000
AMOUNTS = {"sessions": (10, 1_000, 10_000), "items": (10, 1_000, 100_000), "tools": (1, 100, 1_000)}
LABELS = {"sessions": "open sessions", "items": "items in the transcript", "tools": "open tool calls"}
COLORS = {"sessions": "#3f51b5", "items": "#00897b", "tools": "#e65100"}
MOST_RATIO = 1.3
LONGEST_SECONDS = 115


def growth(peers: Mapping[str, Peer], rounds: int) -> list[Row]:
    """CPU of both sides for an update, with little and with much open; writes the plot."""
    rows: list[Row] = []
    points: dict[str, dict[int, float]] = {}
    for kind, amounts in AMOUNTS.items():
        names = {f"{amount:,} {LABELS[kind]}": amount for amount in amounts}
        players = [Peer(name, peers[OURS].runtime, "", env=peers[OURS].env) for name in names]

        def sample(peer: Peer, kind: str = kind, names: Mapping[str, int] = names) -> Sample:
            program = [peer.runtime, str(PROGRAMS / "growth.py"), kind, str(names[peer.name]), str(UPDATES)]
            found: Sample = json.loads(run_program(program, {**ENVIRONMENT, **peer.env}, LONGEST_SECONDS))
            return found

        got = interleave(players, min(rounds, 5), sample, f"growth: {LABELS[kind]}")
        points[kind] = {names[name]: found["microseconds"] for name, found in got.items() if found}
        if not points[kind]:
            raise RunFailed(f"no update came with {LABELS[kind]}")
        least = points[kind][min(points[kind])]
        for amount, cost in points[kind].items():
            aims = (within(cost, least, MOST_RATIO, f"of {min(points[kind]):,}"),) if cost is not least else ()
            label = f"an update with {amount:,} {LABELS[kind]}, CPU of both sides"
            rows.append(Row(label, "us", {OURS_PUBLIC: cost}, aims))
    PLOT.write_text(svg(points), "utf-8")
    return rows


WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 360, 60, 50, 40


def svg(points: Mapping[str, Mapping[int, float]]) -> str:
    """Draw the cost of an update, relative to the least amount of each kind, over the amount."""
    ratios = {kind: _ratios(found) for kind, found in points.items()}
    highest = max([1.5, *(ratio * 1.1 for found in ratios.values() for ratio in found.values())])
    most = max(amount for found in ratios.values() for amount in found)

    def x(amount: float) -> float:
        return LEFT + math.log10(max(amount, 1)) / max(math.log10(most), 1) * (WIDTH - LEFT - 20)

    def y(ratio: float) -> float:
        return HEIGHT - BOTTOM - ratio / highest * (HEIGHT - BOTTOM - TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"',
        ' font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="20" font-size="14">CPU of an update, in times of what it is with little open</text>',
    ]
    steps = range(int(highest) + 1)
    parts += [_line(LEFT, y(step), WIDTH - 20, y(step), "#e0e0e0") for step in steps]
    parts += [_text(LEFT - 8, y(step) + 4, f"{step}x", "end") for step in steps]
    parts.append(_line(LEFT, y(MOST_RATIO), WIDTH - 20, y(MOST_RATIO), "#c62828", "4 4"))
    parts.append(_text(LEFT + 4, y(MOST_RATIO) - 4, f"aim: at most {MOST_RATIO}x"))
    powers = [10**power for power in range(round(math.log10(most)) + 1)]
    parts += [_text(x(power), HEIGHT - BOTTOM + 18, f"{power:,}", "middle") for power in powers]
    for number, (kind, found) in enumerate(ratios.items()):
        path = " ".join(f"{x(amount):.1f},{y(ratio):.1f}" for amount, ratio in found.items())
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[kind]}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{x(amount):.1f}" cy="{y(ratio):.1f}" r="4" fill="{COLORS[kind]}">'
            f"<title>{amount:,} {LABELS[kind]}: {ratio:.2f}x</title></circle>"
            for amount, ratio in found.items()
        ]
        parts.append(
            f'<rect x="{LEFT + 190 * number}" y="{HEIGHT - 20}" width="12" height="12" fill="{COLORS[kind]}"/>'
        )
        parts.append(_text(LEFT + 190 * number + 18, HEIGHT - 10, LABELS[kind]))
    return "\n".join([*parts, "</svg>", ""])


def _ratios(found: Mapping[int, float]) -> dict[int, float]:
    least = found[min(found)]
    return {amount: found[amount] / least for amount in sorted(found)}


def _line(x1: float, y1: float, x2: float, y2: float, color: str, dashes: str = "none") -> str:
    coordinates = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {coordinates} stroke="{color}" stroke-dasharray="{dashes}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'
