"""`duologue eval trials`: send each prompt several times, and write results as acp-harness does."""

from __future__ import annotations

import argparse

from duologue.cli.commands.eval.harness_run import run_prompts
from duologue.evals.run.harness_lines import trials_line


def trials(arguments: argparse.Namespace) -> int:
    """Write a line for each prompt; return the exit code."""
    return run_prompts(arguments, arguments.k, trials_line)
