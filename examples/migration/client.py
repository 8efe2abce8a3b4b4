"""The client of `official_client.py` with duologue."""

# --8<-- [start:program]
import asyncio
import sys

from duologue import Permissions, Workspace, connect
from duologue.events import Text, ToolCall


async def main() -> None:
    rules = Permissions(read="allow", edit="allow")
    async with connect(sys.argv[1:], permissions=rules, workspace=Workspace()) as agent:
        async with agent.new_session(".") as session, session.prompt("clear the note") as turn:
            async for event in turn:
                match event:
                    case Text(text=text):
                        print(text, end="")
                    case ToolCall(title=title, status="completed"):
                        print(f"[completed] {title}")
                    case _:
                        pass
        print(turn.stop_reason)


asyncio.run(main())
# --8<-- [end:program]
