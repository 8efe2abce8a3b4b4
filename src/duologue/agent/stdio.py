"""Putting an agent on this process's stdin and stdout, until its client leaves or somebody asks it to end."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

from duologue.conversation.setup import Party
from duologue.runtime.tasks import TaskScope
from duologue.transports.base import Servable
from duologue.transports.stdio import StdioTransport

__all__ = ["read_command_line", "serve_stdio"]


def serve_stdio(agent: Servable) -> None:
    """Serve on stdin and stdout until the client leaves or somebody asks us to end."""
    try:
        asyncio.run(_serve_until_told(agent))
    except KeyboardInterrupt:
        sys.exit(130)


async def _serve_until_told(agent: Servable) -> None:
    """A signal ends the conversation in good order: sessions are saved, children ended."""
    serving = TaskScope().start(agent.serve_on(StdioTransport()))
    loop = asyncio.get_running_loop()
    told: list[int] = []

    def end(number: int) -> None:
        told.append(number)
        serving.cancel()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, end, number)
    try:
        await serving
    except asyncio.CancelledError:
        if not told:
            raise
        sys.exit(128 + told[0])


def read_command_line(info: Party) -> None:
    """The command line of an agent that is its own program: `--help`, `--version`, and nothing else yet."""
    name = info.title or info.name
    parser = argparse.ArgumentParser(description=f"{name} {info.version}: an ACP agent. Start it from an editor.")
    parser.add_argument("--version", action="version", version=f"{info.name} {info.version}")
    parser.parse_args()
