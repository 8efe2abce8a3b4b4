"""Read and write descriptors in threads that the event loop cannot watch: regular files, terminals, Windows pipes.

Both classes have the interface of asyncio's own transports. The threads are daemons: one that blocks in a read on
Windows, or in a write to a stopped terminal, never keeps the program alive.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
from contextlib import suppress

CHUNK = 64 * 1024


class ThreadReader(asyncio.ReadTransport):
    """Read a descriptor in a thread; each chunk is read after the previous one was processed."""

    def __init__(self, fd: int, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._fd = fd
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._may_read = threading.Event()
        self._may_read.set()
        self._is_paused = False
        self._is_closing = False
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._run, name=f"duologue-read-{fd}", daemon=True)
        self._thread.start()

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return not self._is_paused and not self._is_closing

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._may_read.set()

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._may_read.set()
            os.close(self._wake_write)
            if sys.platform == "win32":
                # Nothing wakes a blocking read there; the thread and its descriptor stay.
                self._loop.call_soon(self._protocol.connection_lost, None)

    def _run(self) -> None:
        error: OSError | None = None
        try:
            while self._wait_for_input():
                data = os.read(self._fd, CHUNK)
                if not data:
                    break
                self._loop.call_soon_threadsafe(self._deliver, data)
        except OSError as failure:
            error = failure
        except RuntimeError:
            return  # The event loop is closed.
        finally:
            os.close(self._fd)
            os.close(self._wake_read)
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end, error)

    def _wait_for_input(self) -> bool:
        self._may_read.wait()
        # Cleared before anything else is checked, so that a later `close` is noticed the next time.
        self._may_read.clear()
        if sys.platform != "win32" and not self._is_closing:
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            poll.register(self._wake_read, select.POLLIN)
            poll.poll()
        return not self._is_closing

    def _deliver(self, data: bytes) -> None:
        if not self._is_closing:
            self._protocol.data_received(data)
        if not self._is_paused:
            self._may_read.set()

    def _end(self, error: OSError | None) -> None:
        self._thread.join()
        if not self._is_closing:
            self._is_closing = True
            os.close(self._wake_write)
            self._protocol.eof_received()
        self._protocol.connection_lost(error)


class ThreadWriter(asyncio.WriteTransport):
    """Write to a descriptor in a thread, with the flow control of asyncio's own transports."""

    def __init__(self, fd: int, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._fd = fd
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._high = CHUNK
        self._is_congested = False
        self._is_gone = False
        self._changed = threading.Condition()
        self._waiting = bytearray()
        self._in_flight = 0
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name=f"duologue-write-{fd}", daemon=True)
        self._thread.start()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = CHUNK if high is None else high

    def get_write_buffer_size(self) -> int:
        return len(self._waiting) + self._in_flight

    def is_closing(self) -> bool:
        return self._is_closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        with self._changed:
            if self._is_closing:
                return
            self._waiting += data
            self._changed.notify()
        if self.get_write_buffer_size() > self._high and not self._is_congested:
            self._is_congested = True
            self._protocol.pause_writing()

    def close(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify()

    def abort(self) -> None:
        with self._changed:
            self._waiting.clear()
            self._is_closing = True
            self._changed.notify()
        # The thread may block in a write that no process reads; do not wait for it.
        self._loop.call_soon(self._end, None)

    def _run(self) -> None:
        error: OSError | None = None
        try:
            while data := self._next_chunk():
                written = os.write(self._fd, data)
                with self._changed:
                    self._in_flight = 0
                    self._waiting[:0] = data[written:]
                self._loop.call_soon_threadsafe(self._progress)
        except OSError as failure:
            error = failure
        except RuntimeError:
            return  # The event loop is closed.
        finally:
            os.close(self._fd)
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end, error)

    def _next_chunk(self) -> bytes:
        with self._changed:
            while not self._waiting and not self._is_closing:
                self._changed.wait()
            data = bytes(self._waiting[:CHUNK])
            del self._waiting[:CHUNK]
            self._in_flight = len(data)
            return data

    def _progress(self) -> None:
        if self._is_congested and self.get_write_buffer_size() <= self._high // 4:
            self._is_congested = False
            self._protocol.resume_writing()

    def _end(self, error: OSError | None) -> None:
        if not self._is_gone:
            self._is_gone = True
            self._is_closing = True
            self._in_flight = 0
            self._protocol.connection_lost(error)
