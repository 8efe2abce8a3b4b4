"""`duologue eval grade`: grade a finished run again, without running an agent."""

from __future__ import annotations

import argparse
import sys

from duologue.cli.console.interrupts import run_until_interrupted
from duologue.cli.console.safe_output import Style, safe, say
from duologue.cli.exit_codes import ExitCode
from duologue.evals.report.regrade import RegradedTrial, regrade_run
from duologue.evals.suite.loader import load_suite
from duologue.sanitize import escape_line

WORDS = {None: "undecided", True: "passed", False: "failed"}


def grade(arguments: argparse.Namespace) -> int:
    """Grade the records of a run again; return the exit code."""
    suite = None if arguments.suite is None else load_suite(arguments.suite)
    count = 0

    def show(trial: RegradedTrial) -> None:
        nonlocal count
        count += 1
        if sys.stderr.isatty() and count % 20 == 0:
            say(f"{count} trials graded\n", Style.DIM)

    found = run_until_interrupted(regrade_run(arguments.run, suite=suite, jobs=arguments.jobs, on_trial=show))
    out = safe(sys.stdout, is_exact=True)
    if arguments.json:
        out.write_json(found)
    else:
        for trial in found.changed:
            name = escape_line(f"{trial.agent}, {trial.case}, trial {trial.trial}")
            style = Style.GREEN if trial.after else Style.RED if trial.after is False else Style.YELLOW
            out.write(f"{name}: {WORDS[trial.before]}, now {WORDS[trial.after]}\n", style)
        for trial in found.undecided:
            out.write(f"{escape_line(f'{trial.agent}, {trial.case}, trial {trial.trial}')}: ", Style.YELLOW)
            out.write(f"{escape_line('; '.join(trial.errors))}\n")
        out.write(
            f"{found.graded} graded, {len(found.changed)} changed, {len(found.undecided)} undecided, "
            f"{found.skipped} not to be graded\n"
        )
    return ExitCode.AGENT_ERROR if found.undecided else ExitCode.OK
