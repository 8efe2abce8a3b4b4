"""The agent for a team, as the web application it is."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from duologue import connect
from duologue.errors import StartError
from duologue.transports.server.run import ServerAddress, serve

EXAMPLE = Path(__file__).parents[2] / "examples" / "team_agent.py"


async def test_each_member_of_the_team_has_sessions_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GREETER_SESSIONS", str(tmp_path))
    app = runpy.run_path(str(EXAMPLE))["app"]
    async with serve(app, ServerAddress()) as port:
        url = f"ws://127.0.0.1:{port}/acp"
        async with connect(url, token="a-long-random-token-for-ann") as ann:
            turn = await (await ann.new_session("/")).prompt("good morning")
            of_ann = await ann.list_sessions()
        async with connect(url, token="a-long-random-token-for-bob") as bob:
            of_bob = await bob.list_sessions()
        with pytest.raises(StartError):
            async with connect(url, token="guessed"):
                pass

    assert turn.text == "Hello! You said: good morning"
    assert (len(of_ann), of_bob) == (1, [])
