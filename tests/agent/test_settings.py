"""Modes, models and options from one declaration: shown, changed from either side, and read while a turn runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.settings import Settings, choice, toggle
from duologue.agent.turn import Turn
from duologue.conversation.settings import Option
from duologue.errors import InvalidParams
from duologue.protocol.v1.settings import config_option_from_wire
from duologue.schema import legacy, v1
from tests.agent.wire_client import RecordingClient, agent_with, client_for

BOOLEANS = {
    "session": v1.ClientSessionCapabilities(
        config_options=v1.SessionConfigOptionsCapabilities(boolean=v1.BooleanConfigOptionCapabilities())
    )
}


class Base(Settings):
    mode = choice(
        Option("plan", "Plan first", "Think before acting", {"icon": "map"}), "act", category="mode", meta={"s": 1}
    )


class SampleSettings(Base):
    model = choice(groups={"Fast ones": ["mini"], "Good ones": ["large", "huge"]}, default="large", category="model")
    effort = choice("low", "high", name="Effort", description="How hard to think", category="thought_level")
    web = toggle(True, description="Look things up", meta={"t": 1})


def values(options: list[v1.SessionConfigOption] | None) -> dict[str, Any]:
    settings = [config_option_from_wire(option) for option in options or []]
    return {setting.setting_id: setting.value for setting in settings}


async def set_option(client: RecordingClient, session: str, key: str, value: str | bool) -> dict[str, Any]:
    request: v1.SetSessionConfigOptionRequest
    if isinstance(value, bool):
        request = v1.SetSessionConfigOptionBoolean(session_id=session, config_id=key, value=value)
    else:
        request = v1.SetSessionConfigOptionId(session_id=session, config_id=key, value=value)
    return values((await client.connection.request(v1.SESSION_SET_CONFIG_OPTION, request)).config_options)


@pytest.mark.rule(117, 121, 122)
async def test_a_declaration_is_shown_as_options_modes_and_models(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(60),
        client_for(
            agent_with(settings=SampleSettings, legacy_models=True), tmp_path, validate=True, **BOOLEANS
        ) as client,
    ):
        opened = await client.opened()
        assert opened.modes == v1.SessionModeState(
            current_mode_id="plan",
            available_modes=[
                v1.SessionMode(id="plan", name="Plan first", description="Think before acting", meta={"icon": "map"}),
                v1.SessionMode(id="act", name="Act"),
            ],
        )
        raw = next(m["result"] for m in client.validator.received if "sessionId" in m.get("result", {}))
        assert raw["models"] == {
            "currentModelId": "large",
            "availableModels": [
                {"modelId": "mini", "name": "Mini"},
                {"modelId": "large", "name": "Large"},
                {"modelId": "huge", "name": "Huge"},
            ],
        }
        mode, model, effort, web = opened.config_options or []
        assert isinstance(mode, v1.SessionConfigSelect)
        assert (mode.id, mode.category, mode.current_value, mode.meta) == ("mode", "mode", "plan", {"s": 1})
        assert isinstance(model, v1.SessionConfigSelect)
        assert [(group.group, group.name) for group in model.options if isinstance(group, v1.SessionConfigSelectGroup)]
        assert isinstance(effort, v1.SessionConfigSelect)
        assert (effort.name, effort.description) == ("Effort", "How hard to think")
        assert web == v1.SessionConfigBoolean(
            id="web", name="Web", current_value=True, description="Look things up", meta={"t": 1}
        )
    async with (
        asyncio.timeout(60),
        client_for(agent_with(settings=SampleSettings, legacy_models=True), tmp_path, validate=True) as client,
    ):
        session = await client.opened()
        assert set(values(session.config_options)) == {"mode", "model", "effort"}
        assert set(await set_option(client, session.session_id, "mode", "act")) == {"mode", "model", "effort"}


@pytest.mark.fault("WLD-10")
@pytest.mark.rule(116, 117)
async def test_modes_and_settings_agree_whichever_side_changes_the_mode(tmp_path: Path) -> None:
    async def answer(turn: Turn[SampleSettings]) -> None:
        await turn.set_option(mode=turn.text)

    agent = agent_with(answer, settings=SampleSettings)
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True, **BOOLEANS) as client:
        session = await client.new()
        await client.set_mode(session, "act")
        assert [values(update.config_options)["mode"] for update in client.of(v1.ConfigOptionUpdate)] == ["act"]
        # The Kotlin SDK waits for this one, although it was the client that set the mode.
        assert client.of(v1.CurrentModeUpdate) == [v1.CurrentModeUpdate(current_mode_id="act")]

        client.updates.clear()
        assert (await set_option(client, session, "mode", "plan"))["mode"] == "plan"
        assert client.updates == [v1.CurrentModeUpdate(current_mode_id="plan")]

        client.updates.clear()
        await client.prompt(session, "act")
        assert [type(update) for update in client.updates] == [v1.CurrentModeUpdate, v1.ConfigOptionUpdate]

        client.updates.clear()
        await client.prompt(session, "act")  # no change, no news
        assert client.updates == []
        await client.set_mode(session, "act")  # but a client that sets a mode may wait for it
        assert client.updates == [v1.CurrentModeUpdate(current_mode_id="act")]


async def test_models_can_be_set_by_clients_that_know_only_those(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(60),
        client_for(agent_with(settings=SampleSettings, legacy_models=True), tmp_path, validate=True) as client,
    ):
        session = await client.new()
        await client.ask(legacy.SESSION_SET_MODEL, session_id=session, model_id="huge")
        assert values(client.of(v1.ConfigOptionUpdate)[0].config_options)["model"] == "huge"
        with pytest.raises(InvalidParams, match="mini, large, huge"):
            await client.ask(legacy.SESSION_SET_MODEL, session_id=session, model_id="tiny")


@pytest.mark.rule(115, 119, 120)
async def test_an_invalid_setting_is_rejected_and_changes_nothing(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(60),
        client_for(agent_with(settings=SampleSettings), tmp_path, validate=True, **BOOLEANS) as client,
    ):
        session = await client.new()
        before = await set_option(client, session, "effort", "low")
        assert before == {"mode": "plan", "model": "large", "effort": "low", "web": True}
        bad: list[tuple[str, str | bool]]
        bad = [("mode", "nope"), ("nope", "x"), ("web", "true"), ("effort", True), ("values", "x"), ("_values", "x")]
        for key, value in bad:
            with pytest.raises(InvalidParams):
                await set_option(client, session, key, value)
        with pytest.raises(InvalidParams, match="plan, act"):
            await client.set_mode(session, "nope")
        assert await set_option(client, session, "effort", "low") == before


async def test_an_agent_without_settings_says_so(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(agent_with(legacy_models=True), tmp_path, validate=True) as client:
        opened = await client.opened()
        assert (opened.modes, opened.config_options) == (None, None)
        with pytest.raises(InvalidParams, match="no modes"):
            await client.set_mode(opened.session_id, "x")
        with pytest.raises(InvalidParams, match="no models"):
            await client.ask(legacy.SESSION_SET_MODEL, session_id=opened.session_id, model_id="x")


@pytest.mark.rule(159)
async def test_settings_change_while_a_turn_runs_and_the_turn_sees_them(tmp_path: Path) -> None:
    seen: list[tuple[str, bool]] = []
    proceed = asyncio.Event()

    async def answer(turn: Turn[SampleSettings]) -> None:
        for _ in range(3):
            seen.append((turn.settings.mode, turn.settings.web))
            await turn.say("?")
            await proceed.wait()
            proceed.clear()

    agent = agent_with(answer, settings=SampleSettings)
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True, **BOOLEANS) as client:
        session = await client.new()
        turn = asyncio.ensure_future(client.prompt(session, "go"))
        await client.until_updates(v1.AgentMessageChunk)
        await client.set_mode(session, "act")
        proceed.set()
        await client.until_updates(v1.AgentMessageChunk, 2)
        await set_option(client, session, "web", False)
        proceed.set()
        await client.until_updates(v1.AgentMessageChunk, 3)
        proceed.set()
        await turn
        assert seen == [("plan", True), ("act", True), ("act", False)]


async def test_only_a_switch_that_a_client_does_not_know_changed_is_no_news(tmp_path: Path) -> None:
    class Switch(Settings):
        web = toggle(False)

    async def answer(turn: Turn[Switch]) -> None:
        await turn.set_option(web=True)

    async with asyncio.timeout(60), client_for(agent_with(answer, settings=Switch), tmp_path, validate=True) as client:
        await client.prompt(await client.new(), "go")
        assert client.updates == []


def test_a_declaration_that_makes_no_sense_is_refused_when_it_is_written() -> None:
    with pytest.raises(ValueError, match="needs either options or groups"):
        choice()
    with pytest.raises(ValueError, match="needs either options or groups"):
        choice("a", groups={"G": ["b"]})
    with pytest.raises(ValueError, match="not one of"):
        choice("a", default="b")
    settings = SampleSettings({"mode": "act", "model": "gone", "nope": "x", "web": "yes"})
    assert settings.values == {"mode": "act", "model": "large", "effort": "low", "web": True}
    with pytest.raises(AttributeError, match=r"turn\.set_option\(mode"):
        settings.mode = "plan"
