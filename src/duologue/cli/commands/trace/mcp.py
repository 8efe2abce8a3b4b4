"""`duologue trace mcp`: recordings as the tools of an MCP server on stdin and stdout."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

import duologue
from duologue.agent.hosting.stdio import serve_stdio
from duologue.cli.exit_codes import ExitCode, UsageError


def serve(arguments: argparse.Namespace) -> int:
    """Serve the tools until the client closes stdin; return the exit code."""
    try:
        from duologue.mcp.tool_server.transports import ToolServerRelay
    except ImportError as error:
        raise UsageError(f"trace mcp needs {error.name}; install the extra: pip install 'duologue[mcp]'") from None
    from duologue.inspector.agent_tools import INSTRUCTIONS, RecordingTools
    from duologue.inspector.recording_folder import RecordingFolder
    from duologue.mcp.tool_server.server import ToolServer

    try:
        folder = RecordingFolder(Path(arguments.path))
    except OSError as error:
        raise UsageError(f"{arguments.path}: {error.strerror}") from None
    recordings, version = RecordingTools(folder), duologue.__version__
    tools = ToolServer(
        recordings.functions, name="recordings", version=version, instructions=INSTRUCTIONS, is_read_only=True
    )
    with contextlib.closing(recordings):
        serve_stdio(ToolServerRelay(tools))
    return ExitCode.OK
