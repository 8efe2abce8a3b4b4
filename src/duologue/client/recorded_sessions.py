"""The sessions of a recording, as they stood for the client that recorded it."""

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

__all__ = ["RecordedSession", "recorded_sessions"]


@dataclass
class RecordedSession:
    """One session of a recording.

    Attributes:
        session_id, cwd: As the agent named it, and where it worked.
        transcript: Everything said and done in it, secrets removed.
    """

    session_id: str
    cwd: str
    transcript: Transcript = field(default_factory=lambda: Transcript(max_bytes=None))


def recorded_sessions(path: str | Path, *, prompts: int | None = None) -> list[RecordedSession]:
    """The sessions of a recording, in the order they were opened; what cannot be read of it is left out.

    Args:
        path: The file.
        prompts: Read no further than to so many prompts.

    Raises:
        ValueError: This is no recording.
        OSError: It cannot be read.
    """
    folder = _Folder()
    for entry in read_recording(path):
        if isinstance(entry.frame, Raw):
            folder.take(entry.dir, entry.frame)
        if folder.prompts == prompts:
            break
    return list(folder.sessions.values())


class _Message(Struct):
    id: int | str | None = None
    method: str | None = None
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET


_Asked: TypeAlias = tuple[str, int | str | None]
"""The direction and the id of a request."""


class _InitializeResult(Struct, rename="camel"):
    protocol_version: int | None = None


class _Where(Struct, rename="camel"):
    """What every request about a session says, and every answer that opens one."""

    session_id: str = ""
    cwd: str = ""


class _Folder:
    """Takes the frames of a recording one after the other."""

    def __init__(self) -> None:
        self.sessions: dict[str, RecordedSession] = {}
        self.prompts = 0
        self._version = 1
        self._opening: dict[_Asked, str] = {}
        self._prompted: dict[_Asked, str] = {}
        self._busy: set[str] = set()

    def take(self, direction: str, frame: Raw) -> None:
        try:
            message = decode(_Message, frame)
            if message.method is None:
                self._answer(("out" if direction == "in" else "in", message.id), message.result)
            elif isinstance(message.params, Raw):
                self._said((direction, message.id), message.method, message.params)
        except InvalidParams:
            return  # recordings hold what was sent, also what should not have been

    def _said(self, asked: _Asked, method: str, params: Raw) -> None:
        if method in ("session/new", "session/fork"):
            self._opening[asked] = decode(_Where, params).cwd
        elif method in ("session/load", "session/resume"):
            where = decode(_Where, params)
            if method == "session/load":
                self.sessions.pop(where.session_id, None)  # all of it will be told again
            self._session(where.session_id, where.cwd)
        elif (said := observe(self._version, method, params)) is not None:
            if said.prompt:
                self._prompted[asked] = said.session_id
                self._prompt(said.session_id, said.prompt)
            for update in said.updates:
                self._update(said.session_id, update)

    def _answer(self, asked: _Asked, result: Raw | UnsetType) -> None:
        cwd, prompted = self._opening.pop(asked, None), self._prompted.pop(asked, None)
        if prompted is not None and ends_turn(self._version, answered="session/prompt"):
            self._busy.discard(prompted)
        if not isinstance(result, Raw):
            return
        if cwd is not None:
            self._session(decode(_Where, result).session_id, cwd)
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
        if not is_echo or session_id not in self._busy:  # what was prompted is there already
            self._session(session_id).transcript.apply(update)

    def _session(self, session_id: str, cwd: str = "") -> RecordedSession:
        session = self.sessions.setdefault(session_id, RecordedSession(session_id, cwd))
        session.cwd = cwd or session.cwd
        return session
