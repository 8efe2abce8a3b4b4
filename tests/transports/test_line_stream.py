"""The engine under stdio, sockets and processes, against a raw socket at the other end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from duologue.errors import ConnectionLost, MessageTooLarge, OutputLimitExceeded
from duologue.transports.base import Transport
from duologue.transports.buffered import READ_AHEAD, WRITE_AHEAD
from duologue.transports.stdio.socket import SocketTransport
from tests.transports.waiting import until

MIB = 1024 * 1024


@pytest.fixture
async def pair() -> AsyncIterator[tuple[SocketTransport, SocketTransport]]:
    one, other = socket.socketpair()
    async with asyncio.timeout(60), SocketTransport(one) as here, SocketTransport(other) as there:
        yield here, there


@pytest.fixture
def raw() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    return ours, theirs


async def receive_all(transport: Transport, count: int) -> list[bytes]:
    frames: list[bytes] = []
    while len(frames) < count:
        frames += await transport.receive()
    return frames


def kernel_buffers(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) + sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


async def test_frames_of_one_turn_leave_in_order_and_in_few_writes(raw: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = raw
    async with SocketTransport(ours) as transport:
        for number in range(1000):
            transport.send(b"%d" % number)
        first = theirs.recv(MIB)
        await asyncio.sleep(0)
        rest = theirs.recv(MIB)

    assert first == b"0\n"
    assert rest == b"".join(b"%d\n" % number for number in range(1, 1000))
    theirs.close()


@pytest.mark.parametrize(("arrived", "sent_at_once"), [(b"1\n" * 7, b"a\n"), (b"1\n" * 8, b"")])
async def test_a_response_leaves_at_once_unless_many_frames_arrived_together(
    raw: tuple[socket.socket, socket.socket], arrived: bytes, sent_at_once: bytes
) -> None:
    """Ours: after many requests the responses leave in one write, which wakes the peer once."""
    ours, theirs = raw
    async with asyncio.timeout(60), SocketTransport(ours) as transport:
        transport.send(b"0")  # from here on only what arrives makes a difference
        assert theirs.recv(100) == b"0\n"
        theirs.send(arrived)
        await receive_all(transport, arrived.count(b"\n"))
        transport.send(b"a")
        try:
            written = theirs.recv(100)
        except BlockingIOError:
            written = b""
        transport.send(b"b")
        await until(lambda: transport.pending_bytes == 0)
        rest = theirs.recv(100)

    assert written == sent_at_once
    assert written + rest == b"a\nb\n"
    theirs.close()


async def test_frames_queued_when_closing_still_leave(raw: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = raw
    async with SocketTransport(ours) as transport:
        transport.send(b"a")
        transport.send(b"b")
    assert theirs.recv(100) == b"a\nb\n"
    assert theirs.recv(100) == b""
    theirs.close()


async def test_nothing_can_be_sent_before_entering_or_after_leaving() -> None:
    one, other = socket.socketpair()
    transport = SocketTransport(one)
    with pytest.raises(ConnectionLost, match="not entered"):
        transport.send(b"{}")
    async with transport:
        pass
    with pytest.raises(ConnectionLost, match="closed"):
        transport.send(b"{}")
    with pytest.raises(ConnectionLost, match="closed"):
        await transport.drain()
    assert await transport.receive() == []
    await transport.aclose()
    other.close()


async def test_leaving_ends_a_receive_that_waits(raw: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = raw
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks, SocketTransport(ours) as transport:
        received = tasks.create_task(transport.receive())
        await asyncio.sleep(0)
    assert received.result() == []
    theirs.close()


async def test_a_flood_stays_in_the_kernel_until_it_is_taken(raw: tuple[socket.socket, socket.socket]) -> None:
    """Ours: memory is bounded by pausing the reader, and no frame is lost by it."""
    ours, theirs = raw
    line = b"x" * 1023 + b"\n"
    total = 16 * MIB
    async with asyncio.timeout(60), SocketTransport(ours) as transport:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            flood = tasks.create_task(loop.sock_sendall(theirs, line * (total // len(line))))
            await until(lambda: transport._is_paused)
            assert transport._unread_bytes <= READ_AHEAD + MIB
            assert not flood.done()
            frames = await receive_all(transport, total // len(line))
    assert frames == [line[:-1]] * (total // len(line))
    theirs.close()


async def test_a_line_longer_than_the_read_ahead_does_not_stop_its_own_arrival(
    pair: tuple[SocketTransport, SocketTransport],
) -> None:
    here, there = pair
    here.send(b"y" * (3 * READ_AHEAD))
    assert await there.receive() == [b"y" * (3 * READ_AHEAD)]


@pytest.mark.fault("FRM-05")
async def test_a_line_without_end_ends_the_connection_after_the_frames_before_it(
    raw: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = raw
    async with asyncio.timeout(60), SocketTransport(ours, max_message_bytes=100) as transport:
        theirs.send(b"{}\n" + b"x" * 401)
        assert await transport.receive() == [b"{}"]
        with pytest.raises(MessageTooLarge):
            await transport.receive()
    theirs.close()


async def test_a_reset_is_a_broken_connection_and_no_plain_end() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    theirs = socket.create_connection(server.getsockname())
    ours, _ = server.accept()
    server.close()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    async with asyncio.timeout(60), SocketTransport(ours) as transport:
        theirs.close()
        with pytest.raises(ConnectionLost, match="broke"):
            await transport.receive()


@pytest.mark.fault("FRM-20")
async def test_large_frames_of_many_writers_never_interleave(pair: tuple[SocketTransport, SocketTransport]) -> None:
    here, there = pair

    async def write(number: int) -> None:
        while here.is_congested:
            await here.drain()
        here.send(b"%02d" % number * (MIB // 2))

    async with asyncio.TaskGroup() as tasks:
        for number in range(64):
            tasks.create_task(write(number))
        frames = await receive_all(there, 64)
    assert sorted(frames) == [b"%02d" % number * (MIB // 2) for number in range(64)]


@pytest.mark.fault("PRC-07")
async def test_when_the_peer_stops_reading_sending_fails_and_receiving_continues(
    raw: tuple[socket.socket, socket.socket],
) -> None:
    """Spec: no death by SIGPIPE, no endless retry."""
    ours, theirs = raw
    async with asyncio.timeout(60), SocketTransport(ours) as transport:
        theirs.send(b'{"n":1}\n')
        theirs.close()
        assert await transport.receive() == [b'{"n":1}']
        assert await transport.receive() == []

        def sending_fails() -> bool:
            try:
                transport.send(b"{}")
            except ConnectionLost:
                return True
            return False

        await until(sending_fails)
        assert transport.pending_bytes == 0
        with pytest.raises(ConnectionLost, match="no longer reads"):
            await transport.drain()


@pytest.mark.fault("PRC-10")
async def test_output_that_is_not_read_stops_at_a_limit_and_then_ends_the_connection(
    raw: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = raw
    frame = b"z" * 1023
    async with asyncio.timeout(60), SocketTransport(ours, output_stall=0.1) as transport:
        sent = 0
        while not transport.is_congested:
            transport.send(frame)
            sent += len(frame) + 1
        assert transport.pending_bytes <= WRITE_AHEAD + 65_536 + 1024
        assert sent <= transport.pending_bytes + kernel_buffers(theirs)
        with pytest.raises(OutputLimitExceeded, match=r"read nothing for 0\.1 s"):
            await transport.drain()
        with pytest.raises(OutputLimitExceeded):
            await transport.receive()
        with pytest.raises(OutputLimitExceeded):
            transport.send(frame)
    theirs.close()


@pytest.mark.fault("PRC-10")
async def test_producers_that_do_not_wait_are_stopped_at_the_hard_limit(
    raw: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = raw
    async with asyncio.timeout(60), SocketTransport(ours, max_queued_bytes=MIB) as transport:
        while transport.pending_bytes <= 4 * MIB - 65_536:
            transport.send(b"z" * 65_535)
        with pytest.raises(OutputLimitExceeded, match="the limit is 4194304"):
            transport.send(b"z" * 131_072)
        assert transport.pending_bytes == 0
        with pytest.raises(OutputLimitExceeded):
            await transport.receive()
    theirs.close()


@pytest.mark.fault("PRC-11")
async def test_both_ends_write_much_before_either_reads(pair: tuple[SocketTransport, SocketTransport]) -> None:
    frames = [b"%02d" % number + b"w" * MIB for number in range(50)]
    for end in pair:
        for frame in frames:
            end.send(frame)
    here, there = await asyncio.gather(receive_all(pair[0], 50), receive_all(pair[1], 50))
    assert here == frames
    assert there == frames


@pytest.mark.fault("PRC-12")
async def test_a_peer_that_sips_slows_the_writer_and_costs_no_memory(
    raw: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = raw
    loop = asyncio.get_running_loop()
    sent = 0
    most = 0

    async def produce(transport: SocketTransport) -> None:
        nonlocal sent, most
        for _ in range(4000):
            transport.send(b"s" * 1023)
            sent += 1024
            most = max(most, transport.pending_bytes)
            if transport.is_congested:
                await transport.drain()

    async with asyncio.timeout(60), SocketTransport(ours, output_stall=5) as transport:
        task = asyncio.create_task(produce(transport))
        await until(lambda: transport.is_congested)
        stopped_at = sent
        for _ in range(50):
            await loop.sock_recv(theirs, 1)
        assert sent == stopped_at
        received = 50
        while received < 4000 * 1024:
            received += len(await loop.sock_recv(theirs, MIB))
        await task
    assert most <= WRITE_AHEAD + 65_536 + 1024
    theirs.close()


async def test_progress_however_slow_restarts_the_stall_clock(raw: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = raw
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(60), SocketTransport(ours, output_stall=0.05) as transport:
        for _ in range(64):
            transport.send(b"p" * 65_535)
        for _ in range(5):
            check = transport._stall_check._timer
            assert check is not None
            taken = 0
            while taken < 262_144:
                taken += len(await loop.sock_recv(theirs, 65_536))
            await until(lambda: transport._stall_check._timer is not check)  # noqa: B023
        transport.send(b"alive")
        theirs.close()
