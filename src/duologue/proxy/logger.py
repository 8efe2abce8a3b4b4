"""A proxy that logs each message in one line: time, direction, kind, method, session and size, but no content."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path

import msgspec

from duologue.private_files import PrivateFile
from duologue.proxy.proxy import Proxy
from duologue.proxy.values import WireMessage
from duologue.sanitize import escape_line


class LoggerProxy(Proxy):
    """Logs messages and passes them on unchanged.

    Args:
        file: File for one JSON object per line, readable by its owner only; without one, lines of text on stderr.

    Raises:
        ValueError: Other users can read or write the file.
    """

    def __init__(self, file: str | Path | None = None) -> None:
        super().__init__("logger")
        self._file = None if file is None else PrivateFile(file)
        self.observe(self.log)

    async def log(self, message: WireMessage) -> None:
        """Log one message."""
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        kind = "error" if message.is_error else message.kind
        facts = {"direction": message.direction, "kind": kind, "method": message.method}
        if self._file is not None:
            about = {"id": message.id, "session": message.session_id, "bytes": len(message.frame)}
            known = {name: value for name, value in {**facts, **about}.items() if value not in (None, "")}
            self._file.append(msgspec.json.encode({"time": now, **known}).decode())
            return
        arrow = "→" if message.direction == "to_agent" else "←"
        parts = [f"{kind:12}", message.method, "" if message.id is None else f"id {message.id}"]
        parts += [message.session_id or "", f"{len(message.frame):,} B"]
        line = escape_line("  ".join(each for each in parts if each))
        sys.stderr.write(f"{now[11:23]} {arrow} {line}\n")
