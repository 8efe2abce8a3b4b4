"""Define `duologue trace serve` and `duologue trace mcp`, but not what they do."""

from __future__ import annotations

import argparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_trace_serve(subcommands: Commands) -> None:
    """Add `trace serve`."""
    serve = subcommands.add_parser(
        "serve",
        help="show recordings in a browser, also while they grow",
        description="Serve a page on this machine that shows recordings: every message, sequence, conversation, "
        "latencies, schema findings, and the difference of two recordings. It follows a recording that grows. Only "
        "this machine can connect, and only with the token of the printed address. Needs the extra `remote`.",
        epilog="examples: duologue trace serve; duologue trace serve run.acp --no-open",
    )
    serve.set_defaults(function="trace.serve:serve")
    serve.add_argument(
        "path", metavar="FILE|DIR", nargs="?", help="a recording, or a directory (default: the user's recordings)"
    )
    serve.add_argument("--port", type=int, default=0, help="the port (default: one that is free)")
    serve.add_argument(
        "--open",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="open the page in a browser (default: if the output is a terminal)",
    )


def add_trace_mcp(subcommands: Commands) -> None:
    """Add `trace mcp`."""
    mcp = subcommands.add_parser(
        "mcp",
        help="offer recordings to an agent, as the tools of an MCP server",
        description="Serve an MCP server on stdin and stdout whose tools read the recordings of one directory: list, "
        "figures, conversation, messages, findings, comparison, search. It changes nothing and reads nothing else; "
        "answers come in pages, and mark recorded text as untrusted. Needs the extra `mcp`.",
        epilog="example: duologue run 'why did the last run fail?' "
        "--mcp 'recordings=duologue trace mcp .' -- gemini --acp",
    )
    mcp.set_defaults(function="trace.mcp:serve")
    mcp.add_argument("path", metavar="DIR", help="the directory with the recordings (*.acp), or one recording")
