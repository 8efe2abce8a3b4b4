"""The options of `duologue code`."""

from __future__ import annotations

import argparse

from duologue.cli.options import add_repeatable, add_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_code(commands: Commands) -> None:
    """Add the command."""
    code = commands.add_parser(
        "code",
        help="a coding agent on stdio, for editors; any model",
        description="Serve a coding agent on stdio. It reads and edits files and runs commands with the permission of "
        "the user, in any editor and in `duologue chat --agent code`. Needs the extra `coder`, and a key in the "
        "environment (ANTHROPIC_API_KEY, OPENAI_API_KEY and others) or a model server (`--base-url`).",
        epilog="examples: duologue code --model anthropic:claude-sonnet-5-5; "
        "duologue code --base-url http://127.0.0.1:11434/v1 --model openai:qwen3-coder",
    )
    add_repeatable(code, "--model", "PROVIDER:NAME", "model to use; several are a choice, the first is the default")
    code.add_argument(
        "--base-url", metavar="URL", help="server that speaks OpenAI's API, or Anthropic's for anthropic:NAME"
    )
    code.add_argument(
        "--context-window", type=int, metavar="TOKENS", help="size of the model's context, if it is not known"
    )
    add_seconds(code, "--model-timeout", "stop waiting for the model after this time without a sign of it", 300.0)
    code.add_argument("--sessions", metavar="DIR", help="store sessions here (default: the user's data directory)")
    code.add_argument(
        "--sandbox", action="store_true", help="run commands in a sandbox without network; needs bubblewrap (`bwrap`)"
    )
    add_repeatable(
        code, "--mcp", "SERVER", "connect an MCP server in every session: NAME=COMMAND, NAME=URL, or a configured name"
    )
    code.add_argument("--v2", action="store_true", help="also offer version 2 of the protocol (a draft)")
