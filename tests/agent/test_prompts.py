"""Prompts: what they may carry, how they end, what becomes of an author's mistakes, and many of them at once."""

from __future__ import annotations

import asyncio
import base64
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.conversation.content import (
    Annotations,
    AudioContent,
    ImageContent,
    Resource,
    ResourceLink,
    TextContent,
    UnknownContent,
)
from duologue.conversation.updates import ToolCallUpdate
from duologue.conversation.work_state import TokenUsage
from duologue.errors import InternalError, InvalidParams, RequestError, ResourceNotFound
from duologue.schema import v1
from duologue.schema.base import Other
from tests.agent.wire_client import agent_with, client_for, raw_client

IMAGE = v1.ImageContent(data="aGk=", mime_type="image/png", uri="file:///a.png")
AUDIO = v1.AudioContent(data="aGk=", mime_type="audio/wav")
TEXT_RESOURCE = v1.EmbeddedResource(resource=v1.TextResourceContents(uri="file:///a", text="hi"))
BLOB_RESOURCE = v1.EmbeddedResource(resource=v1.BlobResourceContents(uri="file:///b", blob="aGk="))
LINK = v1.ResourceLink(name="a", uri="file:///a", title="A", description="d", mime_type="text/plain", size=2**40)


def collecting() -> tuple[Any, list[Any]]:
    """Return a handler and the list of prompts it received."""
    seen: list[Any] = []

    async def collect(turn: Turn[Settings]) -> None:
        seen.append(turn.prompt)

    return collect, seen


@pytest.mark.rule(34)
async def test_text_and_links_are_taken_by_every_agent_in_any_mixture(tmp_path: Path) -> None:
    """In the wild, agents 5: prompts with only a link."""
    handler, seen = collecting()
    async with asyncio.timeout(60), client_for(agent_with(handler, accepts=()), tmp_path) as client:
        session = await client.new()
        await client.prompt(session, LINK)
        await client.prompt(session, "a", LINK, "b")

        link = ResourceLink("file:///a", "a", "A", "d", "text/plain", 2**40)
        assert seen == [[link], [TextContent("a"), link, TextContent("b")]]


@pytest.mark.fault("SCH-12")
@pytest.mark.parametrize(
    ("block", "kind"),
    [(IMAGE, "image"), (AUDIO, "audio"), (TEXT_RESOURCE, "resource"), (BLOB_RESOURCE, "resource")],
    ids=["image", "audio", "text", "blob"],
)
async def test_content_that_was_not_advertised_is_rejected_before_any_work_and_other_content_arrives_whole(
    tmp_path: Path, block: v1.ContentBlock, kind: Any
) -> None:
    """In the wild, agents 5: prompts with only an image."""
    handler, seen = collecting()
    others = tuple({"image", "audio", "resource"} - {kind})
    async with asyncio.timeout(60), client_for(agent_with(handler, accepts=others), tmp_path) as client:
        with pytest.raises(InvalidParams, match=rf"\$\.prompt\[1\].*{kind}"):
            await client.prompt(await client.new(), "look", block)
        assert seen == []
    async with asyncio.timeout(60), client_for(agent_with(handler, accepts=(kind,)), tmp_path) as client:
        await client.prompt(await client.new(), block)
        assert len(seen) == 1
    [[taken]] = seen
    assert taken in [
        ImageContent("aGk=", "image/png", "file:///a.png"),
        AudioContent("aGk=", "audio/wav"),
        Resource("file:///a", text="hi"),
        Resource("file:///b", blob="aGk="),
    ]


async def test_content_of_an_unknown_kind_is_refused_by_its_name(tmp_path: Path) -> None:
    handler, seen = collecting()
    async with asyncio.timeout(60), client_for(agent_with(handler), tmp_path) as client:
        with pytest.raises(InvalidParams, match=r"\$\.prompt\[0\].*hologram"):
            await client.prompt(await client.new(), Other("hologram", {"type": "hologram"}))
        assert seen == []
    assert UnknownContent({"type": "x"}) not in seen


