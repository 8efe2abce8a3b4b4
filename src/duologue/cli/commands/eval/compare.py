"""`duologue eval compare`: which differences between agents, or between runs, are shown."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from duologue.cli.commands.eval.documents import read_results, statistics_needed
from duologue.cli.commands.eval.tables import Cell, short_label, write_table
from duologue.cli.console.safe_output import SafeOutput, Style, safe
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.evals.exceptions import EvalError, RecordError
from duologue.sanitize import escape_line

if TYPE_CHECKING:
    from duologue.evals.report.run_comparison import AgentComparison, RunComparison

MOST_CASES = 15
"""Cases with differences that are listed for each comparison."""


def compare(arguments: argparse.Namespace) -> int:
    """Print the comparison of runs; return the exit code."""
    with statistics_needed():
        from duologue.evals.report.run_comparison import compare_runs

        try:
            found = compare_runs(
                read_results(arguments.runs),
                agents=arguments.agent or (),
                metric=arguments.metric,
                level=arguments.level,
            )
        except RecordError:
            raise
        except (ValueError, EvalError) as error:
            raise UsageError(str(error)) from None
    out = safe(sys.stdout, is_exact=True)
    if arguments.json:
        out.write_json(found)
    elif arguments.markdown:
        from duologue.evals.report.markdown import comparison_to_markdown

        out.write(comparison_to_markdown(found))
    else:
        _write(out, found)
    worse = any(each.result.verdict == "first_better" for each in found.comparisons)
    return ExitCode.AGENT_ERROR if arguments.fail_if_worse and worse else ExitCode.OK


def _write(out: SafeOutput, found: RunComparison) -> None:
    from duologue.evals.report import phrases

    for run in found.runs:
        out.write(f"{escape_line(phrases.facts(run), None)}\n", Style.DIM)
    for each in found.comparisons:
        out.write("\n")
        _write_comparison(out, each)
    if len(found.comparisons) > 1:
        out.write(f"\np-values are corrected for {len(found.comparisons)} comparisons (Holm)\n", Style.DIM)
    for note in found.notes:
        out.write(f"note: {escape_line(note, None)}\n", Style.DIM)


def _write_comparison(out: SafeOutput, found: AgentComparison) -> None:
    from duologue.cli.commands.eval.report_table import write_comparisons
    from duologue.evals.report import phrases

    result = found.result
    write_comparisons(out, [result])
    rows = [
        ("first", f"{result.first}: {phrases.number(result.first_value)}"),
        ("second", f"{result.second}: {phrases.number(result.second_value)}"),
        (
            "difference",
            f"{phrases.signed(result.difference)} {result.metric}, over {phrases.count(result.cases, 'case')}",
        ),
        ("interval", f"{100 * result.level:g} %: {phrases.signed_limits(result.interval)}"),
        ("test", f"{phrases.test_name(result.test)}, p = {result.p_value:.3g}, corrected {result.adjusted_p:.3g}"),
        ("detectable", f"{phrases.number(result.detectable)} with 80 % probability"),
        ("trials differ", f"{phrases.number(found.flip_rate)} of pairs of trials of one case"),
        ("left out", ", ".join(result.left_out)),
    ]
    write_table(out, [[Cell(f"  {name}", Style.DIM), Cell(escape_line(text))] for name, text in rows if text])
    differing = [case for case in found.cases if case.difference]
    if not differing:
        return
    out.write("\n")
    table = [[Cell(name, Style.DIM) for name in ("  case", "first", "second", "difference")]]
    for case in differing[:MOST_CASES]:
        style = Style.GREEN if (case.difference or 0) > 0 else Style.RED
        numbers = [phrases.number(case.first), phrases.number(case.second)]
        table.append(
            [
                Cell(f"  {short_label(case.case)}"),
                *(Cell(each, is_right=True) for each in numbers),
                Cell(phrases.signed(case.difference), style),
            ]
        )
    write_table(out, table)
    if len(differing) > MOST_CASES:
        out.write(f"  and {len(differing) - MOST_CASES:,} more (--json lists all)\n", Style.DIM)
