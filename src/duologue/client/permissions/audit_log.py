"""The audit log: a record of every decision with its action and rule, without contents, titles or secrets."""

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

TYPE = "audit_record"
VERSION = 2
"""Type and version that each record names; records of version 1 name neither."""

_log = logging.getLogger("duologue.client")


class AuditLog:
    """Writes one line of JSON for each decision, to a file or to a function.

    Args:
        target: A path, a function that is called with each record, or `None` for no log.
    """

    def __init__(self, target: str | Path | Callable[[dict[str, Any]], None] | None) -> None:
        self.file = PrivateFile(target) if isinstance(target, str | Path) else None
        self._write = target if callable(target) else None

    def record(self, *, actions: Sequence[Action] = (), **facts: Any) -> bool:
        """Write a record; return False if that failed, so that the decision must not allow anything."""
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        record: dict[str, Any] = {"type": TYPE, "version": VERSION, "time": now, **facts}
        record["actions"] = [_to_json(action) for action in actions]
        try:
            if self._write is not None:
                self._write(record)
            if self.file is not None:
                self.file.append(msgspec.json.encode(record).decode("utf-8"))
        except Exception:
            _log.exception("a decision could not be written to the audit log, so the request is rejected")
            return False
        return True


def _to_json(action: Action) -> dict[str, Any]:
    fields: dict[str, Any] = {"kind": action.kind}
    if action.path is not None:
        fields["path"] = action.path
    if action.command is not None:
        fields["command"] = redact(action.command.line)
        fields["cwd"] = action.command.cwd
        if action.command.env:
            fields["env"] = [name for name, _ in action.command.env]
    return fields
