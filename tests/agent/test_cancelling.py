"""Cancelling: at any moment, by either message, whatever the author's code does about it."""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.agent.turns.prompt_queue import CANCEL_SECONDS
from duologue.conversation.updates import ToolCallUpdate
from duologue.runtime.handlers import Context
from duologue.schema import v1
from duologue.transports.memory import memory_pair
from tests.agent.complete import ClientServices
from tests.agent.wire_client import EVERYTHING, RawClient, agent_with, client_for, raw_client


async def script(turn: Turn[Settings]) -> None:
    """Run many small steps, some of which wait for the client."""
    await turn.think("hm")
    async with turn.tool("Read", kind="read") as read:
        await read.show(await turn.files.read("a.txt"))
    async with turn.tool("Write", kind="edit") as edit:
        if await edit.request_permission():
            await turn.files.write("b.txt", "text")
    await turn.run("make", "test")
    for piece in ("one ", "two ", "three"):
        await turn.say(piece)


@pytest.mark.fault("CAN-01")
@pytest.mark.rule(22, 77)
async def test_a_cancel_at_any_moment_ends_every_prompt_exactly_once(
    tmp_path: Path, chaos_factor: int, record_property: Any
) -> None:
    count = 100 * chaos_factor
    record_property("count", count)
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    seen: dict[str, int] = {}
    async with asyncio.timeout(600), client_for(agent_with(script), tmp_path, validate=True, **EVERYTHING) as client:
        services = ClientServices(client)
        services.files[str(tmp_path / "a.txt")] = "text"
        session = await client.new()
        for _ in range(count):
            turn = asyncio.ensure_future(client.prompt(session, "go"))
            for _ in range(chance.randrange(150)):
                await asyncio.sleep(0)
            await client.cancel(session)
            reason = (await turn).stop_reason
            seen[reason] = seen.get(reason, 0) + 1
        assert set(seen) <= {"cancelled", "end_turn"}, f"seed {seed}"
        assert seen["cancelled"] > count / 10
        assert (await client.prompt(session, "go")).stop_reason == "end_turn"
        # Every terminal that was made was given back, also those made in the moment of a cancellation.
        await client.close(session)
        assert sorted(services.released) == sorted(services.terminals), f"seed {seed}"


@pytest.mark.fault("CAN-02")
async def test_a_cancel_before_the_first_update_is_not_lost(tmp_path: Path) -> None:
    """Not even if the author's code has to find out first who is logged in."""
    agent = agent_with(login_required=True)
    asked, may_answer = asyncio.Event(), asyncio.Event()
    is_slow = False

    @agent.on_login_status
    async def status() -> str:
        if is_slow:
            asked.set()
            await may_answer.wait()
        return "authenticated" if is_slow else "not_required"

    @agent.on_logout
    async def logout() -> None:
        return None

    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        session = await client.new()
        await client.ask(v1.LOGOUT)
        is_slow = True
        turn = asyncio.ensure_future(client.prompt(session, "hi"))
        await asked.wait()
        await client.cancel(session)
        assert (await turn).stop_reason == "cancelled"
        assert client.updates == []
        may_answer.set()
        assert (await client.prompt(session, "hi")).stop_reason == "end_turn"


@pytest.mark.fault("CAN-03", "CAN-09")
@pytest.mark.rule(84)
@pytest.mark.parametrize("by", ["session/cancel", "$/cancel_request"])
async def test_a_cancel_in_the_same_write_as_the_prompt_ends_it_as_cancelled(tmp_path: Path, by: str) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        await turn.say("x")
        await asyncio.Event().wait()

    async with asyncio.timeout(60), raw_client(agent_with(answer)) as client:
        session = await open_session(client, tmp_path)
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}
        cancel = {"sessionId": session} if by == "session/cancel" else {"requestId": 1}
        client.send(id=1, method="session/prompt", params=prompt)
        client.send(method=by, params=cancel)
        assert (await client.answer_to(1))["result"] == {"stopReason": "cancelled"}

        client.send(id=1, method="session/prompt", params=prompt)
        assert (await client.receive())["method"] == "session/update"
        client.send(method=by, params=cancel)
        assert (await client.answer_to(1))["result"] == {"stopReason": "cancelled"}


