"""Define the subcommands of `duologue eval` that read finished runs, but not what they do."""

from __future__ import annotations

import argparse

from duologue.cli.options import add_repeatable

TYPE_CHECKING = False
if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_reports(subcommands: Commands) -> None:
    """Add the subcommands that read finished runs."""
    _add_report(subcommands)
    _add_compare(subcommands)


def _add_report(subcommands: Commands) -> None:
    report = subcommands.add_parser(
        "report",
        help="show what runs achieved: estimates with intervals, every case, and what is missing",
        description="Show what the agents of one or several runs achieved: pass@k and pass^k with intervals over the "
        "cases, each case, the trials that are missing with their reasons, and whether a difference between agents "
        "is shown. Nothing is run.",
        epilog="examples: duologue eval report runs/today; duologue eval report runs/today --html report.html",
    )
    report.set_defaults(function="eval.report:report")
    report.add_argument("runs", nargs="+", metavar="DIRECTORY", help="directory of a run")
    report.add_argument("--html", metavar="FILE", help="also write one HTML page with every trial, for a browser")
    output = report.add_mutually_exclusive_group()
    output.add_argument("--markdown", action="store_true", help="print Markdown, for a pull request")
    output.add_argument("--json", action="store_true", help="print the report as one JSON object")
    add_metric(report)


def _add_compare(subcommands: Commands) -> None:
    compare = subcommands.add_parser(
        "compare",
        help="compare agents or runs, paired by case, and say whether a difference is shown",
        description="Compare the agents of one run, or runs with each other, paired by case: the mean difference with "
        "its interval, a p-value that is corrected for the number of comparisons, and the smallest difference that "
        "could have been found. An agent that several runs have is compared with itself; otherwise every two agents "
        "are compared.",
        epilog="examples: duologue eval compare runs/before runs/after; duologue eval compare runs/today --agent one "
        "--agent two",
    )
    compare.set_defaults(function="eval.compare:compare")
    compare.add_argument("runs", nargs="+", metavar="DIRECTORY", help="directory of a run")
    add_repeatable(compare, "--agent", "LABEL", "compare only these agents")
    output = compare.add_mutually_exclusive_group()
    output.add_argument("--markdown", action="store_true", help="print Markdown, for a pull request")
    output.add_argument("--json", action="store_true", help="print the comparison as one JSON object")
    compare.add_argument(
        "--fail-if-worse",
        action="store_true",
        help="the exit code is 1 if the second is shown to be worse than the first",
    )
    add_metric(compare)


def add_metric(parser: argparse.ArgumentParser) -> None:
    """Add the metric and the level of a comparison."""
    parser.add_argument(
        "--metric",
        default="pass@1",
        metavar="METRIC",
        help="the metric to compare by: score, pass@K or pass^K (default: pass@1)",
    )
    parser.add_argument(
        "--level", type=_level, default=0.95, metavar="LEVEL", help="level of intervals (default: 0.95)"
    )


def _level(text: str) -> float:
    value = float(text)
    if not 0.5 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} is no level: expected a number from 0.5 to less than 1")
    return value