@pytest.mark.fault("SCH-14")
@pytest.mark.parametrize("data", ["not base64!", "aGk", "====", "aGk=\n", ""])
async def test_binary_content_is_passed_on_as_it_came_and_never_decoded(tmp_path: Path, data: str) -> None:
    handler, seen = collecting()
    async with asyncio.timeout(60), client_for(agent_with(handler, accepts=("image",)), tmp_path) as client:
        await client.prompt(await client.new(), v1.ImageContent(data=data, mime_type="image/png"))
        assert seen == [[ImageContent(data, "image/png")]]


@pytest.mark.fault("SCH-14")
async def test_an_image_of_24_megabytes_and_five_megabytes_of_text_arrive(tmp_path: Path) -> None:
    """In the wild, agents 5: five megabytes of text."""
    handler, seen = collecting()
    data = base64.b64encode(bytes(18 * 1024 * 1024)).decode()
    text = "é\u2028\0\N{GRINNING FACE}x" * 800_000
    async with asyncio.timeout(60), client_for(agent_with(handler, accepts=("image",)), tmp_path) as client:
        session = await client.new()
        await client.prompt(session, v1.ImageContent(data=data, mime_type="image/png"))
        await client.prompt(session, text)
        assert len(data) == 24 * 1024 * 1024
        assert len(text.encode()) > 5 * 1024 * 1024
        assert seen == [[ImageContent(data, "image/png")], [TextContent(text)]]


async def test_an_empty_prompt_is_refused_by_name(tmp_path: Path) -> None:
    """In the wild, agents 5: an empty array."""
    handler, seen = collecting()
    async with asyncio.timeout(60), client_for(agent_with(handler), tmp_path) as client:
        with pytest.raises(InvalidParams, match=r"\$\.prompt"):
            await client.prompt(await client.new())
        assert seen == []


async def test_annotations_and_meta_of_every_block_can_be_read_and_written(tmp_path: Path) -> None:
    hints = v1.Annotations(audience=["user"], priority=0.5, last_modified="2026-01-01T00:00:00Z", meta={"h": 1})
    sent: list[v1.ContentBlock] = [
        v1.TextContent(text="t", annotations=hints, meta={"m": 1}),
        v1.ImageContent(data="aGk=", mime_type="image/png", uri="file:///i", annotations=hints, meta={"m": 2}),
        v1.AudioContent(data="aGk=", mime_type="audio/wav", annotations=hints, meta={"m": 3}),
        v1.ResourceLink(name="l", uri="file:///l", annotations=hints, meta={"m": 4}),
        v1.EmbeddedResource(
            resource=v1.TextResourceContents(uri="file:///e", text="x", meta={"r": 1}), annotations=hints, meta={"m": 5}
        ),
    ]
    seen: list[Annotations | None] = []

    async def send_back(turn: Turn[Settings]) -> None:
        for block in turn.prompt:
            seen.append(getattr(block, "annotations", None))
            await turn.say(block, meta={"chunk": 1})

    agent = agent_with(send_back, accepts=("image", "audio", "resource"))
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        await client.prompt(await client.new(), *sent)
        assert [chunk.content for chunk in client.of(v1.AgentMessageChunk)] == sent
        assert [chunk.meta for chunk in client.of(v1.AgentMessageChunk)] == [{"chunk": 1}] * 5
        assert (
            seen
            == [Annotations(audience=["user"], priority=0.5, last_modified="2026-01-01T00:00:00Z", meta={"h": 1})] * 5
        )


# --- how they end


