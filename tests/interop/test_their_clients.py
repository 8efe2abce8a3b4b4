"""The clients of the official SDKs drive `duologue agent`, a real process on real pipes."""

from __future__ import annotations

import pytest

from tests.interop.peers import GO, JAVA, KOTLIN, OFFICIAL
from tests.interop.sdks import Json, SdkClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]

FILES: Json = {"fs": {"readTextFile": True, "writeTextFile": True}}
FORMS: Json = {"elicitation": {"form": {}, "url": {}}}
FIVE_MEGABYTES = 5_000_000


def test_initialize_sends_our_implementation_and_capabilities(sdk_client: SdkClient) -> None:
    seen = sdk_client.play_exactly(["initialize"])
    initialized = seen.last.result
    assert initialized["protocolVersion"] == 1
    assert initialized["agentInfo"]["name"] == "duologue"
    assert initialized["agentCapabilities"]["loadSession"] is True
    assert initialized["agentCapabilities"]["promptCapabilities"]["image"] is True
    if sdk_client.sdk.name != KOTLIN:  # it has no place for them
        assert {"list", "resume", "close"} <= set(initialized["agentCapabilities"]["sessionCapabilities"])


def test_a_new_session_comes_with_its_modes_and_options(sdk_client: SdkClient) -> None:
    opened = sdk_client.play().last.result
    assert opened["sessionId"]
    assert opened["modes"]["currentModeId"] == "ask"
    assert [each["id"] for each in opened["modes"]["availableModes"]] == ["ask", "architect", "code"]
    if sdk_client.sdk.name not in (JAVA, KOTLIN):  # their answers to session/new have no place for them
        assert {"model", "thoughts"} <= {each["id"] for each in opened["configOptions"]}


def test_a_stream_of_chunks_arrives_whole_and_in_order(sdk_client: SdkClient) -> None:
    turn = sdk_client.play(["prompt", "/stream 200"]).last
    assert turn.result["stopReason"] == "end_turn"
    assert turn.text == "".join(f"{number} " for number in range(200))


def test_tool_calls_of_every_kind_are_understood(sdk_client: SdkClient) -> None:
    turn = sdk_client.play(["prompt", "/tools 10"]).last
    kinds = [each.get("kind", "other") for each in turn.of("tool_call")]
    ends = [each["status"] for each in turn.of("tool_call_update") if each.get("status") in ("completed", "failed")]
    assert sorted(kinds) == sorted(
        ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
    )
    assert (ends.count("completed"), ends.count("failed")) == (8, 2)


def test_every_stable_update_is_understood(sdk_client: SdkClient) -> None:
    shown = {
        "/think": "agent_thought_chunk",
        "/plan": "plan",
        "/usage": "usage_update",
        "/title Interop": "session_info_update",
        "/commands read": "available_commands_update",
        "/user-message hi": "user_message_chunk",
    }
    if sdk_client.sdk.name in (JAVA, KOTLIN):
        del shown["/title Interop"]  # they know no such update
    if sdk_client.sdk.name == KOTLIN:
        del shown["/usage"]
    seen = sdk_client.play(*(["prompt", command] for command in shown))
    turns = dict(zip(shown, seen.steps[2:], strict=True))
    assert {command: turn.result.get("stopReason") for command, turn in turns.items()} == dict.fromkeys(
        shown, "end_turn"
    )
    assert {command: bool(turns[command].of(update)) for command, update in shown.items()} == dict.fromkeys(shown, True)


def test_images_audio_and_links_are_understood(sdk_client: SdkClient) -> None:
    seen = sdk_client.play(["prompt", "/image"], ["prompt", "/audio"], ["prompt", "/links"])
    kinds = {each["content"]["type"] for step in seen.steps for each in step.of("agent_message_chunk")}
    assert {"image", "audio", "resource_link", "text"} <= kinds


