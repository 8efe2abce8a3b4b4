"""An agent on the official Python SDK, any version: a prompt's first word says which part of the protocol it shows."""

# pyright: basic, reportMissingImports=false
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from acp import (
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptResponse,
    RequestError,
    SetSessionModeResponse,
    run_agent,
)
from acp.schema import (
    AgentCapabilities,
    AuthenticateResponse,
    AuthMethodAgent,
    CloseSessionResponse,
    ElicitationFormSessionMode,
    ElicitationUrlSessionMode,
    Implementation,
    ListSessionsResponse,
    PermissionOption,
    ResumeSessionResponse,
    SessionNotification,
    SetSessionConfigOptionResponse,
    ToolCallUpdate,
)

OPTIONS = ["allow_once", "allow_always", "reject_once", "reject_always"]


class Session:
    def __init__(self, session_id: str, cwd: str, client: Any) -> None:
        self.id = session_id
        self.cwd = cwd
        self.client = client
        self.mode = "ask"
        self.depth = "brief"
        self.loud = False
        self.history: list[dict[str, Any]] = []
        self.cancelled = asyncio.Event()

    @property
    def settings(self) -> dict[str, Any]:
        modes = {"currentModeId": self.mode, "availableModes": [{"id": id, "name": id} for id in ("ask", "code")]}
        values = [{"value": value, "name": value} for value in ("brief", "long")]
        depth = {"id": "depth", "name": "Depth", "type": "select", "currentValue": self.depth, "options": values}
        loud = {"id": "loud", "name": "Loud", "type": "boolean", "currentValue": self.loud}
        return {"modes": modes, "configOptions": [{**depth, "category": "thought_level"}, loud]}

    async def send(self, update: dict[str, Any]) -> None:
        notification = SessionNotification.model_validate({"sessionId": self.id, "update": update})
        await self.client.session_update(session_id=self.id, update=notification.update)

    async def update(self, update_kind: str, **fields: Any) -> None:
        update = {"sessionUpdate": update_kind, **fields}
        self.history.append(update)
        await self.send(update)

    async def send_text(self, text: str) -> None:
        await self.update("agent_message_chunk", content={"type": "text", "text": text})