async def open_session(client: RawClient, cwd: Path, **capabilities: Any) -> str:
    await client.initialize(clientCapabilities=capabilities)
    opened = await client.ask("new", "session/new", {"cwd": str(cwd), "mcpServers": []})
    return str(opened["result"]["sessionId"])


@pytest.mark.fault("CAN-04")
@pytest.mark.rule(82, 85, 87)
async def test_cancelling_without_a_prompt_does_not_affect_the_next_prompt(tmp_path: Path) -> None:
    """In the wild, agents 2: cancels before and after a turn."""
    async with asyncio.timeout(60), raw_client(agent_with()) as client:
        session = await open_session(client, tmp_path)
        nonsense: list[Any] = [
            {"requestId": 5},
            {"requestId": "1"},
            {"requestId": None},
            {"requestId": []},
            {},
            None,
            "x",
        ]
        for number in range(3):
            for name in (session, "unknown", ""):
                client.send(method="session/cancel", params={"sessionId": name})
            for params in nonsense:
                client.send(method="$/cancel_request", params=params)
            client.send(method="session/cancel")
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}
            client.send(id=number, method="session/prompt", params=prompt)
            assert (await client.receive())["params"]["update"]["content"]["text"] == "hi"
            assert (await client.receive())["result"] == {"stopReason": "end_turn"}
            client.send(method="$/cancel_request", params={"requestId": number})


@pytest.mark.fault("CAN-05")
@pytest.mark.rule(76, 78)
async def test_late_updates_of_a_cancelled_turn_come_before_its_response_and_never_in_the_next_turn(
    tmp_path: Path,
) -> None:
    late: list[str] = []

    async def answer(turn: Turn[Settings]) -> None:
        if turn.text != "old":
            await turn.say(turn.text)
            return
        await turn.say("old")

        async def background() -> None:
            while True:
                try:
                    await turn.say("old background")
                except RuntimeError as error:
                    late.append(str(error))
                    return
                await asyncio.sleep(0)

        turn.session.tasks.start(background())
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(20):
                await turn.say("old late")

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path, validate=True) as client:
        session = await client.new()
        old = asyncio.ensure_future(client.prompt(session, "old"))
        await client.until_updates(v1.AgentMessageChunk)
        await client.cancel(session)
        new = asyncio.ensure_future(client.prompt(session, "new"))
        assert [(await old).stop_reason, (await new).stop_reason] == ["cancelled", "end_turn"]

        messages = client.validator.received
        answered = client.validator.order().index("answer to session/prompt")
        texts = [message["params"]["update"]["content"]["text"] for message in messages[2:answered]]
        assert texts.count("old late") == 20
        assert "new" not in texts
        after = messages[answered + 1 :]
        assert [message["params"]["update"]["content"]["text"] for message in after[:-1]] == ["new"]
        await client.until(lambda: late)
        assert "has been answered" in late[0]


@pytest.mark.fault("CAN-08")
async def test_cancelling_any_other_request_is_answered_with_cancelled(tmp_path: Path) -> None:
    agent = agent_with()
    waiting = asyncio.Event()

    @agent.extension("_slow")
    async def slow(params: dict[str, Any]) -> dict[str, Any]:
        waiting.set()
        await asyncio.Event().wait()
        return {}

    async with asyncio.timeout(60), raw_client(agent) as client:
        await client.initialize()
        client.send(id="s", method="_slow", params={})
        await waiting.wait()
        client.send(method="$/cancel_request", params={"requestId": "s"})
        assert (await client.answer_to("s"))["error"]["code"] == -32800
        client.send(method="$/cancel_request", params={"requestId": "s"})
        client.send(id="t", method="nonsense")
        assert (await client.receive())["id"] == "t"


