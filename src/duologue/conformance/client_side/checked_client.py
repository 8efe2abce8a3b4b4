"""One run of a case with a client."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from duologue.conformance.case import CaseRun, CaseSkipped, NotProvoked
from duologue.conformance.client_side.client_start import ClientStart, InteractiveClient, RunningClient
from duologue.conformance.client_side.endpoints import Endpoint
from duologue.conformance.client_side.first_event import first_event
from duologue.conformance.client_side.played_agent import PlayedAgent
from duologue.conformance.client_side.played_turn import CheckedTurn
from duologue.conformance.client_side.shared_connection import SharedConnection
from duologue.conformance.raw_peer import Json, PeerFailed, RawPeer, ReceivedMessage
from duologue.conformance.wait_limit import WaitLimit
from duologue.transports.base import Transport

USER_SECONDS = 3600.0
"""How long a person may take to do what a case needs."""
ANSWER_SECONDS = 300.0
"""How long a person may take to answer a question of the agent."""

Prepare: TypeAlias = Callable[[PlayedAgent], None]


class ClientFacts(Struct):
    """Knowledge of a client in one version of the protocol, from the first case.

    Attributes:
        info: Name and version that it reported.
        problem: Why there is nothing to check in this version; empty if there is.
        is_supported: False if the client does not support the version.
        opened_by: Method with which it opened its session.
        exit_code: Exit code after a turn that ended well.
        answers_permission: False if it leaves the answer to its user, who is not there.
    """

    info: Json = {}
    problem: str = ""
    is_supported: bool = True
    opened_by: str = ""
    exit_code: int | None = None
    answers_permission: bool = True


class ClientCaseRun(CaseRun):
    """One run of a case with a client.

    Args:
        name: Name of the case.
        rules: Numbers of the rules that it judges.
        version: Version of the protocol that the played agent supports.
        start: How the client is started.
        endpoint: Where its connections arrive.
        directory: An empty directory for its session, if it takes one.
        limit: The limit of any single wait for it.
        facts: What is known of the client in this version.
        shared: The connection of a person's client that cases share.

    Attributes:
        client: The client of the connection that was opened last.
        stderr: The end of what clients wrote to stderr.
    """

    def __init__(
        self,
        name: str,
        rules: tuple[int, ...],
        version: int,
        *,
        start: ClientStart,
        endpoint: Endpoint,
        directory: Path,
        limit: WaitLimit,
        facts: ClientFacts | None = None,
        shared: SharedConnection | None = None,
    ) -> None:
        super().__init__(name, rules, version, limit)
        self.endpoint = endpoint
        self.directory = directory
        self.facts = facts or ClientFacts()
        self.client: RunningClient | None = None
        self.stderr = ""
        self._start = start
        self._shared = shared
        self._has_left = False

    @property
    def _start_timeout(self) -> float:
        """Seconds to wait for what a person or a starting program does."""
        return USER_SECONDS if self._start.is_interactive else self.limit.seconds

    @property
    def is_interactive(self) -> bool:
        """True if a person uses the client."""
        return self._start.is_interactive

    @property
    def login_timeout(self) -> float:
        """Seconds to wait for a login."""
        return self._start_timeout

    def say(self, text: str) -> None:
        """Tell the person who uses the client what to do."""
        if isinstance(self._start, InteractiveClient):
            self._start.say(text)

    # Connections

    @contextlib.asynccontextmanager
    async def connect(
        self,
        capabilities: Json | None = None,
        prepare: Prepare | None = None,
        *,
        cancels: bool = False,
        negotiates: bool = True,
    ) -> AsyncGenerator[PlayedAgent]:
        """Start the client, wait for its connection, and negotiate the version.

        Args:
            capabilities: What the agent advertises; by default everything.
            prepare: Called with the agent before it reads.
            cancels: The client is to cancel a turn.
            negotiates: False if the case answers `initialize` in its own way.

        Raises:
            NotProvoked: The client did not connect.
            CaseSkipped: The client does not support the version.
        """
        if self._shared is not None:
            await self._shared.aclose()
            self.say("restart the agent, or open a new conversation with it")
        async with self._start.start(self.endpoint, self.directory, cancels=cancels) as client:
            self.client = client
            try:
                async with self._next_agent(client, capabilities, prepare, negotiates=negotiates) as agent:
                    yield agent
                await self._exit(client)
            finally:
                self.stderr = client.stderr

    @contextlib.asynccontextmanager
    async def reconnected(self) -> AsyncGenerator[PlayedAgent]:
        """Wait for another connection of the client that runs.

        Raises:
            NotProvoked: There is none.
        """
        assert self.client is not None
        async with self._next_agent(self.client, None, None, negotiates=True) as agent:
            yield agent

    @contextlib.asynccontextmanager
    async def _next_agent(
        self, client: RunningClient, capabilities: Json | None, prepare: Prepare | None, *, negotiates: bool
    ) -> AsyncGenerator[PlayedAgent]:
        """Wait for a connection of the client, and for another one if it leaves the first because of its version."""
        while True:
            peer = RawPeer(await self._accept(client), self.log.connect(), "to_client", self.limit)
            agent = PlayedAgent(peer, self.version, capabilities)
            if prepare is not None:
                prepare(agent)
            async with peer:
                if not negotiates or await self._negotiate(agent):
                    yield agent
                    await self._finish(peer)
                    return

    async def _accept(self, client: RunningClient) -> Transport:
        transport = await first_event(self.endpoint.next(), client.exited(), self.limit, self._start_timeout)
        if transport is not None:
            return transport
        if client.exit_code is not None:
            output = f": {client.stderr.strip()}" if client.stderr else ""
            raise NotProvoked(f"the client ended with the exit code {client.exit_code} before it connected{output}")
        raise NotProvoked(f"the client did not connect within {self._start_timeout:g} s")

    async def _negotiate(self, agent: PlayedAgent) -> bool:
        """Wait for `initialize`; return False if the client reconnects because of the version that was negotiated."""
        await agent.peer.wait_for(lambda each: each.method == "initialize", "initialize", seconds=self._start_timeout)
        await agent.initialized.wait()
        if agent.version < self.version:
            raise CaseSkipped(f"the client does not support version {self.version}: it asks for {agent.version}")
        if agent.asked_version <= agent.version:
            return True
        try:
            await agent.peer.wait_for(lambda _: True, "initialize", after=1)
        except PeerFailed:
            if not agent.peer.ended.is_set():
                raise
            return False
        return True

    async def _finish(self, peer: RawPeer) -> None:
        """Let a client whose work is done end its connection; one that stays connected breaks no rule."""
        if not self._start.is_interactive:
            self._has_left = await self._ended(peer, WaitLimit(self.limit.seconds))

    async def _exit(self, client: RunningClient) -> None:
        """Let a client whose connection has ended exit."""
        if not self._start.is_interactive:
            limit = self.limit if self._has_left else WaitLimit(self.limit.seconds)
            with contextlib.suppress(TimeoutError):
                async with limit.bound():
                    await client.exited()

    async def ended(self, peer: RawPeer) -> bool:
        """Wait until the client has disconnected or exited; return False if it does not in time."""
        return await self._ended(peer, self.limit)

    async def _ended(self, peer: RawPeer, limit: WaitLimit) -> bool:
        assert self.client is not None
        has_left = await first_event(peer.ended.wait(), self.client.exited(), limit)
        return bool(has_left) or peer.ended.is_set() or self.client.exit_code is not None

    # Turns

    @contextlib.asynccontextmanager
    async def turn(
        self, capabilities: Json | None = None, prepare: Prepare | None = None, *, cancels: bool = False
    ) -> AsyncGenerator[CheckedTurn]:
        """Wait for a prompt of the client; its turn is ended with the block.

        Raises:
            NotProvoked: The client did not connect.
            CaseSkipped: The client does not support the version.
            PeerFailed: It sent no prompt.
        """
        if self._shared is not None and capabilities is None and prepare is None:
            turn = await self._shared_turn(self._shared)
            yield turn
            if not turn.is_ended:
                turn.end()
            return
        async with self.connect(capabilities, prepare, cancels=cancels) as agent:
            turn = await self.prompted(agent)
            yield turn
            if not turn.is_ended:
                turn.end()

    async def _shared_turn(self, shared: SharedConnection) -> CheckedTurn:
        """Wait for the next prompt on the connection that is open, or on a new one."""
        assert isinstance(self._start, InteractiveClient)
        self.client = self._start
        if shared.agent is not None and shared.is_open and shared.agent.version == self.version:
            agent, after = shared.use(self.log), len(shared.agent.peer.received)
            try:
                return await self.prompted(agent, after)
            except PeerFailed:  # the user has ended the conversation instead
                if not agent.peer.ended.is_set():
                    raise
        await shared.aclose()
        self.say("start the agent, or open a new conversation with it")
        while True:
            log = self.log.connect()
            peer = RawPeer(await self._accept(self._start), log, "to_client", self.limit)
            agent = PlayedAgent(peer, self.version)
            await peer.__aenter__()
            shared.keep(agent, log)
            if await self._negotiate(agent):
                return await self.prompted(agent)
            await shared.aclose()

    async def prompted(self, agent: PlayedAgent, after: int = 0) -> CheckedTurn:
        """Wait for a prompt of the client.

        Raises:
            PeerFailed: It sent none.
        """
        self.say("send any prompt")
        return CheckedTurn(agent, await agent.prompted(after, self._start_timeout))

    async def cancelled(self, turn: CheckedTurn) -> ReceivedMessage:
        """Make the client cancel the turn, and return its `session/cancel`.

        Raises:
            NotProvoked: It sent none.
        """
        assert self.client is not None
        self.client.cancel()
        try:
            return await turn.peer.wait_for(
                lambda each: each.method == "session/cancel", "SIGINT", seconds=self._start_timeout
            )
        except PeerFailed:
            raise NotProvoked(
                "the client did not send session/cancel when it got SIGINT; name a command that cancels its prompt "
                "with --cancel-command"
            ) from None
