"""A client that offers its own functions to an agent, as an MCP server."""

import asyncio
import tempfile
from pathlib import Path
from typing import Literal

from duologue import Permissions, connect

AGENT = ["duologue", "agent"]  # or ["gemini", "--acp"], or any other command

TABS = {"main.py": "def main(): ...", "notes.md": "Remember the milk."}


async def open_tabs(order: Literal["name", "newest"] = "newest", limit: int = 10) -> list[str]:
    """List the files that are open in the editor."""
    return (sorted(TABS) if order == "name" else list(TABS))[:limit]


def unsaved_text(tab: str) -> str:
    """Return the text of a tab, saved or not."""
    return TABS[tab]  # it may block: a plain function runs in a thread


async def main(cwd: Path) -> None:
    yes = Permissions(other="allow")  # this agent asks before it calls a tool
    async with connect([*AGENT, "--sessions", str(cwd)], tools=[open_tabs, unsaved_text], permissions=yes) as agent:
        async with agent.new_session(cwd) as session:
            # An agent with a model calls them by itself; the built-in one needs a command.
            print(await session.ask("/mcp"))
            print(await session.ask('/mcp editor open_tabs {"order": "name"}'))
            print(await session.ask('/mcp editor unsaved_text {"tab": "notes.md"}'))
            print(await session.ask('/mcp editor unsaved_text {"tab": "lost.md"}'))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
