"""A client on the preview of version 2 in the official Python SDK, in front of our agent: prints what it saw."""

# pyright: basic, reportMissingImports=false
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from acp.experimental.v2 import connect_to_agent, schema


class Client:
    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.updates: asyncio.Queue[Any] = asyncio.Queue()

    async def session_update(self, session_id: str, update: Any, **others: Any) -> None:
        self.updates.put_nowait(update.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def request_permission(self, session_id: str, title: str, options: list[Any], **others: Any) -> Any:
        self.asked.append({"title": title})
        option = next(option for option in options if option.kind == "allow_once")
        return schema.RequestPermissionResponse.model_validate(
            {"outcome": {"outcome": "selected", "optionId": option.option_id}}
        )


async def main(play: dict[str, Any]) -> None:
    process = await asyncio.create_subprocess_exec(
        *play["command"], stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=50_000_000
    )
    client = Client()
    # The streams are named by who writes into them: ours goes out first.
    agent = connect_to_agent(client, process.stdin, process.stdout)
    hello = await agent.initialize(protocol_version=2, info=schema.Implementation(name="preview", version="1"))
    session = await agent.new_session(cwd=play["cwd"], mcp_servers=[])
    turns: list[Any] = []
    for text, *_ in play["steps"]:
        block = schema.TextContentBlock(type="text", text=text)
        answer = await agent.prompt(session_id=session.session_id, prompt=[block])
        updates: list[Any] = []
        while not updates or updates[-1].get("state") != "idle":
            updates.append(await client.updates.get())
        turns.append({"result": {"messageId": answer.message_id}, "updates": updates})
    await agent.close_session(session_id=session.session_id)
    await agent.close()
    seen = {"hello": hello.model_dump(mode="json", by_alias=True), "turns": turns, "asked": client.asked}
    sys.stdout.write(json.dumps(seen))


asyncio.run(main(json.loads(sys.argv[1])))
