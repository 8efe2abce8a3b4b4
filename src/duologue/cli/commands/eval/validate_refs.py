"""`duologue eval validate-refs`: whether the references of a suite pass their own graders."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

import msgspec
from msgspec import structs

from duologue.cli.commands.eval.documents import write_document
from duologue.cli.console.interrupts import run_until_interrupted
from duologue.cli.console.safe_output import Style, safe, say
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.evals.report.reference_check import ReferenceResult, check_references
from duologue.evals.suite.case import Case
from duologue.evals.suite.grader_specs import ExecutableGrader
from duologue.evals.suite.loader import load_suite
from duologue.sanitize import escape_line


def validate_refs(arguments: argparse.Namespace) -> int:
    """Grade the references of a suite; return the exit code."""
    cases = list(load_suite(arguments.suite).cases)
    if arguments.grader is not None:
        grader = _executable(arguments.grader)
        cases = [structs.replace(case, graders=[grader]) for case in cases]
    found = run_until_interrupted(_all(cases))
    if not found:
        raise UsageError(f"no case of {arguments.suite} has graders and a `reference` or a `solution`")
    text = "".join(msgspec.json.encode(each).decode() + "\n" for each in found)
    if arguments.output is not None:
        write_document(arguments.output, text)
    elif arguments.json:
        safe(sys.stdout, is_exact=True).write(text)
    out = safe(sys.stderr if arguments.json else sys.stdout, is_exact=not arguments.json)
    for each in found:
        if not each.is_valid:
            out.write(f"{escape_line(each.id)}: {escape_line(each.reasoning, 500)}\n", Style.RED)
    valid = sum(each.is_valid for each in found)
    left = len(cases) - len(found)
    note = f", {left} cases have none" if left else ""
    out.write(f"{valid} of {len(found)} references pass their graders{note}\n")
    return ExitCode.OK if valid == len(found) else ExitCode.AGENT_ERROR


async def _all(cases: list[Case]) -> list[ReferenceResult]:
    found: list[ReferenceResult] = []
    async for each in check_references(cases):
        found.append(each)
        if sys.stderr.isatty() and len(found) % 10 == 0:
            say(f"{len(found)} references graded\n", Style.DIM)
    return found


def _executable(text: str) -> ExecutableGrader:
    """Return the grader that a command names; its files are relative to the current directory."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--grader {text}: {error}") from None
    if not words:
        raise UsageError("--grader needs a command, such as ./grade.py")
    # A grader runs in the directory of the suite. A link, such as the Python of an environment, stays one.
    return ExecutableGrader(command=[str(Path(word).absolute()) if Path(word).is_file() else word for word in words])