@pytest.mark.fault("CAN-11")
@pytest.mark.parametrize("seconds", [0.05, CANCEL_SECONDS])
async def test_work_that_ignores_its_cancellation_is_left_behind_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, seconds: float
) -> None:
    may_end = asyncio.Event()
    after: list[str] = []

    async def stubborn(turn: Turn[Settings]) -> None:
        await turn.say(turn.text)
        if turn.text == "next":
            return
        for _ in range(3):
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue
            break
        for act in (turn.say("late"), turn.tool("Late").request_permission_option()):
            try:
                await act
            except RuntimeError as error:
                after.append(str(error))

    agent = agent_with(stubborn, cancel_timeout=seconds)
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        client.answer_permission()
        session = await client.new()
        turn = asyncio.ensure_future(client.prompt(session, "stuck"))
        await client.until_updates(v1.AgentMessageChunk)
        began = asyncio.get_running_loop().time()
        with caplog.at_level(logging.ERROR, "duologue.agent"):
            await client.cancel(session)
            assert (await turn).stop_reason == "cancelled"
        assert asyncio.get_running_loop().time() - began < 5
        assert "did not stop after cancellation" in caplog.text
        assert (await client.prompt(session, "next")).stop_reason == "end_turn"

        client.updates.clear()
        may_end.set()
        await client.close(session)
        assert len([text for text in after if "has been answered" in text]) == 2
        assert client.updates == []
        assert client.asked == []


@pytest.mark.fault("CAN-12")
@pytest.mark.rule(77)
@pytest.mark.parametrize("raised", [ValueError("x"), SystemExit(3), ExceptionGroup("g", [OSError("y")])], ids=repr)
async def test_whatever_a_tool_raises_while_it_is_cancelled_the_turn_was_cancelled(
    tmp_path: Path, raised: BaseException
) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        async with turn.tool("Work"):
            try:
                await asyncio.Event().wait()
            finally:
                raise raised

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path, validate=True) as client:
        session = await client.new()
        for _ in range(2):
            client.updates.clear()
            turn = asyncio.ensure_future(client.prompt(session, "go"))
            await client.until_updates(v1.ToolCall)
            await client.cancel(session)
            assert (await turn).stop_reason == "cancelled"
            assert client.statuses[-1] == "failed"