@pytest.mark.rule(75)
async def test_the_tokens_of_a_turn_are_sent_with_its_response(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        turn.tokens = TokenUsage(
            total=2**60, input=1, output=2, thought=3, cached_read=4, cached_write=5, meta={"a": 1}
        )

    async with asyncio.timeout(60), client_for(agent_with(answer, unstable=True), tmp_path, validate=True) as client:
        response = await client.prompt(await client.new(), "go")
        assert response.usage == v1.Usage(
            total_tokens=2**60,
            input_tokens=1,
            output_tokens=2,
            thought_tokens=3,
            cached_read_tokens=4,
            cached_write_tokens=5,
            meta={"duologue/scope": "turn", "a": 1},
        )


async def test_stopping_works_from_a_task_group_and_an_unknown_reason_is_an_error(tmp_path: Path) -> None:
    async def stop(turn: Turn[Settings]) -> None:
        turn.stop("refusal")

    async def answer(turn: Turn[Settings]) -> str | None:
        if turn.text == "group":
            async with asyncio.TaskGroup() as outer, asyncio.TaskGroup() as inner:
                inner.create_task(stop(turn))
                outer.create_task(asyncio.Event().wait())
        if turn.text == "unknown":
            turn.stop("tired")  # type: ignore[arg-type]  # the mistake
        return turn.text

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:
        session = await client.new()
        assert (await client.prompt(session, "group")).stop_reason == "refusal"
        with pytest.raises(InternalError, match="ValueError"):
            await client.prompt(session, "unknown")
        with pytest.raises(InternalError, match="returned a value of type str"):
            await client.prompt(session, "nonsense")
        assert (await client.prompt(session, "max_tokens")).stop_reason == "max_tokens"


@pytest.mark.rule(17)
@pytest.mark.parametrize("debug", [False, True])
async def test_an_authors_mistake_is_an_error_of_its_prompt_and_nothing_else(tmp_path: Path, debug: bool) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        match turn.text:
            case "own":
                raise RequestError("out of credit", code=4711, data={"left": 0})
            case "known":
                raise ResourceNotFound("no such note")
            case "exit":
                sys.exit(3)
            case "assert":
                raise AssertionError("secret")
            case "many":
                async with asyncio.TaskGroup() as group:
                    group.create_task(turn.files.read("/outside"))
            case _:
                await turn.say("fine")

    agent = agent_with(answer, debug=debug)
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        session = await client.new()
        with pytest.raises(RequestError, match="out of credit") as own:
            await client.prompt(session, "own")
        assert (own.value.code, own.value.data) == (4711, {"left": 0})
        with pytest.raises(ResourceNotFound, match="no such note"):
            await client.prompt(session, "known")
        with pytest.raises(InternalError, match=r"the prompt handler raised SystemExit \(reference \w{8}\)"):
            await client.prompt(session, "exit")
        with pytest.raises(InternalError, match="AssertionError") as caught:
            await client.prompt(session, "assert")
        assert ("secret" in caught.value.message) == debug
        with pytest.raises(InternalError, match="ExceptionGroup"):
            await client.prompt(session, "many")
        assert (await client.prompt(session, "go on")).stop_reason == "end_turn"


# --- many at once


@pytest.mark.fault("ORD-02")
@pytest.mark.rule(76)
async def test_updates_of_many_tasks_come_before_the_answer_and_none_after_it(tmp_path: Path) -> None:
    refused: list[BaseException] = []

    async def answer(turn: Turn[Settings]) -> None:
        async def send_pieces(number: int) -> None:
            for piece in range(20):
                await turn.say(f"{number}.{piece} ")
                await asyncio.sleep(0)

        async def send_forever() -> None:
            try:
                while True:
                    await turn.say("more ")
                    await asyncio.sleep(0)
            except RuntimeError as error:
                refused.append(error)

        turn.session.tasks.start(send_forever())
        async with asyncio.TaskGroup() as group:
            for number in range(10):
                group.create_task(send_pieces(number))

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path, validate=True) as client:
        session = await client.new()
        await client.prompt(session, "go")
        await client.until(lambda: refused)
        assert client.validator.order()[-1] == "answer to session/prompt"
        pieces = [chunk.content.text for chunk in client.of(v1.AgentMessageChunk)]
        for number in range(10):
            own_pieces = [piece for piece in pieces if piece.startswith(f"{number}.")]
            assert own_pieces == [f"{number}.{piece} " for piece in range(20)]


@pytest.mark.fault("ORD-08")
async def test_prompts_of_one_session_wait_in_line_and_their_updates_never_mix(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        for _ in range(5):
            await turn.say(turn.text)
            await asyncio.sleep(0)

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path, validate=True) as client:
        session = await client.new()
        await asyncio.gather(*(client.prompt(session, str(number)) for number in range(10)))
        turn = [*["agent_message_chunk"] * 5, "answer to session/prompt"]
        assert client.validator.order()[2:] == turn * 10
        texts = [chunk.content.text for chunk in client.of(v1.AgentMessageChunk)]
        assert texts == [str(number) for number in range(10) for _ in range(5)]


