"""`duologue eval report`: what the runs in directories showed."""

from __future__ import annotations

import argparse
import sys

from duologue.cli.commands.eval.documents import read_results, statistics_needed, write_document
from duologue.cli.commands.eval.report_table import write_report
from duologue.cli.console.safe_output import safe
from duologue.cli.exit_codes import ExitCode, UsageError


def report(arguments: argparse.Namespace) -> int:
    """Print the report of runs, and write it as a page if asked to; return the exit code."""
    with statistics_needed():
        from duologue.evals.report.eval_report import make_report
        from duologue.evals.report.markdown import to_markdown

        runs = read_results(arguments.runs)
        try:
            document = make_report(runs, metric=arguments.metric, level=arguments.level)
        except ValueError as error:
            raise UsageError(str(error)) from None
    if arguments.html is not None:
        from duologue.evals.report.page.document import to_html

        write_document(arguments.html, to_html(document))
    out = safe(sys.stdout, is_exact=True)
    if arguments.json:
        out.write_json(document)
    elif arguments.markdown:
        out.write(to_markdown(document))
    else:
        write_report(out, document)
    return ExitCode.OK
