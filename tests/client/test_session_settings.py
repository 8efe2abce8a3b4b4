"""Settings that the user chose: set when a session is opened, read back, and set again after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duologue import Agent, Settings, Turn, choice, toggle
from duologue.client.connect import connect
from duologue.client.supervisor import Restart
from duologue.errors import ConnectionLost, InvalidParams, SessionLost
from duologue.transports.base import Transport
from tests.client.scripted_agent import Json, ScriptedAgent, result

pytestmark = pytest.mark.timeout(60)


class ModelSettings(Settings):
    mode = choice("ask", "code", category="mode")
    model = choice("small", "large", category="model")
    deep = toggle(False, name="Deep")


async def test_settings_are_set_in_every_session_that_is_opened_with_them(tmp_path: Path) -> None:
    agent = Agent[Any]("settings", settings=ModelSettings, store=tmp_path / "store", unstable=True)
    seen: list[Json] = []

    @agent.on_prompt
    async def note(turn: Turn[Any]) -> None:
        seen.append(dict(turn.settings.values))

    wanted: dict[str, str | bool] = {"mode": "code", "model": "large", "deep": True}
    async with connect(agent, unstable=True) as remote:
        async with remote.new_session(tmp_path, settings=wanted) as session:
            await session.prompt("go")
        async with remote.load_session(session.id, tmp_path, settings={"deep": False}) as session:
            await session.prompt("go")
        async with remote.resume_session(session.id, tmp_path, settings={"mode": "ask"}) as session:
            await session.prompt("go")
            async with remote.fork_session(session.id, tmp_path, settings={"model": "small"}) as forked:
                await forked.prompt("go")
        with pytest.raises(InvalidParams):
            await remote.new_session(tmp_path, settings={"speed": "high"})
        assert remote._request_handler.sessions == {}
    assert seen == [
        wanted,
        {**wanted, "deep": False},
        {**wanted, "deep": False, "mode": "ask"},
        {"deep": False, "mode": "ask", "model": "small"},
    ]


def option(value: str) -> Json:
    options = [{"value": each, "name": each} for each in ("low", "high")]
    return {"id": "effort", "name": "Effort", "type": "select", "currentValue": value, "options": options}


class Forgetful(ScriptedAgent):
    """An agent that loses the setting when it is started again, and may ignore what is set."""

    def __init__(self, *, ignores: bool) -> None:
        super().__init__({"sessionCapabilities": {"resume": {}}})
        self.answers["session/resume"] = self._resume
        self.answers["session/set_config_option"] = self._set
        self._ignores = ignores

    async def _new(self, params: Json) -> Json:
        return result(sessionId="s1", configOptions=[option("low")])

    async def _resume(self, params: Json) -> Json:
        return result(configOptions=[option("low")])

    async def _set(self, params: Json) -> Json:
        return result(configOptions=[option("low" if self._ignores else params["value"])])


async def test_an_agent_that_ignores_a_setting_is_not_prompted(tmp_path: Path) -> None:
    agent = Forgetful(ignores=True)
    async with connect(agent) as remote:
        with pytest.raises(InvalidParams, match="'high' was set, it reports 'low'"):
            await remote.new_session(tmp_path, settings={"effort": "high"})
        assert agent.calls("session/prompt") == []


@pytest.mark.parametrize("ignores", [False, True])
async def test_settings_are_set_again_and_read_back_after_a_restart(tmp_path: Path, ignores: bool) -> None:
    agents: list[Forgetful] = []

    class Target:
        async def serve(self, transport: Transport) -> None:
            agents.append(agent := Forgetful(ignores=bool(agents) and ignores))
            if len(agents) == 1:

                async def leave(params: Json) -> Json:
                    await agent.transport.aclose()
                    return result()

                agent.answers["session/prompt"] = leave
            await agent.serve(transport)

    async with connect(Target(), restart=Restart(pause=0.01)) as remote:
        session = await remote.new_session(tmp_path, settings={"effort": "high"})
        with pytest.raises(ConnectionLost):
            await session.prompt("go")
        if ignores:
            with pytest.raises(SessionLost, match="did not accept 'effort'"):
                await session.prompt("again")
        else:
            await session.prompt("again")
            assert [each.value for each in session.settings] == ["high"]
        assert [each["value"] for each in agents[1].calls("session/set_config_option")] == ["high"]
        assert len(agents[1].calls("session/prompt")) == (0 if ignores else 1)
