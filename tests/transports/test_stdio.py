"""An agent's own stdin and stdout, in a real process, whatever they are."""

from __future__ import annotations

import asyncio
import os
import pty
import socket
import subprocess
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from tests.transports.programs import ECHO, python

LINES = b'{"n":1}\n{"n":2}\n{"n":3}\n'


async def run(
    command: list[str], stdin: int, stdout: int, data: bytes | None = None
) -> tuple[int | None, bytes | None, bytes]:
    """Exit code, stdout if it is a pipe, and stderr."""
    process = await asyncio.create_subprocess_exec(*command, stdin=stdin, stdout=stdout, stderr=PIPE)
    async with asyncio.timeout(60):
        out, err = await process.communicate(data)
    return process.returncode, out, err


async def test_frames_are_echoed_over_pipes() -> None:
    assert await run(ECHO, PIPE, PIPE, LINES) == (0, LINES, b"")


@pytest.mark.fault("FRM-21")
async def test_stdin_and_stdout_may_be_regular_files(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(LINES)
    with (tmp_path / "in").open("rb") as stdin, (tmp_path / "out").open("wb") as stdout:
        assert await run(ECHO, stdin.fileno(), stdout.fileno()) == (0, None, b"")
    assert (tmp_path / "out").read_bytes() == LINES


@pytest.mark.fault("FRM-21")
async def test_stdin_and_stdout_may_be_nothing() -> None:
    assert await run(ECHO, subprocess.DEVNULL, PIPE) == (0, b"", b"")
    assert await run(ECHO, PIPE, subprocess.DEVNULL, LINES) == (0, None, b"")


@pytest.mark.fault("FRM-21")
async def test_a_closed_stdin_is_an_empty_one() -> None:
    assert await run(["sh", "-c", 'exec "$@" <&-', "sh", *ECHO], subprocess.DEVNULL, PIPE) == (0, b"", b"")


@pytest.mark.fault("FRM-21")
async def test_a_terminal_gets_a_hint_and_is_served() -> None:
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(*ECHO, stdin=theirs, stdout=theirs, stderr=PIPE)
    os.close(theirs)
    os.write(ours, LINES + b"\x04")
    async with asyncio.timeout(60):
        _, err = await process.communicate()
    assert process.returncode == 0
    assert err.count(b"\n") == 1
    assert b"speaks the Agent Client Protocol" in err
    # The terminal itself shows what was typed; the agent's own lines come in addition.
    assert os.read(ours, 65_536).count(b'{"n":3}') == 2
    os.close(ours)


@pytest.mark.fault("FRM-21")
async def test_stdin_and_stdout_may_be_two_sockets() -> None:
    """As Node starts its children."""
    to_agent, stdin = socket.socketpair()
    from_agent, stdout = socket.socketpair()
    process = await asyncio.create_subprocess_exec(*ECHO, stdin=stdin.fileno(), stdout=stdout.fileno())
    stdin.close()
    stdout.close()
    to_agent.send(LINES)
    assert await received(from_agent, len(LINES)) == LINES
    to_agent.close()
    async with asyncio.timeout(60):
        assert await process.wait() == 0
    from_agent.close()


@pytest.mark.fault("FRM-21")
async def test_stdin_and_stdout_may_be_one_socket() -> None:
    """As under inetd and socat."""
    ours, theirs = socket.socketpair()
    process = await asyncio.create_subprocess_exec(*ECHO, stdin=theirs.fileno(), stdout=theirs.fileno())
    theirs.close()
    ours.send(LINES)
    assert await received(ours, len(LINES)) == LINES
    ours.shutdown(socket.SHUT_WR)
    async with asyncio.timeout(60):
        assert await process.wait() == 0
    ours.close()


async def received(sock: socket.socket, size: int) -> bytes:
    sock.setblocking(False)
    data = b""
    async with asyncio.timeout(60):
        while len(data) < size:
            data += await asyncio.get_running_loop().sock_recv(sock, size)
    return data


STRAY = """
import asyncio, os, subprocess, sys
from duologue.transports.stdio.stdio import StdioTransport

kept = sys.stdout
sys.stdout.write("printed before, not flushed\\n")

async def main():
    async with StdioTransport() as wire:
        print("a print")
        kept.write("a handler that kept sys.stdout\\n")
        kept.flush()
        os.write(1, b"a write to descriptor 1\\n")
        subprocess.run(["echo", "a child"], check=True)
        subprocess.run(["cat"], check=True)
        try:
            input()
        except EOFError:
            print("input() finds nothing")
        while frames := await wire.receive():
            for frame in frames:
                wire.send(frame)
    print("after closing")

asyncio.run(main())
"""


async def test_stray_output_never_reaches_the_wire_and_no_child_reads_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    code, out, err = await run(python(STRAY), PIPE, PIPE, LINES)

    assert code == 0
    assert out == LINES + b"after closing\n"
    assert err.decode().splitlines() == [
        "printed before, not flushed",
        "a print",
        "a handler that kept sys.stdout",
        "a write to descriptor 1",
        "a child",
        "input() finds nothing",
    ]


RESTORED = """
import asyncio, os, sys
from duologue.transports.stdio.stdio import StdioTransport

def state():
    return [os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1)], [os.get_blocking(fd) for fd in (0, 1)], sys.stdout

async def main():
    before, count = state(), len(os.listdir("/proc/self/fd"))
    async with StdioTransport() as wire:
        assert state() != before
        await wire.aclose()
    assert state() == before
    assert len(os.listdir("/proc/self/fd")) == count

asyncio.run(main())
"""


async def test_closing_gives_stdin_and_stdout_back_as_they_were(tmp_path: Path) -> None:
    assert await run(python(RESTORED), PIPE, PIPE, b"") == (0, b"", b"")
    (tmp_path / "in").write_bytes(LINES)
    with (tmp_path / "in").open("rb") as stdin:
        assert await run(python(RESTORED), stdin.fileno(), PIPE) == (0, b"", b"")


@pytest.mark.fault("PRC-07")
async def test_a_client_that_is_gone_ends_an_agent_that_writes() -> None:
    """No SIGPIPE death, no traceback: sending raises, and receiving ends."""
    code = """
    import asyncio
    from duologue.errors import ConnectionLost
    from duologue.transports.stdio.stdio import StdioTransport

    async def main():
        async with StdioTransport() as wire:
            assert await wire.receive() == []
            try:
                while True:
                    wire.send(b"{}")
                    await asyncio.sleep(0)
            except ConnectionLost:
                raise SystemExit(7)

    asyncio.run(main())
    """
    process = await asyncio.create_subprocess_exec(*python(code), stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout._transport.close()  # type: ignore[attr-defined] # the only way to close a pipe that is read
    process.stdin.close()
    async with asyncio.timeout(60):
        assert await process.wait() == 7
        assert process.stderr is not None
        assert await process.stderr.read() == b""
