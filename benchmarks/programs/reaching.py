"""The transport of duologue's clients to the agent, which they start: its pipes, or the URL where it listens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from benchmarks.network import WIRE, server
from benchmarks.script import MAX_MESSAGE_BYTES, arguments
from duologue.jsonrpc import framing
from duologue.transports.base import Transport
from duologue.transports.process.transport import ProcessTransport


@asynccontextmanager
async def agent_process() -> AsyncGenerator[tuple[Transport, Callable[[], int]]]:
    """Return a transport to the agent; its process id is set once the transport is entered."""
    _, _, command = arguments()
    if WIRE:
        from duologue.transports.remote.factory import RemoteFactory

        with server(command, is_gentle="serve" in command) as (pid, url):
            remote = RemoteFactory.of(url)
            assert remote is not None
            yield remote.open(), lambda: pid
        return
    transport = ProcessTransport(command, max_message_bytes=MAX_MESSAGE_BYTES or framing.MAX_MESSAGE_BYTES)

    def child() -> int:
        assert transport.pid is not None
        return transport.pid

    yield transport, child
