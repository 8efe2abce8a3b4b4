"""Every message of the protocol that an agent takes or sends, by name: the rows of its tables, one test each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from duologue.protocol.v1.settings import config_option_from_wire
from duologue.schema import legacy, v1
from duologue.schema.base import Method
from tests.agent.complete import ClientServices, StatsQuery, complete_agent
from tests.agent.wire_client import EVERYTHING, RecordingClient, agent_with, client_for
from tests.agent.wire_validator import V1, methods_of


@asynccontextmanager
async def client_with_services(
    cwd: Path, capabilities: dict[str, Any], **options: Any
) -> AsyncGenerator[tuple[RecordingClient, ClientServices]]:
    """Connect a client with these capabilities and log in to the agent that does everything."""
    agent, _ = complete_agent(**options)
    async with asyncio.timeout(60), client_for(agent, cwd, validate=True, **capabilities) as client:
        await client.connection.request(v1.AUTHENTICATE, v1.AuthenticateRequest(method_id="key"))
        yield client, ClientServices(client)


CALLS: dict[str, tuple[Method[Any, Any], dict[str, Any]]] = {
    "authenticate": (v1.AUTHENTICATE, {"method_id": "key"}),
    "logout": (v1.LOGOUT, {}),
    "auth/status": (v1.AUTH_STATUS, {}),
    "session/new": (v1.SESSION_NEW, {"cwd": "CWD", "mcp_servers": []}),
    "session/load": (v1.SESSION_LOAD, {"session_id": "CLOSED", "cwd": "CWD", "mcp_servers": []}),
    "session/resume": (v1.SESSION_RESUME, {"session_id": "CLOSED", "cwd": "CWD"}),
    "session/fork": (v1.SESSION_FORK, {"session_id": "CLOSED", "cwd": "CWD"}),
    "session/list": (v1.SESSION_LIST, {}),
    "session/close": (v1.SESSION_CLOSE, {"session_id": "OPEN"}),
    "session/delete": (v1.SESSION_DELETE, {"session_id": "CLOSED"}),
    "session/archive": (v1.SESSION_ARCHIVE, {"session_id": "CLOSED"}),
    "session/unarchive": (v1.SESSION_UNARCHIVE, {"session_id": "CLOSED"}),
    "session/status": (v1.SESSION_STATUS, {"session_id": "CLOSED"}),
    "session/set_title": (v1.SESSION_SET_TITLE, {"session_id": "CLOSED", "title": "T"}),
    "session/set_mode": (v1.SESSION_SET_MODE, {"session_id": "OPEN", "mode_id": "write"}),
    "session/prompt": (v1.SESSION_PROMPT, {"session_id": "OPEN", "prompt": [v1.TextContent(text="/clear x")]}),
    "providers/list": (v1.PROVIDERS_LIST, {}),
    "providers/set": (v1.PROVIDERS_SET, {"provider_id": "spare", "api_type": "openai", "base_url": "https://x"}),
    "providers/disable": (v1.PROVIDERS_DISABLE, {"provider_id": "spare"}),
    "session/set_model": (legacy.SESSION_SET_MODEL, {"session_id": "OPEN", "model_id": "large"}),
}


def test_the_table_above_is_complete() -> None:
    elsewhere = {
        "initialize",
        "session/set_config_option",
    }  # sent before; a union: see below

    assert set(CALLS) - {"session/set_model"} | elsewhere == methods_of("agent", "request")


@pytest.mark.parametrize("name", CALLS)
async def test_an_agent_answers(name: str, tmp_path: Path) -> None:
    method, fields = CALLS[name]
    async with client_with_services(tmp_path, EVERYTHING) as (client, _):
        substitutes = {"CWD": str(tmp_path), "OPEN": await client.new(), "CLOSED": await client.new()}
        await client.close(substitutes["CLOSED"])
        params = {
            key: substitutes.get(value, value) if isinstance(value, str) else value for key, value in fields.items()
        }
        result = await client.connection.request(method, method.params(**params))

        assert isinstance(result, method.result)
        assert f"answer to {name}" in client.validator.order()


@pytest.mark.parametrize(
    "request_", [v1.SetSessionConfigOptionId, v1.SetSessionConfigOptionBoolean], ids=["select", "boolean"]
)
async def test_an_agent_answers_session_set_config_option(request_: Any, tmp_path: Path) -> None:
    async with client_with_services(tmp_path, EVERYTHING) as (client, _):
        is_boolean = request_ is v1.SetSessionConfigOptionBoolean
        key, value = ("deep", True) if is_boolean else ("model", "large")
        params = request_(session_id=await client.new(), config_id=key, value=value)
        result = await client.connection.request(v1.SESSION_SET_CONFIG_OPTION, params)

        options = [config_option_from_wire(option) for option in result.config_options]
        assert [option.setting_id for option in options if option.value == value] == [key]


async def test_an_agent_answers_initialize(tmp_path: Path) -> None:
    async with client_with_services(tmp_path, EVERYTHING) as (client, _):
        assert client.hello.protocol_version == 1
        assert client.hello.agent_info == v1.Implementation(name="complete", version="1.0", title="Complete")


@pytest.mark.parametrize("name", sorted(methods_of("agent", "notification")))
async def test_an_agent_takes_the_notification(name: str, tmp_path: Path) -> None:
    async with client_with_services(tmp_path, EVERYTHING) as (client, _):
        session = await client.new()
        if name == "session/cancel":
            await client.cancel(session)
        else:
            notification = v1.MessageMcpNotification(server_id="s", request_id="1", method="notifications/progress")
            await client.connection.notify(v1.MCP_MESSAGE_NOTIFICATION, notification)
        assert (await client.prompt(session, "/clear all")).stop_reason == "end_turn"


SENT = methods_of("client") - {"mcp/message"}


@pytest.fixture(scope="module")
def everything_sent(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], set[str], list[str]]:
    """Run turns that do everything; return the methods, kinds of update and stop reasons that were sent."""

    async def turn() -> tuple[set[str], set[str], list[str]]:
        async with client_with_services(tmp_path_factory.mktemp("place"), EVERYTHING) as (client, _):
            session = await client.new()
            reason = (await client.prompt(session, "everything")).stop_reason
            await client.connection.request(v1.LOGOUT, v1.LogoutRequest())
            methods = {message["method"] for message in client.validator.received if "method" in message}
            return methods, set(client.validator.order()), [reason]

    return asyncio.run(turn())


@pytest.mark.parametrize("name", sorted(SENT))
def test_an_agent_sends(name: str, everything_sent: tuple[set[str], set[str], list[str]]) -> None:
    methods, _, reasons = everything_sent

    assert reasons == ["end_turn"]
    assert name in methods


async def test_an_agent_sends_mcp_message(tmp_path: Path) -> None:
    """Between an MCP server that lives in the client and an agent that uses it; tests/mcp has the rest."""
    agent = agent_with(mcp=True, unstable={"mcp_over_acp"})
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        asked = asyncio.Event()

        @client.handlers.on(v1.MCP_MESSAGE)
        async def answer(context: Any, params: v1.MessageMcpRequest) -> Any:
            asked.set()
            return v1.MessageMcpError(error=v1.McpError(code=-32601, message="nothing here"))

        assert client.hello.agent_capabilities.mcp_capabilities.acp
        await client.new(mcp_servers=[v1.McpServerAcp(name="tools", server_id="one")])
        await asked.wait()


KINDS_OF_UPDATE = sorted(
    choice["properties"]["sessionUpdate"]["const"] for choice in V1.document["$defs"]["SessionUpdate"]["oneOf"]
)


@pytest.mark.parametrize("kind", KINDS_OF_UPDATE)
def test_an_agent_tells(kind: str, everything_sent: tuple[set[str], set[str], list[str]]) -> None:
    _, order, _ = everything_sent

    assert kind in order


async def test_a_custom_method_is_answered(tmp_path: Path) -> None:
    async with client_with_services(tmp_path, EVERYTHING) as (client, _):
        stats: Method[Any, dict[str, Any]] = Method("_notes/stats", StatsQuery, dict[str, Any])

        assert await client.connection.request(stats, StatsQuery(since="abc")) == {"notes": 3}


# --- capabilities

GATED = {
    "fs": {"fs/read_text_file", "fs/write_text_file"},
    "terminal": {"terminal/create", "terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"},
    "elicitation": {"elicitation/create", "elicitation/complete"},
    "session": {"notice", "compaction_update", "compaction_summary_chunk"},
    "plan": {"plan_update", "plan_removed"},
    "subagents": {"subagent_update", "session_message", "session_message_chunk"},
}
"""Updates and requests that only a client that advertised them receives."""


@pytest.mark.rule(18, 19, 30, 100, 105, 122, 124, 127, 156)
@given(st.sets(st.sampled_from(sorted(EVERYTHING))))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_combination_of_capabilities_works_and_nothing_else_is_used(tmp_path: Path, advertised: set[str]) -> None:
    async def turn() -> None:
        capabilities = {name: EVERYTHING[name] for name in advertised}
        async with client_with_services(tmp_path, capabilities) as (client, _):
            opened = await client.opened()
            assert (await client.prompt(opened.session_id, "everything")).stop_reason == "end_turn"

            sent = set(client.validator.order())
            for name, words in GATED.items():
                assert words <= sent if name in advertised else not words & sent
            shown = {option.id for option in opened.config_options or [] if not isinstance(option, dict)}
            assert ("deep" in shown) == ("session" in advertised)
            terminal_methods = [method for method in client.hello.auth_methods if method.id == "wizard"]
            assert bool(terminal_methods) == ("auth" in advertised)
            assert not sent & {"error"}

    asyncio.run(turn())


@pytest.mark.rule(100, 127)
@pytest.mark.parametrize(("reads", "writes"), list(product([False, True], repeat=2)))
async def test_reading_and_writing_are_advertised_one_by_one(tmp_path: Path, reads: bool, writes: bool) -> None:
    fs = v1.FileSystemCapabilities(read_text_file=reads, write_text_file=writes)
    form = v1.ElicitationFormCapabilities() if reads else None
    async with client_with_services(tmp_path, {"fs": fs, "elicitation": v1.ElicitationCapabilities(form=form)}) as (
        client,
        services,
    ):
        services.files[str(tmp_path / "a.txt")] = "unsaved"
        (tmp_path / "a.txt").write_text("saved")
        await client.prompt(await client.new(), "everything")
        sent = client.validator.order()

        assert ("fs/read_text_file" in sent) == reads
        assert ("fs/write_text_file" in sent) == writes
        assert ("elicitation/create" in sent) == reads  # {} advertises nothing
