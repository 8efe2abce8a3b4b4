"""`duologue eval balance`: how the cases of a suite are spread over tags or categories."""

from __future__ import annotations

import argparse
import sys

from duologue.cli.commands.eval.tables import Cell, bar, short_label, write_table
from duologue.cli.console.safe_output import Style, safe
from duologue.cli.exit_codes import ExitCode
from duologue.evals.report.balance import analyze_balance
from duologue.evals.suite.loader import load_suite
from duologue.sanitize import escape_line

BAR_COLUMNS = 30


def balance(arguments: argparse.Namespace) -> int:
    """Print the balance of a suite; return the exit code."""
    suite = load_suite(arguments.suite)
    found = analyze_balance(suite.cases, key=arguments.key, threshold=arguments.threshold / 100)
    out = safe(sys.stdout, is_exact=True)
    if arguments.json:
        out.write_json(found)
        return ExitCode.OK
    most = max((each.count for each in found.categories), default=1)
    rows = [[Cell(name, Style.DIM) for name in (arguments.key, "cases", "", "share", "graded")]]
    for each in found.categories:
        style = Style.YELLOW if each.name in found.underrepresented else Style.PLAIN
        rows.append(
            [
                Cell(short_label(each.name), style),
                Cell(str(each.count), is_right=True),
                Cell(bar(out, each.count / most, BAR_COLUMNS), Style.CYAN),
                Cell(f"{each.percentage:.1f} %", is_right=True),
                Cell(str(each.graded), is_right=True),
            ]
        )
    write_table(out, rows)
    for suggestion in found.suggestions:
        out.write(f"{escape_line(suggestion, None)}\n", Style.YELLOW)
    return ExitCode.OK
