"""Write frames as lines of a recording: a frame without a sign of a secret as it is, others without their secrets."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from io import BytesIO
from itertools import repeat
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from duologue.jsonrpc.envelope import read_envelope
from duologue.recording.format import FrameDirection, encode_line
from duologue.recording.line_splitter import split_lines
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

    def block(self, at: float, data: bytes) -> bytes:
        """Return the lines of frames that arrived together: those of `line`, for much less work.

        Args:
            at: Seconds since the start of the recording.
            data: The frames, each ended by a newline.
        """
        ended = BytesIO(data).readlines()
        before = _before_text(ended[0])
        after = self._surroundings.get(before)
        if after is not None:
            first, last = len(before), -len(after) - 1
            texts = list(map(itemgetter(slice(first, last)), ended))
            if _surrounded(before, texts, after + b"\n") == data:
                return self._lines_between(at, before, texts, after)
        frames = split_lines(data)
        return self.lines([at] * len(frames), frames) if frames else b""

    def _lines_between(self, at: float, before: bytes, texts: Sequence[bytes], after: bytes) -> bytes:
        """Return the lines of frames that differ in their texts only."""
        start, end = self._start % at + before, after + b"}\n"
        signs = self._signs(texts)
        if not signs:
            return _surrounded(start, texts, end)
        return b"".join(
            [
                self.line(at, before + text + after) if number in signs else b"%b%b%b" % (start, text, end)
                for number, text in enumerate(texts)
            ]
        )

    def lines(self, times: Sequence[float], frames: Sequence[bytes]) -> bytes:
        """Return the lines of frames: those of `line`, for less work, because all texts are searched at once.

        Args:
            times: Seconds since the start of the recording, for each frame; none is before the one it follows.
            frames: The frames, without their line ends.
        """
        if len(frames) == 1:
            return self.line(times[0], frames[0])
        lines: dict[int, bytes] = {}
        """Lines of frames that are not written as they are, or were never checked as a whole, by their numbers."""
        texts: list[bytes] = []
        for number, frame in enumerate(frames):
            text = self._known_text(frame)
            if text is None:
                lines[number] = self.line(times[number], frame)
            texts.append(text or b"")
        for number in self._signs(texts):
            lines[number] = lines.get(number) or self.line(times[number], frames[number])
        return self._joined(times, frames, lines)

    def line(self, at: float, frame: bytes) -> bytes:
        """Return the line of a frame.

        Args:
            at: Seconds since the start of the recording.
            frame: The frame, without its line end.
        """
        text = self._known_text(frame)
        if self._is_plain_message(frame) if text is None else not self._signs([text]):
            return self._start % at + frame + b"}\n"
        return encode_line({"t": round(at, 6), "dir": self._direction, **self._content(frame)}) + b"\n"

    def _signs(self, texts: Sequence[bytes]) -> Collection[int]:
        """Return the numbers of the texts that may have a secret; all, if one is not a string of JSON in UTF-8."""
        # A backslash at the end of a text would make an invalid escape of the space that follows.
        if not _is_plain(b"".join((b'"', b" ".join(texts), b'"'))):
            return range(len(texts))
        return self._redactor.lines_with_signs(b"\n".join(texts))

    def _joined(self, times: Sequence[float], frames: Sequence[bytes], lines: Mapping[int, bytes]) -> bytes:
        """Return the lines of all frames; those that are not given are the frames as they are."""
        is_one_time = times[0] == times[-1]
        start = self._start % times[0]
        if is_one_time and not lines:
            return b"".join((start, (b"}\n" + start).join(frames), b"}\n"))
        starts = repeat(start) if is_one_time else map(self._start.__mod__, times)
        plain = enumerate(zip(starts, frames, strict=False))
        return b"".join([lines.get(number) or b"%b%b}\n" % both for number, both in plain])

    def _known_text(self, frame: bytes) -> bytes | None:
        """Return the text of a frame if what surrounds it was checked before."""
        before = _before_text(frame)
        after = self._surroundings.get(before)
        if after is None or not frame.endswith(after) or len(frame) < len(before) + len(after):
            return None
        return frame[len(before) : -len(after)]

    def _is_plain_message(self, frame: bytes) -> bool:
        """Return True if the frame can be written as it is; remember what surrounds its text."""
        if not _is_plain(frame) or self._redactor.may_have_secret(frame) or not _is_message(frame):
            return False
        before = _before_text(frame)
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


def _surrounded(before: bytes, texts: Sequence[bytes], after: bytes) -> bytes:
    """Return the texts, each with what is before and after it; large ones are copied once only."""
    parts = [*texts]
    parts[0] = before + parts[0]
    parts[-1] += after
    return (after + before).join(parts)


def _before_text(frame: bytes) -> bytes:
    return frame[: frame.find(_TEXT_START) + len(_TEXT_START)]


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
