"""A small agent, written without this library, that keeps every rule of both versions, unless it is given a fault."""

# Messages are JSON without types here.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import msgspec

from duologue.conformance.profile import Profile
from duologue.transports.base import Transport

Json: TypeAlias = dict[str, Any]
NO_FAULT = ""
BIG = 10_000_000
CHUNKS = 3000

PROFILE = Profile(
    name="faulty agent",
    login="check",
    prompts={
        "answer": "answer", "permission": "permission", "long": "long", "read_file": "read {file}",
        "write_file": "write {file}", "terminal": "terminal", "form": "form", "url": "url", "notice": "notice",
        "compaction": "compaction", "cwd": "cwd", "roots": "roots", "plan": "plan", "big": "big", "stream": "stream",
    },
)  # fmt: skip


class Refused(Exception):
    """The request gets an error."""

    def __init__(self, code: int, message: str = "refused", data: Any = None) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message} | ({} if data is None else {"data": data})


class StoredSession:
    """A session and its history."""

    def __init__(self, id_: str, params: Json) -> None:
        self.id = id_
        self.cwd = params["cwd"]
        self.roots: list[str] = params.get("additionalDirectories") or []
        self.history: list[Json] = []
        self.mode = "ask"
        self.options: Json = {"tone": "plain", "loud": False}
        self.turns: list[asyncio.Task[None]] = []
        self.is_open = True


class FaultyAgent:
    """Serves connections; all of them have the same sessions.

    Args:
        fault: Name of the fault; empty for none.
    """

    def __init__(self, fault: str = NO_FAULT) -> None:
        self.fault = fault
        self.sessions: dict[str, StoredSession] = {}
        self.opened = 0
        self.turns = 0

    async def serve(self, transport: Transport) -> None:
        await Connection(self, transport).run()


