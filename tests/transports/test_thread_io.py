"""Reading and writing by threads, where the event loop cannot."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import sys

import pytest

from duologue.transports.stdio.thread_io import CHUNK, ThreadReader, ThreadWriter
from tests.transports.waiting import until


class RecordingProtocol(asyncio.Protocol):
    """Record the calls."""

    def __init__(self) -> None:
        self.data = b""
        self.calls: list[str] = []
        self.error: Exception | None = None
        self.is_gone = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> None:
        self.calls.append("end")

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self.is_gone.set()


async def test_a_reader_delivers_all_and_then_the_end() -> None:
    read_end, write_end = os.pipe()
    protocol = RecordingProtocol()
    reader = ThreadReader(read_end, protocol)
    assert reader.is_reading()
    os.write(write_end, b"some")
    await until(lambda: protocol.data == b"some")
    os.write(write_end, b" more")
    os.close(write_end)
    async with asyncio.timeout(60):
        await protocol.is_gone.wait()
    assert (protocol.data, protocol.calls, protocol.error) == (b"some more", ["end"], None)
    assert reader.is_closing()
    reader.close()


async def test_a_paused_reader_takes_one_chunk_at_most() -> None:
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4 * CHUNK)
    os.write(write_end, b"x" * (4 * CHUNK))
    protocol = RecordingProtocol()
    reader = ThreadReader(read_end, protocol)
    reader.pause_reading()
    await until(lambda: len(protocol.data) == CHUNK)
    assert not reader.is_reading()
    reader.resume_reading()
    await until(lambda: len(protocol.data) == 4 * CHUNK)
    reader.close()
    async with asyncio.timeout(60):
        await protocol.is_gone.wait()
    os.close(write_end)


async def test_closing_a_reader_wakes_its_thread() -> None:
    read_end, write_end = os.pipe()
    protocol = RecordingProtocol()
    reader = ThreadReader(read_end, protocol)
    reader.close()
    reader.close()
    async with asyncio.timeout(60):
        await protocol.is_gone.wait()
    os.close(write_end)
    assert protocol.calls == []


async def test_a_reader_that_is_paused_and_closed_while_it_reads_ends_in_any_order() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that the two threads meet in every order
    try:
        for _ in range(300):
            read_end, write_end = os.pipe()
            os.write(write_end, b"some")
            protocol = RecordingProtocol()
            reader = ThreadReader(read_end, protocol)
            reader.pause_reading()
            reader.close()
            async with asyncio.timeout(60):
                await protocol.is_gone.wait()
            os.close(write_end)
    finally:
        sys.setswitchinterval(interval)


async def test_a_reader_reports_what_broke() -> None:
    read_end, write_end = os.pipe()
    protocol = RecordingProtocol()
    ThreadReader(os.dup(write_end), protocol)
    os.write(write_end, b"x")
    os.close(read_end)
    async with asyncio.timeout(60):
        await protocol.is_gone.wait()
    assert isinstance(protocol.error, OSError)
    assert protocol.error.errno == errno.EBADF
    os.close(write_end)


async def test_a_writer_without_a_reader_pauses_and_resumes_when_it_is_read() -> None:
    read_end, write_end = os.pipe()
    protocol = RecordingProtocol()
    writer = ThreadWriter(write_end, protocol)
    writer.set_write_buffer_limits(high=CHUNK)
    data = os.urandom(8 * CHUNK)
    writer.write(data)
    assert protocol.calls == ["pause"]
    assert writer.get_write_buffer_size() > CHUNK
    received = b""
    while len(received) < len(data):
        received += os.read(read_end, CHUNK)
    await until(lambda: protocol.calls == ["pause", "resume"])
    assert received == data
    writer.write(b"last")
    writer.close()
    writer.write(b"too late")
    async with asyncio.timeout(60):
        await protocol.is_gone.wait()
    assert os.read(read_end, 100) == b"last"
    assert os.read(read_end, 100) == b""
    os.close(read_end)


async def test_a_writer_whose_reader_is_gone_reports_it() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    protocol = RecordingProtocol()
    writer = ThreadWriter(write_end, protocol)
    writer.write(b"x")
    async with asyncio.timeout(60):
        await protocol.is_gone.wait()
    assert isinstance(protocol.error, BrokenPipeError)
    assert writer.is_closing()


async def test_aborting_a_writer_does_not_wait_for_a_blocked_write() -> None:
    read_end, write_end = os.pipe()
    protocol = RecordingProtocol()
    writer = ThreadWriter(write_end, protocol)
    writer.write(b"x" * (4 * CHUNK))
    writer.abort()
    async with asyncio.timeout(60):
        await protocol.is_gone.wait()
    assert writer.get_write_buffer_size() == 0
    os.close(read_end)
    await until(lambda: not writer._thread.is_alive())


@pytest.mark.parametrize("kind", [ThreadReader, ThreadWriter])
def test_a_closed_event_loop_ends_the_thread(kind: type[ThreadReader | ThreadWriter]) -> None:
    read_end, write_end = os.pipe()

    async def start() -> ThreadReader | ThreadWriter:
        if kind is ThreadReader:
            return ThreadReader(read_end, RecordingProtocol())
        return ThreadWriter(write_end, RecordingProtocol())

    transport = asyncio.run(start())
    if isinstance(transport, ThreadReader):
        os.write(write_end, b"x")
        os.close(write_end)
    else:
        transport.write(b"x")
        os.close(read_end)
    transport._thread.join(60)
    assert not transport._thread.is_alive()
    if isinstance(transport, ThreadReader):
        os.close(transport._wake_write)
