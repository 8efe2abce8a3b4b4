"""The tables, for a terminal and for pages of the documentation."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.growth import PLOT
from benchmarks.measures import Row
from benchmarks.peers import GO, OURS, ROOT, RUST, TYPESCRIPT, Peer

PAGES = ROOT / "docs" / "project"
NOTES = ROOT / "benchmarks"

OVER_PIPES = """\
# Benchmarks

`make bench` runs duologue, the official Python SDK in two versions, and the TypeScript, Rust and Go SDKs side by side
and in turns: an agent and a client of each, two processes, real pipes. Where a toolchain is missing, the table says so.
This page is one such run, written by `python -m benchmarks --write`. Every run is also kept in
`benchmarks/history.jsonl`, which is not committed: `python -m benchmarks --compare` compares the last one with the one
before. Calls are counted instead of timed by `python -m benchmarks --costs` and listed by `--path`.

Compare the ratios: the number in brackets is how many times as much as duologue each of them needs. The absolute
numbers are those of one machine on one day. They are medians; CPU time is that of all threads, as the scheduler counts
it. A run counts only if every update was handled.

The figures over WebSocket and HTTP are [on another page](benchmarks-network.md).
"""

GROWTH = """\
## Growth

![What an update costs with many sessions, a long transcript and many open tool calls](benchmarks-growth.svg)
"""

OVER_NETWORK = """\
# Benchmarks of the network

`make bench` also measures the network: a server and a client of each, two processes, one machine, over WebSocket and
over HTTP/1.1 with event streams. This page is one such run, written by
`python -m benchmarks --only network,sockets,serve,scale --write`. The columns are those of
[the measures over pipes](benchmarks.md).
"""


@dataclass(frozen=True)
class Page:
    """One page of the documentation, without its table.

    Attributes:
        name: The name of the page, and of the notes at its end.
        opening: The text at its beginning.
    """

    name: str
    opening: str


PIPES = Page("benchmarks", OVER_PIPES)
NETWORK = Page("benchmarks-network", OVER_NETWORK)


def table(rows: Sequence[Row], peers: Iterable[str], absent: Mapping[str, str]) -> str:
    """Return Markdown, padded so that its source is readable."""
    columns = [name for name in (*peers, *absent) if name in absent or any(name in row.cells for row in rows)]
    lines = [["what", *columns, "aim", "reached", ""]]
    for row in rows:
        cells = [_cell(row, name, absent) for name in columns]
        wanted = "; ".join(aim.wanted for aim in row.aims)
        reached = "; ".join(aim.reached for aim in row.aims)
        verdict = ("hit" if all(aim.is_hit for aim in row.aims) else "**missed**") if row.aims else ""
        lines.append([row.label, *cells, wanted, reached, verdict])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(_line(line, widths) for line in lines) + "\n"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"| {' | '.join(padded)} |".replace("| - |", "|---|")


def _cell(row: Row, name: str, absent: Mapping[str, str]) -> str:
    if name in absent:
        return "not here"
    if name not in row.cells:
        return ""
    value = row.cells[name]
    shown = f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    ours = row.cells.get(OURS)
    ratio = f" ({value / ours:.1f}x)" if name != OURS and ours else ""
    return f"{shown} {row.unit}{ratio}"


def write(page: Page, rows: Sequence[Row], peers: Mapping[str, Peer], absent: Mapping[str, str], rounds: int) -> Path:
    """Write this run as a page of the documentation."""
    missing = "".join(f"\n{name} did not take part: {reason}.\n" for name, reason in absent.items())
    notes = (NOTES / f"{page.name}-notes.md").read_text()
    parts = [page.opening, f"{machine(peers, rounds)}\n", table(rows, peers, absent), missing, notes]
    if page is PIPES and PLOT.exists():
        shutil.copy(PLOT, PAGES / "benchmarks-growth.svg")
        parts.append(GROWTH)
    path = PAGES / f"{page.name}.md"
    path.write_text("\n".join(part for part in parts if part))
    return path


def machine(peers: Mapping[str, Peer], rounds: int) -> str:
    """Describe the machine and the software of the run."""
    facts = [
        f"{datetime.now(UTC):%Y-%m-%d}",
        f"{os.cpu_count()} x {_processor()}",
        f"Linux {platform.release().split('-')[0]}",
        f"Python {platform.python_version()}",
    ]
    if TYPESCRIPT in peers:
        node = subprocess.run([peers[TYPESCRIPT].runtime, "--version"], capture_output=True, text=True, check=True)
        facts.append(f"Node {node.stdout.strip().removeprefix('v')}")
    facts += [tool for name, command in COMPILERS.items() if name in peers and (tool := _first_line(command))]
    return f"Measured: {', '.join(facts)}; {rounds} rounds."


COMPILERS = {RUST: ["rustc", "--version"], GO: ["go", "version"]}


def _first_line(command: Sequence[str]) -> str:
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return " ".join(word for word in output.split()[:3] if word != "version")[:24].partition(" (")[0]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