def test_a_permission_question_is_answered_in_each_of_four_ways(sdk_client: SdkClient) -> None:
    kinds = ["allow_once", "allow_always", "reject_once", "reject_always"]
    steps = [step for kind in kinds for step in (["answer", {"permission": kind}], ["prompt", "/permission"])]
    seen = sdk_client.play(*steps)
    questions = seen.requests("session/request_permission")
    assert [[option["kind"] for option in question["options"]] for question in questions] == [kinds] * 4
    for kind, turn in zip(kinds, seen.steps[3::2], strict=True):
        assert f"(`{kind}`)" in turn.text
        assert turn.result["stopReason"] == "end_turn"


def test_a_file_is_read_through_the_client_that_knows_its_unsaved_text(sdk_client: SdkClient) -> None:
    path = sdk_client.cwd / "notes.txt"
    path.write_text("on disk\n")
    seen = sdk_client.play(
        ["prompt", "/read notes.txt"], capabilities=FILES, answers={"files": {str(path): "not saved yet\n"}}
    )
    assert [each["path"] for each in seen.requests("fs/read_text_file")] == [str(path)]
    assert any("not saved yet" in str(each) for each in seen.last.of("tool_call_update"))


@pytest.mark.parametrize(("answer", "writes"), [("allow_once", ["hello\n"]), ("reject_once", [])])
def test_a_file_is_written_through_the_client_if_it_allows_that(
    sdk_client: SdkClient, answer: str, writes: list[str]
) -> None:
    seen = sdk_client.play(
        ["prompt", "/write notes.txt hello"], capabilities=FILES, answers={"permission": answer, "files": {}}
    )
    assert [part["newText"] for part in seen.last.parts if part["type"] == "diff"][:1] == ["hello\n"]
    assert [each["content"] for each in seen.requests("fs/write_text_file")] == writes
    assert not (sdk_client.cwd / "notes.txt").exists()
    assert seen.last.result["stopReason"] == "end_turn"


def test_without_a_clients_files_the_agent_uses_its_own_disk(sdk_client: SdkClient) -> None:
    sdk_client.play(["prompt", "/write notes.txt hello"], answers={"permission": "allow_once"})
    assert (sdk_client.cwd / "notes.txt").read_text() == "hello\n"


def test_a_command_runs_in_the_clients_terminal(sdk_client: SdkClient) -> None:
    ended = {"exitCode": 3}
    answers: Json = {
        "permission": "allow_once",
        "terminal": {"output": {"output": "hello\n", "truncated": False, "exitStatus": ended}, "exit": ended},
    }
    seen = sdk_client.play(["prompt", "/run echo hello"], capabilities={"terminal": True}, answers=answers)
    [created] = seen.requests("terminal/create")
    assert (created["command"], created["args"]) == ("echo", ["hello"])
    assert len(seen.requests("terminal/release")) == 1
    assert [part["terminalId"] for part in seen.last.parts if part["type"] == "terminal"] == ["terminal-1"]
    assert "ended with 3 and printed 6 characters" in seen.last.text


def test_modes_are_switched_from_both_sides(sdk_client: SdkClient) -> None:
    seen = sdk_client.play(["set_mode", "code"], ["prompt", "/mode"], ["prompt", "/mode architect"])
    assert seen.steps[2].error is None
    assert "`code`" in seen.steps[3].text
    assert [each["currentModeId"] for each in seen.last.of("current_mode_update")] == ["architect"]


def test_options_are_set_from_both_sides_and_answered_in_full(sdk_client: SdkClient) -> None:
    sdk_client.sdk.lacks(KOTLIN, what="has no options")
    seen = sdk_client.play(["set_config", "thoughts", "long"], ["prompt", "/config thoughts brief"])
    values = {each["id"]: each["currentValue"] for each in seen.steps[2].result["configOptions"]}
    assert values == {"mode": "ask", "model": "echo-1", "thoughts": "long"}
    [update] = seen.last.of("config_option_update")
    assert {each["id"]: each["currentValue"] for each in update["configOptions"]}["thoughts"] == "brief"


