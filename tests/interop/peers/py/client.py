"""A client on the official Python SDK, any version of it.

Each line it reads is a play: an agent to start, or its address, and steps to do. Each line it prints is what it saw of
one.
"""

# pyright: basic, reportMissingImports=false
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from acp import RequestError, connect_to_agent, spawn_agent_process
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    CancelElicitationResponse,
    ClientCapabilities,
    CreateTerminalResponse,
    DeclineElicitationResponse,
    DeniedOutcome,
    ReadTextFileResponse,
    ReleaseTerminalResponse,
    RequestPermissionResponse,
    TerminalOutputResponse,
    TextContentBlock,
    WaitForTerminalExitResponse,
    WriteTextFileResponse,
)
from pydantic import BaseModel

ELICITATIONS = {
    "accept": AcceptElicitationResponse,
    "decline": DeclineElicitationResponse,
    "cancel": CancelElicitationResponse,
}


def plain(value: Any) -> Any:
    """Return a value as it is on the wire."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return value


class Client:
    def __init__(self, play: dict[str, Any]) -> None:
        self.play = play
        self.answers: dict[str, Any] = play["answers"]
        self.asked: list[dict[str, Any]] = []
        self.updates: list[Any] = []
        self.texts: dict[str, str] = {}
        self.session_id = ""
        self.cancel_at: str | None = None

    def on_connect(self, conn: Any) -> None:
        self.agent = conn

    def record(self, method: str, params: dict[str, Any]) -> None:
        self.asked.append({"method": method, "params": plain(params)})

    async def session_update(self, session_id: str, update: Any, **others: Any) -> None:
        self.updates.append(plain(update))
        self.texts[session_id] = self.texts.get(session_id, "") + (plain(update).get("content") or {}).get("text", "")
        if update.session_update == self.cancel_at:
            self.cancel_at = None
            await self.agent.cancel(session_id=self.session_id)

    async def request_permission(self, session_id: str, tool_call: Any, options: list[Any], **others: Any) -> Any:
        self.record("session/request_permission", {"toolCall": tool_call, "options": options})
        if self.answers["permission"] == "cancel":
            await self.agent.cancel(session_id=session_id)
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        chosen = next(each.option_id for each in options if each.kind == self.answers["permission"])
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    async def read_text_file(self, session_id: str, path: str, **others: Any) -> Any:
        self.record("fs/read_text_file", {"path": path, **others})
        return ReadTextFileResponse(content=self.answers["files"].get(path, ""))

    async def write_text_file(self, session_id: str, path: str, content: str, **others: Any) -> Any:
        self.record("fs/write_text_file", {"path": path, "content": content})
        return WriteTextFileResponse()

    async def create_terminal(self, session_id: str, command: str, **others: Any) -> Any:
        self.record("terminal/create", {"command": command, **others})
        return CreateTerminalResponse(terminal_id="terminal-1")

    async def terminal_output(self, session_id: str, terminal_id: str, **others: Any) -> Any:
        self.record("terminal/output", {"terminalId": terminal_id})
        return TerminalOutputResponse.model_validate(self.answers["terminal"]["output"])

    async def wait_for_terminal_exit(self, session_id: str, terminal_id: str, **others: Any) -> Any:
        self.record("terminal/wait_for_exit", {"terminalId": terminal_id})
        return WaitForTerminalExitResponse.model_validate(self.answers["terminal"]["exit"])

    async def kill_terminal(self, session_id: str, terminal_id: str, **others: Any) -> Any:
        self.record("terminal/kill", {"terminalId": terminal_id})

    async def release_terminal(self, session_id: str, terminal_id: str, **others: Any) -> Any:
        self.record("terminal/release", {"terminalId": terminal_id})
        return ReleaseTerminalResponse()

    async def create_elicitation(self, message: str, mode: Any, **others: Any) -> Any:
        self.record("elicitation/create", {"message": message, **plain(mode)})
        return ELICITATIONS[self.answers["elicitation"]["action"]].model_validate(self.answers["elicitation"])

    async def complete_elicitation(self, elicitation_id: str, **others: Any) -> None:
        self.record("elicitation/complete", {"elicitationId": elicitation_id})

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.record(f"_{method}", params)
        return {"pong": True}

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        self.record(f"_{method}", params)


class Verbs:
    """Steps by name, done with the SDK's own methods."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.agent = client.agent
        self.cwd = client.play["cwd"]

    async def answer(self, given: dict[str, Any]) -> None:
        self.client.answers.update(given)

    async def initialize(self) -> Any:
        capabilities = ClientCapabilities.model_validate(self.client.play["capabilities"])
        return await self.agent.initialize(protocol_version=1, client_capabilities=capabilities)

    async def authenticate(self, method_id: str) -> Any:
        return await self.agent.authenticate(method_id=method_id)

    async def new(self) -> Any:
        opened = await self.agent.new_session(cwd=self.cwd, mcp_servers=[])
        self.client.session_id = opened.session_id
        return opened

    async def prompt(self, text: str, options: dict[str, str] | None = None) -> Any:
        options = options or {}
        self.client.cancel_at = options.get("cancelAt")
        session_id = options.get("sessionId", self.client.session_id)
        return await self.agent.prompt(session_id=session_id, prompt=[TextContentBlock(type="text", text=text)])

    async def parallel(self, count: int, text: str) -> Any:
        new = [self.agent.new_session(cwd=self.cwd, mcp_servers=[]) for _ in range(count)]
        opened = [each.session_id for each in await asyncio.gather(*new)]
        block = TextContentBlock(type="text", text=text)
        await asyncio.gather(*(self.agent.prompt(session_id=each, prompt=[block]) for each in opened))
        return {"said": [self.client.texts[each] for each in opened]}

    async def load(self) -> Any:
        return await self.agent.load_session(cwd=self.cwd, session_id=self.client.session_id, mcp_servers=[])

    async def resume(self) -> Any:
        return await self.agent.resume_session(cwd=self.cwd, session_id=self.client.session_id, mcp_servers=[])

    async def list(self) -> Any:
        return await self.agent.list_sessions(cwd=self.cwd)

    async def close(self) -> Any:
        return await self.agent.close_session(session_id=self.client.session_id)

    async def delete(self) -> Any:
        return await self.agent.delete_session(session_id=self.client.session_id)

    async def set_mode(self, mode_id: str) -> Any:
        return await self.agent.set_session_mode(session_id=self.client.session_id, mode_id=mode_id)

    async def set_config(self, config_id: str, value: str | bool) -> Any:
        return await self.agent.set_config_option(session_id=self.client.session_id, config_id=config_id, value=value)

    async def extension(self, name: str, params: dict[str, Any]) -> Any:
        return await self.agent.ext_method(name, params)


