"""The clients of the official SDKs reach our agents over the network: `duologue serve` and `agent.asgi()`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from tests.interop.peers import OFFICIAL_NEXT, PEERS, RUST, TYPESCRIPT
from tests.interop.sdks import Json, Player, Sdk, SdkClient, install

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]

TOKEN = "the-token-of-the-remote-tests"
FIVE_MEGABYTES = 5_000_000
PERMISSIONS = ["allow_once", "allow_always", "reject_once", "reject_always"]
BUILTIN = [sys.executable, "-m", "duologue.cli.main"]
SERVERS = {
    "serve": [*BUILTIN, "serve", "--", *BUILTIN, "agent"],
    "asgi": [sys.executable, str(PEERS / "py" / "ours.py")],
}


@pytest.fixture(scope="module", params=[TYPESCRIPT, OFFICIAL_NEXT, RUST])
def sdk(request: pytest.FixtureRequest) -> Sdk:
    return install(request.param, is_remote=True)


@pytest.fixture(scope="module")
def player(sdk: Sdk) -> Iterator[Player]:
    with closing(Player(sdk)) as made:
        yield made


@pytest.fixture(scope="module", params=list(SERVERS))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start one of our servers; yield its URL."""
    home = str(tmp_path_factory.mktemp("home"))
    env = {**os.environ, "DUOLOGUE_TOKEN": TOKEN, "INTEROP_TOKEN": TOKEN, "HOME": home, "XDG_DATA_HOME": home}
    with subprocess.Popen(SERVERS[request.param], stdout=subprocess.PIPE, env=env, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


@pytest.fixture(params=["ws", "http"])
def address(request: pytest.FixtureRequest, server: str) -> Json:
    url = server.replace("ws:", f"{request.param}:")
    return {"url": url, "headers": {"Authorization": f"Bearer {TOKEN}"}}


@pytest.fixture
def sdk_client(sdk: Sdk, player: Player, address: Json, tmp_path: Path) -> SdkClient:
    made = SdkClient(sdk, player, tmp_path, address)
    made.cwd.mkdir()
    return made


def test_a_foreign_client_receives_nothing_of_our_resume_negotiation(sdk_client: SdkClient) -> None:
    seen = sdk_client.play(["prompt", "/stream 300"])
    assert seen.steps[0].result["agentInfo"]["name"] == "duologue"
    assert (seen.steps[0].result.get("_meta") or {}).keys() <= {"steering"}  # what the agent itself sends
    assert [each["method"] for each in seen.asked] == []


def test_a_stream_of_chunks_arrives_whole_and_in_order(sdk_client: SdkClient) -> None:
    turn = sdk_client.play(["prompt", "/stream 500"]).last
    assert turn.result["stopReason"] == "end_turn"
    assert turn.text == "".join(f"{number} " for number in range(500))


def test_tool_calls_are_understood(sdk_client: SdkClient) -> None:
    turn = sdk_client.play(["prompt", "/tools 10"]).last
    ends = [each["status"] for each in turn.of("tool_call_update") if each.get("status") in ("completed", "failed")]
    assert len(turn.of("tool_call")) == 10
    assert (ends.count("completed"), ends.count("failed")) == (8, 2)


def test_a_permission_question_is_answered_in_each_of_four_ways(sdk_client: SdkClient) -> None:
    steps = [step for kind in PERMISSIONS for step in (["answer", {"permission": kind}], ["prompt", "/permission"])]
    seen = sdk_client.play(*steps)
    assert len(seen.requests("session/request_permission")) == 4
    for kind, turn in zip(PERMISSIONS, seen.steps[3::2], strict=True):
        assert f"(`{kind}`)" in turn.text
        assert turn.result["stopReason"] == "end_turn"


def test_a_turn_is_cancelled_and_the_next_one_runs(sdk_client: SdkClient) -> None:
    seen = sdk_client.play(["prompt", "/cancel-me", {"cancelAt": "tool_call"}], ["prompt", "/stream 3"])
    assert seen.steps[2].result["stopReason"] == "cancelled"
    assert (seen.last.result["stopReason"], seen.last.text) == ("end_turn", "0 1 2 ")


def test_a_session_is_loaded_with_all_that_was_said(sdk_client: SdkClient) -> None:
    seen = sdk_client.play(["prompt", "/stream 3"], ["close"], ["load"], ["prompt", "/stream 1"])
    assert seen.steps[4].error is None
    updates = [*seen.steps[4].updates, *seen.last.updates]
    texts = [each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk"]
    assert "".join(texts) == "0 1 2 0 "


def test_a_session_is_resumed_without_hearing_it_again(sdk_client: SdkClient) -> None:
    seen = sdk_client.play(["prompt", "/stream 3"], ["close"], ["resume"], ["prompt", "/stream 1"])
    assert seen.steps[4].error is None
    assert seen.steps[4].text + seen.last.text == "0 "


def test_five_megabytes_go_both_ways_in_one_message(sdk_client: SdkClient) -> None:
    seen = sdk_client.play(["prompt", "/echo " + "y" * FIVE_MEGABYTES], ["prompt", "/stream 1"])
    if sdk_client.sdk.name == OFFICIAL_NEXT and sdk_client.address["url"].startswith("ws"):
        pytest.skip("its WebSocket client takes no more than 1 MiB, and has no setting for that")
    assert seen.steps[2].text.count("y" * FIVE_MEGABYTES) == 1
    assert seen.last.text == "0 "


def test_many_sessions_at_once_do_not_mix(sdk_client: SdkClient) -> None:
    seen = sdk_client.play(["parallel", 20, "/stream 50"])
    assert seen.last.result["said"] == ["".join(f"{number} " for number in range(50))] * 20


def test_an_error_arrives_whole_and_the_connection_lives_on(sdk_client: SdkClient) -> None:
    seen = sdk_client.play(["prompt", "/error -32050"], ["prompt", "/stream 1"])
    assert seen.steps[2].error == {"code": -32050, "message": "this error was asked for", "data": {"asked": True}}
    assert seen.last.text == "0 "


def test_an_unknown_session_is_an_error_and_over_http_a_404(sdk_client: SdkClient) -> None:
    error = sdk_client.play(["prompt", "hello", {"sessionId": "nobody"}]).last.error
    assert error is not None
    if sdk_client.address["url"].startswith("ws"):
        assert (error["code"], error["data"]["sessionId"]) == (-32002, "nobody")
    else:
        assert "404" in error["message"]


def test_a_wrong_token_opens_nothing(sdk_client: SdkClient, tmp_path: Path) -> None:
    wrong: Json = {**sdk_client.address, "headers": {"Authorization": "Bearer wrong"}}
    seen = SdkClient(sdk_client.sdk, sdk_client.player, tmp_path, wrong).play_exactly(["initialize"])
    assert not any(step.result for step in seen.steps)
    assert seen.last.error is not None


@pytest.mark.parametrize("server", ["asgi"], indirect=True)
def test_the_gate_of_these_tests_rejects_requests_without_its_cookie(server: str) -> None:
    url = server.replace("ws:", "http:")
    headers = {"Authorization": f"Bearer {TOKEN}", "Acp-Connection-Id": "somebody's"}
    with httpx2.Client(trust_env=False) as client:
        assert client.delete(url, headers=headers).status_code == 403
        assert client.delete(url, headers={**headers, "Cookie": "lane=7"}).status_code == 404
