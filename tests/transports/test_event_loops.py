"""Pipes and processes work on asyncio's event loop and on uvloop, if that is installed; `pytest --uvloop` runs more."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from duologue import connect
from duologue.errors import OutputLimitExceeded
from duologue.transports.stdio.fd_streams import open_reader, open_writer
from duologue.transports.stdio.line_stream import LineStreamTransport

LoopFactory: TypeAlias = Callable[[], asyncio.AbstractEventLoop]
Open: TypeAlias = Callable[[int, asyncio.Protocol], Coroutine[Any, Any, object]]

AGENT = """
from duologue import Agent

agent = Agent("echo")


@agent.on_prompt
async def answer(turn):
    await turn.say(turn.text)


agent.run()
"""


def uvloop_factory() -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop = import_module("uvloop").new_event_loop()
    return loop


needs_uvloop = pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not installed")
every_loop = pytest.mark.parametrize(
    "factory",
    [
        pytest.param(asyncio.new_event_loop, id="asyncio"),
        pytest.param(uvloop_factory, id="uvloop", marks=needs_uvloop),
    ],
)


@pytest.fixture(scope="module", autouse=True)
def first_loop() -> None:
    """Make a loop before descriptors are counted: with the first one of a process, libuv opens a pipe for signals."""
    if find_spec("uvloop") is not None:
        uvloop_factory().close()


@every_loop
def test_an_agent_in_a_process_answers(factory: LoopFactory, tmp_path: Path) -> None:
    async def ask() -> str:
        async with asyncio.timeout(60), connect([sys.executable, "-c", AGENT]) as agent:
            session = await agent.new_session(tmp_path)
            return await session.ask("hello")

    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(ask()) == "hello"


@every_loop
@pytest.mark.parametrize("open_end", [open_reader, open_writer])
def test_a_pipe_whose_opening_is_cancelled_is_closed(factory: LoopFactory, open_end: Open) -> None:
    async def cancel(fd: int) -> None:
        opening = asyncio.create_task(open_end(fd, asyncio.Protocol()))
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)

    ends = os.pipe()
    is_writer = open_end is open_writer
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(cancel(ends[is_writer]))
    finally:
        os.close(ends[not is_writer])


class PipeTransport(LineStreamTransport):
    """Frames on two ends of pipes."""

    async def open(self, read_fd: int, write_fd: int) -> None:
        self._attach(await open_reader(read_fd, self._input), await open_writer(write_fd, self._output))


@every_loop
def test_nothing_is_pending_after_the_hard_limit_has_ended_the_connection(factory: LoopFactory) -> None:
    async def flood(read_fd: int, write_fd: int) -> None:
        transport = PipeTransport(max_queued_bytes=1024 * 1024)
        await transport.open(read_fd, write_fd)
        async with asyncio.timeout(60), transport:
            with pytest.raises(OutputLimitExceeded):
                while True:
                    transport.send(b"z" * 65_535)
            assert transport.pending_bytes == 0

    (ours_in, theirs_out), (theirs_in, ours_out) = os.pipe(), os.pipe()
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(flood(ours_in, ours_out))
    finally:
        os.close(theirs_in)
        os.close(theirs_out)
