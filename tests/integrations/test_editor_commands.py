"""Commands of a pydantic-ai agent in the editor: live in its terminal, asked for, ended with the turn."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.workspaces import (
    WorkspaceError,
    WorkspaceOutputLimitError,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.services.terminals import Terminals
from duologue.client.services.workspace import Workspace
from duologue.errors import InvalidRequest
from duologue.integrations.pydantic_ai import (
    EditorWorkspace,
    PermissionRejected,
    WorkspaceRequest,
    WorkspaceTools,
    acp_agent,
)
from duologue.integrations.pydantic_ai.workspace_commands import CAPTURE_LIMIT, MOST_UNRELEASED
from duologue.runtime.handlers import Context
from duologue.schema import v1
from tests.agent.complete import ClientServices
from tests.agent.wire_client import agent_with, client_for
from tests.integrations.open_turns import our_turn, scripted_turn


def allow(request: WorkspaceRequest) -> Literal["allow"]:
    return "allow"


ALLOW: dict[str, Any] = {"policy": allow}
BOTH = pytest.mark.parametrize("opened", [our_turn, scripted_turn], ids=["our client", "a scripted client"])


async def until_ended(pid: int) -> None:
    """Wait until a process that is not our child has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await asyncio.to_thread(select.select, [descriptor], [], [], 30)
        assert select.select([descriptor], [], [], 0)[0], f"process {pid} still runs"
    finally:
        os.close(descriptor)


