"""`duologue connect`: a remote agent as a local command, for editors that only start commands."""

from __future__ import annotations

import argparse
import sys

from duologue.agent.stdio import serve_stdio
from duologue.cli.codes import Code, UsageError
from duologue.cli.targets import remote_config
from duologue.errors import StartError
from duologue.relay.local import Extension
from duologue.transports.remote import Remote

__all__ = ["connect"]


def connect(arguments: argparse.Namespace) -> int:
    """Pass frames until the editor leaves, or the agent is lost."""
    try:
        remote = Remote.of(remote_config({"url": arguments.url}, arguments))
        if remote is None:
            raise UsageError("an address begins with ws://, wss://, http:// or https://")
    except (StartError, UsageError) as error:
        sys.stderr.write(f"duologue connect: {error}\n")
        return int(Code.USAGE)
    extension = Extension(remote.open)
    serve_stdio(extension)
    if extension.failure is not None:
        sys.stderr.write(f"duologue connect: {extension.failure}\n")
        return int(Code.AGENT_ERROR)
    return int(Code.ENDED)
