"""`duologue eval export`: the trials of runs for other programs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from duologue.cli.commands.eval.documents import read_results, write_document
from duologue.cli.console.safe_output import safe
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.evals.report.exports.atif import write_atif
from duologue.evals.report.exports.inspect_log import write_inspect_logs
from duologue.evals.report.exports.junit import to_junit
from duologue.evals.report.exports.swebench import to_swebench
from duologue.evals.report.exports.trial_table import to_csv, to_json_lines
from duologue.evals.report.run_summary import RunSummary

WRITERS = {"junit": to_junit, "csv": to_csv, "jsonl": to_json_lines}

OPTIONS = {"log_format": "inspect", "agent": "swebench", "trial": "swebench"}
"""Options that only one format has."""


def export(arguments: argparse.Namespace) -> int:
    """Write the trials of runs in a format; return the exit code."""
    for name, of_format in OPTIONS.items():
        if getattr(arguments, name) is not None and arguments.format != of_format:
            raise UsageError(f"`--{name.replace('_', '-')}` belongs to `export {of_format}`")
    runs = read_results(arguments.runs)
    if arguments.format in ("inspect", "atif"):
        _write_files(arguments, runs)
        return ExitCode.OK
    text = _predictions(arguments, runs) if arguments.format == "swebench" else WRITERS[arguments.format](runs)
    if arguments.output is not None:
        write_document(arguments.output, text)
    else:
        safe(sys.stdout, is_exact=True).write(text)
    return ExitCode.OK


def _write_files(arguments: argparse.Namespace, runs: Sequence[RunSummary]) -> None:
    """Write a directory, and print the files of a log, or how many trajectories there are.

    Raises:
        UsageError: There is no directory to write to, or it cannot be written.
    """
    if arguments.output is None:
        raise UsageError(f"`export {arguments.format}` writes several files: name a directory with `-o DIR`")
    out = safe(sys.stdout, is_exact=True)
    try:
        if arguments.format == "inspect":
            for path in write_inspect_logs(runs, arguments.output, log_format=arguments.log_format or "eval"):
                out.write(f"{path}\n")
        else:
            written = write_atif(runs, arguments.output)
            out.write(f"{len(written)} trajectories in {Path(arguments.output)}\n")
    except OSError as error:
        raise UsageError(f"{error.filename or arguments.output} cannot be written: {error.strerror}") from None


def _predictions(arguments: argparse.Namespace, runs: Sequence[RunSummary]) -> str:
    """Return the predictions, and say which trials have none.

    Raises:
        UsageError: It is not clear which agent is meant.
    """
    try:
        predictions = to_swebench(runs, agent=arguments.agent, trial=1 if arguments.trial is None else arguments.trial)
    except ValueError as error:
        raise UsageError(f"--agent: {error}") from None
    err = safe(sys.stderr)
    for line in predictions.left_out:
        err.write(f"left out: {line}\n")
    return predictions.text
