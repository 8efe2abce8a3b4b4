"""The methods of a turn, as the client sees them on the wire of version 1."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from duologue.agent.settings import Settings, choice, toggle
from duologue.agent.turn import Turn
from duologue.conversation.work_state import STOP_REASONS, StopReason
from duologue.errors import InternalError, RequestError, ResourceNotFound
from duologue.protocol.v1.settings import config_option_from_wire
from duologue.runtime.handlers import Context
from duologue.schema import v1
from tests.agent.wire_client import RecordingClient, agent_with, client_for


class SampleSettings(Settings):
    mode = choice("ask", "write", category="mode")
    deep = toggle(False, name="Deep search")


@pytest.mark.rule(26, 29, 33, 75, 76, 94)
async def test_an_answer_streams_as_chunks_of_one_message_before_the_turn_ends(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        await turn.say("You said: ")
        await turn.say(turn.text)

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:
        response = await client.prompt(await client.new(), "hello")

        assert response.stop_reason == "end_turn"
        assert client.text == "You said: hello"
        ids = {chunk.message_id for chunk in client.of(v1.AgentMessageChunk)}
        assert len(ids) == 1
        assert None not in ids


async def test_a_tool_call_goes_from_pending_to_completed_and_shows_what_it_did(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        async with turn.tool("Read notes.md", kind="read", locations=["notes.md"]) as read:
            await read.show("text")

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:
        await client.prompt(await client.new(), "go")

        (call,) = client.of(v1.ToolCall)
        assert (call.title, call.kind, call.status) == ("Read notes.md", "read", "pending")
        assert call.locations == [v1.ToolCallLocation(path=str(tmp_path / "notes.md"))]
        shown, ended = client.of(v1.ToolCallUpdate)
        assert shown.status == "in_progress"
        assert shown.content == [v1.Content(content=v1.TextContent(text="text"))]
        assert ended.status == "completed"


SECRET = "postgres://user:hunter2@db/prod failed"


class Unchangeable(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(name)


@pytest.mark.parametrize("error", [RuntimeError(SECRET), SystemExit(SECRET), Unchangeable(SECRET)], ids=repr)
async def test_a_tool_call_that_an_exception_fails_shows_the_reference_of_the_prompts_error_and_no_text(
    tmp_path: Path, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        async with turn.tool("T", kind="execute"):
            raise error

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:
        with pytest.raises(InternalError) as caught:
            await client.prompt(await client.new(), "x")
        shown = text_in(client)
    assert re.fullmatch(rf"{type(error).__name__} \(reference \w{{8}}\)", shown)
    assert caught.value.message.endswith(shown)
    reference = shown[-9:-1]
    warned, failed = [record for record in caplog.records if reference in record.getMessage()]
    assert SECRET in warned.getMessage()
    assert failed.exc_info is not None
    assert failed.exc_info[1] is error


async def test_a_tool_call_shows_the_text_of_an_exception_in_debug_or_if_it_is_meant_for_the_client(
    tmp_path: Path,
) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        async with turn.tool("T"):
            raise ResourceNotFound("no note a.md") if turn.text == "meant" else RuntimeError(SECRET)

    for debug, text, expected in (
        (False, "meant", "ResourceNotFound: no note a.md"),
        (True, "other", rf"RuntimeError: {re.escape(SECRET)} \(reference \w{{8}}\)"),
    ):
        async with asyncio.timeout(60), client_for(agent_with(answer, debug=debug), tmp_path) as client:
            with pytest.raises(RequestError):
                await client.prompt(await client.new(), text)
            assert re.fullmatch(expected, text_in(client))


def text_in(client: RecordingClient) -> str:
    """Return the text that the last update of a tool call shows."""
    shown = (client.of(v1.ToolCallUpdate)[-1].content or [None])[-1]
    assert isinstance(shown, v1.Content)
    assert isinstance(shown.content, v1.TextContent)
    return shown.content.text


async def test_an_exception_in_a_tool_fails_it_and_in_the_handler_fails_the_prompt_but_not_the_connection(
    tmp_path: Path,
) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        if turn.text == "tool":
            try:
                async with turn.tool("Break"):
                    raise ValueError("broken on purpose")
            except ValueError:
                return
        raise KeyError("secret detail")

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:
        session = await client.new()
        await client.prompt(session, "tool")
        assert client.of(v1.ToolCallUpdate)[-1].status == "failed"

        with pytest.raises(InternalError) as caught:
            await client.prompt(session, "handler")
        assert "KeyError" in caught.value.message
        assert "secret" not in caught.value.message
        assert (await client.prompt(session, "tool")).stop_reason == "end_turn"


@pytest.mark.rule(77, 78, 82, 83)
@pytest.mark.fault("CAN-12")
async def test_a_cancelled_turn_ends_as_cancelled_whatever_its_handler_raises(tmp_path: Path) -> None:
    began = asyncio.Event()

    async def answer(turn: Turn[Settings]) -> None:
        if turn.text == "quick":
            return
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await turn.say("the end")
            raise RuntimeError("while being cancelled")

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:
        session, other = await client.new(), await client.new()
        await client.cancel(session)  # nothing runs: no effect
        turn = asyncio.ensure_future(client.prompt(session, "slow"))
        await began.wait()
        assert (await client.prompt(other, "quick")).stop_reason == "end_turn"
        await client.cancel(session)

        assert (await turn).stop_reason == "cancelled"
        assert client.text == "the end"


@pytest.mark.fault("CAN-03", "CAN-09")
async def test_a_cancel_in_the_same_write_as_its_prompt_is_not_lost(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        await asyncio.Event().wait()

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:
        session = await client.new()
        turn = asyncio.ensure_future(client.prompt(session, "go"))
        await asyncio.sleep(0)
        await client.cancel(session)
        assert (await turn).stop_reason == "cancelled"

        turn = asyncio.ensure_future(client.prompt(session, "go"))
        await asyncio.sleep(0)
        turn.cancel()  # sends $/cancel_request; the agent's answer is dropped
        with pytest.raises(asyncio.CancelledError):
            await turn


@pytest.mark.fault("ORD-08")
async def test_a_second_prompt_waits_for_the_first_and_a_cancel_ends_both(tmp_path: Path) -> None:
    running: list[str] = []
    release = asyncio.Event()

    async def answer(turn: Turn[Settings]) -> None:
        running.append(turn.text)
        await release.wait()

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:
        session = await client.new()
        turns = [asyncio.ensure_future(client.prompt(session, text)) for text in ("one", "two", "three")]
        release.set()
        assert [(await turn).stop_reason for turn in turns] == ["end_turn"] * 3
        assert running == ["one", "two", "three"]

        release.clear()
        turns = [asyncio.ensure_future(client.prompt(session, text)) for text in ("four", "five")]
        await asyncio.sleep(0)
        await client.cancel(session)
        assert [(await turn).stop_reason for turn in turns] == ["cancelled"] * 2
        assert "five" not in running


@pytest.mark.parametrize("reason", STOP_REASONS)
async def test_every_stop_reason_can_be_returned_or_reached_from_anywhere(tmp_path: Path, reason: StopReason) -> None:
    async def answer(turn: Turn[Settings]) -> str | None:
        if turn.text == "stop":
            turn.stop(reason)
        return reason

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:
        session = await client.new()
        assert (await client.prompt(session, "return")).stop_reason == reason
        assert (await client.prompt(session, "stop")).stop_reason == reason


@pytest.mark.rule(98, 99)
async def test_permission_is_asked_once_and_always_is_remembered(tmp_path: Path) -> None:
    answers: list[bool] = []
    asked: list[v1.RequestPermissionRequest] = []

    async def answer(turn: Turn[Settings]) -> None:
        async with turn.tool("Write notes.md", kind="edit") as edit:
            answers.append(await edit.request_permission())

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:

        @client.handlers.on(v1.SESSION_REQUEST_PERMISSION)
        async def ask(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
            asked.append(params)
            option = ["reject_once", "never offered", "allow_always"][len(asked) - 1]
            return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id=option))

        session = await client.new()
        for _ in range(4):
            await client.prompt(session, "go")
        assert answers == [False, False, True, True]
        assert len(asked) == 3
        assert [option.kind for option in asked[0].options] == [
            "allow_once",
            "allow_always",
            "reject_once",
            "reject_always",
        ]
        assert asked[0].tool_call.title == "Write notes.md"


async def test_a_permission_request_that_fails_is_rejected(tmp_path: Path) -> None:
    answers: list[bool] = []

    async def answer(turn: Turn[Settings]) -> None:
        async with turn.tool("Delete everything", kind="delete") as delete:
            answers.append(await delete.request_permission())

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:
        await client.prompt(await client.new(), "go")  # this editor answers with "no such method"
        assert answers == [False]


@pytest.mark.rule(115, 116, 117, 119, 120, 122, 159)
async def test_modes_and_options_come_from_one_declaration_and_stay_in_step(tmp_path: Path) -> None:
    seen: list[str] = []

    async def answer(turn: Turn[SampleSettings]) -> None:
        seen.append(turn.settings.mode)
        await turn.set_option(mode="ask", deep=True)

    agent = agent_with(answer, settings=SampleSettings)
    session_caps = v1.ClientSessionCapabilities(
        config_options=v1.SessionConfigOptionsCapabilities(boolean=v1.BooleanConfigOptionCapabilities())
    )
    async with asyncio.timeout(60), client_for(agent, tmp_path, session=session_caps) as client:
        request = v1.NewSessionRequest(cwd=str(tmp_path), mcp_servers=[])
        opened = await client.connection.request(v1.SESSION_NEW, request)
        assert opened.modes is not None
        assert opened.modes.current_mode_id == "ask"
        assert [config_option_from_wire(option).setting_id for option in opened.config_options or []] == [
            "mode",
            "deep",
        ]

        session = opened.session_id
        await client.connection.request(
            v1.SESSION_SET_MODE, v1.SetSessionModeRequest(session_id=session, mode_id="write")
        )
        await client.prompt(session, "go")
        assert seen == ["write"]
        assert client.of(v1.CurrentModeUpdate)[-1].current_mode_id == "ask"
        last = client.of(v1.ConfigOptionUpdate)[-1].config_options
        assert [option.current_value for option in last] == ["ask", True]

        answered = await client.connection.request(
            v1.SESSION_SET_CONFIG_OPTION,
            v1.SetSessionConfigOptionBoolean(session_id=session, config_id="deep", value=False),
        )
        assert [config_option_from_wire(option).value for option in answered.config_options] == ["ask", False]
        for bad in (
            v1.SetSessionConfigOptionId(session_id=session, config_id="mode", value="nope"),
            v1.SetSessionConfigOptionId(session_id=session, config_id="nope", value="ask"),
        ):
            with pytest.raises(RequestError) as caught:
                await client.connection.request(v1.SESSION_SET_CONFIG_OPTION, bad)
            assert caught.value.code == -32602


async def test_slash_commands_are_offered_after_the_session_is_open_and_called_with_their_argument(
    tmp_path: Path,
) -> None:
    called: list[tuple[str, int]] = []

    async def answer(turn: Turn[Settings]) -> None:
        await turn.say("plain")

    agent = agent_with(answer)

    @agent.command("clear", "Forget everything", hint="what")
    async def clear(turn: Turn[Settings], argument: str) -> None:
        called.append((argument, len(turn.prompt)))

    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        session = await client.new()
        link = v1.ResourceLink(name="a", uri="file:///a")
        await client.prompt(session, "/clear the cache", link)
        await client.prompt(session, "/unknown")

        assert called == [("the cache", 2)]
        assert client.text == "plain"
        (offer,) = client.of(v1.AvailableCommandsUpdate)
        assert offer.available_commands == [
            v1.AvailableCommand(
                name="clear",
                description="Forget everything",
                input=v1.UnstructuredCommandInput(hint="what"),
            )
        ]
