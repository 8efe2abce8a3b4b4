"""The faulty client in the process of the test, so that no time passes while a case waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from duologue.conformance.client_side.client_check import ClientCheck
from duologue.conformance.client_side.client_start import RunningClient
from duologue.conformance.client_side.endpoints import Endpoint
from duologue.conformance.report import Report
from duologue.testing import VirtualClock
from tests.conformance.faulty_client import FaultyClient, Streams

MAX_LINE = 64 * 1024 * 1024


class OwnClock(VirtualClock):
    """A clock for tests whose sockets all end in this process: nothing outside can end a wait."""

    def _is_waiting_outside(self) -> bool:
        return False


class InProcessClient:
    """Starts the faulty client as a task.

    Args:
        version: Version of the protocol that it supports.
        fault: Name of its fault; empty for none.
        delays: Seconds that it does nothing after each of its first starts.

    Attributes:
        starts: How often it was started.
    """

    is_interactive = False

    def __init__(self, version: int, fault: str, delays: Sequence[float] = ()) -> None:
        self.starts = 0
        self._version = version
        self._fault = fault
        self._delays = delays

    @contextlib.asynccontextmanager
    async def start(self, endpoint: Endpoint, directory: Path, *, cancels: bool) -> AsyncGenerator[RunningClient]:
        """Start it, and end it with the block."""

        async def connect(arguments: list[str], env: dict[str, str]) -> Streams:
            socket = Path(endpoint.address).with_name("agent.socket")
            reader, writer = await asyncio.open_unix_connection(socket, limit=MAX_LINE)
            writer.write(json.dumps({"arguments": arguments, "env": env}).encode() + b"\n")
            return reader, writer

        client = FaultyClient(self._version, self._fault, connect, str(directory), cancels=cancels)
        delay = self._delays[self.starts] if self.starts < len(self._delays) else 0.0
        self.starts += 1
        running = _RunningTask(client, delay)
        try:
            yield running
        finally:
            running.task.cancel()
            await asyncio.wait([running.task])


class _RunningTask:
    stderr = ""

    def __init__(self, client: FaultyClient, delay: float) -> None:
        self._client = client
        self.task = asyncio.ensure_future(self._run(delay))

    async def _run(self, delay: float) -> int:
        if delay:
            await asyncio.sleep(delay)
        return await self._client.run()

    @property
    def exit_code(self) -> int | None:
        return self.task.result() if self.task.done() and not self.task.cancelled() else None

    async def exited(self) -> None:
        await asyncio.wait([self.task])

    def cancel(self) -> None:
        self._client.cancel()


def check_in_process(version: int, fault: str) -> Report:
    """Check the faulty client with all cases."""
    return run_in_virtual_time(ClientCheck(InProcessClient(version, fault), fault, versions=(version,)))


def run_in_virtual_time(checked: ClientCheck) -> Report:
    """Run a check of clients in this process."""

    async def check() -> Report:
        with OwnClock():
            return await checked.run()

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        return runner.run(check())