def test_a_switch_is_offered_to_a_client_that_takes_one(sdk_client: SdkClient) -> None:
    sdk_client.sdk.lacks(GO, JAVA, KOTLIN, what="has no capability for options that are switches")
    switches: Json = {"session": {"configOptions": {"boolean": {}}}}
    seen = sdk_client.play(["set_config", "thoughts", "long"], ["set_config", "numbers", False], capabilities=switches)
    first = {each["id"]: each["currentValue"] for each in seen.steps[2].result["configOptions"]}
    assert first == {"mode": "ask", "model": "echo-1", "thoughts": "long", "numbers": True}
    second = {each["id"]: each["currentValue"] for each in seen.last.result["configOptions"]}
    assert second == {**first, "numbers": False}


def test_a_turn_is_cancelled_and_the_next_one_runs(sdk_client: SdkClient) -> None:
    seen = sdk_client.play(["prompt", "/cancel-me", {"cancelAt": "tool_call"}], ["prompt", "/stream 3"])
    assert seen.steps[2].result["stopReason"] == "cancelled"
    assert "You cancelled me." in seen.steps[2].text
    assert (seen.last.result["stopReason"], seen.last.text) == ("end_turn", "0 1 2 ")


def test_a_turn_is_cancelled_while_it_asks_for_permission(sdk_client: SdkClient) -> None:
    seen = sdk_client.play(["prompt", "/permission"], ["prompt", "/stream 3"], answers={"permission": "cancel"})
    assert [step.result["stopReason"] for step in seen.steps[2:]] == ["cancelled", "end_turn"]


def test_a_session_is_loaded_with_all_that_was_said(sdk_client: SdkClient) -> None:
    seen = sdk_client.play(["prompt", "/stream 3"], ["close"], ["load"], ["prompt", "/stream 1"])
    assert seen.steps[4].error is None
    [asked] = seen.steps[4].of("user_message_chunk")
    assert asked["content"]["text"] == "/stream 3"
    assert seen.steps[4].text == "0 1 2 "
    assert seen.last.text == "0 "


def test_a_session_is_resumed_without_hearing_it_again(sdk_client: SdkClient) -> None:
    sdk_client.sdk.lacks(KOTLIN, what="has no session/resume")
    seen = sdk_client.play(["prompt", "/stream 3"], ["close"], ["resume"], ["prompt", "/stream 1"])
    assert seen.steps[4].error is None
    assert (seen.steps[4].of("user_message_chunk"), seen.steps[4].text) == ([], "")
    assert seen.last.text == "0 "


def test_sessions_are_listed(sdk_client: SdkClient) -> None:
    sdk_client.sdk.lacks(KOTLIN, what="has no session/list")
    seen = sdk_client.play(["prompt", "/title Interop"], ["list"])
    [found] = seen.last.result["sessions"]
    assert found["sessionId"] == seen.steps[1].result["sessionId"]
    assert (found["cwd"], found["title"]) == (str(sdk_client.cwd), "Interop")


def test_a_closed_session_takes_no_prompt(sdk_client: SdkClient) -> None:
    sdk_client.sdk.lacks(KOTLIN, what="has no session/close")
    seen = sdk_client.play(["close"], ["prompt", "hello"])
    assert seen.steps[2].error is None
    assert seen.last.error is not None
    assert seen.last.error["code"] == -32002


def test_a_deleted_session_is_gone(sdk_client: SdkClient) -> None:
    sdk_client.sdk.lacks(OFFICIAL, GO, KOTLIN, what="has no session/delete")
    seen = sdk_client.play(["prompt", "hello"], ["delete"], ["list"], ["delete"])
    assert seen.steps[4].result["sessions"] == []
    assert seen.last.error is None


def test_a_form_is_filled_in(sdk_client: SdkClient) -> None:
    sdk_client.sdk.lacks(KOTLIN, what="has no elicitation")
    filled = {"action": "accept", "content": {"drink": "tea", "cups": 2, "milk": True}}
    seen = sdk_client.play(["prompt", "/ask"], capabilities=FORMS, answers={"elicitation": filled})
    [form] = seen.requests("elicitation/create")
    assert set(form["requestedSchema"]["properties"]) == {"drink", "cups", "degrees", "milk", "name", "extras"}
    assert "drink='tea', cups=2" in seen.last.text


