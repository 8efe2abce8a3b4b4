"""`duologue config`: write an example configuration."""

from __future__ import annotations

import argparse
import sys

from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.config.agents import config_file
from duologue.config.permissions import write_example_config


def config(arguments: argparse.Namespace) -> int:
    """Write the example unless there is a configuration; return the exit code."""
    try:
        path = write_example_config()
    except FileExistsError:
        raise UsageError(f"{config_file()} exists already; edit it, `duologue doctor` checks it") from None
    except OSError as error:
        raise UsageError(f"cannot write {config_file()}: {error.strerror}") from None
    sys.stdout.write(f"{path}\n")
    return ExitCode.OK
