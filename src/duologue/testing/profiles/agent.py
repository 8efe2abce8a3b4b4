"""Agents with the habits of published ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from duologue.conversation.content import JsonObject
from duologue.errors import ConnectionLost, InternalError, InvalidRequest, MethodNotFound
from duologue.runtime.tasks import TaskScope
from duologue.testing.profiles.profile import AgentAct, AgentProfile, read_profile
from duologue.testing.script_variables import Variables
from duologue.trace.replay.script import items, members
from duologue.transports.base import Transport

END_SECONDS = 5.0


class QuirkyAgent:
    """An agent with the habits of a published one, to test a client: `connect(QuirkyAgent("gemini"))`.

    `duologue agent --profile gemini` is the same as a command, for clients in any language. Every prompt gets the same
    turn. It serves any number of clients, each from the beginning.

    Args:
        profile: A name, such as `gemini` or `codex`, the path of a file, or a profile.

    Attributes:
        profile: The habits.

    Raises:
        ValueError: Nothing has that name, or the file is not a profile.
        OSError: The file cannot be read.
    """

    def __init__(self, profile: str | Path | AgentProfile) -> None:
        self.profile = profile if isinstance(profile, AgentProfile) else read_profile(profile, AgentProfile)

    async def serve(self, transport: Transport) -> None:
        """Answer one client until it disconnects."""
        async with transport:
            await _Conversation(self.profile, transport).run()


class _Session:
    """One session: its directory, and the turn that runs."""

    def __init__(self, id_: str, cwd: Any) -> None:
        self.variables = {"session": id_, "cwd": cwd, "prompt": ""}
        self.lock = asyncio.Lock()
        self.cancelled = asyncio.Event()


class _Conversation:
    """The answers to one client."""

    def __init__(self, profile: AgentProfile, transport: Transport) -> None:
        self._profile = profile
        self._transport = transport
        self._tasks = TaskScope()
        self._sessions: dict[str, _Session] = {}
        self._waiting: dict[Any, asyncio.Future[JsonObject]] = {}
        self._numbers = count()

    async def run(self) -> None:
        try:
            await self._play(self._profile.start, _Session("", ""))
            while frames := await self._transport.receive():
                for frame in frames:
                    self._received(frame)
        except ConnectionLost:
            pass
        finally:
            await self._tasks.cancel(END_SECONDS)

    def _received(self, frame: bytes) -> None:
        try:
            message = msgspec.json.decode(frame, type=JsonObject)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        if "method" in message:
            params = members(message.get("params"))
            if message["method"] == "session/cancel" and (session := self._sessions.get(str(params.get("sessionId")))):
                session.cancelled.set()
            elif "id" in message:
                self._tasks.start(self._answer(message["id"], str(message["method"]), params))
        elif isinstance(message.get("id"), str | int):
            waiting = self._waiting.pop(message["id"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)

    async def _answer(self, id_: Any, method: str, params: JsonObject) -> None:
        try:
            await self._handle(id_, method, params)
        except ConnectionLost:
            pass  # the loop that receives ends as well

    async def _handle(self, id_: Any, method: str, params: JsonObject) -> None:
        profile = self._profile
        if method in profile.errors:
            self._send({"id": id_, "error": profile.errors[method]})
        elif method == "initialize":
            self._send({"id": id_, "result": profile.initialize})
        elif method == "session/new":
            session = self._open(f"session-{len(self._sessions) + 1}", params)
            await self._play(profile.before_session, session)
            self._send({"id": id_, "result": {"sessionId": session.variables["session"], **profile.session}})
            await self._play(profile.after_session, session)
        elif method == "session/load":
            await self._load(id_, self._open(str(params.get("sessionId")), params))
        elif method == "session/prompt":
            await self._prompt(id_, params)
        elif method in profile.results:
            self._send({"id": id_, "result": profile.results[method]})
        else:
            self._fail(id_, MethodNotFound.code, f"Method not found: {method}")

    def _open(self, id_: str, params: JsonObject) -> _Session:
        return self._sessions.setdefault(id_, _Session(id_, params.get("cwd", "")))

    async def _load(self, id_: Any, session: _Session) -> None:
        replay = [AgentAct(update=update) for update in self._profile.replay]
        if not self._profile.replays_late:
            await self._play(replay, session)
        self._send({"id": id_, "result": self._profile.session})
        if self._profile.replays_late:
            await self._play(replay, session)

    # --- turns

    async def _prompt(self, id_: Any, params: JsonObject) -> None:
        session = self._sessions.get(str(params.get("sessionId")))
        if session is None:
            self._fail(id_, InternalError.code, "Session not found")
            return
        if session.lock.locked() and self._profile.second_prompt != "queue":
            if self._profile.second_prompt == "error":
                self._fail(id_, InvalidRequest.code, "A prompt is already running")
                return
            session.cancelled.set()
        async with session.lock:
            session.cancelled.clear()
            session.variables["prompt"] = _text_of(params.get("prompt"))
            await self._turn(id_, session)
        await self._play(self._profile.after_turn, session)

    async def _turn(self, id_: Any, session: _Session) -> None:
        turn = self._tasks.start(self._play(self._profile.turn, session, is_turn=True))
        stop = self._tasks.start(session.cancelled.wait())
        watched = [turn] if self._profile.cancel == "ignored" else [turn, stop]
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            if turn.done():
                failure = turn.result()
                if failure:
                    self._fail(id_, InternalError.code, failure)
                else:
                    result = {"stopReason": "end_turn", **self._profile.result}
                    self._send({"id": id_, "result": self._fill(result, session)})
            elif self._profile.cancel == "error":
                self._fail(id_, InternalError.code, "The operation was aborted")
            else:
                self._send({"id": id_, "result": {"stopReason": "cancelled"}})
        finally:
            turn.cancel()
            stop.cancel()

    async def _play(self, acts: Sequence[AgentAct], session: _Session, *, is_turn: bool = False) -> str:
        """Play acts; return why they failed, if they did."""
        for act in acts:
            if act.delay:
                await asyncio.sleep(act.delay)
            if act.update is not None:
                params = {"sessionId": "$session", "update": act.update}
                self._send(self._fill({"method": "session/update", "params": params}, session))
            elif act.notify is not None:
                self._send(self._fill(act.notify, session))
            elif act.raw is not None:
                self._transport.send(act.raw.encode("utf-8", "surrogatepass"))
            elif act.request is not None:
                response = await self._request(self._fill(act.request, session))
                if is_turn and self._profile.fails_on_error and "error" in response:
                    return f"{act.request.get('method')} failed"
            if self._transport.is_congested:
                await self._transport.drain()
        return ""

    async def _request(self, message: JsonObject) -> JsonObject:
        number = next(self._numbers)
        id_: int | str = number if self._profile.ids == "number" else str(UUID(int=number))
        future: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._waiting[id_] = future
        self._send({"id": id_, **message})
        try:
            return await future
        finally:
            self._waiting.pop(id_, None)

    # --- messages

    def _fill(self, value: JsonObject, session: _Session) -> JsonObject:
        filled: JsonObject = Variables(session.variables, is_strict=True).fill(value)
        return filled

    def _send(self, message: JsonObject) -> None:
        self._transport.send(msgspec.json.encode({"jsonrpc": "2.0", **message}))

    def _fail(self, id_: Any, code: int, text: str) -> None:
        self._send({"id": id_, "error": {"code": code, "message": text}})


def _text_of(blocks: Any) -> str:
    """Return the text of a prompt."""
    texts = (members(part).get("text") for part in items(blocks))
    return "\n".join(text for text in texts if isinstance(text, str))