@pytest.mark.fault("CAN-14")
@pytest.mark.parametrize("answer", ["at once", "late", "refused", "never"])
async def test_a_cancelled_turn_cancels_its_requests_and_releases_a_terminal_created_meanwhile(
    tmp_path: Path, answer: str
) -> None:
    async def work(turn: Turn[Settings]) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(turn.files.read("a.txt"))
            group.create_task(turn.run("make"))

    async with asyncio.timeout(60), raw_client(agent_with(work)) as client:
        session = await open_session(client, tmp_path, fs={"readTextFile": True}, terminal=True)
        client.send(
            id=1, method="session/prompt", params={"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}
        )
        asked: dict[str, int] = {}
        while len(asked) < 2:
            message = await client.receive()
            if "id" in message:
                asked[message["method"]] = message["id"]
        client.send(method="session/cancel", params={"sessionId": session})
        if answer == "at once":
            client.send(id=asked["terminal/create"], result={"terminalId": "t"})
        received: list[dict[str, Any]] = []
        while not received or received[-1].get("id") != 1:
            received.append(await client.receive())
        assert received[-1]["result"] == {"stopReason": "cancelled"}
        given_up = {
            message["params"]["requestId"] for message in received if message.get("method") == "$/cancel_request"
        }
        assert asked["fs/read_text_file"] in given_up
        assert asked["terminal/create"] in given_up or answer == "at once"

        if answer == "late":
            client.send(id=asked["terminal/create"], result={"terminalId": "t"})
            received.append(await client.receive())
        if answer == "refused":
            client.send(id=asked["terminal/create"], error={"code": -32800, "message": "cancelled"})
        released = [message for message in received if message.get("method") == "terminal/release"]
        if answer in ("at once", "late"):
            assert [message["params"] for message in released] == [{"sessionId": session, "terminalId": "t"}]
            client.send(id=released[0]["id"], result={})
        else:
            assert released == []
        closed = await client.ask("close", "session/close", {"sessionId": session})
        assert closed["result"] == {}


@pytest.mark.fault("CAN-14")
@pytest.mark.rule(112)
async def test_a_cancelled_turn_releases_its_terminal_before_its_answer_and_does_not_wait_for_it(
    tmp_path: Path,
) -> None:
    async def work(turn: Turn[Settings]) -> None:
        await turn.run("make")

    async with asyncio.timeout(60), raw_client(agent_with(work, cancel_timeout=600)) as client:
        session = await open_session(client, tmp_path, terminal=True)
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}
        client.send(id=1, method="session/prompt", params=prompt)
        words: list[str] = []
        while True:
            message = await client.receive()
            words.append(str(message.get("method", message.get("id"))))
            if words[-1] == "terminal/create":
                client.send(id=message["id"], result={"terminalId": "t"})
            if words[-1] == "terminal/wait_for_exit":
                client.send(method="session/cancel", params={"sessionId": session})
            if words[-1] == "1":
                break
        assert message["result"] == {"stopReason": "cancelled"}
        assert {"terminal/release", "$/cancel_request"} <= set(words)
        # The client never answers the release; the session is closed all the same.
        client.send(id=2, method="session/close", params={"sessionId": session})
        assert (await client.answer_to(2))["result"] == {}


@pytest.mark.rule(79, 83)
@pytest.mark.parametrize("reply", [{"result": {"outcome": {"outcome": "cancelled"}}}, {"error": {"code": -32800}}])
async def test_a_question_dies_with_its_turn_however_the_client_answers_it(
    tmp_path: Path, reply: dict[str, Any]
) -> None:
    done: list[bool] = []

    async def work(turn: Turn[Settings]) -> None:
        async with turn.tool("Delete", kind="delete") as delete:
            done.append(await delete.request_permission())

    async with asyncio.timeout(60), raw_client(agent_with(work)) as client:
        session = await open_session(client, tmp_path)
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}
        client.send(id=1, method="session/prompt", params=prompt)
        message: dict[str, Any] = {}
        while message.get("method") != "session/request_permission":
            message = await client.receive()
        asked = message["id"]
        client.send(method="session/cancel", params={"sessionId": session})
        if "error" in reply:
            reply["error"]["message"] = "cancelled"
        client.send(id=asked, **reply)
        messages = [await client.receive()]
        while messages[-1].get("id") != 1:
            messages.append(await client.receive())
        assert messages[-1]["result"] == {"stopReason": "cancelled"}
        statuses = [m["params"]["update"].get("status") for m in messages if m.get("method") == "session/update"]
        assert statuses[-1] == "failed"
        assert done in ([], [False])


async def test_a_compaction_in_progress_is_cancelled_with_its_turn_and_fails_with_it(tmp_path: Path) -> None:
    async def work(turn: Turn[Settings]) -> None:
        await turn.report_compaction(turn.text, "in_progress")
        if turn.text == "cancelled":
            await asyncio.Event().wait()

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, validate=True, **EVERYTHING) as client:
        session = await client.new()
        turn = asyncio.ensure_future(client.prompt(session, "cancelled"))
        await client.until_updates(v1.CompactionUpdate)
        await client.cancel(session)
        assert (await turn).stop_reason == "cancelled"
        await client.prompt(session, "failed")

        statuses = [(update.compaction_id, update.status) for update in client.of(v1.CompactionUpdate)]
        assert statuses == [
            ("cancelled", "in_progress"),
            ("cancelled", "cancelled"),
            ("failed", "in_progress"),
            ("failed", "failed"),
        ]


