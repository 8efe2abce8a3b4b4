"""The lines of JSON that the subcommands of `duologue agents` print."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from duologue.cli.console.safe_output import safe

JSON_FORMAT = 1
"""Version of these lines; a new field is no new version."""


def write_line(line: Mapping[str, Any]) -> None:
    """Print an object with the version of its format as one line of JSON."""
    safe(sys.stdout, is_exact=True).write_json({"format": JSON_FORMAT, **line})