def test_a_form_is_turned_down(sdk_client: SdkClient) -> None:
    sdk_client.sdk.lacks(KOTLIN, what="has no elicitation")
    seen = sdk_client.play(
        ["answer", {"elicitation": {"action": "decline"}}],
        ["prompt", "/ask"],
        ["answer", {"elicitation": {"action": "cancel"}}],
        ["prompt", "/ask"],
        capabilities=FORMS,
    )
    assert [step.text for step in (seen.steps[3], seen.steps[5])] == ["You ordered nothing.\n"] * 2


def test_a_url_elicitation_is_completed_and_the_client_is_notified(sdk_client: SdkClient) -> None:
    sdk_client.sdk.lacks(KOTLIN, what="has no elicitation")
    seen = sdk_client.play(["prompt", "/ask url"], capabilities=FORMS, answers={"elicitation": {"action": "accept"}})
    [question] = seen.requests("elicitation/create")
    assert question["url"].startswith("https://")
    assert [each["elicitationId"] for each in seen.requests("elicitation/complete")] == [question["elicitationId"]]


def test_custom_methods_work_both_ways(sdk_client: SdkClient) -> None:
    sdk_client.sdk.lacks(JAVA, what="has no way to call a method of another name")
    sdk_client.sdk.lacks(KOTLIN, what="has no place for a method of another name")
    seen = sdk_client.play(["extension", "duologue.example/echo", {"deep": [1, None]}], ["prompt", "/extension"])
    assert seen.steps[2].result == {"deep": [1, None]}
    assert {"greeting": "hello"} in seen.requests("_duologue.example/ping")
    assert "{'pong': True}" in seen.last.text


def test_an_unknown_custom_method_is_refused_by_its_code(sdk_client: SdkClient) -> None:
    sdk_client.sdk.lacks(JAVA, what="has no way to call a method of another name")
    error = sdk_client.play(["extension", "nobody.knows/this", {}]).last.error
    assert error is not None
    assert error["code"] == -32601


def test_five_megabytes_go_both_ways_in_one_message(sdk_client: SdkClient) -> None:
    seen = sdk_client.play(["prompt", f"/big {FIVE_MEGABYTES}"], ["prompt", "/echo " + "y" * FIVE_MEGABYTES])
    assert len(seen.steps[2].text) == FIVE_MEGABYTES
    assert seen.last.text.count("y" * FIVE_MEGABYTES) == 1


def test_an_error_arrives_whole_and_the_connection_lives_on(sdk_client: SdkClient) -> None:
    seen = sdk_client.play(["prompt", "/error -32050"], ["prompt", "/exception"], ["prompt", "/stream 1"])
    error, surprise = seen.steps[2].error, seen.steps[3].error
    assert error == {"code": -32050, "message": "this error was asked for", "data": {"asked": True}}
    assert surprise is not None
    assert surprise["code"] == -32603
    assert "ValueError" in surprise["message"]
    assert "should read this" not in str(surprise)
    assert seen.last.text == "0 "


def test_an_unknown_session_is_named_in_the_error(sdk_client: SdkClient) -> None:
    error = sdk_client.play(["prompt", "hello", {"sessionId": "nobody"}]).last.error
    assert error is not None
    assert (error["code"], error["data"]["sessionId"]) == (-32002, "nobody")


def test_every_other_end_of_a_turn_is_understood(sdk_client: SdkClient) -> None:
    seen = sdk_client.play(["prompt", "/refuse"], ["prompt", "/max-tokens"], ["prompt", "/max-requests"])
    assert [step.result["stopReason"] for step in seen.steps[2:]] == ["refusal", "max_tokens", "max_turn_requests"]


def test_login_comes_before_the_first_session(sdk_client: SdkClient) -> None:
    seen = sdk_client.play_exactly(
        ["initialize"], ["new"], ["authenticate", "example"], ["new"], ["prompt", "/stream 1"], options=["--login"]
    )
    assert [each["id"] for each in seen.steps[0].result["authMethods"]] == ["example"]
    assert seen.steps[1].error is not None
    assert seen.steps[1].error["code"] == -32000
    assert [step.error for step in seen.steps[2:]] == [None, None, None]
