"""Serve a client through a proxy: in front of an agent, or as a component of a conductor."""

from __future__ import annotations

from collections import deque

from duologue.errors import DuologueError
from duologue.proxy.proxy import Proxy
from duologue.proxy.rule_engine import RuleEngine
from duologue.proxy.values import WireMessage
from duologue.recording.format import FrameDirection
from duologue.relay.conductor import ConductorLink
from duologue.relay.pump import OpenProcess
from duologue.relay.stdio_proxy import StdioProxy
from duologue.transports.base import Transport, WrappedTransport


class ProxyRelay:
    """Serves clients with an agent, through a proxy.

    Args:
        proxy: The rules.
        open_agent: Creates the transport to the agent.

    Attributes:
        failure: Why the agent could not be reached, or was lost; `None` if the client left first.
    """

    def __init__(self, proxy: Proxy, open_agent: OpenProcess) -> None:
        self.failure: DuologueError | None = None
        self._proxy = proxy
        self._open_agent = open_agent

    async def serve(self, transport: Transport) -> None:
        """Serve one client until it or the agent ends."""
        engine = RuleEngine(self._proxy)
        relay = StdioProxy(lambda: _RuledTransport(self._open_agent(), engine, "to_client"))
        try:
            await relay.serve(_RuledTransport(transport, engine, "to_agent"))
        finally:
            await engine.aclose()
        self.failure = relay.failure


class ComponentRelay:
    """Serves a conductor as one component of its chain, which the conductor connects to the next one.

    Args:
        proxy: The rules.

    Attributes:
        failure: Always `None`: the conductor is responsible for the agent.
    """

    failure: DuologueError | None = None

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    async def serve(self, transport: Transport) -> None:
        """Serve the conductor until it disconnects."""
        link = ConductorLink(transport)
        await ProxyRelay(self._proxy, lambda: link.agent).serve(link.client)


class _RuledTransport(WrappedTransport):
    """Apply rules to the frames that arrive on another transport, one after the other."""

    def __init__(self, inner: Transport, engine: RuleEngine, direction: FrameDirection) -> None:
        super().__init__(inner)
        self._engine = engine
        self._direction: FrameDirection = direction
        self._arrived: deque[bytes] = deque()
        self._next: WireMessage | None = None
        """A message that was read, and for which functions have to be called."""

    async def receive(self) -> list[bytes]:
        passed: list[bytes] = []
        while not passed:
            if self._next is None and not self._arrived:
                self._arrived.extend(await self._inner.receive())
                if not self._arrived:
                    return []
            while self._next is not None or self._arrived:
                message = self._next or await self._engine.read(self._direction, self._arrived.popleft())
                self._next = None
                if passed and self._engine.has_rules(message):  # what can be passed on does not wait for a function
                    self._next = message
                    break
                forward, reply = await self._engine.apply(message)
                if forward is not None:
                    passed.append(forward)
                if reply is not None:
                    self._inner.send(reply)
                    if self._inner.is_congested:
                        await self._inner.drain()
        return passed
