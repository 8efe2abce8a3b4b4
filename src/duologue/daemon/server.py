"""The daemon: accept the connections of its owner, and serve what each asks for.

Everything has a bound: connections, agents, jobs, the size and the time of the first line. A client that leaves ends
its agent; the daemon ends when it has been idle for a while, and everything it has started ends with it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from typing import Self

import msgspec
from msgspec import Struct

from duologue.daemon.agent_pool import MAX_WARM, WARM_SECONDS, AgentPool, CallerProcess
from duologue.daemon.jobs import Jobs
from duologue.daemon.messages import CallerCommand, DaemonReply, DaemonRequest
from duologue.daemon.runtime_directory import RuntimeDirectory, peer_user
from duologue.daemon.warm_agent import NEW_SESSION, Opening, params_of
from duologue.errors import DuologueError, InternalError, StartError
from duologue.jsonrpc.envelope import read_envelope
from duologue.relay.drain import DrainingRelay
from duologue.relay.pump import FramePump, reject_first_request, strip_newlines
from duologue.runtime.tasks import TaskScope
from duologue.transports.base import Transport, WrappedTransport
from duologue.transports.methods import INITIALIZE
from duologue.transports.stdio.socket import SocketTransport


class DaemonLimits(Struct, frozen=True):
    """Bounds of a daemon.

    Attributes:
        idle_seconds: Time without clients and jobs after which it ends.
        request_seconds: Time for a client to send its first line, and its first request.
        cancel_seconds: Time for an agent whose client has left to end its turns.
        max_clients: Connections at the same time.
        max_warm: Agents that wait for a client.
        warm_seconds: How long each of them waits.
    """

    idle_seconds: float = 900.0
    request_seconds: float = 30.0
    cancel_seconds: float = 2.0
    max_clients: int = 64
    max_warm: int = MAX_WARM
    warm_seconds: float = WARM_SECONDS


class DaemonServer:
    """The daemon of one user.

    Args:
        directory: Where its socket is.
        version: Its version; it serves clients of the same one.
        limits: Its bounds.
    """

    def __init__(self, directory: RuntimeDirectory, version: str, limits: DaemonLimits | None = None) -> None:
        self._directory = directory
        self._version = version
        self._limits = limits or DaemonLimits()
        self._pool = AgentPool(self._limits.max_warm, self._limits.warm_seconds)
        self._jobs = Jobs()
        self._connections = 0
        self._attached = 0
        self._tasks = TaskScope()
        self._ending = asyncio.Event()
        self._began = time.monotonic()
        self._last_used = self._began

    async def run(self, on_ready: Callable[[], None]) -> bool:
        """Serve until it is stopped or idle; return False at once if another daemon is running."""
        lock = self._directory.lock()
        if lock is None:
            return False
        listener = self._directory.listen(self._limits.max_clients)
        accepting = self._tasks.start(self._accept(listener))
        on_ready()
        try:
            await self._wait_for_end()
        finally:
            # Without the socket, the next client starts another daemon, which waits for the lock of this one.
            self._directory.socket.unlink(missing_ok=True)
            accepting.cancel()
            await asyncio.wait({accepting})
            listener.close()
            await self._jobs.aclose()
            await self._tasks.cancel(5.0)
            await self._pool.aclose()
            os.close(lock)
        return True

    def stop(self) -> None:
        """End the daemon, its agents and its jobs."""
        self._ending.set()

    @property
    def _is_idle(self) -> bool:
        return not self._attached and not self._jobs.ids

    async def _wait_for_end(self) -> None:
        while not self._ending.is_set():
            left = self._limits.idle_seconds - (time.monotonic() - self._last_used)
            if self._is_idle and left <= 0:
                return
            try:
                async with asyncio.timeout(max(left, 1.0)):
                    await self._ending.wait()
            except TimeoutError:
                continue

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connected, _ = await loop.sock_accept(listener)
            except OSError:  # too many open files
                await asyncio.sleep(0.1)
                continue
            if peer_user(connected) != os.geteuid() or self._connections >= self._limits.max_clients:
                connected.close()
            else:
                connected.setblocking(False)
                self._tasks.start(self._serve(SocketTransport(connected)))

    async def _serve(self, client: Transport) -> None:
        self._connections += 1
        try:
            async with client:
                await self._answer(client)
        except (DuologueError, TimeoutError):
            pass  # the client is gone, or has sent no request
        finally:
            self._connections -= 1
            self._last_used = time.monotonic()

    async def _answer(self, client: Transport) -> None:
        async with asyncio.timeout(self._limits.request_seconds):
            frames = await client.receive()
        if not frames:
            return
        try:
            request = msgspec.json.decode(frames[0], type=DaemonRequest)
        except (msgspec.MsgspecError, RecursionError) as error:
            self._reply(client, error=f"the first line is no request: {error}")
            return
        if request.version != self._version:
            if self._is_idle:
                self.stop()
            self._reply(client, error="another version of duologue is needed", is_ending=self._is_idle)
        elif len(frames) > 1:
            self._reply(client, error="nothing may follow the request before its reply")
        elif request.action == "attach" and request.caller is not None:
            await self._attach(client, request.caller)
        elif request.action == "run" and request.caller is not None:
            await self._run_job(client, request.caller, request)
        elif request.action == "cancel":
            is_known = await self._jobs.cancel(request.job)
            self._reply(client, error="" if is_known else f"no job {request.job!r} is running")
        elif request.action == "stop":
            self._reply(client, is_ending=True)
            self.stop()
        else:
            self._reply(client, error="" if request.action == "status" else "the request has no caller")

    def _reply(
        self,
        client: Transport,
        *,
        error: str = "",
        is_ending: bool = False,
        job: str = "",
        caller: CallerCommand | None = None,
    ) -> None:
        reply = DaemonReply(
            version=self._version,
            error=error,
            is_ending=is_ending,
            job=job,
            pid=os.getpid(),
            seconds=time.monotonic() - self._began,
            clients=self._attached,
            warm=len(self._pool),
            without_session=self._pool.without_session(caller),
            jobs=self._jobs.ids,
        )
        client.send(msgspec.json.encode(reply))

    async def _run_job(self, client: Transport, caller: CallerCommand, request: DaemonRequest) -> None:
        try:
            job = await self._jobs.start(caller, request.input, request.title)
        except StartError as error:
            self._reply(client, error=str(error))
        else:
            self._reply(client, job=job)

    async def _attach(self, client: Transport, caller: CallerCommand) -> None:
        self._attached += 1
        try:
            self._reply(client, caller=caller)
            async with asyncio.timeout(self._limits.request_seconds):
                frames = await client.receive()
            if frames:
                relay = DrainingRelay(_AttachedAgent(self._pool, caller, frames), self._limits.cancel_seconds)
                await relay.serve(_Resent(client, frames))
        finally:
            self._attached -= 1


class _Resent(WrappedTransport):
    """A transport of which some frames were received already."""

    def __init__(self, client: Transport, frames: list[bytes]) -> None:
        super().__init__(client)
        self._frames = frames

    async def __aenter__(self) -> Self:
        return self  # it was entered already

    async def receive(self) -> list[bytes]:
        if self._frames:
            frames, self._frames = self._frames, []
            return frames
        return await self._inner.receive()


class _AttachedAgent:
    """Serves one client with an agent that waits for it, or else with a new one."""

    def __init__(self, pool: AgentPool, caller: CallerCommand, first: list[bytes]) -> None:
        self._pool = pool
        self._caller = caller
        envelope = read_envelope(first[0])
        is_initialize = envelope is not None and envelope.method == INITIALIZE
        self._initialize = params_of(first[0]) if is_initialize else b""
        self._new_session = b""

    async def serve(self, transport: Transport) -> None:
        """Pass frames between the client and its agent until one of them ends."""
        async with transport:
            agent: Transport | None = None
            if self._initialize:
                agent = await self._pool.take(self._caller, self._initialize)
            try:
                agent = agent or CallerProcess(self._caller)
                await agent.__aenter__()
            except StartError as error:
                await reject_first_request(transport, InternalError(f"no agent: {error}"))
                return
            pump = FramePump(transport, agent, to_agent=self._note)
            try:
                failure = await pump.run()
            finally:
                await agent.aclose()
            if failure is not None:
                pump.reject_unanswered(InternalError(f"the agent is gone: {failure}"))

    def _note(self, frame: bytes) -> bytes:
        """Note how the client opens its session; at its first prompt, start an agent for the next client like it."""
        if self._initialize and b'"session/' in frame:
            envelope = read_envelope(frame)
            method = None if envelope is None or envelope.request_id is None else envelope.method
            if method == NEW_SESSION:
                self._new_session = params_of(frame)
            elif method == "session/prompt":
                self._pool.prepare(self._caller, Opening(self._initialize, self._new_session))
                self._initialize = b""
        return strip_newlines(frame)
