"""A client on the official Python SDK: one prompt, with files and permission. `client.py` is the same with duologue."""

# pyright: basic, reportMissingImports=false
# mypy: ignore-errors

# --8<-- [start:program]
import asyncio
import os
import sys
from pathlib import Path

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    ReadTextFileResponse,
    RequestPermissionResponse,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    WriteTextFileResponse,
)


class NotesClient:
    def on_connect(self, agent):
        self.titles = {}

    async def session_update(self, session_id, update, **kwargs):
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContentBlock):
            print(update.content.text, end="")
        elif isinstance(update, ToolCallStart):
            self.titles[update.tool_call_id] = update.title
        elif isinstance(update, ToolCallProgress) and update.status == "completed":
            print(f"[completed] {self.titles[update.tool_call_id]}")

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        for option in options:
            if option.kind == "allow_once":
                outcome = AllowedOutcome(option_id=option.option_id, outcome="selected")
                return RequestPermissionResponse(outcome=outcome)
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    async def read_text_file(self, session_id, path, line=None, limit=None, **kwargs):
        return ReadTextFileResponse(content=Path(path).read_text())  # any file: nothing confines it

    async def write_text_file(self, session_id, path, content, **kwargs):
        Path(path).write_text(content)
        return WriteTextFileResponse()


async def main():
    command, *arguments = sys.argv[1:]
    async with spawn_agent_process(NotesClient(), command, *arguments, env=os.environ) as (agent, _process):
        files = FileSystemCapabilities(read_text_file=True, write_text_file=True)
        await agent.initialize(protocol_version=PROTOCOL_VERSION, client_capabilities=ClientCapabilities(fs=files))
        session = await agent.new_session(cwd=os.getcwd(), mcp_servers=[])
        ended = await agent.prompt(session_id=session.session_id, prompt=[text_block("clear the note")])
        print(ended.stop_reason)


asyncio.run(main())
# --8<-- [end:program]
