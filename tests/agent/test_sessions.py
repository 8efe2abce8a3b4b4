"""Sessions: how they are opened and ended, what is refused, and that many of them live side by side."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.session import Session
from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.conversation.content import TextContent
from duologue.conversation.session_setup import StdioMcpServer, SystemPrompt
from duologue.conversation.updates import AvailableCommand, MessageChunk, ToolCallUpdate
from duologue.errors import InternalError, InvalidParams, RequestError, ResourceNotFound
from duologue.schema import v1
from duologue.schema.base import Method
from duologue.store.memory import MemoryStore
from tests.agent.wire_client import agent_with, client_for, raw_client


@pytest.mark.rule(33, 47, 83)
async def test_sessions_have_unique_names_and_live_side_by_side(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(agent_with(), tmp_path, validate=True) as client:
        names = [await client.new() for _ in range(20)]
        assert len(set(names)) == 20

        await asyncio.gather(*(client.prompt(name, f"<{name}>") for name in names))
        for name, update in zip(client.sessions, client.updates, strict=True):
            assert update.content.text == f"<{name}>"


@pytest.mark.rule(46)
@pytest.mark.fault("SCH-13")
@pytest.mark.parametrize("cwd", ["", "x", "./x", "~", "a\0b", "/a\0b", "C:\\work", "/definitely/not/here", "/x" * 3000])
async def test_a_directory_that_cannot_be_worked_in_is_refused_by_name(tmp_path: Path, cwd: str) -> None:
    """In the wild, agents 4: `session/new` for a directory that does not exist."""
    async with asyncio.timeout(60), client_for(agent_with(), tmp_path) as client:
        with pytest.raises(InvalidParams, match=r"\$\.cwd"):
            await client.connection.request(v1.SESSION_NEW, v1.NewSessionRequest(cwd=cwd, mcp_servers=[]))
        with pytest.raises(InvalidParams, match=r"\$\.additionalDirectories\[1\]"):
            await client.new(additional_directories=[str(tmp_path), cwd])
        (tmp_path / "file").touch()
        with pytest.raises(InvalidParams, match=r"\$\.cwd"):
            await client.new(tmp_path / "file")


async def test_a_directory_that_may_not_be_entered_is_refused_and_nothing_is_kept(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may enter every directory")
    agent, locked = agent_with(), tmp_path / "locked"
    agent.persist_sessions(MemoryStore())
    locked.mkdir(mode=0)
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        with pytest.raises(InvalidParams):
            await client.new(locked)
        assert (await client.sessions_page()).sessions == []


@pytest.mark.rule(48)
async def test_the_session_works_in_its_directory_wherever_the_agent_was_started(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        ran = await turn.run("pwd")
        await turn.say(f"{turn.cwd} {ran.output.strip()} {await turn.files.read('here.txt')}")

    (tmp_path / "here.txt").write_text("here")
    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:
        await client.prompt(await client.new(), "go")
        assert client.text == f"{tmp_path} {tmp_path} here"


@pytest.mark.rule(50, 51)
async def test_mcp_servers_are_taken_without_a_type_and_null_is_none_of_them(tmp_path: Path) -> None:
    seen: list[Any] = []
    agent = agent_with()

    @agent.on_open
    async def read_servers(session: Session[Settings]) -> None:
        seen.append(session.setup.mcp_servers)

    stdio = {"name": "a", "command": "/bin/a", "args": [], "env": [{"name": "K", "value": "V"}]}
    async with asyncio.timeout(60), raw_client(agent) as client:
        await client.initialize()
        for id, servers in enumerate([[stdio], [{**stdio, "type": "stdio"}], None, []]):
            assert "result" in await client.ask(id, "session/new", {"cwd": str(tmp_path), "mcpServers": servers})
        for id, bad in enumerate([[5], [{"name": "a"}], [stdio, {"type": "http", "name": "b"}], "x"]):
            refused = await client.ask(id, "session/new", {"cwd": str(tmp_path), "mcpServers": bad})
            assert refused["error"]["code"] == -32602
            assert "mcpServers" in refused["error"]["message"]

    server = StdioMcpServer(name="a", command="/bin/a", env={"K": "V"})
    assert seen == [[server], [server], [], []]


async def test_mcp_servers_that_do_not_start_do_not_fail_the_session(tmp_path: Path) -> None:
    """In the wild, agents 4: MCP servers that fail to start."""

    async def answer(turn: Turn[Settings]) -> None:
        await turn.mcp.ready()
        await turn.say(",".join(sorted(turn.mcp.errors)))

    async with asyncio.timeout(60), client_for(agent_with(answer, mcp=True), tmp_path, validate=True) as client:
        missing = v1.McpServerStdio(name="missing", command="/no/such/server", args=[], env=[])
        broken = v1.McpServerStdio(name="broken", command="/bin/false", args=[], env=[])
        session = await client.new(mcp_servers=[missing, broken])
        assert (await client.prompt(session, "go")).stop_reason == "end_turn"
        assert client.text == "broken,missing"
        await client.close(session)


@pytest.mark.rule(155)
async def test_a_system_prompt_is_applied_or_refused_never_ignored(tmp_path: Path) -> None:
    def system_prompt(mode: str, *blocks: v1.ContentBlock) -> v1.SystemPrompt:
        return v1.SystemPrompt(mode=mode, content=list(blocks))

    text = v1.TextContent(text="be brief")
    seen: list[SystemPrompt | None] = []
    for offered in (None, "append", "override"):
        agent = agent_with(system_prompt=offered)

        @agent.on_open
        async def read_prompt(session: Session[Settings]) -> None:
            seen.append(session.setup.system_prompt)

        async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
            for prompt, is_fine in [
                (system_prompt("append", text), offered is not None),
                (system_prompt("override", text), offered == "override"),
                (system_prompt("prepend", text), False),
                (system_prompt("append"), False),
                (system_prompt("append", v1.ResourceLink(name="a", uri="file:///a")), False),
            ]:
                seen.clear()
                if is_fine:
                    await client.new(system_prompt=prompt)
                    assert seen == [SystemPrompt(mode=prompt.mode, content=[TextContent("be brief")])]
                else:
                    with pytest.raises(InvalidParams, match="systemPrompt"):
                        await client.new(system_prompt=prompt)
                    assert seen == []


@pytest.mark.rule(45, 54)
async def test_additional_directories_are_roots_and_nothing_else_is(tmp_path: Path) -> None:
    inside, additional, outside = (tmp_path / name for name in ("inside", "additional", "outside"))
    for directory in (inside, additional, outside):
        directory.mkdir()
        (directory / "a.txt").write_text(directory.name)

    async def answer(turn: Turn[Settings]) -> None:
        for directory in (inside, additional, outside):
            try:
                await turn.say(await turn.files.read(directory / "a.txt") + " ")
            except InvalidParams:
                await turn.say("refused ")

    agent = agent_with(answer)
    agent.persist_sessions(MemoryStore())
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        session = await client.new(inside, additional_directories=[str(additional)])
        await client.prompt(session, "go")
        assert client.text == "inside additional refused "
        assert (await client.sessions_page()).sessions[0].additional_directories == [str(additional)]

        await client.load(session, inside)  # the list was not given again: nothing of it is restored
        client.updates.clear()
        await client.prompt(session, "go")
        assert client.text == "inside refused refused "
        assert (await client.sessions_page()).sessions[0].additional_directories == []


@pytest.mark.rule(63)
@pytest.mark.fault("LIF-03")
async def test_a_prompt_to_an_unknown_closed_deleted_or_foreign_session_is_refused_in_the_same_words(
    tmp_path: Path,
) -> None:
    agent = agent_with()
    agent.persist_sessions(MemoryStore())
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client, client_for(agent, tmp_path) as other:
        closed, deleted, foreign = await client.new(), await client.new(), await other.new()
        await client.close(closed)
        await client.delete(deleted)
        words: set[str] = set()
        for session in ("unknown", closed, deleted, foreign):
            with pytest.raises(ResourceNotFound) as caught:
                await client.prompt(session, "hi")
            words.add(caught.value.message)
            assert caught.value.data == {"sessionId": session}
        assert len(words) == 1


@pytest.mark.rule(62)
@pytest.mark.fault("LIF-05")
@pytest.mark.parametrize("end", ["session/close", "session/delete", "session/archive"])
async def test_ending_a_session_in_mid_turn_ends_the_turn_and_its_work_first(tmp_path: Path, end: str) -> None:
    ended: list[str] = []

    async def answer(turn: Turn[Settings]) -> None:
        async def background() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("background")

        turn.session.tasks.start(background())
        async with turn.tool("Wait"):
            await turn.run("sleep", "60")

    agent = agent_with(answer, unstable=True)
    agent.persist_sessions(MemoryStore())
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        session = await client.new()
        turn = asyncio.ensure_future(client.prompt(session, "go"))
        await client.until_updates(v1.ToolCallUpdate)
        methods: tuple[Method[Any, Any], ...] = (v1.SESSION_CLOSE, v1.SESSION_DELETE, v1.SESSION_ARCHIVE)
        await client.ask(next(method for method in methods if method.name == end), session_id=session)

        assert (await turn).stop_reason == "cancelled"
        order = client.validator.order()
        assert order.index("answer to session/prompt") < order.index(f"answer to {end}")
        assert client.statuses[-2:] == ["failed", "failed"]
        assert ended == ["background"]
        with pytest.raises(ResourceNotFound):
            await client.prompt(session, "hi")


@pytest.mark.rule(72)
@pytest.mark.fault("LIF-06")
async def test_closing_twice_is_not_found_and_deleting_twice_is_fine(tmp_path: Path) -> None:
    agent = agent_with()
    agent.persist_sessions(MemoryStore())
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        session = await client.new()
        await client.close(session)
        with pytest.raises(ResourceNotFound):
            await client.close(session)
        await client.delete(session)
        await client.delete(session)
        await client.delete("never was")


@pytest.mark.fault("ORD-04")
async def test_updates_sent_while_a_session_opens_follow_the_response_that_opens_it(tmp_path: Path) -> None:
    agent = agent_with()

    @agent.command("registered", "A command")
    async def registered(turn: Turn[Settings], argument: str) -> None:
        await turn.say(argument)

    @agent.on_open
    async def send_first_updates(session: Session[Settings]) -> None:
        await session.update(MessageChunk(role="agent", content=TextContent("welcome")))
        session.tasks.start(session.update(MessageChunk(role="agent", content=TextContent(" back"))))
        await asyncio.sleep(0)
        await session.set_commands([*session.available_commands, AvailableCommand("added", "Another")])

    agent.persist_sessions(MemoryStore())
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        session = await client.new()
        await client.until_updates(v1.AgentMessageChunk, 2)
        await client.close(session)
        await client.load(session)
        await client.until_updates(v1.AgentMessageChunk, 4 + 1)  # the replay in one chunk, and the new ones
        await client.close(session)
        await client.resume(session)
        await client.until_updates(v1.AgentMessageChunk, 7)

        updates = ["available_commands_update", "agent_message_chunk", "agent_message_chunk"]
        assert client.validator.order()[1:] == [
            "answer to session/new",
            *updates,
            "answer to session/close",
            "agent_message_chunk",
            "answer to session/load",
            *updates,
            "answer to session/close",
            "answer to session/resume",
            *updates,
        ]
        names = [command.name for command in client.of(v1.AvailableCommandsUpdate)[0].available_commands]
        assert names == ["registered", "added"]


async def test_an_update_that_cannot_be_sent_does_not_stop_the_session(tmp_path: Path) -> None:
    agent = agent_with()

    @agent.on_open
    async def send_first_updates(session: Session[Settings]) -> None:
        await session.update(ToolCallUpdate(tool_call_id="t", raw_input=object()))
        await session.update(MessageChunk(role="agent", content=TextContent("welcome")))

    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        session = await client.new()
        assert (await client.prompt(session, "hi")).stop_reason == "end_turn"
        assert client.text == "welcomehi"


async def test_a_session_that_cannot_be_opened_leaves_nothing_behind(tmp_path: Path) -> None:
    agent = agent_with(unstable=True)
    agent.persist_sessions(MemoryStore())
    opened: list[Session[Settings]] = []

    @agent.on_open
    async def fail(session: Session[Settings]) -> None:
        opened.append(session)
        if len(opened) > 1:
            raise OSError("secret")

    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        fine = await client.new()
        for attempt in (client.new(), client.fork(fine), client.load(fine), client.resume(fine)):
            with pytest.raises(InternalError, match="OSError"):
                await attempt
        assert [info.session_id for info in (await client.sessions_page()).sessions] == [fine]
        assert agent._open_sessions == {}


@pytest.mark.fault("CAN-02")
async def test_a_session_whose_opening_was_cancelled_is_not_open(tmp_path: Path) -> None:
    agent = agent_with()
    agent.persist_sessions(MemoryStore())
    opening = asyncio.Event()

    @agent.on_open
    async def wait(session: Session[Settings]) -> None:
        opening.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        attempt = asyncio.ensure_future(client.new())
        await opening.wait()
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        while (await client.sessions_page()).sessions:  # noqa: ASYNC110  # the end of a session is not reported to lists
            await asyncio.sleep(0)
        assert agent._open_sessions == {}


@pytest.mark.rule(15, 20, 21)
async def test_unknown_fields_and_strange_meta_are_tolerated_and_missing_fields_are_not(tmp_path: Path) -> None:
    async with asyncio.timeout(60), raw_client(agent_with()) as client:
        await client.initialize(zzz=1, clientCapabilities={"zzz": {}, "fs": {"zzz": 1}}, _meta=5)
        fields = {"cwd": str(tmp_path), "mcpServers": [], "zzz": [1], "_meta": "nonsense"}
        session = (await client.ask(1, "session/new", fields))["result"]["sessionId"]
        block: dict[str, Any] = {"type": "text", "text": "hi", "zzz": None, "_meta": []}
        answer = await client.ask(2, "session/prompt", {"sessionId": session, "prompt": [block], "zzz": {}})
        assert answer["result"] == {"stopReason": "end_turn"}

        bad: list[Any] = [{"prompt": [block]}, {"sessionId": session}, {"sessionId": 5, "prompt": []}, []]
        for id, params in enumerate(bad):
            refused = await client.ask(f"bad {id}", "session/prompt", params)
            assert refused["error"]["code"] == -32602


async def test_an_agent_without_a_prompt_handler_says_so(tmp_path: Path) -> None:
    agent = agent_with()
    agent._prompt_handler = None
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        with pytest.raises(RequestError, match="on_prompt"):
            await client.prompt(await client.new(), "hi")


def titles(updates: list[Any]) -> list[Any]:
    return [update.title for update in updates if isinstance(update, v1.SessionInfoUpdate)]


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("Fix the\n  test", "Fix the test"),
        ("x" * 80, "x" * 80),
        ("word " * 40, "word " * 15 + "word…"),
        ("y" * 2_000_000, "y" * 79 + "…"),
        (" \n\t", None),
    ],
)
async def test_the_first_prompt_of_a_session_becomes_its_title(tmp_path: Path, prompt: str, title: str | None) -> None:
    agent = agent_with(auto_title=True)
    agent.persist_sessions(MemoryStore())
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        session = await client.new()
        await client.prompt(session, prompt)
        assert titles(client.updates) == ([] if title is None else [title])
        assert [info.title for info in (await client.sessions_page()).sessions] == [title]
        await client.prompt(session, "and now another one")
        assert titles(client.updates) == [title or "and now another one"]


async def test_a_title_of_the_agent_or_the_user_is_better_than_one_from_a_prompt(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        if turn.text == "name it":
            await turn.set_title("Named")

    agent = agent_with(answer, auto_title=True, unstable=True)
    agent.persist_sessions(MemoryStore())
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        first, second = await client.new(), await client.new()
        await client.prompt(first, "name it")
        await client.ask(v1.SESSION_SET_TITLE, session_id=second, title="Mine")
        await client.prompt(second, "go")
        await client.prompt(first, "go on")
        listed = {info.session_id: info.title for info in (await client.sessions_page()).sessions}
        assert listed == {first: "Named", second: "Mine"}


async def test_sessions_get_no_title_from_a_prompt_unless_auto_title_is_set(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(agent_with(), tmp_path) as client:
        await client.prompt(await client.new(), "go")
        assert titles(client.updates) == []
