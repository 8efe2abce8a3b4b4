"""Write frames as lines of a recording: a frame without a sign of a secret as it is, others without their secrets."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from duologue.jsonrpc.envelope import read_envelope
from duologue.recording.format import FrameDirection, encode_line
from duologue.recording.redaction import Redactor

MAX_SURROUNDINGS = 256
"""How many surroundings of a text are remembered: one for each session and kind of update."""

_TEXT_START = b'"text":"'
_TEXT = re.compile(rb'(?:[^"\\]|\\.)*+')
_NOT_JSON_RPC = "not a JSON-RPC message"
_is_json = msgspec.json.Decoder(Raw).decode
_decode = msgspec.json.Decoder().decode


class FrameLines:
    """Turns the frames of one direction into lines.

    Most frames of a turn differ in one text only. What surrounds the text is checked once, then only the text.

    Args:
        direction: Who receives the frames.
        redactor: Removes secrets.
    """

    def __init__(self, direction: FrameDirection, redactor: Redactor) -> None:
        self._direction = direction
        self._redactor = redactor
        self._start = b'{"t":%.6f,"dir":"' + direction.encode() + b'","frame":'
        self._surroundings: dict[bytes, bytes] = {}
        """End of each frame after its text, by the start of the frame; only of frames without a sign of a secret."""

    def line(self, at: float, frame: bytes) -> bytes:
        """Return the line of a frame.

        Args:
            at: Seconds since the start of the recording.
            frame: The frame, without its line end.
        """
        before = frame[: frame.find(_TEXT_START) + len(_TEXT_START)]
        after = self._surroundings.get(before)
        if after is not None and frame.endswith(after) and len(frame) >= len(before) + len(after):
            is_plain = _is_plain(frame) and not self._redactor.may_have_secret(frame[len(before) : -len(after)])
        else:
            is_plain = self._is_plain_message(frame, before)
        if is_plain:
            return self._start % at + frame + b"}\n"
        return encode_line({"t": round(at, 6), "dir": self._direction, **self._content(frame)}) + b"\n"

    def _is_plain_message(self, frame: bytes, before: bytes) -> bool:
        """Return True if the frame can be written as it is; remember what surrounds its text."""
        if not _is_plain(frame) or self._redactor.may_have_secret(frame) or not _is_message(frame):
            return False
        if before.endswith(_TEXT_START) and (text := _TEXT.match(frame, len(before))) is not None:
            if len(self._surroundings) == MAX_SURROUNDINGS:
                self._surroundings.clear()
            self._surroundings[before] = frame[text.end() :]
        return True

    def _content(self, frame: bytes) -> dict[str, Any]:
        try:
            message = _decode(frame)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return {"text": self._redactor.redact_broken(frame.decode("utf-8", "replace")), "invalid": "not JSON"}
        redacted = self._redactor.redact(message)
        invalid = {} if _is_message(frame) else {"invalid": _NOT_JSON_RPC}
        return {"frame": redacted, **invalid, **({"redacted": True} if redacted != message else {})}


def _is_message(frame: bytes) -> bool:
    envelope = read_envelope(frame)
    return envelope is not None and (envelope.method is not UNSET or envelope.id is not UNSET)


def _is_plain(frame: bytes) -> bool:
    """Return True if the frame is JSON in UTF-8 on one line."""
    if b"\n" in frame or b"\r" in frame:
        return False
    try:
        _is_json(frame)
        if not frame.isascii():
            frame.decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True
