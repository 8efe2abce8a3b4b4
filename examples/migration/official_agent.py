"""An agent on the official Python SDK: reads a note, asks before it changes it. `agent.py` is its duologue version."""

# pyright: basic, reportMissingImports=false
# mypy: ignore-errors

# --8<-- [start:program]
import asyncio
from uuid import uuid4

from acp import (
    PROTOCOL_VERSION,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
    start_tool_call,
    update_agent_message_text,
    update_tool_call,
)
from acp.schema import AllowedOutcome, Implementation, PermissionOption, ToolCallLocation, ToolCallUpdate


class NotesAgent:
    def __init__(self):
        self.directories = {}

    def on_connect(self, client):
        self.client = client

    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **kwargs):
        info = Implementation(name="notes", version="1.0")
        return InitializeResponse(protocol_version=PROTOCOL_VERSION, agent_info=info)

    async def new_session(self, cwd, mcp_servers=None, **kwargs):
        session_id = uuid4().hex
        self.directories[session_id] = cwd
        return NewSessionResponse(session_id=session_id)

    async def prompt(self, prompt, session_id, **kwargs):
        path = f"{self.directories[session_id]}/note.txt"
        text = (await self.client.read_text_file(session_id=session_id, path=path)).content
        await self.client.session_update(session_id, update_agent_message_text(f"It says: {text}"))

        where = [ToolCallLocation(path=path)]
        call = start_tool_call("call-1", "Clear the note", kind="edit", status="pending", locations=where)
        await self.client.session_update(session_id, call)
        answer = await self.client.request_permission(
            session_id=session_id,
            tool_call=ToolCallUpdate(tool_call_id="call-1"),
            options=[
                PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
                PermissionOption(option_id="no", name="Reject", kind="reject_once"),
            ],
        )
        if isinstance(answer.outcome, AllowedOutcome) and answer.outcome.option_id == "yes":
            await self.client.write_text_file(session_id=session_id, path=path, content="")
            await self.client.session_update(session_id, update_tool_call("call-1", status="completed"))
        else:
            await self.client.session_update(session_id, update_tool_call("call-1", status="failed"))
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id, **kwargs):
        pass  # nothing to stop: the prompt goes on


asyncio.run(run_agent(NotesAgent()))
# --8<-- [end:program]
