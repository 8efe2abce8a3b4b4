"""A recording as a script: each message of the client, with all that followed from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from duologue.recording.format import Entry
from duologue.recording.reader import RecordingReader
from duologue.recording.redaction import MASK
from duologue.trace.frames import TracedFrame, Tracer

MAX_BYTES = 1 << 29
"""Size of all frames of a recording that can be replayed: they are held in memory."""

PROMPT = "session/prompt"
SESSION_UPDATES = ("available_commands_update", "session_info_update", "config_option_update", "usage_update")
"""Updates that are about a session, and come before or after the next request of the client by chance."""


class Exchange:
    """A message of the client, and what followed from it in the recording.

    Attributes:
        request: The client's request or notification; None for what the agent sent before any.
        steps: What followed, in order: messages of the agent, the client's responses to its requests, and
            notifications of the client that belong to a running prompt.
        response: The agent's response, if it was recorded.
    """

    def __init__(self, request: TracedFrame | None) -> None:
        self.request = request
        self.steps: list[TracedFrame] = []
        self.response: TracedFrame | None = None

    @property
    def is_prompt(self) -> bool:
        """True if it is a prompt and its turn."""
        return self.request is not None and self.request.method == PROMPT

    @property
    def is_unanswered(self) -> bool:
        """True if a request has no recorded response."""
        return self.request is not None and self.request.kind == "request" and self.response is None

    @property
    def from_agent(self) -> list[TracedFrame]:
        """Requests and notifications of the agent."""
        return [step for step in self.steps if step.dir == "to_client" and step is not self.response]


class ReplayScript:
    """The exchanges of a recording.

    Args:
        entries: The entries of the recording.
        is_first_only: Leave out all but the first connection, if several were recorded in one file.

    Attributes:
        frames: All messages, in order.
        exchanges: The exchanges, in the order of their requests.
        calls: Requests and notifications of the client, in order.
        answers: The client's response to each request of the agent, by the number of the request's frame.
        version: Version of the protocol.
        notes: Sentences about what cannot be replayed.

    Raises:
        ValueError: The recording is too large.
    """

    def __init__(self, entries: Iterable[Entry], *, is_first_only: bool = False) -> None:
        self.frames: list[TracedFrame] = []
        self.exchanges: list[Exchange] = []
        self.calls: list[TracedFrame] = []
        self.answers: dict[int, TracedFrame] = {}
        self.version = 1
        self.notes: list[str] = []
        self._of_request: dict[int, Exchange] = {}
        """Exchange of each request, by the number of its frame."""
        self._running: dict[str, Exchange] = {}
        """The prompt that runs in each session."""
        self._latest: dict[str, Exchange] = {}
        self._last: Exchange | None = None
        self._counts: Counter[str] = Counter()
        size = 0
        for frame in Tracer().trace(entries):
            size += frame.size
            if size > MAX_BYTES:
                raise ValueError(f"the recording is too large: at most {MAX_BYTES >> 20} MiB of messages are replayed")
            if is_first_only and self.calls and (frame.method, frame.kind) == ("initialize", "request"):
                self.notes.append(f"only the first connection is replayed; another one begins at frame {frame.number}")
                break
            self._add(frame)
        self._describe()

    @property
    def broken(self) -> int:
        """Number of frames that are not messages."""
        return self._counts["broken"]

    def _add(self, frame: TracedFrame) -> None:
        if frame.kind == "gap":
            self._counts["missing"] += frame.entry.gap
        elif frame.kind in ("stderr", "exit"):
            return
        elif frame.kind == "invalid" or not frame.dir or not message_of(frame):
            self._counts["broken"] += 1
        elif frame.kind in ("response", "error") and frame.answers not in self._of_request:
            self._counts["stray"] += 1
        else:
            self._counts["redacted"] += frame.entry.redacted
            self.frames.append(frame)
            (self._add_from_client if frame.dir == "to_agent" else self._add_from_agent)(frame)

    def _add_from_client(self, frame: TracedFrame) -> None:
        if frame.answers is not None:
            self.answers[frame.answers] = frame
            self._of_request[frame.answers].steps.append(frame)
            return
        self.calls.append(frame)
        running = self._running.get(frame.session)
        if frame.kind == "notification" and running is not None:
            running.steps.append(frame)
            return
        exchange = self._open(frame)
        self._latest[frame.session] = exchange
        if frame.kind == "request":
            self._of_request[frame.number] = exchange
            if exchange.is_prompt:
                self._running[frame.session] = exchange

    def _open(self, frame: TracedFrame | None) -> Exchange:
        exchange = self._last = Exchange(frame)
        self.exchanges.append(exchange)
        return exchange

    def _add_from_agent(self, frame: TracedFrame) -> None:
        if frame.answers is not None:
            self._add_response(frame, self._of_request[frame.answers])
            return
        running, latest = self._running.get(frame.session), self._latest.get(frame.session)
        exchange = running or latest or self._last or self._open(None)
        exchange.steps.append(frame)
        if frame.kind == "request":
            self._of_request[frame.number] = exchange
        elif is_idle(frame):
            self._running.pop(frame.session, None)

    def _add_response(self, frame: TracedFrame, exchange: Exchange) -> None:
        exchange.steps.append(frame)
        exchange.response = frame
        if frame.session:
            self._latest[frame.session] = exchange
        if frame.method == "initialize" and frame.kind == "response":
            self.version = 2 if members(message_of(frame)["result"]).get("protocolVersion") == 2 else 1
        is_over = self.version == 1 or frame.kind == "error"
        if is_over and self._running.get(frame.session) is exchange:
            del self._running[frame.session]

    def _describe(self) -> None:
        self._counts["unanswered"] = sum(each.is_unanswered for each in self.exchanges)
        sentences = {
            "missing": "frames that are missing from the recording",
            "broken": "frames left out because they are not messages",
            "stray": "frames left out because they answer no recorded request",
            "redacted": f"frames whose secrets were removed; {MASK} is sent in their place",
            "unanswered": "requests of the client without a recorded response",
        }
        for name, sentence in sentences.items():
            if self._counts[name]:
                self.notes.append(f"{sentence}: {self._counts[name]:,}")
        if not self.calls:
            self.notes.append("the recording has no message of a client")


def read_script(path: str | Path, *, is_first_only: bool = False) -> ReplayScript:
    """Read a recording.

    Args:
        path: The file.
        is_first_only: Leave out all but the first connection, if several were recorded in one file.

    Raises:
        ValueError: The file is not a recording, is too large, or was written by a newer duologue.
        OSError: The file cannot be read.
    """
    with RecordingReader(path) as reader:
        script = ReplayScript(reader, is_first_only=is_first_only)
        if reader.damaged:
            script.notes.insert(0, f"lines left out because they are damaged: {reader.damaged:,}")
    return script


def message_of(frame: TracedFrame) -> dict[str, Any]:
    """Return a message as a dictionary; an empty one if it cannot be read."""
    try:
        return msgspec.json.decode(frame.entry.frame, type=dict[str, Any]) if isinstance(frame.entry.frame, Raw) else {}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


def members(value: object) -> dict[str, Any]:
    """Return the members of a JSON object; none for any other value."""
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def items(value: object) -> list[Any]:
    """Return the items of a JSON array; none for any other value."""
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def update_of(frame: TracedFrame) -> dict[str, Any]:
    """Return the update of a session; an empty dictionary if the frame is none."""
    return members(members(message_of(frame).get("params")).get("update"))


def is_idle(frame: TracedFrame) -> bool:
    """Return True if a frame says that a session is idle: the end of a turn in version 2."""
    return frame.update == "state_update" and update_of(frame).get("state") == "idle"
