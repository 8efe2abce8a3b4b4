"""A mistake of the author because of which nothing was sent: it is logged, and fails the turn."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duologue.agent.turn import Turn

_log = logging.getLogger("duologue.agent")


def record_mistake(turn: Turn[Any], mistake: str, file: str, line: int, fix: str) -> None:
    """Log a mistake because of which nothing was sent, and let the turn fail with it if it is not over.

    Args:
        turn: The turn in which it happened.
        mistake: What the author did.
        file: The file of the call.
        line: Its line, or 0 if that is not known.
        fix: What to write instead.
    """
    where = f"at {Path(file).name}:{line}" if line else "(`python -X dev` shows the line)"
    if not turn._is_over:
        turn._mistake = turn._mistake or f"{mistake} {where}; write `{fix}`"
    _log.error("%s, so nothing was sent%s", mistake, f": {file}:{line}" if line else "")
