"""An agent that was started before its client: it has answered `initialize` and `session/new`, and waits.

Everything it sent is buffered in order. The client's own `initialize` gets what was sent up to the response, under the
id that the client chose; its `session/new` the same, if its parameters are those that the agent got. From then on, or
after any other request, frames pass unchanged.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Self

import msgspec
from msgspec import Raw, Struct

from duologue.errors import AuthenticationRequired, ConnectionLost, DuologueError, StartError
from duologue.jsonrpc.codec import serialize_request
from duologue.jsonrpc.envelope import Envelope, read_envelope, with_id
from duologue.jsonrpc.messages import Id
from duologue.runtime.tasks import TaskScope
from duologue.transports.base import Transport, WrappedTransport
from duologue.transports.methods import INITIALIZE

NEW_SESSION = "session/new"

START_SECONDS = 60.0
"""Time for an agent to start and to answer each of the two requests."""

CLOSE_SECONDS = 1.0
"""Time for an agent that is not needed to close and delete its session."""

MAX_BYTES = 1024 * 1024
"""Bytes that wait for a client: before the first prompt, an agent sends its commands and a greeting."""


_IDS = {INITIALIZE: 2_000_000_001, NEW_SESSION: 2_000_000_002, "session/close": 2_000_000_003}
_IDS["session/delete"] = 2_000_000_004
"""Ids of the requests that are sent before there is a client, which counts its own from 0 or 1."""
_METHODS: dict[Id | None, str] = {id: method for method, id in _IDS.items()}


class Opening(Struct, frozen=True):
    """The parameters of the requests that open a session, as a client sent them.

    Attributes:
        initialize: Parameters of `initialize`.
        new_session: Parameters of `session/new`; empty if the client opened no new session.
    """

    initialize: bytes
    new_session: bytes = b""


def params_of(frame: bytes) -> bytes:
    """Return the parameters of a request as they were written; empty if it has none."""
    try:
        return bytes(msgspec.json.decode(frame, type=_Params).params)
    except msgspec.MsgspecError:
        return b""


class _Params(Struct):
    params: Raw = Raw(b"")


class _Failed(Struct):
    class Error(Struct):
        code: int = 0

    error: Error | None = None


class _Capabilities(Struct):
    class Result(Struct):
        class Agent(Struct, rename="camel"):
            session_capabilities: dict[str, Raw] = {}

        agent_capabilities: Agent = msgspec.field(name="agentCapabilities", default_factory=Agent)

    result: Result = msgspec.field(default_factory=Result)


class WarmAgent(WrappedTransport):
    """The transport to an agent that is started without its client; `prepare` enters it.

    Args:
        process: The transport to the agent.
        opening: What the agent is asked before there is a client.
    """

    def __init__(self, process: Transport, opening: Opening) -> None:
        super().__init__(process)
        self._opening = opening
        self._is_attached = False
        self._expected = [INITIALIZE, NEW_SESSION]
        """Requests of the client that are answered from memory."""
        self._buffered: deque[tuple[str | None, bytes]] = deque()
        """Frames of the agent; a response that was asked for here has the method of its request."""
        self._bytes = 0
        self._deliverable: list[bytes] = []
        self._answers: dict[str, bytes] = {}
        self._changed = asyncio.Event()
        self._is_ended = False
        self._failure: DuologueError | None = None
        self._tasks = TaskScope()

    # --- before there is a client

    async def prepare(self) -> None:
        """Start the agent, initialize it, and open a session; an agent that opens none may still be used.

        Raises:
            StartError: It cannot be started, or did not answer `initialize` in time.
        """
        await self._inner.__aenter__()
        self._tasks.start(self._read())
        answer = await self._ask(INITIALIZE, self._opening.initialize)
        if answer is None or answer.is_error:
            raise StartError("the agent did not answer `initialize`")
        if self._opening.new_session and await self._ask(NEW_SESSION, self._opening.new_session) is None:
            raise StartError("the agent did not answer `session/new`")

    async def _ask(self, method: str, params: bytes) -> Envelope | None:
        """Send a request; return the response if the agent sends it in time."""
        with suppress(TimeoutError, DuologueError):
            self._inner.send(serialize_request(_IDS[method], method, Raw(params)))
            async with asyncio.timeout(START_SECONDS):
                while method not in self._answers and not self._is_ended:
                    self._changed.clear()
                    await self._changed.wait()
        return read_envelope(self._answers.get(method, b""))

    @property
    def is_usable(self) -> bool:
        """False after the agent has ended."""
        return not self._is_ended and INITIALIZE in self._answers

    @property
    def needs_login(self) -> bool:
        """True if the agent opens no session because it requires a login."""
        with suppress(msgspec.MsgspecError):
            answer = msgspec.json.decode(self._answers.get(NEW_SESSION, b"{}"), type=_Failed)
            return answer.error is not None and answer.error.code == AuthenticationRequired.code
        return False

    async def wait_ended(self) -> None:
        """Wait until the agent ends by itself."""
        while not self._is_ended:
            self._changed.clear()
            await self._changed.wait()

    async def discard(self) -> None:
        """End an agent that no client has used, after it has removed its session."""
        made = read_envelope(self._answers.get(NEW_SESSION, b""))
        session = None if made is None else made.made_session
        with suppress(TimeoutError, DuologueError, msgspec.MsgspecError):
            offered = msgspec.json.decode(self._answers[INITIALIZE], type=_Capabilities) if session else _Capabilities()
            for name in ("close", "delete"):
                if name in offered.result.agent_capabilities.session_capabilities:
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await self._ask(f"session/{name}", msgspec.json.encode({"sessionId": session}))
        await self.aclose()

    async def _read(self) -> None:
        try:
            while frames := await self._inner.receive():
                for frame in frames:
                    self._on_frame(frame)
                self._changed.set()
                if self._bytes > MAX_BYTES and not self._is_attached:
                    raise ConnectionLost(f"the agent sent more than {MAX_BYTES} bytes before a client needed it")
                while self._bytes > MAX_BYTES:
                    self._changed.clear()
                    await self._changed.wait()
        except DuologueError as error:
            self._failure = error
        finally:
            self._is_ended = True
            self._changed.set()

    def _on_frame(self, frame: bytes) -> None:
        self._bytes += len(frame)
        if self._is_attached and not self._expected:
            self._deliverable.append(frame)
            return
        method: str | None = None
        envelope = read_envelope(frame)
        if envelope is not None and (method := _METHODS.get(envelope.response_id)) is not None:
            self._answers[method] = frame
        self._buffered.append((method, frame))

    # --- the client's end, once there is one

    async def __aenter__(self) -> Self:
        """Give the agent to its client; `prepare` has started it."""
        self._is_attached = True
        return self

    def send(self, frame: bytes) -> None:
        if self._expected:
            envelope = read_envelope(frame)
            id = None if envelope is None else envelope.request_id
            if envelope is not None and id is not None and self._is_answered(str(envelope.method), frame):
                self._release(str(envelope.method), with_id(self._answers[str(envelope.method)], id))
                return
            if id is not None:
                self._release(None, b"")
        self._inner.send(frame)

    def _is_answered(self, method: str, frame: bytes) -> bool:
        """Return True if the response to this request is in memory."""
        asked = {INITIALIZE: self._opening.initialize, NEW_SESSION: self._opening.new_session}
        answer = read_envelope(self._answers.get(method, b""))
        is_next = method == self._expected[0] and answer is not None and not answer.is_error
        return is_next and params_of(frame) == asked[method]

    def _release(self, method: str | None, response: bytes) -> None:
        """Deliver the frames up to the response of a method, or all; after the last response, all."""
        self._expected = self._expected[1:] if method is not None else []
        while self._buffered:
            asked, frame = self._buffered.popleft()
            if asked is None:
                self._deliverable.append(frame)
            elif asked == method:
                self._deliverable.append(response)
                if self._expected:
                    break
            else:
                self._bytes -= len(frame)
        self._changed.set()

    async def receive(self) -> list[bytes]:
        while not self._deliverable:
            if self._is_ended:
                if self._failure is not None:
                    raise self._failure.with_traceback(None)
                return []
            self._changed.clear()
            await self._changed.wait()
        frames, self._deliverable = self._deliverable, []
        self._bytes = sum(len(frame) for _, frame in self._buffered)
        self._changed.set()
        return frames

    async def aclose(self) -> None:
        await self._inner.aclose()
        await self._tasks.cancel(1.0)
