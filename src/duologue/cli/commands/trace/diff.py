"""`duologue trace diff`: compare two runs by meaning."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from duologue.cli.console.safe_output import SafeOutput, Style, safe
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.recording.reader import RecordingReader
from duologue.sanitize import escape_line
from duologue.trace.comparison import Comparison, StepPair, pair_to_json
from duologue.trace.frames import Tracer
from duologue.trace.run_steps import RunReader, RunStep, differences

FORMAT = 1
"""Version of the lines of `--json`."""
ARROWS = {"to_agent": "-->", "to_client": "<--", "": "   "}
MOST_PATHS = 20
"""Paths of one step that are printed without `--full`."""
MOST_COLUMNS = 160
"""Characters of a value that are printed without `--full`."""
MOST_LINES = 400
"""Lines of two texts that are compared line by line."""


def diff(arguments: argparse.Namespace) -> int:
    """Print the differences of two runs; return 1 if there are any."""
    runs: list[list[RunStep]] = []
    is_cut = False
    try:
        for file in (arguments.first, arguments.second):
            run = RunReader(arguments.ignore)
            with RecordingReader(Path(file)) as reader:
                runs.append(run.read(Tracer().trace(reader)))
            is_cut = is_cut or run.is_cut
    except (FileNotFoundError, IsADirectoryError, PermissionError, ValueError) as error:
        raise UsageError(str(error)) from None
    comparison = Comparison()
    out = safe(sys.stdout, is_exact=arguments.json)
    names = tuple(escape_line(str(file)) for file in (arguments.first, arguments.second))
    pairs = comparison.compare(*runs)
    counts = _write_json(out, pairs, arguments.full) if arguments.json else _write(out, pairs, names, arguments.full)
    if is_cut:
        sys.stderr.write(f"duologue: a recording is too long; only the first {len(runs[0]):,} and {len(runs[1]):,} "
                         "messages were compared\n")  # fmt: skip
    if comparison.is_approximate:
        sys.stderr.write("duologue: the runs differ too much to find the fewest differences; there may be fewer\n")
    has_differences = counts["changed"] + counts["only_a"] + counts["only_b"]
    return ExitCode.AGENT_ERROR if has_differences or is_cut else ExitCode.OK


def _write_json(out: SafeOutput, pairs: Iterator[StepPair], is_full: bool) -> Counter[str]:
    counts: Counter[str] = Counter()
    for pair in pairs:
        counts[pair.kind] += 1
        if pair.kind != "same" or is_full:
            out.write_json({"format": FORMAT, **pair_to_json(pair)})
    summary = {name: counts[name] for name in ("same", "changed", "only_a", "only_b")}
    out.write_json({"format": FORMAT, "summary": summary})
    return counts


def _write(out: SafeOutput, pairs: Iterator[StepPair], names: tuple[str, ...], is_full: bool) -> Counter[str]:
    counts: Counter[str] = Counter()
    equal = 0
    out.write(f"--- {names[0]}\n+++ {names[1]}\n", Style.BOLD)
    for pair in pairs:
        counts[pair.kind] += 1
        if pair.kind == "same" and not is_full:
            equal += 1
            continue
        equal = _write_equal(out, equal)
        _write_pair(out, pair, is_full)
    _write_equal(out, equal)
    if counts.keys() <= {"same"}:
        out.write(f"the runs are equal: {counts['same']:,} messages\n", Style.GREEN)
    else:
        out.write(
            f"{counts['changed']:,} changed, {counts['only_a']:,} only in {names[0]}, "
            f"{counts['only_b']:,} only in {names[1]}, {counts['same']:,} equal\n"
        )
    return counts


def _write_equal(out: SafeOutput, equal: int) -> int:
    if equal:
        out.write(f"  … {equal:,} equal\n", Style.DIM)
    return 0


def _write_pair(out: SafeOutput, pair: StepPair, is_full: bool) -> None:
    most = None if is_full else MOST_COLUMNS
    if pair.a is not None and pair.b is not None:
        mark, style = (" ", Style.DIM) if pair.kind == "same" else ("~", Style.YELLOW)
        out.write(f"{mark} {_title(pair.a)} ({pair.a.number:,}, {pair.b.number:,})\n", style)
        found = differences(pair.a.content, pair.b.content)
        for path, one, other in found if is_full else islice(found, MOST_PATHS):
            out.write(f"      {escape_line(path, None)}\n", Style.DIM)
            _write_values(out, one, other, most)
        if (rest := sum(1 for _ in found)) > 0:
            out.write(f"      … {rest:,} more; --full shows them\n", Style.DIM)
        return
    step = pair.a or pair.b
    assert step is not None, "a pair has a step"
    mark, style = ("-", Style.RED) if pair.a is not None else ("+", Style.GREEN)
    out.write(f"{mark} {_title(step)} ({step.number:,})\n", style)
    content = next(iter(step.content.values()))
    out.write(f"    {mark} {_shown(content, most)}\n", style)


def _write_values(out: SafeOutput, one: Any, other: Any, most: int | None) -> None:
    """Write two values; texts of several lines as a diff of their lines."""
    if isinstance(one, str) and isinstance(other, str) and "\n" in one + other:
        lines = one.splitlines(), other.splitlines()
        if sum(map(len, lines)) <= MOST_LINES:
            _write_lines(out, *lines, most)
            return
    if one is not ...:
        out.write(f"    - {_shown(one, most)}\n", Style.RED)
    if other is not ...:
        out.write(f"    + {_shown(other, most)}\n", Style.GREEN)


def _write_lines(out: SafeOutput, one: Sequence[str], other: Sequence[str], most: int | None) -> None:
    for line in islice(difflib.unified_diff(one, other, n=1, lineterm=""), 2, None):
        if line.startswith("@@"):
            continue
        style = {"-": Style.RED, "+": Style.GREEN}.get(line[:1], Style.DIM)
        out.write(f"    {line[:1]} {escape_line(line[1:], most)}\n", style)


def _title(step: RunStep) -> str:
    key = step.key
    name = key.method or ("the agent ended" if key.kind == "exit" else "?")
    kind = key.kind if key.kind in ("response", "error") else ""
    session = f"session {key.session}" if key.session > 1 else ""
    return " ".join(filter(None, [ARROWS[key.dir], escape_line(name), escape_line(key.update), kind, session])).strip()


def _shown(value: Any, most: int | None) -> str:
    return escape_line(msgspec.json.encode(value).decode("utf-8", "replace"), most)
