"""Define the subcommands of `duologue eval` that read finished runs, but not what they do."""

from __future__ import annotations

import argparse

from duologue.cli.options import add_repeatable
from duologue.cli.parsers.eval_graders import add_grading

TYPE_CHECKING = False
if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


RUN_HELP = "directory of a run, or a .jsonl file of acp-harness results"


def add_reports(subcommands: Commands) -> None:
    """Add the subcommands that read finished runs."""
    _add_report(subcommands)
    _add_compare(subcommands)
    _add_export(subcommands)
    _add_summarize(subcommands)
    add_grading(subcommands)
    _add_balance(subcommands)


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
    report.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
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
    compare.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
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


def _add_export(subcommands: Commands) -> None:
    export = subcommands.add_parser(
        "export",
        help="write the trials of runs for other programs: JUnit XML, CSV, JSON lines, Inspect, ATIF, SWE-bench",
        description="Write every trial of runs for other programs: JUnit XML for CI, CSV for spreadsheets (no cell is "
        "a formula), one JSON object per line, logs of Inspect (one for each agent), trajectories in ATIF (one for "
        "each trial), or predictions for SWE-bench. Trials that are missing are there, with their reasons, as far as "
        "the format has a place for them.",
        epilog="examples: duologue eval export junit runs/today -o report.xml; duologue eval export csv runs/today; "
        "duologue eval export inspect runs/today -o logs; duologue eval export atif runs/today -o trajectories; "
        "duologue eval export swebench runs/today --agent one -o predictions.jsonl",
    )
    export.set_defaults(function="eval.export:export")
    export.add_argument(
        "format", choices=("junit", "csv", "jsonl", "inspect", "atif", "swebench"), help="format to write"
    )
    export.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    export.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="write to this file, for its owner only; to this directory for inspect and atif, which need it",
    )
    export.add_argument(
        "--log-format",
        choices=("eval", "json"),
        help="for inspect: the compressed format or JSON (default: eval)",
    )
    export.add_argument("--agent", metavar="LABEL", help="for swebench: the agent, if there are several")
    export.add_argument(
        "--trial", type=int, metavar="N", help="for swebench: number of the trial of each case (default: 1)"
    )


def _add_summarize(subcommands: Commands) -> None:
    summarize = subcommands.add_parser(
        "summarize",
        help="summarize results of acp-harness",
        description="Summarize the JSON lines that `capture` or `trials` wrote: prompt, answer, names of tool calls "
        "and time of each, as JSON lines or as Markdown with an id for each step.",
        epilog="example: duologue eval summarize results.jsonl --markdown",
    )
    summarize.set_defaults(function="eval.summarize:summarize")
    summarize.add_argument("results", metavar="FILE", help="JSON lines of `capture` or `trials`")
    summarize.add_argument("-m", "--markdown", action="store_true", help="write Markdown")
    add_output(summarize)


def _add_balance(subcommands: Commands) -> None:
    balance = subcommands.add_parser(
        "balance",
        help="show how the cases of a suite are spread over tags or categories",
        description="Count the cases of a suite by tag, by family or by a key of their metadata, and name what has too "
        "few cases or no graders.",
        epilog="examples: duologue eval balance suite.toml; duologue eval balance prompts.jsonl --key category",
    )
    balance.set_defaults(function="eval.balance:balance")
    balance.add_argument("suite", metavar="SUITE", help="the suite: a .toml or .jsonl file, or a directory")
    balance.add_argument(
        "-k", "--key", default="tags", metavar="KEY", help="tags, family, or a key of the metadata (default: tags)"
    )
    balance.add_argument(
        "-t",
        "--threshold",
        type=float,
        default=50.0,
        metavar="PERCENT",
        help="percent of an even share below which there are too few cases (default: 50)",
    )
    balance.add_argument("--json", action="store_true", help="print one JSON object")


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the file to write to."""
    parser.add_argument("-o", "--output", metavar="FILE", help="write to this file, for its owner only")


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
