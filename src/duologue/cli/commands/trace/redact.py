"""`duologue trace redact`: write a recording again without its secrets."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import msgspec

from duologue.cli.console.safe_output import safe
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.cli.recordings import own_patterns
from duologue.recording.redaction import Redactor, environment_secrets
from duologue.sanitize import escape_line
from duologue.trace.redacted_copy import redact_file, redact_to

FORMAT = 1
"""Version of the line of `--json`."""


def redact(arguments: argparse.Namespace) -> int:
    """Write the recording to another file, or in place."""
    source = Path(arguments.file)
    target = source if arguments.in_place else Path(arguments.output)
    try:
        redactor = Redactor(
            [*own_patterns(), *arguments.pattern],
            values=[*environment_secrets(os.environ), *_values(arguments.value_from_env)],
        )
        if arguments.in_place:
            result = redact_file(source, redactor)
        else:
            result = redact_to(source, target, redactor)
    except FileExistsError:
        raise UsageError(f"{target} exists; name another file, or remove it first") from None
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from None
    out = safe(sys.stdout, is_exact=arguments.json)
    if arguments.json:
        out.write_json({"format": FORMAT, "file": str(target), **msgspec.to_builtins(result)})
        return ExitCode.OK
    damaged = f"; {result.damaged:,} damaged lines were left out" if result.damaged else ""
    out.write(
        f"{escape_line(str(target))}: something was removed from {result.changed:,} of {result.entries:,} entries"
        f"{damaged}\n"
    )
    return ExitCode.OK


def _values(names: list[str]) -> list[str]:
    for name in names:
        if not os.environ.get(name):
            raise ValueError(f"the environment variable {name} is not set")
    return [os.environ[name] for name in names]
