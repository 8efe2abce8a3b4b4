"""Faults of the byte stream, at both ends: an agent on its stdio, and a client with its child process."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import pytest

from duologue.errors import AgentExited, MessageTooLarge
from duologue.jsonrpc.framing import Oversized
from duologue.transports.process.transport import ProcessTransport
from tests.transports.programs import ECHO, python, reporter, summary

End: TypeAlias = Callable[[Sequence[bytes], int, Path], Awaitable[list[bytes]]]
MIB = 1024 * 1024
MESSAGE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"text":"\xc3\xa9\xe2\x82\xac"}}'
BOM = b"\xef\xbb\xbf"


async def agent_end(writes: Sequence[bytes], limit: int, _: Path) -> list[bytes]:
    """Summaries of the frames that an agent receives when we write this to its stdin."""
    process = await asyncio.create_subprocess_exec(*reporter(limit), stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    # An agent that has had enough may leave before all is written.
    with suppress(ConnectionError):
        for data in writes:
            process.stdin.write(data)
            await process.stdin.drain()
    process.stdin.close()
    reports = (await process.stdout.read()).splitlines()
    assert await process.wait() == 0
    return reports


WRITER = python(
    """
    import itertools, json, os, sys
    data, sizes = open(sys.argv[1], "rb").read(), json.load(open(sys.argv[2]))
    for start, size in zip(itertools.accumulate([0, *sizes]), sizes):
        piece = data[start:start + size]
        while piece:
            piece = piece[os.write(1, piece):]
    """
)


async def client_end(writes: Sequence[bytes], limit: int, folder: Path) -> list[bytes]:
    """Summaries of the frames that a client receives when its agent writes this to its stdout."""
    (folder / "data").write_bytes(b"".join(writes))
    (folder / "sizes").write_text(json.dumps([len(data) for data in writes]))
    reports: list[bytes] = []
    command = [*WRITER, str(folder / "data"), str(folder / "sizes")]
    async with ProcessTransport(command, max_message_bytes=limit) as transport:
        try:
            while True:
                reports += map(summary, await transport.receive())
        except MessageTooLarge:
            reports.append(b"MessageTooLarge")
        except AgentExited as ended:
            assert ended.exit_code == 0
    return reports


@pytest.fixture(params=[agent_end, client_end])
def end(request: pytest.FixtureRequest) -> End:
    chosen: End = request.param
    return chosen


async def check(end: End, folder: Path, writes: Sequence[bytes], expected: Sequence[bytes], limit: int = MIB) -> None:
    async with asyncio.timeout(60):
        assert await end(writes, limit, folder) == [summary(frame) for frame in expected]


@pytest.mark.fault("FRM-01")
async def test_a_message_cut_at_any_byte(end: End, tmp_path: Path) -> None:
    cuts = [part for position in range(len(MESSAGE) + 1) for part in (MESSAGE[:position], MESSAGE[position:] + b"\n")]
    await check(end, tmp_path, cuts, [MESSAGE] * (len(MESSAGE) + 1))


@pytest.mark.fault("FRM-02")
async def test_a_message_written_byte_by_byte(end: End, tmp_path: Path) -> None:
    await check(end, tmp_path, [bytes([byte]) for byte in MESSAGE + b"\n"], [MESSAGE])


@pytest.mark.fault("FRM-03")
async def test_a_thousand_messages_in_one_write(end: End, tmp_path: Path) -> None:
    messages = [b'{"id":%d}' % number for number in range(1000)]
    await check(end, tmp_path, [b"\n".join(messages) + b"\n"], messages)


@pytest.mark.fault("FRM-04")
async def test_a_line_of_the_limit_and_one_of_a_byte_more(end: End, tmp_path: Path) -> None:
    """Spec, over-long line: the rest is discarded to the next newline, and the connection lives on."""
    at, over = b"a" * MIB, b"b" * (MIB + 1)
    await check(end, tmp_path, [at + b"\n" + over + b"\n{}\n"], [at, Oversized(over[:4096], len(over)), b"{}"])


@pytest.mark.fault("FRM-05")
async def test_a_line_without_end(end: End, tmp_path: Path) -> None:
    async with asyncio.timeout(60):
        reports = await end([b"{}\n", *[b"x" * 65_536] * 6], 65_536, tmp_path)
    assert reports == [summary(b"{}"), b"MessageTooLarge"]


@pytest.mark.fault("FRM-06")
async def test_lines_around_the_limits_of_common_readers(end: End, tmp_path: Path) -> None:
    lines = [b"l" * size for size in (65_535, 65_536, 65_537, MIB)]
    await check(end, tmp_path, [line + b"\n" for line in lines], lines)


@pytest.mark.fault("FRM-07")
async def test_carriage_return_and_newline_also_in_two_writes(end: End, tmp_path: Path) -> None:
    await check(end, tmp_path, [b"{}\r\n[]\r", b"\n1\r\n"], [b"{}", b"[]", b"1"])


@pytest.mark.fault("FRM-08")
async def test_a_lone_carriage_return_is_no_line_end(end: End, tmp_path: Path) -> None:
    await check(end, tmp_path, [b"{}\r[]\n{}\n"], [b"{}\r[]", b"{}"])


@pytest.mark.fault("FRM-09")
async def test_blank_lines(end: End, tmp_path: Path) -> None:
    await check(end, tmp_path, [b"\n\r\n   \n\t \t\n{}\n"], [b"{}"])


@pytest.mark.fault("FRM-10")
async def test_characters_that_only_look_like_line_ends(end: End, tmp_path: Path) -> None:
    line = '{"text":"a\u2028b\u2029c\u0085d\x0be"}'.encode()
    await check(end, tmp_path, [line + b"\n"], [line])


@pytest.mark.fault("FRM-11")
async def test_a_byte_order_mark(end: End, tmp_path: Path) -> None:
    await check(end, tmp_path, [BOM[:2], BOM[2:] + b"{}\n", BOM + b"[]\n"], [b"{}", BOM + b"[]"])


@pytest.mark.fault("FRM-12", "FRM-13")
async def test_objects_that_share_a_line_or_span_two(end: End, tmp_path: Path) -> None:
    await check(end, tmp_path, [b'{"a":1}{"b":2}\n{"c":\n3}\n{}\n'], [b'{"a":1}{"b":2}', b'{"c":', b"3}", b"{}"])


@pytest.mark.fault("FRM-14")
async def test_a_last_line_without_newline(end: End, tmp_path: Path) -> None:
    await check(end, tmp_path, [b'{}\n{"a":1}'], [b"{}", b'{"a":1}'])
    await check(end, tmp_path, [b'{}\n{"a":'], [b"{}", b'{"a":'])


@pytest.mark.fault("FRM-18")
async def test_nul_bytes(end: End, tmp_path: Path) -> None:
    await check(end, tmp_path, [b'\x00\n{"a":"\x00"}\n{}\n'], [b"\x00", b'{"a":"\x00"}', b"{}"])


@pytest.mark.fault("FRM-20")
async def test_large_frames_of_many_writers_are_echoed_whole() -> None:
    """Both ends write large frames: ours from 64 tasks, the agent's from its loop."""
    expected = {b"%02d" % number * (MIB // 2) for number in range(64)}
    async with asyncio.timeout(60), ProcessTransport(ECHO) as transport, asyncio.TaskGroup() as tasks:

        async def write(frame: bytes) -> None:
            while transport.is_congested:
                await transport.drain()
            transport.send(frame)

        for frame in expected:
            tasks.create_task(write(frame))
        received: list[bytes] = []
        while len(received) < len(expected):
            received += await transport.receive()
    assert set(received) == expected


@pytest.mark.fault("PRC-11")
async def test_both_ends_write_fifty_mebibytes_before_either_reads() -> None:
    frames = [b"%02d" % number + b"w" * MIB for number in range(50)]
    both_write_first = python(
        """
        import asyncio
        from duologue.transports.stdio.stdio import StdioTransport

        async def main():
            async with StdioTransport() as wire:
                for number in range(50):
                    wire.send(b"%02d" % number + b"w" * 1024 * 1024)
                count = 0
                while count < 50:
                    count += len(await wire.receive())
                wire.send(b"%d read" % count)
                await wire.drain()
                await wire.receive()

        asyncio.run(main())
        """
    )
    async with asyncio.timeout(60), ProcessTransport(both_write_first) as transport:
        for frame in frames:
            transport.send(frame)
        received: list[bytes] = []
        while len(received) < 51:
            received += await transport.receive()
    assert received == [*frames, b"50 read"]
