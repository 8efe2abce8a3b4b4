"""Reading the sessions and transcripts of a recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType

from duologue.conversation.content import Content
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import MessageChunk, MessageUpdate, Update
from duologue.errors import InvalidParams
from duologue.protocol.observation import ends_turn, observe
from duologue.recording.reader import read_recording
from duologue.schema.codec import decode


@dataclass
class RecordedSession:
    """One session of a recording.

    Attributes:
        session_id: Id of the session.
        cwd: Working directory of the session.
        transcript: Messages, tool calls and plans, secrets removed.
    """

    session_id: str
    cwd: str
    transcript: Transcript = field(default_factory=lambda: Transcript(max_bytes=None))


def recorded_sessions(path: str | Path, *, prompts: int | None = None) -> list[RecordedSession]:
    """Return the sessions of a recording in the order they were opened; skip frames that are not valid.

    Args:
        path: File of the recording.
        prompts: Stop reading after this number of prompts.

    Raises:
        ValueError: The file is not a recording.
        OSError: The file cannot be read.
    """
    replayer = _Replayer()
    for entry in read_recording(path):
        if isinstance(entry.frame, Raw):
            replayer.add_frame(entry.dir, entry.frame)
        if replayer.prompts == prompts:
            break
    return list(replayer.sessions.values())


class _Message(Struct):
    id: int | str | None = None
    method: str | None = None
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET


_RequestKey: TypeAlias = tuple[str, int | str | None]
"""The direction and the id of a request."""


class _InitializeResult(Struct, rename="camel"):
    protocol_version: int | None = None


class _SessionFields(Struct, rename="camel"):
    """Fields of requests for a session, and of responses that open one."""

    session_id: str = ""
    cwd: str = ""


class _Replayer:
    """Applies the frames of a recording in order."""

    def __init__(self) -> None:
        self.sessions: dict[str, RecordedSession] = {}
        self.prompts = 0
        self._version = 1
        self._opening: dict[_RequestKey, str] = {}
        self._prompted: dict[_RequestKey, str] = {}
        self._busy: set[str] = set()

    def add_frame(self, direction: str, frame: Raw) -> None:
        try:
            message = decode(_Message, frame)
            if message.method is None:
                self._on_response(("out" if direction == "in" else "in", message.id), message.result)
            elif isinstance(message.params, Raw):
                self._on_message((direction, message.id), message.method, message.params)
        except InvalidParams:
            return  # recordings have every frame, valid or not

    def _on_message(self, key: _RequestKey, method: str, params: Raw) -> None:
        if method in ("session/new", "session/fork"):
            self._opening[key] = decode(_SessionFields, params).cwd
        elif method in ("session/load", "session/resume"):
            fields = decode(_SessionFields, params)
            if method == "session/load":
                self.sessions.pop(fields.session_id, None)  # its replay follows
            self._session(fields.session_id, fields.cwd)
        elif (observed := observe(self._version, method, params)) is not None:
            if observed.prompt:
                self._prompted[key] = observed.session_id
                self._prompt(observed.session_id, observed.prompt)
            for update in observed.updates:
                self._update(observed.session_id, update)

    def _on_response(self, key: _RequestKey, result: Raw | UnsetType) -> None:
        cwd, prompted = self._opening.pop(key, None), self._prompted.pop(key, None)
        if prompted is not None and ends_turn(self._version, answered="session/prompt"):
            self._busy.discard(prompted)
        if not isinstance(result, Raw):
            return
        if cwd is not None:
            self._session(decode(_SessionFields, result).session_id, cwd)
        elif (version := decode(_InitializeResult, result).protocol_version) is not None:
            self._version = version

    def _prompt(self, session_id: str, prompt: Sequence[Content]) -> None:
        self.prompts += 1
        self._busy.add(session_id)
        for block in prompt:
            chunk = MessageChunk(role="user", content=block, message_id=f"prompt-{self.prompts}")
            self._session(session_id).transcript.apply(chunk)

    def _update(self, session_id: str, update: Update) -> None:
        if ends_turn(self._version, update=update):
            self._busy.discard(session_id)
        is_echo = isinstance(update, MessageChunk | MessageUpdate) and update.role == "user"
        if not is_echo or session_id not in self._busy:  # the prompt is in the transcript already
            self._session(session_id).transcript.apply(update)

    def _session(self, session_id: str, cwd: str = "") -> RecordedSession:
        session = self.sessions.setdefault(session_id, RecordedSession(session_id, cwd))
        session.cwd = cwd or session.cwd
        return session
