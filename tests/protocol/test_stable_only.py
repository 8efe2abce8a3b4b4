"""With default settings, both sides of a conversation send only what the stable schemas have."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from duologue.client.agent import RemoteAgent
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.services.terminals import Terminals
from duologue.client.services.workspace import Workspace
from duologue.conversation.content import TextContent
from duologue.conversation.session_setup import AcpMcpServer, SystemPrompt
from duologue.errors import MethodNotFound
from duologue.protocol.values import Elicitation, ElicitationAnswer
from tests.agent.complete import complete_agent
from tests.agent.wire_validator import definitions
from tests.schema.official import STABLE, Official

BOTH = pytest.mark.parametrize("version", [1, 2])

CLOSED = {
    1: {"plan_update", "plan_removed", "subagent_update", "session_message", "session_message_chunk"},
    2: {"plan_removed", "subagent_update", "session_message", "session_message_chunk"},
}


class SchemaObserver:
    """An observer that validates every frame of both sides against one schema.

    Attributes:
        seen: What was written: methods and kinds of updates.
        complaints: What the schema has against it, or does not name.
    """

    def __init__(self, official: Official) -> None:
        self._official = official
        self._asked: dict[tuple[str, Any], str] = {}
        self.frames: list[tuple[str, dict[str, Any]]] = []
        self.seen: set[str] = set()
        self.complaints: list[str] = []

    def __call__(self, direction: str, frame: bytes) -> None:
        message = json.loads(frame)
        self.frames.append((direction, message))
        method = message.get("method")
        if method is not None:
            self.seen.add(method)
            self.seen.add(message.get("params", {}).get("update", {}).get("sessionUpdate", method))
            self._asked[direction, message.get("id")] = method
            self._check(method, "request" if "id" in message else "notification", message.get("params"))
        elif "result" in message:
            other = "in" if direction == "out" else "out"
            self._check(self._asked[other, message["id"]], "response", message["result"])

    def _check(self, method: str, kind: str, value: Any) -> None:
        if method.startswith("_"):
            return
        name = definitions(self._official).get((method, kind))
        if name is None:
            self.complaints.append(f"{method} {kind} is not in the schema")
            return
        complaint = self._official.validation_error(name, value)
        if complaint is not None:
            self.complaints.append(f"{method} {kind}: {complaint}")
        self.complaints += [f"{method} {kind}: {path}" for path in self._official.unknown_fields(name, value)]

    def result_of(self, method: str) -> dict[str, Any]:
        """Return the first answer to this method."""
        asked = next((d, m["id"]) for d, m in self.frames if m.get("method") == method and "id" in m)
        other = "in" if asked[0] == "out" else "out"
        return next(m["result"] for d, m in self.frames if d == other and m.get("id") == asked[1] and "result" in m)


@asynccontextmanager
async def conversation(version: int, cwd: Path, **options: Any) -> AsyncGenerator[tuple[RemoteAgent, SchemaObserver]]:
    async def agree(question: Elicitation) -> ElicitationAnswer:
        return ElicitationAnswer(action="accept", content={"version": "2.0"})

    agent, _ = complete_agent(**{"unstable": False, "legacy_models": False, "protocol_versions": (version,), **options})
    observer = SchemaObserver(STABLE[f"v{version}"])
    async with (
        asyncio.timeout(60),
        connect(
            agent,
            permissions=Permissions(edit="allow", execute={"*": "allow"}, think="allow"),
            workspace=Workspace(cwd),
            terminals=Terminals(),
            on_elicit=agree,
            observers=(observer,),
            protocol_versions=(version,),
        ) as remote,
    ):
        await remote.login("key")
        yield remote, observer


@pytest.mark.fault("SCH-16")
@BOTH
async def test_every_frame_of_a_conversation_is_of_the_stable_schema(version: int, tmp_path: Path) -> None:
    async with conversation(version, tmp_path) as (remote, observer):
        session = await remote.new_session(tmp_path, additional_directories=[tmp_path])
        turn = await session.prompt("go")
        assert turn.stop_reason == "end_turn"
        await session.set_mode("ask")
        await session.set_model("large")
        await session.set_option("deep", True)
        await session.ask("/clear all")
        await session.aclose()
        assert [info.session_id for info in await remote.list_sessions(cwd=tmp_path)] == [session.id]
        async with remote.load_session(session.id, tmp_path):
            pass
        async with remote.resume_session(session.id, tmp_path):
            pass
        await remote.delete_session(session.id)
        await remote.call("_notes/stats", {"since": "x"})
        await remote.logout()

    assert observer.complaints == []
    assert not observer.seen & CLOSED[version]
    wanted = {"usage_update", "session_info_update", "notice", "compaction_update", "compaction_summary_chunk"}
    assert observer.seen >= wanted | {"session/list", "session/resume", "session/close", "session/delete"}
    assert {"elicitation/create", "session/request_permission"} <= observer.seen
    assert ("plan_update" in observer.seen) == (version == 2)


@BOTH
async def test_unstable_features_are_advertised_only_when_they_are_switched_on(version: int, tmp_path: Path) -> None:
    def unstable(observer: SchemaObserver) -> set[str]:
        return {
            path.rpartition(".")[2]
            for path in found.unknown_fields("InitializeResponse", observer.result_of("initialize"))
        }

    found = STABLE[f"v{version}"]
    async with conversation(version, tmp_path) as (_, off):
        assert unstable(off) == set()
    async with conversation(version, tmp_path, unstable=True) as (remote, on):
        assert unstable(on) >= {"fork", "archive", "status", "title", "systemPrompt", "providers"}
        assert remote.capabilities.fork  # reading is never restricted
    async with conversation(version, tmp_path, unstable={"fork"}) as (_, some):
        assert unstable(some) == {"fork"}


@BOTH
async def test_a_client_refuses_to_send_features_that_are_not_switched_on(version: int, tmp_path: Path) -> None:
    tools = AcpMcpServer(name="tools", server_id="1")
    brief = SystemPrompt(mode="append", content=[TextContent("be brief")])
    async with conversation(version, tmp_path, unstable=True, mcp=True) as (remote, observer):
        async with remote.new_session(tmp_path) as session:
            asked: dict[str, Callable[[], Awaitable[Any]]] = {
                "fork": session.fork,
                "status": session.status,
                "title": lambda: session.set_title("Mine"),
                "providers": remote.providers,
                "auth_status": remote.login_status,
                "archive": lambda: remote.archive_session(session.id),
                "archive.*": lambda: remote.list_sessions(archived="only"),
                "system_prompt": lambda: remote.new_session(tmp_path, system_prompt=brief),
                "mcp_over_acp": lambda: remote.new_session(tmp_path, mcp_servers=[tools]),
            }
            for name, ask in asked.items():
                with pytest.raises(MethodNotFound, match=rf"is unstable in version {version} .*unstable={{'{name}'}}"):
                    await ask()
    sent = {message["method"] for direction, message in observer.frames if direction == "out" and "method" in message}
    assert sent <= {method for method, _ in definitions(STABLE[f"v{version}"])}


@BOTH
async def test_an_agent_answers_features_that_are_not_switched_on_with_no_such_method(
    version: int, tmp_path: Path
) -> None:
    agent, _ = complete_agent(unstable=False, legacy_models=False, protocol_versions=(version,))
    async with asyncio.timeout(60), connect(agent, protocol_versions=(version,), unstable=True) as remote:
        await remote.login("key")
        async with remote.new_session(tmp_path) as session:
            asked: tuple[Callable[[], Awaitable[Any]], ...] = (
                lambda: remote._proxy.session_status(session.id),
                lambda: remote._proxy.archive_session(session.id, True),
                lambda: remote._proxy.set_title(session.id, "Mine"),
                remote._proxy.list_providers,
                remote._proxy.auth_status,
            )
            for ask in asked:
                with pytest.raises(MethodNotFound):
                    await ask()
