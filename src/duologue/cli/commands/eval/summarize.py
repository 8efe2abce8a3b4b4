"""`duologue eval summarize`: results of acp-harness in short."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from duologue.cli.commands.eval.documents import write_document
from duologue.cli.console.safe_output import safe
from duologue.cli.exit_codes import ExitCode
from duologue.evals.report.harness_results import read_harness_lines
from duologue.evals.report.harness_summaries import summarize_lines, summary_markdown


def summarize(arguments: argparse.Namespace) -> int:
    """Write a summary of each result, as JSON lines or Markdown; return the exit code."""
    lines = read_harness_lines(Path(arguments.results))
    if arguments.markdown:
        text = summary_markdown(lines)
    else:
        text = "".join(msgspec.json.encode(each).decode() + "\n" for each in summarize_lines(lines))
    if arguments.output is not None:
        write_document(arguments.output, text)
    else:
        safe(sys.stdout, is_exact=True).write(text)
    return ExitCode.OK
