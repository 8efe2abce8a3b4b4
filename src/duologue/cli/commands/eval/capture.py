"""`duologue eval capture`: send each prompt once, and write results as acp-harness does."""

from __future__ import annotations

import argparse

from duologue.cli.commands.eval.harness_run import run_prompts
from duologue.evals.run.harness_lines import capture_line


def capture(arguments: argparse.Namespace) -> int:
    """Write a line for each prompt; return the exit code."""
    return run_prompts(arguments, 1, lambda records, case: capture_line(records[0], case))