def calling(tool: str, arguments: str) -> FunctionModel:
    """Return a model that calls one tool and then says what it returned."""

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        if sum(isinstance(message, ModelRequest) for message in messages) == 1:
            yield {0: DeltaToolCall(name=tool, json_args=arguments, tool_call_id="call")}
        else:
            last = messages[-1].parts[-1]
            assert isinstance(last, ToolReturnPart)
            yield str(last.content)

    async def answer_at_once(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        async for part in answer(messages, info):
            if isinstance(part, str):
                return ModelResponse([TextPart(part)])
        return ModelResponse([ToolCallPart(tool, arguments)])

    return FunctionModel(answer_at_once, stream_function=answer)


def agent_for(tool: str, arguments: str, **options: Any) -> Any:
    """Return an agent with tools that run a line in the workspace, of which the model calls one."""
    agent: PydanticAgent[object, str] = PydanticAgent(calling(tool, arguments))

    @agent.tool
    async def run_command(ctx: RunContext[object], command: str) -> str:
        directory = await ctx.workspace.working_dir()
        result = await ctx.workspace.run(f"cd {directory} || exit\n{command}", shell=True)
        return f"{result.exit_code} [{result.stdout}] [{result.stderr}]"

    @agent.tool
    async def grep(ctx: RunContext[object], command: str) -> str:
        result = await ctx.workspace.run(command, shell=True)
        return f"{result.exit_code} [{result.stdout}] [{result.stderr}]"

    return acp_agent(agent, run_options=lambda turn: {"workspace": EditorWorkspace(turn, **options)})


# --- where a command runs, and who is asked


async def test_a_tool_that_runs_commands_shows_them_live_in_its_tool_call_and_asks_once(tmp_path: Path) -> None:
    served = agent_for("run_command", '{"command": "printf out; printf err >&2; exit 3"}')
    async with asyncio.timeout(60), client_for(served, tmp_path, validate=True, terminal=True) as client:
        services = ClientServices(client)
        services.output, services.exit = "what the terminal shows", v1.WaitForTerminalExitResponse(exit_code=3)
        await client.prompt(await client.new(), "go")

        (asked,) = client.asked
        (terminal,) = services.terminals.values()
        (tool,) = client.of(v1.ToolCall)
        assert asked.tool_call.tool_call_id == tool.tool_call_id
        assert (terminal.command, terminal.args) == ("sh", ["-c", "printf out; printf err >&2; exit 3"])
        assert terminal.cwd == str(tmp_path)
        shown = [update.content for update in client.of(v1.ToolCallUpdate) if update.content]
        assert v1.Terminal(terminal_id="term_0") in shown[-1]
        assert client.text == "3 [what the terminal shows] []"


async def test_our_client_does_not_ask_again_for_a_command_that_its_user_has_allowed(tmp_path: Path) -> None:
    asked: list[str] = []

    async def answer(request: Any) -> Any:
        asked.append(request.tool.title)
        return request.allow()

    permissions = Permissions(on_request=answer)
    served = agent_for("run_command", '{"command": "printf done"}')
    async with (
        asyncio.timeout(60),
        connect(served, terminals=Terminals(), workspace=Workspace(), permissions=permissions) as remote,
        remote.new_session(tmp_path) as session,
    ):
        assert await session.ask("go") == "0 [done] []"

    assert asked == ['run_command(command="printf done")']


async def test_a_search_is_neither_shown_in_a_terminal_nor_asked_for(tmp_path: Path) -> None:
    served = agent_for("grep", '{"command": "printf found; printf status >&2"}')
    async with asyncio.timeout(60), client_for(served, tmp_path, validate=True, terminal=True) as client:
        services = ClientServices(client)
        await client.prompt(await client.new(), "go")

        assert client.text == "0 [found] [status]"
        assert (client.asked, services.terminals) == ([], {})


async def test_a_search_of_an_agent_that_is_delegated_to_is_one_too(tmp_path: Path) -> None:
    inner: PydanticAgent[object, str] = PydanticAgent(calling("grep", "{}"), capabilities=[WorkspaceTools()])

    @inner.tool
    async def grep(ctx: RunContext[object]) -> str:
        return (await ctx.workspace.run("printf found; printf status >&2", shell=True)).stderr

    outer: PydanticAgent[object, str] = PydanticAgent(calling("delegate", "{}"))

    @outer.tool
    async def delegate(ctx: RunContext[object]) -> str:
        return (await inner.run("search", workspace=ctx.workspace)).output

    served = acp_agent(outer, run_options=lambda turn: {"workspace": EditorWorkspace(turn)})
    async with asyncio.timeout(60), client_for(served, tmp_path, terminal=True) as client:
        services = ClientServices(client)
        await client.prompt(await client.new(), "go")

        assert client.text == "status"
        assert (client.asked, services.terminals) == ([], {})


async def test_a_rejected_command_does_not_run_and_the_turn_goes_on(tmp_path: Path) -> None:
    async def work(turn: Turn[Settings]) -> None:
        with pytest.raises(PermissionRejected, match="Run touch made: the user did not permit this"):
            await EditorWorkspace(turn).run(["touch", "made"])
        await turn.say("going on")

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, validate=True) as client:
        client.answer_permission()
        client.choose = "reject_once"
        await client.prompt(await client.new(), "go")

        assert client.text == "going on"
        assert client.statuses[-1] == "failed"
    assert os.listdir(tmp_path) == []


async def test_the_model_gets_a_rejection_as_the_result_of_any_tool(tmp_path: Path) -> None:
    served = agent_for("run_command", '{"command": "touch made"}')
    async with asyncio.timeout(60), client_for(served, tmp_path) as client:
        client.answer_permission()
        client.choose = "reject_once"
        await client.prompt(await client.new(), "go")

        assert client.text == "Run touch made: the user did not permit this"
        assert client.statuses[-1] == "failed"


async def test_an_allowed_command_is_remembered_as_that_command_only(tmp_path: Path) -> None:
    async def work(turn: Turn[Settings]) -> None:
        workspace = EditorWorkspace(turn)
        for line in ("true", "true", "true; true"):
            await workspace.run(line, shell=True)

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path) as client:
        client.answer_permission()
        client.choose = "allow_always"
        await client.prompt(await client.new(), "go")

        assert [asked.tool_call.title for asked in client.asked] == ["Run true", "Run true; true"]


