"""A client that shows what an agent does as it happens, and decides what it may do."""

import asyncio
import tempfile
from pathlib import Path

from duologue import Permissions, Terminals, Workspace, connect
from duologue.events import Plan, Text, ToolCall
from duologue.types import PermissionRequest

AGENT = ["duologue", "agent"]  # or ["gemini", "--acp"], or any other command


async def ask_user(question: PermissionRequest) -> None:
    """Allow it once; a real client would ask the user."""
    print(f"    may it? {'; '.join(question.action_lines)}: yes")
    question.allow()


async def main(repo: Path) -> None:
    (repo / "notes.md").write_text("Remember the milk.\n", "utf-8")
    rules = Permissions(read="allow", edit="ask", execute={"git status": "allow", "*": "reject"}, on_request=ask_user)
    async with connect(
        [*AGENT, "--sessions", str(repo / "kept")],
        permissions=rules,
        workspace=Workspace(repo),  # reads and writes cannot leave it
        terminals=Terminals(),
    ) as agent:
        async with agent.new_session(repo) as session:
            for prompt in ("/plan", "/write notes.md Remember the bread."):
                async with session.prompt(prompt) as turn:
                    async for event in turn:  # leaving early cancels and waits for the end of the turn
                        match event:
                            case Text(text=text):
                                print(text, end="")
                            case ToolCall(title=title, status=status):
                                print(f"[{status}] {title}")
                            case Plan(entries=entries):
                                print("plan:", ", ".join(f"{entry.content} ({entry.status})" for entry in entries))
                            case _:
                                pass
                print("ended:", turn.stop_reason)
            print(await session.ask("/echo and the last word"))  # awaited instead of iterated: a plain string


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cwd:
        asyncio.run(main(Path(cwd)))
