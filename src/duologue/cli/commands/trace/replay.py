"""`duologue trace replay`: play one side of a recording."""

from __future__ import annotations

import argparse
import asyncio
import sys

from duologue.cli.console.safe_output import safe
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.sanitize import escape_line
from duologue.testing.agent_replay import ReplayFailed, replay_agent

ON_TERMINAL = """\
This is an ACP agent that plays a recording: it waits for a client that sends JSON-RPC messages to its stdin.
To talk to it: duologue chat -- duologue trace replay FILE --as agent
"""
"""Printed if a person starts it without a client."""


def replay(arguments: argparse.Namespace) -> int:
    """Play the side that was named; return 1 if the other side deviates from the recording."""
    try:
        return (_as_agent if arguments.side == "agent" else _as_client)(arguments)
    except (FileNotFoundError, IsADirectoryError, PermissionError, ValueError) as error:
        raise UsageError(str(error)) from None


def _as_agent(arguments: argparse.Namespace) -> int:
    from duologue.transports.stdio.stdio import StdioTransport

    agent = replay_agent(
        arguments.file,
        strict=arguments.strict,
        speed=arguments.speed,
        timeout=arguments.timeout,
        ignore=arguments.ignore,
        keep_paths=arguments.keep_paths,
    )
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(ON_TERMINAL)
    for note in agent.notes:
        sys.stderr.write(f"duologue trace replay: {note}\n")

    async def serve() -> None:
        await agent.serve(StdioTransport())

    try:
        asyncio.run(serve())
    except ReplayFailed as error:
        sys.stderr.write(f"duologue trace replay: {escape_line(str(error))}\n")
        return ExitCode.AGENT_ERROR
    return ExitCode.OK


def _as_client(arguments: argparse.Namespace) -> int:
    from duologue.cli.arguments import parse_key_values
    from duologue.cli.targets import lock_for, target_of
    from duologue.testing.client_replay import replay_client

    target = target_of(arguments)
    report = asyncio.run(
        replay_client(
            arguments.file,
            target,
            compare=arguments.compare,
            speed=arguments.speed,
            timeout=arguments.timeout,
            ignore=arguments.ignore,
            cwd=arguments.cwd,
            env=parse_key_values(arguments.env, "--env"),
            lock=lock_for(target, arguments),
        )
    )
    out = safe(sys.stdout, is_exact=arguments.json)
    if arguments.json:
        out.write_json(report.to_json())
    else:
        for line in str(report).splitlines():
            out.write(f"{escape_line(line)}\n")
    return ExitCode.OK if report.is_same else ExitCode.AGENT_ERROR
