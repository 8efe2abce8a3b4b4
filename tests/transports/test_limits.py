"""Behaviour when the machine has run out of descriptors or processes."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE

import pytest

from tests.transports.programs import python

FEW_DESCRIPTORS = """
import asyncio, os, resource
from contextlib import AsyncExitStack
from duologue.errors import StartError
from duologue.transports.process.transport import ProcessTransport

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

async def talk(transport):
    transport.send(b"{}")
    assert await transport.receive() == [b"{}"]

async def main():
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        async with AsyncExitStack() as stack:
            agents = []
            try:
                while True:
                    agents.append(await stack.enter_async_context(ProcessTransport("cat -u")))
            except StartError as error:
                print("refused:", error)
            for agent in agents:
                await talk(agent)
            await agents.pop().aclose()
            agents.append(await stack.enter_async_context(ProcessTransport("cat -u")))
            await talk(agents[-1])
        assert len(os.listdir("/proc/self/fd")) == before

asyncio.run(main())
"""

NO_PROCESSES = """
import asyncio, os, resource
from duologue.errors import StartError
from duologue.transports.process.transport import ProcessTransport

# The limit does not bind root.
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
resource.setrlimit(resource.RLIMIT_NPROC, (0, hard))

async def main():
    before = len(os.listdir("/proc/self/fd"))
    try:
        async with ProcessTransport("cat -u"):
            pass
    except StartError as error:
        print("refused:", error)
    assert len(os.listdir("/proc/self/fd")) == before
    resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
    async with ProcessTransport("cat -u") as transport:
        transport.send(b"{}")
        assert await transport.receive() == [b"{}"]

asyncio.run(main())
"""


async def output_of(program: str) -> str:
    process = await asyncio.create_subprocess_exec(*python(program), stdout=PIPE, stderr=PIPE)
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    return out.decode()


@pytest.mark.fault("PRC-14")
async def test_without_descriptors_starting_fails_the_running_agents_go_on_and_it_recovers() -> None:
    output = (await output_of(FEW_DESCRIPTORS)).splitlines()
    assert len(output) == 2
    assert all(line.startswith("refused: ") and "Too many open files" in line for line in output)


@pytest.mark.fault("PRC-15")
async def test_without_processes_starting_fails_at_once_and_works_again_later() -> None:
    output = await output_of(NO_PROCESSES)
    assert output.startswith("refused: ")
    assert "Resource temporarily unavailable" in output
