"""The sessions of a recording, as they stood for the client that recorded it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from msgspec import UNSET, Raw, Struct, UnsetType

from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import MessageChunk, Update
from duologue.dialects.v1.content import blocks_from_wire
from duologue.dialects.v1.updates import permission_tool_from_wire, update_from_wire
from duologue.errors import InvalidParams
from duologue.schema import v1
from duologue.schema.codec import decode
from duologue.trace.reader import read_recording

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
    transcript: Transcript = field(default_factory=Transcript)


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


class _Where(Struct, rename="camel"):
    """What every request about a session says, and every answer that opens one."""

    session_id: str = ""
    cwd: str = ""


class _Folder:
    """Takes the frames of a recording one after the other."""

    def __init__(self) -> None:
        self.sessions: dict[str, RecordedSession] = {}
        self._opening: dict[tuple[str, int | str | None], str] = {}
        self._turns: dict[tuple[str, int | str | None], str] = {}
        self.prompts = 0

    def take(self, direction: str, frame: Raw) -> None:
        try:
            message = decode(_Message, frame)
            if message.method is None:
                self._answer("out" if direction == "in" else "in", message)
            elif isinstance(message.params, Raw):
                self._said(direction, message.method, message.id, message.params)
        except InvalidParams:
            return  # recordings hold what was sent, also what should not have been

    def _said(self, direction: str, method: str, request_id: int | str | None, params: Raw) -> None:
        match method:
            case "session/new" | "session/fork":
                self._opening[direction, request_id] = decode(_Where, params).cwd
            case "session/load" | "session/resume":
                where = decode(_Where, params)
                if method == "session/load":
                    self.sessions.pop(where.session_id, None)  # all of it will be told again
                self._session(where.session_id, where.cwd)
            case "session/prompt":
                request = decode(v1.PromptRequest, params)
                self._turns[direction, request_id] = request.session_id
                self.prompts += 1
                for block in blocks_from_wire(request.prompt):
                    chunk = MessageChunk(role="user", content=block, message_id=f"prompt-{self.prompts}")
                    self._session(request.session_id).transcript.apply(chunk)
            case "session/update":
                notification = decode(v1.SessionNotification, params)
                self._update(notification.session_id, update_from_wire(notification.update))
            case "session/request_permission":
                question = decode(v1.RequestPermissionRequest, params)
                self._update(question.session_id, permission_tool_from_wire(question.tool_call))
            case _:
                pass

    def _answer(self, asked: str, message: _Message) -> None:
        self._turns.pop((asked, message.id), None)
        cwd = self._opening.pop((asked, message.id), None)
        if cwd is not None and isinstance(message.result, Raw):
            self._session(decode(_Where, message.result).session_id, cwd)

    def _update(self, session_id: str, update: Update) -> None:
        is_echo = isinstance(update, MessageChunk) and update.role == "user" and session_id in self._turns.values()
        if not is_echo:  # what was prompted is there already
            self._session(session_id).transcript.apply(update)

    def _session(self, session_id: str, cwd: str = "") -> RecordedSession:
        session = self.sessions.setdefault(session_id, RecordedSession(session_id, cwd))
        session.cwd = cwd or session.cwd
        return session
