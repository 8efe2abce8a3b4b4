"""The log of every decision: who wanted what, what was said, by which rule; no contents, no titles, no secrets."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from duologue.client.permissions.actions import Action
from duologue.private_files import PrivateFile
from duologue.recording.redaction import redact

__all__ = ["AuditLog"]

_log = logging.getLogger("duologue.client")


class AuditLog:
    """Writes one line of JSON for each decision, to a file or to a function.

    Args:
        target: A path, a function that takes each record, or None for no log.
    """

    def __init__(self, target: str | Path | Callable[[dict[str, Any]], None] | None) -> None:
        self.file = PrivateFile(target) if isinstance(target, str | Path) else None
        self._tell = target if callable(target) else None

    def record(self, *, effects: Sequence[Action] = (), **facts: Any) -> bool:
        """Write it down; False if that failed, and then nothing may be allowed on its account."""
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        record: dict[str, Any] = {"time": now, **facts, "effects": [_written(effect) for effect in effects]}
        try:
            if self._tell is not None:
                self._tell(record)
            if self.file is not None:
                self.file.append(msgspec.json.encode(record).decode("utf-8"))
        except Exception:
            _log.exception("a decision could not be written down, and is a refusal therefore")
            return False
        return True


def _written(effect: Action) -> dict[str, Any]:
    written: dict[str, Any] = {"kind": effect.kind}
    if effect.path is not None:
        written["path"] = effect.path
    if effect.command is not None:
        written["command"] = redact(effect.command.line)
        written["cwd"] = effect.command.place
        if effect.command.env:
            written["env"] = [name for name, _ in effect.command.env]
    return written
