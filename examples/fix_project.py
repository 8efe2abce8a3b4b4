"""Let the coding agent change a project from a program: edits and the tests are allowed, every other command is not."""

import asyncio
import sys
from pathlib import Path

from duologue import Permissions, Terminals, Workspace, connect
from duologue.events import Text, ToolCall

AGENT = ["duologue", "code"]  # add `--model provider:name` for a certain model
RULES = Permissions(edit="allow", execute={"python3 -m unittest": "allow", "*": "reject"})


async def main(project: Path, task: str) -> str | None:
    """Give the agent a task; return how its turn ended."""
    async with connect(AGENT, permissions=RULES, workspace=Workspace(project), terminals=Terminals()) as agent:
        async with agent.new_session(project) as session, session.prompt(task) as turn:
            async for event in turn:
                match event:
                    case Text(text=text):
                        print(text, end="", flush=True)
                    case ToolCall(title=title, status="completed" | "failed" as status):
                        print(f"[{status}] {title}")
                    case _:
                        pass
    print(f"\nended: {turn.stop_reason}")
    return turn.stop_reason


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    words = " ".join(sys.argv[2:]) or "Run the tests with `python3 -m unittest` and fix what fails."
    sys.exit(asyncio.run(main(folder, words)) != "end_turn")
