"""Define the subcommands of `duologue eval`, but not what they do.

Each parser has a default `function`: module in `duologue.cli.commands` and function, with a colon between them.
"""

from __future__ import annotations

import argparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_eval(commands: Commands) -> None:
    """Add `eval`, but not its subcommands."""
    commands.add_parser(
        "eval",
        help="evaluate agents: run the cases of a suite several times, and grade what they did",
        description="Evaluate agents with a suite of cases. What happens in each trial is kept in a directory, so that "
        "it can be graded again and compared without running an agent.",
    )


def add_eval_subcommands(evaluation: argparse.ArgumentParser) -> None:
    """Add the subcommands of `eval`."""
    from duologue.cli.parsers.eval_reports import add_reports
    from duologue.cli.parsers.eval_runs import add_runs

    subcommands = evaluation.add_subparsers(dest="action", metavar="SUBCOMMAND", title="subcommands", required=True)
    add_runs(subcommands)
    _add_schemas(subcommands)
    add_reports(subcommands)


def _add_schemas(subcommands: Commands) -> None:
    schemas = subcommands.add_parser(
        "schemas",
        help="print the JSON schema of a file of evaluations",
        description="Print the JSON schema of a format, or without a name the names of all formats.",
        epilog="example: duologue eval schemas suite",
    )
    schemas.set_defaults(function="eval.schemas:schemas")
    schemas.add_argument("name", nargs="?", metavar="FORMAT", help="name of the format, such as suite or result")
