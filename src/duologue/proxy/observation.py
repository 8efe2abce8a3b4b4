"""Give copies of the bytes between a client and an agent to observers, without ever delaying the bytes."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading

from duologue.proxy.message_reader import MessageReader
from duologue.proxy.proxy import Proxy
from duologue.proxy.rule_engine import RuleEngine
from duologue.recording.format import FrameDirection
from duologue.recording.line_splitter import LineSplitter
from duologue.relay.byte_tap import StreamRecorder

MAX_WAITING_BYTES = 64 << 20
"""Bytes that wait for slow observers; of more, the observers get nothing."""
END_SECONDS = 10.0
"""Time for the observers to see the last messages after the agent has ended."""

_log = logging.getLogger("duologue.proxy")


class StreamObserver(StreamRecorder):
    """Calls the observers of a proxy that has no rules, in a thread of its own.

    Args:
        proxy: The proxy.
    """

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._splitters: dict[FrameDirection, LineSplitter] = {"to_agent": LineSplitter(), "to_client": LineSplitter()}
        self._lines: queue.SimpleQueue[tuple[FrameDirection, bytes] | None] = queue.SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.lost = 0

    def add_bytes(self, direction: FrameDirection, data: bytes) -> None:
        """Add bytes that were passed on."""
        splitter = self._splitters[direction]
        with self._lock:
            is_full = self._waiting > MAX_WAITING_BYTES
        if is_full:
            self.lost += data.count(b"\n")
            splitter.miss(is_at_line_end=data.endswith(b"\n"))
            return
        for line in splitter.add(data):
            self._put(direction, line)

    def _put(self, direction: FrameDirection, line: bytes) -> None:
        with self._lock:
            self._waiting += len(line)
        self._lines.put((direction, line))

    def add_stderr(self, data: bytes) -> None:
        """Ignore what the agent writes to stderr."""

    def add_exit(self, exit_code: int) -> None:
        """Ignore how the agent ended."""

    def close(self) -> None:
        """Wait for the observers, but not for long; log what they missed."""
        for direction, splitter in self._splitters.items():
            if rest := splitter.rest():
                self._put(direction, rest)
        self._lines.put(None)
        self._thread.join(END_SECONDS)
        missed = self.lost + sum(splitter.dropped for splitter in self._splitters.values())
        if missed or self._thread.is_alive():
            _log.warning("%s: the observers were too slow; they missed %s messages", self._proxy.name, missed or "some")

    def _run(self) -> None:
        asyncio.run(self._observe_all())

    async def _observe_all(self) -> None:
        reader, engine = MessageReader(), RuleEngine(self._proxy)
        while (item := await asyncio.to_thread(self._lines.get)) is not None:
            direction, line = item
            with self._lock:
                self._waiting -= len(line)
            await engine.apply(reader.read(direction, line.removesuffix(b"\r")))
        await engine.aclose()
