"""An agent and a client load only what they need until a session is open; `start.toml` lists it.

A module takes a tenth of a millisecond and more to load, whether it is used or not, and users wait for it whenever they
start an agent. What is needed later, or by few, is imported where it is used.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from benchmarks.peers import ROOT
from benchmarks.runs import ENVIRONMENT

ALLOWED: dict[str, dict[str, str]] = tomllib.loads((Path(__file__).parent / "start.toml").read_text("utf-8"))

AGENT = """
from duologue import Agent

agent = Agent("example")


@agent.on_prompt
async def answer(turn):
    await turn.say("hello")


agent.run()
"""

CLIENT = """
from duologue import connect
from duologue.types import Implementation


async def main():
    async with connect([sys.executable, "-c", sys.argv[2]], client_info=Implementation("example", "1")) as agent:
        await agent.new_session("/")


asyncio.run(main())
"""

REQUESTS = b"""\
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}
{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}
"""

MEASURED = """
import asyncio, pathlib, sys, msgspec
before = set(sys.modules)
{program}
pathlib.Path(sys.argv[1]).write_text("\\n".join(sorted(set(sys.modules) - before)))
"""
"""Every program of these loads asyncio and msgspec, and most load pathlib; how much that is differs by version."""


def loaded(program: str, folder: Path) -> list[str]:
    """Run a program; return the modules that it loaded."""
    found = folder / "modules"
    command = [sys.executable, "-c", MEASURED.format(program=program), str(found), AGENT]
    env = {**ENVIRONMENT, "PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run(command, env=env, input=REQUESTS, capture_output=True, timeout=100, check=True)
    assert program == CLIENT or b'"sessionId"' in ended.stdout
    return found.read_text().split()


@pytest.mark.skipif(sys.platform != "linux", reason="what a system needs to start a process differs")
@pytest.mark.parametrize(("side", "program"), [("agent", AGENT), ("client", CLIENT)])
def test_a_start_loads_only_the_modules_that_are_listed(side: str, program: str, tmp_path: Path) -> None:
    packages = dict(ALLOWED[side])
    listed = {*packages.pop("other").split(), *packages}
    listed |= {f"{package}.{name}" for package, names in packages.items() for name in names.split()}

    assert [name for name in loaded(program, tmp_path) if name not in listed] == []
