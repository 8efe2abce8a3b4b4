"""/session, /config, /compact, /commands, /subagent, /session-message, /extension, and what outlives a connection."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue.builtin.agent import builtin_agent
from duologue.errors import AuthenticationRequired, MethodNotFound
from duologue.runtime.handlers import Context
from duologue.schema import v1
from duologue.schema.base import Method
from duologue.store.memory import MemoryStore
from tests.agent.wire_client import client_for
from tests.builtin.harness import EVERYTHING, open_harness


async def test_the_session_is_shown_as_the_client_opened_it(tmp_path: Path) -> None:
    instructions = v1.SystemPrompt(mode="append", content=[v1.TextContent(text="Be brief.")])
    async with open_harness(tmp_path, system_prompt=instructions) as harness:
        text = await harness.ask("/session")
        assert f"| session | `{harness.session}` |" in text
        assert f"`{tmp_path}`" in text
        assert "| system prompt | append: Be brief. |" in text
        assert "| client | unknown |" in text
        assert "notices, compaction, named_plans, subagents, forms, urls" in text


async def test_there_are_options_of_every_kind_and_they_can_be_changed_from_both_sides(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        assert "| `numbers` | `True` |" in await harness.ask("/config")
        await harness.ask("/config numbers false")
        options = harness.of(v1.ConfigOptionUpdate)[-1].config_options
        assert {option.id: option.current_value for option in options} == {
            "mode": "ask",
            "model": "echo-1",
            "thoughts": "brief",
            "numbers": False,
        }
        assert {option.category for option in options} == {"mode", "model", "thought_level", None}
        assert [type(option).__name__ for option in options].count("SessionConfigBoolean") == 1
        model = next(option for option in options if option.id == "model")
        assert [group.name for group in model.options] == ["Small", "Large"]
        assert "That cannot be set" in await harness.ask("/config colour blue")

        change = v1.SetSessionConfigOptionId(session_id=harness.session, config_id="model", value="echo-2")
        await harness.client.connection.request(v1.SESSION_SET_CONFIG_OPTION, change)
        assert "| `model` | `echo-2` |" in await harness.ask("/config")


async def test_the_context_is_compacted_piece_by_piece_or_not_at_all(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.ask("/compact")
        assert [update.status for update in harness.of(v1.CompactionUpdate)] == ["in_progress", "completed"]
        assert len(harness.of(v1.CompactionSummaryChunk)) == 2
        await harness.ask("/compact fail")
        assert harness.of(v1.CompactionUpdate)[-1].error == "You asked for it."


async def test_fewer_commands_can_be_offered_and_all_again(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.ask("/commands help /read")
        offered = harness.of(v1.AvailableCommandsUpdate)[-1].available_commands
        assert [command.name for command in offered] == ["help", "read"]
        await harness.ask("/commands")
        assert len(harness.of(v1.AvailableCommandsUpdate)[-1].available_commands) > 40


async def test_subagents_and_messages_between_sessions_are_sent(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    async with open_harness(tmp_path) as harness:
        text = await harness.ask("/subagent")
        first, last = harness.of(v1.SubagentUpdate)
        assert first.session_id == last.session_id != harness.session
        assert "I see 1 files." in text
        (call,), (done,) = harness.of(v1.ToolCall), harness.of(v1.ToolCallUpdate)
        assert (call.tool_call_id, done.status) == (done.tool_call_id, "completed")
        outgoing, incoming = harness.of(v1.SessionMessage)
        assert (outgoing.recipient_session_id, incoming.sender_message_id) == (first.session_id, outgoing.message_id)

        await harness.ask("/session-message")
        assert harness.of(v1.SessionMessage)[0].message_id == harness.of(v1.SessionMessageChunk)[0].message_id


async def test_updates_of_a_subagent_are_sent_in_its_own_session_to_clients_with_subagents(tmp_path: Path) -> None:
    for knows in (True, False):
        capabilities: dict[str, Any] = {"subagents": v1.SubagentCapabilities()} if knows else {}
        async with (
            asyncio.timeout(60),
            client_for(builtin_agent(unstable=True), tmp_path, validate=True, **capabilities) as client,
        ):
            session = await client.new()
            await client.prompt(session, "/subagent")

            assert client.text.count("I see ") == 1 + knows
            assert len(set(client.sessions)) == 1 + knows


async def test_a_custom_method_of_the_client_is_called_and_answered_or_not(tmp_path: Path) -> None:
    ping: Method[dict[str, Any], dict[str, Any]] = Method("_duologue.example/ping", dict[str, Any], dict[str, Any])
    async with open_harness(tmp_path) as harness:
        assert "(-32601)" in await harness.ask("/extension")

        @harness.client.handlers.on(ping)
        async def pong(context: Context, params: dict[str, Any]) -> dict[str, Any]:
            return {"pong": params["greeting"]}

        assert "{'pong': 'hello'}" in await harness.ask("/extension")
        echo: Method[dict[str, Any], dict[str, Any]] = Method("_duologue.example/echo", dict[str, Any], dict[str, Any])
        assert await harness.client.connection.request(echo, {"a": 1}) == {"a": 1}


async def test_a_session_can_be_loaded_by_another_client_with_all_that_was_said(tmp_path: Path) -> None:
    agent = builtin_agent(MemoryStore(), unstable=True)
    async with open_harness(tmp_path, agent=agent) as harness:
        await harness.ask("/mode code")
        await harness.ask("/unknown-update")
        await harness.ask("/write notes.md hello")
        session = harness.session

    async with client_for(agent, tmp_path, **EVERYTHING) as client:
        request = v1.LoadSessionRequest(session_id=session, cwd=str(tmp_path), mcp_servers=[])
        opened = await client.connection.request(v1.SESSION_LOAD, request)
        assert opened.modes is not None
        assert opened.modes.current_mode_id == "code"
        assert {v1.ToolCall, v1.UserMessageChunk, v1.AgentMessageChunk} <= {type(update) for update in client.updates}
        changed = v1.Diff(path=str(tmp_path / "notes.md"), new_text="hello\n")
        assert any(changed in (call.content or []) for call in client.of(v1.ToolCall) + client.of(v1.ToolCallUpdate))


async def test_a_login_can_be_required_and_given_and_taken_back(tmp_path: Path) -> None:
    async with client_for(builtin_agent(login=True, unstable=True), tmp_path) as client:
        with pytest.raises(AuthenticationRequired):
            await client.new()
        await client.connection.request(v1.AUTHENTICATE, v1.AuthenticateRequest(method_id="example"))
        await client.new()
        status = await client.connection.request(v1.AUTH_STATUS, v1.AuthStatusRequest())
        assert (status.state, status.accounts[0].label) == ("authenticated", "you@example.com")
        await client.connection.request(v1.LOGOUT, v1.LogoutRequest())
        with pytest.raises(AuthenticationRequired):
            await client.new()


async def test_without_a_login_there_is_nothing_to_log_out_of(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        with pytest.raises(MethodNotFound):
            await harness.client.connection.request(v1.LOGOUT, v1.LogoutRequest())


async def test_the_example_provider_can_be_pointed_elsewhere(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        change = v1.SetProviderRequest(provider_id="example", api_type="openai", base_url="https://example.com/v1")
        await harness.client.connection.request(v1.PROVIDERS_SET, change)
        (provider,) = (await harness.client.connection.request(v1.PROVIDERS_LIST, v1.ListProvidersRequest())).providers
        assert provider.current == v1.ProviderCurrentConfig(api_type="openai", base_url="https://example.com/v1")


async def test_a_session_is_called_by_its_first_prompt_until_it_is_called_something_else(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.ask("hello there")
        assert [update.title for update in harness.of(v1.SessionInfoUpdate)] == ["hello there"]
        await harness.ask("and again")
        assert harness.of(v1.SessionInfoUpdate) == []
        await harness.ask("/title Tea for two")
        assert [update.title for update in harness.of(v1.SessionInfoUpdate)] == ["Tea for two"]