async def test_final_updates_are_sent_even_when_the_turn_is_cancelled_twice(tmp_path: Path) -> None:
    async def work(turn: Turn[Settings]) -> None:
        try:
            await turn.say("x")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await turn.send_final_update(ToolCallUpdate(tool_call_id="t", status="failed"))

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, validate=True) as client:
        session = await client.new()
        turn = asyncio.ensure_future(client.prompt(session, "go"))
        await client.until_updates(v1.AgentMessageChunk)
        await client.cancel(session)
        assert (await turn).stop_reason == "cancelled"
        assert client.validator.order()[-2:] == ["tool_call_update", "answer to session/prompt"]


@pytest.mark.fault("LIF-08", "CAN-11")
async def test_a_client_that_leaves_does_not_wait_for_work_it_had_cancelled_before(tmp_path: Path) -> None:
    may_end = asyncio.Event()

    async def stubborn(turn: Turn[Settings]) -> None:
        await turn.say("x")
        for _ in range(3):
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue

    async with asyncio.timeout(60):
        async with client_for(agent_with(stubborn, cancel_timeout=600), tmp_path) as client:
            session = await client.new()
            turn = asyncio.ensure_future(client.prompt(session, "go"))
            await client.until_updates(v1.AgentMessageChunk)
            await client.cancel(session)
        with pytest.raises(Exception, match="closed"):
            await turn
    may_end.set()
    await asyncio.sleep(0)


async def test_final_updates_do_not_wait_for_a_client_that_does_not_read(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def work(turn: Turn[Settings]) -> None:
        async with turn.tool("Talk"):
            try:
                while True:
                    await turn.say("x" * 100)
            finally:
                ended.set()

    near, far = memory_pair(bound=2000)
    serving = asyncio.ensure_future(agent_with(work).serve(far))
    async with asyncio.timeout(CANCEL_SECONDS / 2), near:
        client = RawClient(near)
        session = await open_session(client, tmp_path)
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}
        client.send(id=1, method="session/prompt", params=prompt)
        while not near._other.is_congested:  # noqa: ASYNC110
            await asyncio.sleep(0)
        client.send(method="session/cancel", params={"sessionId": session})
        await ended.wait()
        messages = [await client.receive()]
        while messages[-1].get("id") != 1:
            messages.append(await client.receive())
        assert messages[-1]["result"] == {"stopReason": "cancelled"}
        assert messages[-2]["params"]["update"]["status"] == "failed"
    await serving


async def test_a_handler_that_cancels_itself_ends_as_cancelled(tmp_path: Path) -> None:
    async def work(turn: Turn[Settings]) -> None:
        raise asyncio.CancelledError

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path) as client:
        assert (await client.prompt(await client.new(), "go")).stop_reason == "cancelled"


async def test_a_slow_client_does_not_keep_a_cancelled_turn_from_ending(tmp_path: Path) -> None:
    """Permission requests without an answer, in several sessions: each ends by itself."""

    async def work(turn: Turn[Settings]) -> None:
        async with turn.tool("Ask") as tool:
            await tool.request_permission()

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, validate=True) as client:
        asked: list[str] = []

        @client.handlers.on(v1.SESSION_REQUEST_PERMISSION)
        async def never(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
            asked.append(params.session_id)
            client.notify_waiters()
            await asyncio.Event().wait()
            raise AssertionError

        one, two = await client.new(), await client.new()
        turns = {name: asyncio.ensure_future(client.prompt(name, "go")) for name in (one, two)}
        await client.until(lambda: len(asked) == 2)
        await client.cancel(one)
        assert (await turns[one]).stop_reason == "cancelled"
        assert not turns[two].done()
        await client.cancel(two)
        assert (await turns[two]).stop_reason == "cancelled"
