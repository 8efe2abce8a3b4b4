"""A client made of nothing but messages of version 2; all that the agent writes is held against the official schema."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

from duologue.agent.agent import Agent
from duologue.errors import ConnectionLost
from duologue.runtime.tasks import TaskScope
from duologue.transports.buffered import MAX_QUEUED_BYTES
from duologue.transports.memory import MemoryTransport, memory_pair
from tests.agent.wire_validator import V2, WireValidator

__all__ = ["EVERYTHING", "Json", "WireClient", "both", "chosen", "wire_client"]

Json: TypeAlias = dict[str, Any]

EVERYTHING: Json = {"auth": {"terminal": {}}, "elicitation": {"form": {}, "url": {}}}
"""All that a client of version 2 can advertise."""


def chosen(kind: str) -> Callable[[Json], Json | None]:
    """Answers permission questions with the first option of this kind."""

    def answer(params: Json) -> Json | None:
        option = next(option for option in params["options"] if option["kind"] == kind)
        return {"result": {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}}

    return answer


class WireClient:
    """Writes what it wants, and keeps what it reads.

    Attributes:
        judge: Every message in both directions.
        answers: What to say to the agent's requests by method; `None` says nothing yet.
        asked: The requests of the agent, whole.
        reads: Cleared, the client takes nothing more.
    """

    def __init__(self, wire: MemoryTransport) -> None:
        self.validator = WireValidator(V2)
        self.answers: dict[str, Callable[[Json], Json | None]] = {}
        self.asked: list[Json] = []
        self._wire = wire
        self._ids = itertools.count(1)
        self._waiting: dict[Any, asyncio.Future[Json]] = {}
        self._changed = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()

    async def read(self) -> None:
        """Until the agent leaves."""
        with suppress(ConnectionLost):
            while True:
                await self.reads.wait()
                frames = await self._wire.receive()
                if not frames:
                    return
                for frame in frames:
                    self.validator("in", frame)
                    self._take(json.loads(frame))
                self._changed.set()

    def _take(self, message: Json) -> None:
        if "method" not in message:
            waiting = self._waiting.pop(message["id"], None)
            if waiting is not None:
                waiting.set_result(message)
        elif "id" in message:
            self.asked.append(message)
            answer = self.answers.get(message["method"])
            response = None if answer is None else answer(message["params"])
            if response is not None:
                self.write(id=message["id"], **response)

    # --- writing

    def write(self, **members: Any) -> None:
        """Send one message."""
        frame = json.dumps({"jsonrpc": "2.0", **members}).encode()
        self.validator("out", frame)
        self._wire.send(frame)

    def write_nonsense(self, text: str) -> None:
        """Send one line that is not a valid message."""
        self._wire.send(text.encode())

    def start(self, method: str, **params: Any) -> asyncio.Future[Json]:
        """Send a request; its response arrives later."""
        return self.start_as(next(self._ids), method, **params)

    def start_as(self, id: int | str, method: str, **params: Any) -> asyncio.Future[Json]:
        """Send a request with this id."""
        self._waiting[id] = asyncio.get_running_loop().create_future()
        self.write(id=id, method=method, params=params)
        return self._waiting[id]

    async def ask(self, method: str, **params: Any) -> Json:
        """Send a request and return its result."""
        answer = await self.start(method, **params)
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    async def refused(self, method: str, **params: Any) -> Json:
        """Send a request and return its error."""
        answer = await self.start(method, **params)
        assert "error" in answer, answer
        error: Json = answer["error"]
        return error

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.write(method=method, params=params)

    async def hang_up(self) -> None:
        """Leave without a word."""
        await self._wire.aclose()

    # --- the usual

    async def initialize(self, version: int = 2, **capabilities: Any) -> Json:
        """Send `initialize`."""
        us = {"name": "tested", "version": "1"}
        return await self.ask("initialize", protocolVersion=version, info=us, capabilities=capabilities)

    async def new(self, cwd: object = "/tmp") -> str:
        """Open a session."""
        return str((await self.ask("session/new", cwd=str(cwd)))["sessionId"])

    def prompt(self, session: str, text: str) -> asyncio.Future[Json]:
        """Send a prompt without waiting for its end."""
        return self.start("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    async def turn(self, session: str, text: str) -> Json:
        """Run a turn from its prompt to the state that ends it."""
        before = len(self.ends())
        answer = await self.prompt(session, text)
        assert "result" in answer, answer
        await self.until(lambda: len(self.ends()) > before)
        return self.ends()[-1]

    # --- what came

    async def until_more(self) -> None:
        """Until something comes."""
        self._changed.clear()
        await self._changed.wait()

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait until the condition is true; check it whenever a message arrives."""
        while not is_so():
            await self.until_more()

    async def until_asked(self, method: str) -> Json:
        """Return the agent's next request that has no response yet."""
        await self.until(lambda: any(request["method"] == method for request in self.asked))
        return next(request for request in self.asked if request["method"] == method)

    @property
    def updates(self) -> list[Json]:
        """Every update, in order."""
        return [message["params"]["update"] for message in self.validator.calls("session/update")]

    def of(self, kind: str) -> list[Json]:
        """Return the updates of one kind."""
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    def ends(self) -> list[Json]:
        """Return the states that ended a turn."""
        return [state for state in self.of("state_update") if "stopReason" in state]

    @property
    def states(self) -> list[str]:
        """The states of the session as text: `running`, `idle end_turn`, …"""
        return [" ".join(filter(None, (each["state"], each.get("stopReason")))) for each in self.of("state_update")]

    @property
    def text(self) -> str:
        """All the agent said."""
        return "".join(chunk["content"].get("text", "") for chunk in self.of("agent_message_chunk"))


def both(handler: Any = None, **options: Any) -> Agent[Any]:
    """Return an agent of both versions with this handler; without one it repeats the prompt."""

    async def echo(turn: Any) -> None:
        await turn.say(turn.text)

    options.setdefault("protocol_versions", (1, 2))
    agent: Agent[Any] = Agent("tested", version="1.0", **options)
    agent.on_prompt(handler or echo)
    return agent


@asynccontextmanager
async def wire_client(
    agent: Agent[Any],
    *,
    capabilities: Json | None = None,
    is_initialized: bool = True,
    seconds: float = 10,
    bound: int = MAX_QUEUED_BYTES,
) -> AsyncGenerator[WireClient]:
    """Connect a client that has sent `initialize`, unless `is_initialized` is false; validate all frames at the end."""
    near, far = memory_pair(bound)
    tasks = TaskScope()
    serving = tasks.start(agent.serve(far))
    client = WireClient(near)
    async with asyncio.timeout(seconds):
        async with near:
            reading = tasks.start(client.read())
            if is_initialized:
                await client.initialize(**(EVERYTHING if capabilities is None else capabilities))
            yield client
        await serving
        await reading
    assert client.validator.complaints == []
