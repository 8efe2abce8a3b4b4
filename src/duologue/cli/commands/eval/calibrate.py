"""`duologue eval calibrate`: how far graders agree with people."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from duologue.cli.commands.eval.documents import statistics_needed, write_document
from duologue.cli.commands.eval.tables import Cell, write_table
from duologue.cli.console.safe_output import SafeOutput, Style, safe
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.evals.report.run_summary import read_run
from duologue.sanitize import escape_line

if TYPE_CHECKING:
    from duologue.evals.report.calibration import Calibration

MOST_LISTED = 20
"""Trials with different results that are listed."""


def calibrate(arguments: argparse.Namespace) -> int:
    """Write a sample to label, or compare labels with the graders; return the exit code."""
    if arguments.labels is not None and (arguments.markdown or arguments.output is not None):
        raise UsageError("`--markdown` and `-o` are for a sample, and with `--labels` there is none")
    with statistics_needed():
        from duologue.evals.report import calibration

    run = read_run(arguments.run)
    out = safe(sys.stdout, is_exact=True)
    if arguments.labels is None:
        sample = calibration.sample_to_label(run, arguments.sample, seed=arguments.seed, grader=arguments.grader)
        if arguments.markdown:
            text = calibration.sample_markdown(sample)
        else:
            text = "".join(msgspec.json.encode(label).decode() + "\n" for label in sample)
        if arguments.output is not None:
            write_document(arguments.output, text)
        else:
            out.write(text)
        return ExitCode.OK
    found = calibration.calibrate(run, calibration.read_labels(Path(arguments.labels)), grader=arguments.grader)
    if arguments.json:
        out.write_json(found)
    else:
        _write(out, found)
    return ExitCode.OK


def _write(out: SafeOutput, found: Calibration) -> None:
    from duologue.evals.report import phrases

    matrix = found.matrix
    if matrix.total:
        head = [Cell("people", Style.DIM), *(Cell(f"graders: {label}", Style.DIM) for label in matrix.labels)]
        rows = [
            [Cell(label), *(Cell(str(count), is_right=True) for count in counts)]
            for label, counts in zip(matrix.labels, matrix.counts, strict=True)
        ]
        write_table(out, [head, *rows])
        out.write("\n")
    facts = [
        ("trials", f"{found.labelled}, {found.tied} tied, {found.undecided} undecided, {found.unknown} not in the run"),
        ("agreement", f"{phrases.number(matrix.agreement)} (95 % interval {phrases.limits(matrix.interval)})"),
        ("alpha", f"{phrases.number(found.alpha)} (Krippendorff; 1 is perfect agreement, 0 that of chance)"),
        ("alpha of people", phrases.number(found.alpha_of_people)),
    ]
    write_table(out, [[Cell(name, Style.DIM), Cell(text)] for name, text in facts])
    for line in found.disagreements[:MOST_LISTED]:
        out.write(f"{escape_line(line)}\n", Style.YELLOW)
    if len(found.disagreements) > MOST_LISTED:
        out.write(f"and {len(found.disagreements) - MOST_LISTED:,} more (--json lists all)\n", Style.DIM)
