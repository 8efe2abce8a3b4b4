"""Reading the sessions and transcripts of a recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from duologue.client.steering import add_to_transcript
from duologue.conversation.content import Content, JsonObject
from duologue.conversation.session_setup import Implementation
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import MessageChunk, MessageUpdate, StateUpdate, Update
from duologue.errors import InvalidParams
from duologue.protocol.observation import ObservedMessage, ends_turn, observe
from duologue.protocol.steering import answer_from_wire
from duologue.recording.reader import read_recording
from duologue.schema.codec import decode
from duologue.usage.amounts import SessionUsage
from duologue.usage.counter import UsageCounter
from duologue.usage.habits import UsageHabit, habit_of
from duologue.usage.spellings import counts_in, counts_of, counts_reported, meaning_in


@dataclass
class RecordedSession:
    """One session of a recording.

    Attributes:
        session_id: Id of the session.
        cwd: Working directory of the session.
        transcript: Messages, tool calls and plans, secrets removed.
        usage_counter: Counts the tokens and the cost.
    """

    session_id: str
    cwd: str
    transcript: Transcript = field(default_factory=lambda: Transcript(max_bytes=None))
    usage_counter: UsageCounter = field(default_factory=UsageCounter)

    @property
    def usage(self) -> SessionUsage:
        """Tokens and cost of the recorded turns, and the size of the context."""
        return self.usage_counter.usage


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
    agent_info: Implementation | None = None
    info: Implementation | None = None
    """Name of `agent_info` in version 2."""


class _PromptResult(Struct):
    usage: JsonObject | None = None
    meta: JsonObject | None = msgspec.field(name="_meta", default=None)


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
        self._habit: UsageHabit | None = None
        self._opening: dict[_RequestKey, str] = {}
        self._prompted: dict[_RequestKey, str] = {}
        self._steered: dict[_RequestKey, ObservedMessage] = {}
        self._busy: set[str] = set()

    def add_frame(self, direction: str, frame: Raw) -> None:
        try:
            message = decode(_Message, frame)
            if message.method is None:
                requested = "to_agent" if direction == "to_client" else "to_client"
                self._on_response((requested, message.id), message.result)
            elif isinstance(message.params, Raw):
                self._on_message((direction, message.id), message.method, message.params)
        except InvalidParams:
            return  # recordings have every frame, valid or not

    def _on_message(self, key: _RequestKey, method: str, params: Raw) -> None:
        if method in ("session/new", "session/fork"):
            self._opening[key] = decode(_SessionFields, params).cwd
        elif method in ("session/load", "session/resume"):
            fields = decode(_SessionFields, params)
            before = self.sessions.get(fields.session_id)
            if method == "session/load":
                self.sessions.pop(fields.session_id, None)  # its replay follows
            session = self._session(fields.session_id, fields.cwd)
            if before is None:
                session.usage_counter.add_history()
            else:
                session.usage_counter = UsageCounter(self._habit, before.usage_counter.state)
        elif (observed := observe(self._version, method, params)) is not None:
            if observed.prompt:
                self._prompted[key] = observed.session_id
                self._prompt(observed.session_id, observed.prompt)
            if observed.spelling is not None:
                self._steered[key] = observed
            for update in observed.updates:
                self._update(observed.session_id, update)

    def _on_response(self, key: _RequestKey, result: Raw | UnsetType) -> None:
        cwd, prompted = self._opening.pop(key, None), self._prompted.pop(key, None)
        if prompted is not None and ends_turn(self._version, answered="session/prompt"):
            self._busy.discard(prompted)
            reply = decode(_PromptResult, result) if isinstance(result, Raw) else _PromptResult()
            counts = counts_in(reply.meta) if reply.usage is None else counts_of(reply.usage)
            meaning = None if reply.usage is None else meaning_in(reply.usage.get("_meta"))
            self._session(prompted).usage_counter.end_turn(counts, meaning)
        steered = self._steered.pop(key, None)
        if not isinstance(result, Raw):
            return
        if steered is not None and steered.spelling is not None:
            outcome = answer_from_wire(steered.spelling, decode(dict[str, Any], result)).outcome
            if outcome in ("injected", "started_new_turn"):
                add_to_transcript(self._session(steered.session_id).transcript, steered.steering)
            return
        if cwd is not None:
            self._session(decode(_SessionFields, result).session_id, cwd)
        elif (opened := decode(_InitializeResult, result)).protocol_version is not None:
            self._version = opened.protocol_version
            self._habit = habit_of(opened.agent_info or opened.info)

    def _prompt(self, session_id: str, prompt: Sequence[Content]) -> None:
        self.prompts += 1
        self._busy.add(session_id)
        for block in prompt:
            chunk = MessageChunk(role="user", content=block, message_id=f"prompt-{self.prompts}")
            self._session(session_id).transcript.apply(chunk)

    def _update(self, session_id: str, update: Update) -> None:
        counter = self._session(session_id).usage_counter
        counter.add_update(update, is_in_turn=session_id in self._busy)
        if ends_turn(self._version, update=update) and session_id in self._busy:
            self._busy.discard(session_id)
            assert isinstance(update, StateUpdate), "nothing else ends a turn"
            meaning = None if update.usage is None else meaning_in(update.usage.meta)
            counter.end_turn(counts_reported(update.usage, update.meta or None), meaning)
        is_echo = isinstance(update, MessageChunk | MessageUpdate) and update.role == "user"
        if not is_echo or session_id not in self._busy:  # the prompt is in the transcript already
            self._session(session_id).transcript.apply(update)

    def _session(self, session_id: str, cwd: str = "") -> RecordedSession:
        if session_id not in self.sessions:
            self.sessions[session_id] = RecordedSession(session_id, cwd, usage_counter=UsageCounter(self._habit))
        session = self.sessions[session_id]
        session.cwd = cwd or session.cwd
        return session