# --- how a command ends


@BOTH
async def test_a_command_of_a_cancelled_run_is_killed(tmp_path: Path, opened: Any) -> None:
    async with asyncio.timeout(60), opened(tmp_path) as turn:
        workspace = EditorWorkspace(turn, **ALLOW)
        os.mkfifo(tmp_path / "pid")
        async with asyncio.TaskGroup() as group:
            running = group.create_task(workspace.run(["sh", "-c", "echo $$ > pid; exec sleep 3600"]))
            pid = int(await asyncio.to_thread((tmp_path / "pid").read_text))
            running.cancel()
        await until_ended(pid)


@BOTH
async def test_a_process_that_a_command_left_running_goes_on_and_ends_with_the_turn(
    tmp_path: Path, opened: Any
) -> None:
    async with asyncio.timeout(60):
        async with opened(tmp_path) as turn:
            workspace = EditorWorkspace(turn, **ALLOW)
            result = await workspace.run("sleep 3600 & echo $!", shell=True)
            pid = int(result.stdout)
            assert (await workspace.run(["kill", "-0", str(pid)])).exit_code == 0
        await until_ended(pid)


async def test_terminals_of_a_turn_are_released_when_it_ends(tmp_path: Path) -> None:
    released, in_turn = asyncio.Event(), list[bool]()

    async def work(turn: Turn[Settings]) -> None:
        await EditorWorkspace(turn, **ALLOW).run(["true"])
        in_turn.append(released.is_set())

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, terminal=True) as client:
        ClientServices(client)

        @client.handlers.on(v1.TERMINAL_RELEASE)
        async def release(context: Context, params: v1.ReleaseTerminalRequest) -> v1.ReleaseTerminalResponse:
            released.set()
            return v1.ReleaseTerminalResponse()

        await client.prompt(await client.new(), "go")
        await released.wait()
    assert in_turn == [False]


async def test_terminals_of_many_commands_are_released_before_the_turn_ends(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(60),
        our_turn(tmp_path, terminals=Terminals(max_per_session=MOST_UNRELEASED + 1)) as turn,
    ):
        workspace = EditorWorkspace(turn, **ALLOW)
        for _ in range(3 * MOST_UNRELEASED):
            assert (await workspace.run(["true"])).exit_code == 0


@BOTH
async def test_a_command_that_takes_too_long_is_killed_and_what_it_printed_is_kept(tmp_path: Path, opened: Any) -> None:
    async with asyncio.timeout(60), opened(tmp_path) as turn:
        workspace = EditorWorkspace(turn, command_timeout=0.5, **ALLOW)
        with pytest.raises(WorkspaceTimeoutError, match=r"after its timeout of 0\.5 s") as raised:
            await workspace.run("echo $$; echo problem >&2; exec sleep 3600", shell=True)
        assert raised.value.stderr == "problem\n"
        await until_ended(int(raised.value.stdout))


@BOTH
async def test_a_command_that_prints_without_end_is_killed(tmp_path: Path, opened: Any) -> None:
    async with asyncio.timeout(60), opened(tmp_path) as turn:
        with pytest.raises(WorkspaceOutputLimitError) as raised:
            await EditorWorkspace(turn, **ALLOW).run(["yes"])
        assert raised.value.limit == CAPTURE_LIMIT
        assert raised.value.stdout.startswith("y\ny\n")