class Connection:
    """One client."""

    def __init__(self, agent: FaultyAgent, transport: Transport) -> None:
        self.agent = agent
        self.transport = transport
        self.version = 0
        self.client: Json = {}
        self.is_logged_in = not agent.fault.startswith("login:")
        self.waiting: dict[object, asyncio.Future[Json]] = {}
        self.prompts: dict[object, asyncio.Task[None]] = {}
        self.next_id = 0
        self.tasks: set[asyncio.Task[None]] = set()

    def faulty(self, *names: str) -> bool:
        return self.agent.fault in names

    async def run(self) -> None:
        async with self.transport:
            try:
                while frames := await self.transport.receive():
                    for frame in frames:
                        if self._take(frame) is False:
                            return
            finally:
                for task in self.tasks:
                    task.cancel()
                await asyncio.gather(*self.tasks, return_exceptions=True)

    # Messages

    def send(self, message: Json) -> None:
        if self.faulty("drops for a slow reader") and self.transport.pending_bytes > 200_000 and "method" in message:
            return
        self.transport.send(msgspec.json.encode({"jsonrpc": "2.0", **message}))

    def respond(self, id_: object, **answer: Any) -> None:
        if self.faulty("ids become strings"):
            id_ = str(id_)
        self.send({"id": id_, **answer})

    def update(self, session: StoredSession, kind: str, *, keep: bool = True, **fields: Any) -> None:
        update = {"sessionUpdate": kind, **fields}
        if keep:
            session.history.append(update)
        self.send({"method": "session/update", "params": {"sessionId": session.id, "update": update}})

    async def ask(self, method: str, params: Json) -> Json:
        self.next_id += 1
        id_ = self.next_id
        self.waiting[id_] = asyncio.get_running_loop().create_future()
        self.send({"id": id_, "method": method, "params": params})
        try:
            return await self.waiting[id_]
        except asyncio.CancelledError:
            if self.version == 2 and not self.faulty("permission not withdrawn"):
                self.send({"method": "$/cancel_request", "params": {"requestId": id_}})
            raise
        finally:
            del self.waiting[id_]

    def _take(self, frame: bytes) -> bool | None:
        if len(frame) > 1_000_000 and self.faulty("dies of large lines"):
            return False
        try:
            message = msgspec.json.decode(frame)
        except msgspec.DecodeError:
            if self.faulty("dies of garbage"):
                return False
            if not self.faulty("garbage ignored"):
                self.respond(None, error={"code": -32700, "message": "not JSON"})
            return None
        if isinstance(message, list):
            if self.faulty("batches run"):
                for each in message:
                    self._take(msgspec.json.encode(each))
            else:
                self.send({"id": None, "error": {"code": -32600, "message": "no batches"}})
            return None
        if not isinstance(message, dict) or not isinstance(message.get("method", ""), str) or not message:
            if not self.faulty("invalid requests ignored"):
                self.send({"id": None, "error": {"code": -32600, "message": "no message"}})
            return None
        return self._take_message(message)

    def _take_message(self, message: Json) -> bool | None:
        method, id_, params = message.get("method"), message.get("id"), message.get("params")
        if method is None:
            future = self.waiting.get(id_)
            if future is None:
                return False if self.faulty("dies of stray responses") else None
            if self.faulty("dies of unknown errors") and message.get("error", {}).get("code") == 12345:
                return False
            if not future.done():
                future.set_result(message)
        elif "id" not in message:
            return self._notified(method, params)
        elif id_ is None:
            if not self.faulty("null ids ignored"):
                self.send({"id": None, "error": {"code": -32600, "message": "the id is null"}})
        else:
            self._requested(id_, method, params if isinstance(params, dict) else {})
        return None

    def _notified(self, method: str, params: Any) -> bool | None:
        if self.faulty("notifications without structure refused") and not isinstance(params, dict | list):
            self.send({"id": None, "error": {"code": -32600, "message": "params are neither an object nor an array"}})
            return None
        session = params.get("sessionId") if isinstance(params, dict) else None
        if method == "session/cancel":
            if not isinstance(session, str):
                if self.faulty("bad notifications answered"):
                    self.send({"id": None, "error": {"code": -32602, "message": "bad"}})
                return None
            found = self.agent.sessions.get(session)
            if self.faulty("cancel ends all sessions"):
                for each in self.agent.sessions.values():
                    self._cancel(each)
            elif found is not None:
                if not found.turns and self.faulty("idle cancel kept"):
                    found.options["cancelled"] = True
                self._cancel(found)
        elif method == "$/cancel_request":
            return self._cancel_request(params if isinstance(params, dict) else {})
        elif self.faulty("dies of unknown notifications"):
            return False
        elif self.faulty("unknown notifications answered"):
            self.send({"id": None, "error": {"code": -32601, "message": "unknown"}})
        return None

    def _cancel_request(self, params: Json) -> bool | None:
        id_ = params.get("requestId")
        if id_ in self.prompts:
            self.prompts[id_].cancel()
        elif self.faulty("cancels own requests") and id_ in self.waiting:
            for session in self.agent.sessions.values():
                self._cancel(session)
        elif self.faulty("dies of unknown cancels"):
            return False
        return None

    def _cancel(self, session: StoredSession) -> None:
        if not self.faulty("cancel ignored"):
            for task in session.turns:
                task.cancel()

    def _requested(self, id_: object, method: str, params: Json) -> None:
        handler = HANDLERS.get((self.version or 1, method))
        if self.version == 0 and method != "initialize" and not self.faulty("works before initialize"):
            self.respond(id_, error={"code": -32600, "message": "initialize first"})
        elif handler is None:
            if self.faulty("blocked by a turn") and self.prompts:
                return
            if not self.faulty("unknown methods ignored"):
                code = -32603 if self.faulty("wrong code for unknown methods") else -32601
                self.respond(id_, error={"code": code, "message": method})
        else:
            task = asyncio.get_running_loop().create_task(self._answer(id_, handler, params))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _answer(self, id_: object, handler: Handler, params: Json) -> None:
        try:
            result = await handler(self, id_, params)
        except Refused as error:
            self.respond(id_, error=error.error)
        else:
            if result is not None:
                self.respond(id_, result=result)


Handler: TypeAlias = Callable[[Connection, object, Json], Coroutine[Any, Any, Json | None]]
HANDLERS: dict[tuple[int, str], Handler] = {}


def handles(method: str, *versions: int) -> Callable[[Handler], Handler]:
    """Register the handler of a method."""

    def add(handler: Handler) -> Handler:
        HANDLERS.update({(version, method): handler for version in versions or (1, 2)})
        return handler

    return add