@pytest.mark.fault("ORD-08")
async def test_cancelling_a_queued_prompt_leaves_the_others_queued(tmp_path: Path) -> None:
    release = asyncio.Event()
    ran: list[str] = []

    async def answer(turn: Turn[Settings]) -> None:
        ran.append(turn.text)
        await release.wait()

    async with asyncio.timeout(60), raw_client(agent_with(answer)) as client:
        await client.initialize()
        opened = await client.ask("new", "session/new", {"cwd": str(tmp_path), "mcpServers": []})
        session = opened["result"]["sessionId"]
        for number in range(4):
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": str(number)}]}
            client.send(id=number, method="session/prompt", params=prompt)
        client.send(method="$/cancel_request", params={"requestId": 2})
        assert (await client.receive()) == {"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "cancelled"}}
        release.set()
        reasons = [(await client.answer_to(number))["result"]["stopReason"] for number in (0, 1, 3)]
        assert reasons == ["end_turn"] * 3
        assert ran == ["0", "1", "3"]


@pytest.mark.fault("ORD-09")
async def test_a_hundred_sessions_do_not_wait_for_the_slow_one(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        if turn.text == "slow":
            await asyncio.Event().wait()
        await turn.say("done")

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:
        sessions = [await client.new() for _ in range(100)]
        slow = asyncio.ensure_future(client.prompt(sessions[0], "slow"))
        loop = asyncio.get_running_loop()

        async def timed(session: str) -> float:
            began = loop.time()
            assert (await client.prompt(session, "quick")).stop_reason == "end_turn"
            return loop.time() - began

        one_by_one = [await timed(session) for session in sessions[1:]]
        assert statistics.median(one_by_one) < 0.05
        assert len(await asyncio.gather(*map(timed, sessions[1:]))) == 99
        assert not slow.done()
        await client.cancel(sessions[0])
        assert (await slow).stop_reason == "cancelled"


@pytest.mark.fault("ORD-10", "ORD-11")
async def test_a_tool_block_that_does_nothing_was_in_progress_before_it_was_completed(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        async with turn.tool("Left", tool_call_id="left"):
            pass
        async with turn.tool("Said", tool_call_id="said") as work:
            await work.update(status="completed")
        async with turn.tool("Failed", tool_call_id="failed") as failed:
            await failed.fail("no")

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path, validate=True) as client:
        await client.prompt(await client.new(), "go")
        assert client.statuses == [*["pending", "in_progress", "completed"] * 2, "pending", "failed"]


async def test_updates_of_tool_calls_are_sent_as_the_author_wrote_them(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        await turn.update(ToolCallUpdate(tool_call_id="never announced", title="Who?"))
        async with turn.tool("Work", tool_call_id="t") as work:
            await work.update(status="completed")
            await work.update(status="in_progress")
            await work.update(status="completed")

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path, validate=True) as client:
        await client.prompt(await client.new(), "go")
        assert client.of(v1.ToolCallUpdate)[0] == v1.ToolCallUpdate(tool_call_id="never announced", title="Who?")
        assert client.statuses == ["pending", "in_progress", "completed", "in_progress", "completed"]


async def test_a_command_is_found_whatever_white_space_follows_it(tmp_path: Path) -> None:
    called: list[str] = []
    agent = agent_with()

    @agent.command("note", "Write it down", meta={"icon": "pencil"})
    async def note(turn: Turn[Settings], argument: str) -> None:
        called.append(argument)

    with pytest.raises(ValueError, match="slash or whitespace"):
        agent.command("/note", "no")
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        session = await client.new()
        for text in ("/note", "/note one", "/note\ntwo\nlines", "  /note three", "/notes", "note", "/", ""):
            await client.prompt(session, text)
        assert called == ["", "one", "two\nlines", "three"]
        [offer] = client.of(v1.AvailableCommandsUpdate)
        assert offer.available_commands[0].meta == {"icon": "pencil"}
