"""Files and commands: the client's where it offers them, our own inside the session's roots where it does not."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from duologue.agent.command import CommandResult
from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.errors import CommandNotFound, InternalError, InvalidParams, RequestError, ResourceNotFound
from duologue.runtime.handlers import Context
from duologue.schema import v1
from tests.agent.complete import ClientServices
from tests.agent.wire_client import agent_with, client_for

FILES = {"fs": v1.FileSystemCapabilities(read_text_file=True, write_text_file=True)}


@pytest.mark.rule(45, 100)
@pytest.mark.parametrize("offers", [True, False], ids=["the client's files", "our own"])
async def test_an_author_reads_and_writes_without_asking_whose_files_they_are(tmp_path: Path, offers: bool) -> None:
    seen: list[str] = []

    async def work(turn: Turn[Settings]) -> None:
        await turn.files.write("notes/a.txt", "one\ntwo\nthree\n")
        await turn.files.write(tmp_path / "b.txt", "b")
        seen.append(await turn.files.read(tmp_path / "notes" / "a.txt"))
        if not offers:
            seen.append(await turn.files.read("notes/a.txt", line=2, limit=1))
        with pytest.raises(RequestError):
            await turn.files.read("missing.txt")

    async with (
        asyncio.timeout(60),
        client_for(agent_with(work), tmp_path, validate=True, **(FILES if offers else {})) as client,
    ):
        services = ClientServices(client)
        await client.prompt(await client.new(), "go")

        assert seen[0] == "one\ntwo\nthree\n"
        assert seen[1:] == ([] if offers else ["two\n"])
        assert (tmp_path / "notes" / "a.txt").exists() != offers
        if offers:
            assert set(services.files) == {str(tmp_path / "notes" / "a.txt"), str(tmp_path / "b.txt")}
        paths = [message["params"]["path"] for message in client.validator.calls("fs/read_text_file")]
        assert all(os.path.isabs(path) for path in paths)


async def test_line_and_limit_reach_the_client(tmp_path: Path) -> None:
    async def work(turn: Turn[Settings]) -> None:
        await turn.files.read("a.txt", line=2, limit=3)

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, validate=True, **FILES) as client:
        ClientServices(client).files[str(tmp_path / "a.txt")] = "x"
        session = await client.new()
        await client.prompt(session, "go")
        [asked] = client.validator.calls("fs/read_text_file")
        assert asked["params"] == {"sessionId": session, "path": str(tmp_path / "a.txt"), "line": 2, "limit": 3}


async def test_our_own_files_end_at_the_roots_of_the_session(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (inside / "link.txt").symlink_to(outside / "secret.txt")
    refused: list[str] = []

    async def work(turn: Turn[Settings]) -> None:
        for path in ("../outside/secret.txt", "link.txt", outside / "secret.txt", "/etc/passwd"):
            for act in (turn.files.read(path), turn.files.write(path, "gone")):
                try:
                    await act
                except RequestError as error:
                    refused.append(type(error).__name__)
        for cwd in (outside, "..", "/"):
            with pytest.raises(InvalidParams):
                await turn.run("pwd", cwd=cwd)
        with pytest.raises(ResourceNotFound):
            await turn.files.read("missing.txt")

    async with asyncio.timeout(60), client_for(agent_with(work), inside) as client:
        await client.prompt(await client.new(), "go")
        assert refused == ["InvalidParams"] * 8
        assert (outside / "secret.txt").read_text() == "secret"


@pytest.mark.rule(105, 112, 113)
async def test_a_command_runs_in_the_clients_terminal_is_shown_there_and_given_back(tmp_path: Path) -> None:
    ran: list[CommandResult] = []

    async def work(turn: Turn[Settings]) -> None:
        ran.append(await turn.run("make", "test", cwd="sub", env={"A": "1"}, output_limit=100, title="Tests"))

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, validate=True, terminal=True) as client:
        services = ClientServices(client)
        services.exit = v1.WaitForTerminalExitResponse(exit_code=3)
        session = await client.new()
        await client.prompt(session, "go")

        assert ran == [CommandResult(output="output", exit_code=3)]
        assert not ran[0].ok
        [created] = client.validator.calls("terminal/create")
        assert created["params"] == {
            "sessionId": session,
            "command": "make",
            "args": ["test"],
            "env": [{"name": "A", "value": "1"}],
            "cwd": str(tmp_path / "sub"),
            "outputByteLimit": 100,
        }
        assert services.released == ["term_0"]
        [call] = client.of(v1.ToolCall)
        assert (call.title, call.kind) == ("Tests", "execute")
        shown, ended = client.of(v1.ToolCallUpdate)
        assert shown.content == [v1.Terminal(terminal_id="term_0")]
        printed = {"output": "output", "exitCode": 3, "signal": None, "timedOut": False}
        assert (ended.status, ended.raw_output) == ("failed", printed)
        assert [word for word in client.validator.order() if word != "answer to session/new"][1:] == [
            *("tool_call", "terminal/create", "tool_call_update", "terminal/wait_for_exit", "terminal/output"),
            *("terminal/release", "tool_call_update", "answer to session/prompt"),
        ]


async def test_a_command_of_our_own_is_shown_when_it_has_ended(tmp_path: Path) -> None:
    ran: list[CommandResult] = []

    async def work(turn: Turn[Settings]) -> None:
        ran.append(await turn.run("sh", "-c", "echo $A; pwd; exit 3", env={"A": "one"}))
        ran.append(await turn.run("sh", "-c", "kill -9 $$"))
        ran.append(await turn.run("true"))
        with pytest.raises(CommandNotFound):
            await turn.run("no-such-command")

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, validate=True) as client:
        await client.prompt(await client.new(), "go")
        assert ran == [
            CommandResult(output=f"one\n{tmp_path}\n", exit_code=3),
            CommandResult(output="", signal="SIGKILL"),
            CommandResult(output="", exit_code=0),
        ]
        assert client.validator.calls("terminal/create") == []
        texts = [update.content for update in client.of(v1.ToolCallUpdate) if update.content]
        assert texts[0] == [v1.Content(content=v1.TextContent(text=f"one\n{tmp_path}\n"))]
        assert client.statuses[-1] == "failed"


@pytest.mark.rule(112)
@pytest.mark.parametrize("offers", [True, False], ids=["the client's terminal", "our own"])
async def test_a_command_that_takes_too_long_is_killed_and_its_output_kept(tmp_path: Path, offers: bool) -> None:
    ran: list[CommandResult] = []

    async def work(turn: Turn[Settings]) -> None:
        ran.append(await turn.run("sh", "-c", "echo begun; sleep 60", timeout=0.3))

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, validate=True, terminal=offers) as client:
        services = ClientServices(client)
        services.output = "begun\n"

        @client.handlers.on(v1.TERMINAL_WAIT_FOR_EXIT)
        async def wait(context: Context, params: v1.WaitForTerminalExitRequest) -> v1.WaitForTerminalExitResponse:
            await asyncio.Event().wait()
            return v1.WaitForTerminalExitResponse()

        await client.prompt(await client.new(), "go")
        assert (ran[0].output, ran[0].timed_out, ran[0].ok) == ("begun\n", True, False)
        if offers:
            words = client.validator.order()
            steps = ["terminal/wait_for_exit", "$/cancel_request", "terminal/kill", "terminal/output"]
            assert [word for word in words if word in steps] == steps
            assert services.released == ["term_0"]
        else:
            assert ran[0].signal == "SIGTERM"
        assert client.statuses[-1] == "failed"


@pytest.mark.rule(112)
async def test_a_terminal_is_given_back_whatever_goes_wrong(tmp_path: Path) -> None:
    async def work(turn: Turn[Settings]) -> None:
        with pytest.raises(ZeroDivisionError):
            async with turn.terminal("make"):
                raise ZeroDivisionError
        await turn.run("make")

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, validate=True, terminal=True) as client:
        services = ClientServices(client)

        @client.handlers.on(v1.TERMINAL_OUTPUT)
        async def fail(context: Context, params: v1.TerminalOutputRequest) -> v1.TerminalOutputResponse:
            raise RequestError("the terminal is on fire", code=1)

        with pytest.raises(RequestError, match="on fire"):
            await client.prompt(await client.new(), "go")
        assert services.released == ["term_0", "term_1"]


@pytest.mark.parametrize("offers", [True, False], ids=["the client's terminal", "our own"])
async def test_a_command_can_be_watched_while_it_runs(tmp_path: Path, offers: bool) -> None:
    seen: list[str] = []

    async def work(turn: Turn[Settings]) -> None:
        async with turn.tool("Server") as tool, turn.terminal("sh", "-c", "echo ready; sleep 60") as terminal:
            if terminal.part is not None:
                await tool.show(terminal.part)
            while "ready" not in (await terminal.output()).output:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            seen.append("ready")
            await terminal.kill()
            ended = await terminal.wait()
            seen.append(str(ended.signal or ended.exit_code))

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, validate=True, terminal=offers) as client:
        services = ClientServices(client)
        services.output = "ready\n"
        await client.prompt(await client.new(), "go")
        assert seen == ["ready", "0" if offers else "SIGTERM"]
        assert services.released == (["term_0"] if offers else [])


async def test_a_command_inside_a_tool_call_that_asked_is_shown_there(tmp_path: Path) -> None:
    async def work(turn: Turn[Settings]) -> None:
        async with turn.tool("Run the tests", kind="execute") as tool:
            if await tool.request_permission():
                await turn.run("echo", "fine", tool=tool)

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, validate=True) as client:
        client.answer_permission()
        await client.prompt(await client.new(), "go")
        assert len(client.of(v1.ToolCall)) == 1
        ran = {"output": "fine\n", "exitCode": 0, "signal": None, "timedOut": False}
        assert client.of(v1.ToolCallUpdate)[-1].raw_output == ran
        assert client.statuses[-1] == "completed"


async def test_the_error_names_the_command_that_is_missing(tmp_path: Path) -> None:
    async def handle(turn: Turn[Settings]) -> None:
        await turn.run("no-such-command")

    async with asyncio.timeout(60), client_for(agent_with(handle), tmp_path) as client:
        with pytest.raises(InternalError, match="no-such-command"):
            await client.prompt(await client.new(), "go")