@pytest.mark.parametrize(
    ("line", "code"), [("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("no-such-program", 127)]
)
@BOTH
async def test_every_end_of_a_command_is_an_exit_code(tmp_path: Path, opened: Any, line: str, code: int) -> None:
    async with asyncio.timeout(60), opened(tmp_path) as turn:
        assert (await EditorWorkspace(turn, **ALLOW).run(line, shell=True)).exit_code == code


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (v1.WaitForTerminalExitResponse(signal="SIGKILL"), 137),
        (v1.WaitForTerminalExitResponse(signal="SIGNOTHING"), 128),
        (v1.WaitForTerminalExitResponse(), None),
    ],
)
async def test_an_editor_that_names_a_signal_or_nothing_is_understood(
    tmp_path: Path, ended: v1.WaitForTerminalExitResponse, code: int | None
) -> None:
    async def work(turn: Turn[Settings]) -> None:
        running = EditorWorkspace(turn, **ALLOW).run(["anything"])
        if code is not None:
            assert (await running).exit_code == code
        else:
            with pytest.raises(WorkspaceError, match="neither its exit code nor its signal"):
                await running

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, terminal=True) as client:
        ClientServices(client).exit = ended
        assert (await client.prompt(await client.new(), "go")).stop_reason == "end_turn"


async def test_an_editor_that_runs_commands_elsewhere_returns_what_its_terminal_shows(tmp_path: Path) -> None:
    """The files that capture the output are not there, in a container for example."""
    results: list[tuple[int, str, str]] = []

    async def work(turn: Turn[Settings]) -> None:
        result = await EditorWorkspace(turn, **ALLOW).run(["true"])
        results.append((result.exit_code, result.stdout, result.stderr))

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, terminal=True) as client:
        ClientServices(client).output = "from elsewhere"
        await client.prompt(await client.new(), "go")
    assert results == [(0, "from elsewhere", "")]


async def test_a_terminal_that_the_editor_does_not_open_is_an_error_with_its_reason(tmp_path: Path) -> None:
    async def work(turn: Turn[Settings]) -> None:
        with pytest.raises(WorkspaceError, match="the command was not run: no terminals today"):
            await EditorWorkspace(turn, **ALLOW).run(["true"])

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, terminal=True) as client:

        @client.handlers.on(v1.TERMINAL_CREATE)
        async def reject(context: Context, params: v1.CreateTerminalRequest) -> v1.CreateTerminalResponse:
            raise InvalidRequest("no terminals today")

        await client.prompt(await client.new(), "go")


async def test_an_editor_that_opens_no_terminal_in_time_is_not_waited_for(tmp_path: Path) -> None:
    async def work(turn: Turn[Settings]) -> None:
        with pytest.raises(WorkspaceTimeoutError, match=r"did not answer within 0\.05 s"):
            await EditorWorkspace(turn, request_timeout=0.05, **ALLOW).run(["true"])

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, terminal=True) as client:

        @client.handlers.on(v1.TERMINAL_CREATE)
        async def hang(context: Context, params: v1.CreateTerminalRequest) -> v1.CreateTerminalResponse:
            await asyncio.Event().wait()
            raise AssertionError

        assert (await client.prompt(await client.new(), "go")).stop_reason == "end_turn"


async def test_a_directory_that_is_gone_is_unavailable_before_and_after_a_command(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    async with asyncio.timeout(60), our_turn(tmp_path / "project") as turn:
        workspace = EditorWorkspace(turn, **ALLOW)
        for line in (f"rmdir {tmp_path}/project", "true"):
            with pytest.raises(WorkspaceUnavailableError, match="no longer exists"):
                await workspace.run(line, shell=True)


# --- what a command sees


@BOTH
async def test_keys_of_the_agent_are_not_in_the_environment_of_commands(
    tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with asyncio.timeout(60), opened(tmp_path) as turn:
        result = await EditorWorkspace(turn, **ALLOW).run(["env"], env={"GIVEN": "yes"})
    assert "sk-secret" not in result.stdout
    assert "GIVEN=yes\n" in result.stdout


async def test_nothing_is_left_in_the_directory_or_among_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("project", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    async with asyncio.timeout(60), our_turn(tmp_path / "project") as turn:
        assert (await EditorWorkspace(turn, **ALLOW).run("echo out; echo err >&2", shell=True)).stderr == "err\n"
    assert [os.listdir(tmp_path / name) for name in ("project", "temporary")] == [[], []]