@asynccontextmanager
async def connected(client: Client) -> AsyncGenerator[None]:
    play = client.play
    if "url" in play:
        from network import dial

        transport = await dial(play["url"], play["headers"], client.asked)
        agent = connect_to_agent(client, transport, use_unstable_protocol=True)
        try:
            yield
        finally:
            await agent.close()
        return
    # Elicitation, resume and close are stable, but this flag is what lets the SDK speak of them.
    async with spawn_agent_process(
        client,
        *play["command"],
        env=dict(os.environ),
        transport_kwargs={"stderr": None},
        use_unstable_protocol=True,
    ):
        yield


async def perform(play: dict[str, Any]) -> dict[str, Any]:
    client = Client(play)
    seen: list[dict[str, Any]] = []
    try:
        async with connected(client):
            verbs = Verbs(client)
            for verb, *args in play["steps"]:
                client.updates = []
                step: dict[str, Any] = {"updates": client.updates}
                seen.append(step)
                try:
                    step["result"] = plain(await getattr(verbs, verb)(*args)) or {}
                except RequestError as error:
                    step["error"] = {"code": error.code, "message": str(error), "data": error.data}
    except Exception as error:
        if "url" not in play:
            raise
        # The way to the agent is closed: whatever should have come next failed, and so did the rest.
        failed = {"updates": [], "error": {"message": f"{type(error).__name__}: {error}"}}
        seen = [*(step for step in seen if "result" in step or "error" in step), failed]
    return {"steps": seen, "asked": client.asked}


for line in sys.stdin:
    print(json.dumps(asyncio.run(perform(json.loads(line)))), flush=True)