class PromptCommands:
    """Commands: the first word of a prompt -> what the agent does."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.client = session.client

    async def stream(self, rest: str) -> None:
        for number in range(int(rest)):
            await self.session.send_text(f"{number} ")

    async def big(self, rest: str) -> None:
        await self.session.send_text("x" * int(rest))

    async def echo(self, rest: str) -> None:
        await self.session.send_text(rest)

    async def updates(self, rest: str) -> None:
        update = self.session.update
        await update("agent_thought_chunk", content={"type": "text", "text": "Hm."})
        await update("plan", entries=[{"content": "Look", "priority": "high", "status": "completed"}])
        await update("usage_update", used=10, size=100)
        await update("session_info_update", title="Interop")
        await update("current_mode_update", currentModeId="code")
        self.session.depth = "long"
        await update("config_option_update", configOptions=self.session.settings["configOptions"])
        await update("agent_message_chunk", content={"type": "image", "data": "aGk=", "mimeType": "image/png"})

    async def tools(self, rest: str) -> None:
        path = f"{self.session.cwd}/a.txt"
        call: dict[str, Any] = {"toolCallId": "call-1", "title": "Edit", "kind": "edit", "status": "pending"}
        diff = {"type": "diff", "path": path, "oldText": "old\n", "newText": "new\n"}
        await self.session.update("tool_call", **call, locations=[{"path": path, "line": 3}])
        await self.session.update("tool_call_update", toolCallId="call-1", status="in_progress")
        end: dict[str, Any] = {"status": "completed", "content": [diff], "rawOutput": {"ok": True}}
        await self.session.update("tool_call_update", toolCallId="call-1", **end)

    async def permission(self, rest: str) -> None:
        call = {"toolCallId": "call-1", "title": "Something", "kind": "other", "status": "pending"}
        answer = await self.client.request_permission(
            session_id=self.session.id,
            tool_call=ToolCallUpdate.model_validate(call),
            options=[PermissionOption(option_id=f"id-{kind}", name=kind, kind=kind) for kind in OPTIONS],
        )
        await self.session.send_text(getattr(answer.outcome, "option_id", answer.outcome.outcome))

    async def read(self, rest: str) -> None:
        read = await self.client.read_text_file(session_id=self.session.id, path=rest, line=2, limit=1)
        await self.session.send_text(read.content)

    async def write(self, rest: str) -> None:
        path, content = rest.split(" ")
        await self.client.write_text_file(session_id=self.session.id, path=path, content=content)
        await self.session.send_text("written")

    async def run(self, rest: str) -> None:
        command, *args = rest.split(" ")
        here = {"session_id": self.session.id}
        here["terminal_id"] = (await self.client.create_terminal(**here, command=command, args=args)).terminal_id
        shown = [{"type": "terminal", "terminalId": here["terminal_id"]}]
        await self.session.update("tool_call", toolCallId="call-1", title=rest, kind="execute", content=shown)
        ended = await self.client.wait_for_terminal_exit(**here)
        output = await self.client.terminal_output(**here)
        await self.client.release_terminal(**here)
        await self.session.send_text(f"{ended.exit_code}: {output.output}")

    async def kill(self, rest: str) -> None:
        here = {"session_id": self.session.id}
        here["terminal_id"] = (await self.client.create_terminal(**here, command="sleep", args=["600"])).terminal_id
        await self.client.kill_terminal(**here)
        ended = await self.client.wait_for_terminal_exit(**here)
        await self.client.release_terminal(**here)
        await self.session.send_text(str(ended.signal))

    async def wait(self, rest: str) -> str:
        await self.session.send_text("waiting")
        await self.session.cancelled.wait()
        await self.session.send_text(" stopped")
        return "cancelled"

    async def form(self, rest: str) -> None:
        schema = {
            "type": "object",
            "properties": {"name": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
            "required": ["name"],
        }
        mode = ElicitationFormSessionMode.model_validate({"sessionId": self.session.id, "requestedSchema": schema})
        answer = await self.client.create_elicitation(message="Which one?", mode=mode)
        await self.session.send_text(json.dumps([answer.action, getattr(answer, "content", None)]))

    async def url(self, rest: str) -> None:
        question = {"sessionId": self.session.id, "elicitationId": "visit-1", "url": "https://example.com/login"}
        mode = ElicitationUrlSessionMode.model_validate(question)
        answer = await self.client.create_elicitation(message="Go there", mode=mode)
        await self.client.complete_elicitation(elicitation_id="visit-1")
        await self.session.send_text(answer.action)

    async def ping(self, rest: str) -> None:
        await self.session.send_text(json.dumps(await self.client.ext_method("interop/ping", {"greeting": "hello"})))

    async def error(self, rest: str) -> None:
        raise RequestError(-32050, "as requested", {"asked": True})

    async def refuse(self, rest: str) -> str:
        return "refusal"


class Agent:
    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.is_logged_in = "--login" not in sys.argv

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    def find(self, session_id: str) -> Session:
        if session_id not in self.sessions:
            raise RequestError(-32002, "Resource not found", {"sessionId": session_id})
        return self.sessions[session_id]

    async def initialize(self, protocol_version: int, **others: Any) -> Any:
        capabilities = {
            "loadSession": True,
            "promptCapabilities": {"image": True, "embeddedContext": True},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
        }
        return InitializeResponse(
            protocol_version=1,
            agent_info=Implementation(name="interop", version="1"),
            agent_capabilities=AgentCapabilities.model_validate(capabilities),
            # As a plain dictionary 1.0.0rc3 would take it for a method that needs a terminal.
            auth_methods=[AuthMethodAgent(id="token", name="Token")],
        )

    async def authenticate(self, method_id: str, **others: Any) -> Any:
        self.is_logged_in = True
        return AuthenticateResponse()

    async def new_session(self, cwd: str, **others: Any) -> Any:
        if not self.is_logged_in:
            raise RequestError.auth_required()
        session = Session(f"session-{len(self.sessions) + 1}", cwd, self.client)
        self.sessions[session.id] = session
        # Before the answer that introduces the session, as many agents do.
        commands = [{"name": "init", "description": "Begin"}]
        await session.send({"sessionUpdate": "available_commands_update", "availableCommands": commands})
        return NewSessionResponse.model_validate({"sessionId": session.id, **session.settings})

    async def load_session(self, session_id: str, **others: Any) -> Any:
        session = self.find(session_id)
        for update in session.history:
            await session.send(update)
        return LoadSessionResponse.model_validate(session.settings)

    async def resume_session(self, session_id: str, **others: Any) -> Any:
        return ResumeSessionResponse.model_validate(self.find(session_id).settings)

    async def list_sessions(self, cursor: str | None = None, **others: Any) -> Any:
        sessions = [
            {"sessionId": each.id, "cwd": each.cwd, "title": f"Title of {each.id}"} for each in self.sessions.values()
        ]
        at = int(cursor or 0)
        more = {"nextCursor": str(at + 1)} if at + 1 < len(sessions) else {}
        return ListSessionsResponse.model_validate({"sessions": sessions[at : at + 1], **more})

    async def close_session(self, session_id: str, **others: Any) -> Any:
        self.find(session_id)
        return CloseSessionResponse()

    async def delete_session(self, session_id: str, **others: Any) -> Any:
        self.sessions.pop(session_id, None)

    async def set_session_mode(self, session_id: str, mode_id: str, **others: Any) -> Any:
        self.find(session_id).mode = mode_id
        return SetSessionModeResponse()

    async def set_config_option(self, session_id: str, config_id: str, value: str | bool, **others: Any) -> Any:
        session = self.find(session_id)
        setattr(session, config_id, value)
        return SetSessionConfigOptionResponse.model_validate({"configOptions": session.settings["configOptions"]})

    async def prompt(self, session_id: str, prompt: list[Any], **others: Any) -> Any:
        session = self.find(session_id)
        asked = prompt[0].text
        session.history.append({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": asked}})
        word, _, rest = asked.partition(" ")
        session.cancelled.clear()
        reason = await getattr(PromptCommands(session), word)(rest)
        return PromptResponse(stop_reason=reason or "end_turn")

    async def cancel(self, session_id: str, **others: Any) -> None:
        self.find(session_id).cancelled.set()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method != "interop/echo":
            raise RequestError.method_not_found(f"_{method}")
        return params


if "--listen" in sys.argv:
    from network import listen

    listen(lambda connection: Agent())
else:
    asyncio.run(run_agent(Agent(), use_unstable_protocol=True))
