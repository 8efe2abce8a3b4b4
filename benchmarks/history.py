"""Every run, one line of JSON each, so that two runs can be compared. The file stays on this machine."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.measures import Row
from benchmarks.peers import ROOT, Peer

HISTORY = ROOT / "benchmarks" / "history.jsonl"


def append(rows: Iterable[Row], peers: Mapping[str, Peer], machine: str, rounds: int, path: Path = HISTORY) -> None:
    """Keep the medians of a run with what they were measured with and where."""
    entry = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "machine": machine,
        "host": platform.node(),
        "python": platform.python_version(),
        "msgspec": version("msgspec"),
        "peers": list(peers),
        "rounds": rounds,
        "medians": {label: dict(row.cells) for label, row in labelled(rows).items()},
        "aims": {
            f"{label}: {aim.wanted}": [aim.reached, aim.is_hit]
            for label, row in labelled(rows).items()
            for aim in row.aims
        },
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def labelled(rows: Iterable[Row]) -> dict[str, Row]:
    """Return rows by complete labels: `the same` is replaced by the row it refers to."""
    found: dict[str, Row] = {}
    last = ""
    for row in rows:
        is_same = row.label.startswith("the same")
        last = last if is_same else row.label
        label = f"{last} ({row.label.removeprefix('the same, ')})" if is_same else row.label
        found[f"{label}, {row.unit}"] = row
    return found


def compare(path: Path = HISTORY) -> str:
    """Compare the last run with the one before: old median, new median and ratio of each cell."""
    runs: list[dict[str, Any]] = []
    if path.exists():
        runs = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line][-2:]
    if len(runs) < 2:
        return f"{len(runs)} run in {path}: run `make bench` until there are two"
    before, now = runs
    lines = [f"before: {_described(before)}", f"now:    {_described(now)}", ""]
    if before["machine"].partition(",")[2] != now["machine"].partition(",")[2]:
        lines += ["They were made on different machines or with other versions: read ratios of one run only.", ""]
    for label, cells in now["medians"].items():
        earlier = before["medians"].get(label, {})
        changes = [_change(name, earlier[name], value) for name, value in cells.items() if earlier.get(name)]
        if changes:
            lines.append(f"{label}: {'; '.join(changes)}")
    lost = [name for name, (_, is_hit) in now["aims"].items() if not is_hit and before["aims"].get(name, [0, 0])[1]]
    return "\n".join([*lines, *(f"no longer reached: {name}" for name in lost)])


def _change(name: str, before: float, now: float) -> str:
    return f"{name} {before:.4g} -> {now:.4g} ({now / before:.2f}x)"


def _described(run: Mapping[str, Any]) -> str:
    return f"{run['time']}, commit {run['commit']}, {run['machine']}"


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
