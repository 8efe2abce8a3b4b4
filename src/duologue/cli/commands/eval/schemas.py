"""`duologue eval schemas`: the JSON schemas of the files of evaluations."""

from __future__ import annotations

import argparse
import sys

from duologue.cli.console.safe_output import safe
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.evals.schemas import SCHEMAS, json_schema


def schemas(arguments: argparse.Namespace) -> int:
    """Print the schema of a format, or the names of the formats."""
    out = safe(sys.stdout, is_exact=True)
    if arguments.name is None:
        for name in SCHEMAS:
            out.write(f"{name}\n")
        return ExitCode.OK
    try:
        out.write_json(json_schema(arguments.name))
    except ValueError as error:
        raise UsageError(str(error)) from None
    return ExitCode.OK
