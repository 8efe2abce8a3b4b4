"""An agent that sends exactly what a test scripts, in raw messages, and records everything it receives."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

from duologue.errors import ConnectionLost
from duologue.transports.base import Transport

__all__ = ["ALL_OPTIONS", "Answer", "Json", "ScriptedAgent", "error", "result", "text_chunk"]

Json: TypeAlias = dict[str, Any]
Answer: TypeAlias = Callable[[Json], Awaitable[Json]]

ALL_OPTIONS = [
    {"optionId": f"o{number}", "name": kind, "kind": kind}
    for number, kind in enumerate(("reject_once", "allow_always", "reject_always", "allow_once"))
]


def result(**fields: Any) -> Json:
    """Make a successful response."""
    return {"result": fields}


def error(code: int, message: str = "no", **rest: Any) -> Json:
    """Make an error response."""
    return {"error": {"code": code, "message": message, **rest}}


def text_chunk(text: str, **rest: Any) -> Json:
    """Make an update with a chunk of an agent message."""
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, **rest}


class ScriptedAgent:
    """Answers each method by a script; the answer to a prompt may first send updates and requests.

    Attributes:
        answers: Function for each request method; the usual ones are set already.
        received: Every message of the client, in order.
    """

    def __init__(self, capabilities: Json | None = None, *, prompt: Answer | None = None, **welcome: Any) -> None:
        self.received: list[Json] = []
        self.sessions = itertools.count(1)
        self.welcome: Json = {"protocolVersion": 1, "agentCapabilities": capabilities or {}, **welcome}
        self.answers: dict[str, Answer] = {"initialize": self._initialize, "session/new": self._new}
        self.answers["session/prompt"] = prompt or self._end_turn
        self._ids = itertools.count(1)
        self._waiting: dict[int | str, asyncio.Future[Json]] = {}
        self._arrived = asyncio.Condition()

    async def serve(self, transport: Transport) -> None:
        self.transport = transport
        async with transport, asyncio.TaskGroup() as group:
            while frames := await transport.receive():
                for frame in frames:
                    message: Json = json.loads(frame)
                    self.received.append(message)
                    if "method" not in message:
                        self._waiting.pop(message["id"]).set_result(message)
                    elif "id" in message:
                        group.create_task(self._answer(message))
                async with self._arrived:
                    self._arrived.notify_all()

    async def _answer(self, message: Json) -> None:
        answer = self.answers.get(message["method"])
        reply = await answer(message["params"]) if answer is not None else result()
        with suppress(ConnectionLost):  # the client may have left, or the script has
            self.send({"id": message["id"], **reply})

    async def _initialize(self, params: Json) -> Json:
        return {"result": self.welcome}

    async def _new(self, params: Json) -> Json:
        return result(sessionId=f"s{next(self.sessions)}")

    async def _end_turn(self, params: Json) -> Json:
        return result(stopReason="end_turn")

    # --- speaking

    def send(self, message: Json) -> None:
        self.transport.send(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode())

    def update(self, *updates: Json, session_id: str = "s1", **rest: Any) -> None:
        for update in updates:
            params = {"sessionId": session_id, "update": update, **rest}
            self.send({"method": "session/update", "params": params})

    def ask(self, method: str, params: Json, request_id: int | str | None = None) -> asyncio.Future[Json]:
        """Ask the client; its answer comes later."""
        request_id = f"a{next(self._ids)}" if request_id is None else request_id
        self._waiting[request_id] = answer = asyncio.get_running_loop().create_future()
        self.send({"id": request_id, "method": method, "params": params})
        return answer

    def ask_permission(self, tool: Json, options: list[Json] | None = None) -> asyncio.Future[Json]:
        params = {"sessionId": "s1", "toolCall": tool, "options": ALL_OPTIONS if options is None else options}
        return self.ask("session/request_permission", params)

    # --- hearing

    def calls(self, method: str) -> list[Json]:
        """Return the params of each call of a method so far."""
        return [message["params"] for message in self.received if message.get("method") == method]

    async def until(self, method: str, count: int = 1) -> Json:
        """Wait for a call of this method; its params."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.calls(method)) >= count)
        return self.calls(method)[count - 1]
