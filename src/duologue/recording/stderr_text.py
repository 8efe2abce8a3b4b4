"""Join what an agent writes to stderr into whole lines, so that no secret is cut where it could not be recognized."""

from __future__ import annotations

MAX_WAITING_BYTES = 64 * 1024
"""Bytes that wait for the end of their line, or of a private key; more are recorded as they are."""


class StderrText:
    """Collects the lines of one stream."""

    def __init__(self) -> None:
        self._waiting = b""

    def add(self, data: bytes) -> bytes:
        """Add the next bytes; return the lines that are complete. A private key is complete with its last line."""
        data = self._waiting + data
        end = data.rfind(b"\n") + 1
        key = data.rfind(b"-----BEGIN ", 0, end)
        if key >= 0 and data.find(b"-----END", key, end) < 0:
            end = data.rfind(b"\n", 0, key) + 1
        if len(data) - end > MAX_WAITING_BYTES:
            end = len(data)
        self._waiting = data[end:]
        return data[:end]

    def rest(self) -> bytes:
        """Return what is left at the end of the stream."""
        rest, self._waiting = self._waiting, b""
        return rest
