"""`duologue eval export`: the trials of runs for other programs."""

from __future__ import annotations

import argparse
import sys

from duologue.cli.commands.eval.documents import read_results, write_document
from duologue.cli.console.safe_output import safe
from duologue.cli.exit_codes import ExitCode
from duologue.evals.report.exports.junit import to_junit
from duologue.evals.report.exports.trial_table import to_csv, to_json_lines

WRITERS = {"junit": to_junit, "csv": to_csv, "jsonl": to_json_lines}


def export(arguments: argparse.Namespace) -> int:
    """Write the trials of runs in a format; return the exit code."""
    text = WRITERS[arguments.format](read_results(arguments.runs))
    if arguments.output is not None:
        write_document(arguments.output, text)
    else:
        safe(sys.stdout, is_exact=True).write(text)
    return ExitCode.OK
