"""Tool calls and commands of the agent in version 2, which the client can cancel alone."""

from __future__ import annotations

import asyncio
import base64
import shlex
from pathlib import Path
from typing import Any

from duologue.agent.turn import Turn
from duologue.agent.turn_exceptions import ToolCancelled
from tests.agent.v2.wire_client import Json, WireClient, both, wire_client
from tests.transports.waiting import until


def output(client: WireClient) -> bytes:
    """Return the complete output of the one terminal, as a client merges it."""
    shown = b""
    for update in client.updates:
        if update["sessionUpdate"] == "terminal_output_chunk":
            shown += base64.b64decode(update["data"])
        elif update["sessionUpdate"] == "terminal_update" and "output" in update:
            shown = base64.b64decode(update["output"]["data"])
    return shown


def statuses(client: WireClient) -> list[str]:
    return [update["status"] for update in client.of("tool_call_update") if "status" in update]


async def running_part(client: WireClient, kind: str) -> Json:
    await client.until(lambda: client.of(kind))
    return client.of(kind)[0]


# --- tool calls


async def test_a_tool_call_can_be_cancelled_alone_and_the_turn_goes_on() -> None:
    async def handle(turn: Turn[Any]) -> None:
        try:
            async with turn.tool("Long", cancellable=True):
                await asyncio.Event().wait()
        except ToolCancelled as cancelled:
            await turn.say(f"without {cancelled.tool_call_id}")

    async with wire_client(both(handle)) as client:
        session = await client.new()
        await client.prompt(session, "go")
        tool = await running_part(client, "tool_call_update")
        assert tool["capabilities"] == {"cancel": {}}
        assert await client.ask("tool_call/cancel", sessionId=session, toolCallId=tool["toolCallId"]) == {}
        await client.until(client.ends)

        assert statuses(client) == ["pending", "cancelled"]
        assert client.text == f"without {tool['toolCallId']}"
        assert client.states == ["running", "idle end_turn"]


async def test_a_cancelled_tool_call_that_is_not_caught_ends_the_turn_as_cancelled() -> None:
    async def handle(turn: Turn[Any]) -> None:
        async with turn.tool("Long", cancellable=True):
            await asyncio.Event().wait()

    async with wire_client(both(handle)) as client:
        session = await client.new()
        await client.prompt(session, "go")
        tool = await running_part(client, "tool_call_update")
        await client.ask("tool_call/cancel", sessionId=session, toolCallId=tool["toolCallId"])
        await client.until(client.ends)

        assert client.states == ["running", "idle cancelled"]


async def test_a_tool_may_end_itself_its_own_way() -> None:
    enough = asyncio.Event()

    async def stop() -> None:
        enough.set()

    async def handle(turn: Turn[Any]) -> None:
        async with turn.tool("Long", cancellable=True) as tool:
            tool.on_cancel = stop
            await enough.wait()
            await tool.show("half of it")

    async with wire_client(both(handle)) as client:
        session = await client.new()
        await client.prompt(session, "go")
        tool = await running_part(client, "tool_call_update")
        for _ in range(2):
            client.start("tool_call/cancel", sessionId=session, toolCallId=tool["toolCallId"])
        await client.until(client.ends)

        assert statuses(client)[-1] == "cancelled"
        assert client.states == ["running", "idle end_turn"]


async def test_only_what_runs_and_said_so_can_be_cancelled(tmp_path: Path) -> None:
    asked, may_end = asyncio.Event(), asyncio.Event()

    async def handle(turn: Turn[Any]) -> None:
        async with turn.tool("Over", cancellable=True, tool_call_id="over"):
            pass
        async with turn.tool("Firm", tool_call_id="firm"):
            asked.set()
            await may_end.wait()

    async with wire_client(both(handle)) as client:
        session = await client.new(tmp_path)
        await client.prompt(session, "go")
        await asked.wait()
        for call in ("over", "firm", "none"):
            error = await client.refused("tool_call/cancel", sessionId=session, toolCallId=call)
            assert error["code"] == -32602
        error = await client.refused("terminal/cancel", sessionId=session, terminalId="none")
        assert error["code"] == -32602
        may_end.set()
        await client.until(client.ends)
        assert statuses(client) == ["pending", "in_progress", "completed"] * 2


async def test_the_turn_and_one_of_its_tools_cancelled_at_once_end_once() -> None:
    async def handle(turn: Turn[Any]) -> None:
        try:
            async with turn.tool("Long", cancellable=True):
                await asyncio.Event().wait()
        except ToolCancelled:
            await asyncio.Event().wait()

    async with wire_client(both(handle)) as client:
        session = await client.new()
        await client.prompt(session, "go")
        tool = await running_part(client, "tool_call_update")
        answer = client.start("tool_call/cancel", sessionId=session, toolCallId=tool["toolCallId"])
        client.notify("session/cancel", sessionId=session)
        await answer
        await client.until(client.ends)

        assert client.states == ["running", "idle cancelled"]
        assert statuses(client)[-1] in ("cancelled", "failed")


# --- commands


async def test_a_command_of_the_agent_is_shown_while_it_runs(tmp_path: Path) -> None:
    async def handle(turn: Turn[Any]) -> None:
        ran = await turn.run("sh", "-c", "printf 'caf\\303\\251\\n'; exit 4")
        await turn.say(f"{ran.output}{ran.exit_code}")

    async with wire_client(both(handle)) as client:
        await client.turn(await client.new(tmp_path), "go")

        first, *_, last = client.of("terminal_update")
        assert shlex.split(first["command"]) == ["sh", "-c", "printf 'caf\\303\\251\\n'; exit 4"]
        assert first["cwd"] == str(tmp_path)
        assert first["capabilities"] == {"cancel": {}}
        assert last["exitStatus"] == {"exitCode": 4}
        assert output(client) == "café\n".encode()
        assert client.text == "café\n4"
        shown = [update["content"] for update in client.of("tool_call_update") if "content" in update]
        assert shown[0] == [{"type": "terminal", "terminalId": first["terminalId"]}]


async def test_a_command_can_be_ended_alone_and_the_turn_goes_on(tmp_path: Path) -> None:
    async def handle(turn: Turn[Any]) -> None:
        ran = await turn.run("sh", "-c", "echo begun; exec sleep 60")
        await turn.say(f"{ran.exit_code} {ran.signal}")

    async with wire_client(both(handle)) as client:
        session = await client.new(tmp_path)
        await client.prompt(session, "go")
        terminal = await running_part(client, "terminal_update")
        await client.until(lambda: client.of("terminal_output_chunk"))
        await client.ask("terminal/cancel", sessionId=session, terminalId=terminal["terminalId"])
        await client.until(client.ends)

        assert client.states == ["running", "idle end_turn"]
        exit_status = client.of("terminal_update")[-1]["exitStatus"]
        assert exit_status.get("signal") or exit_status.get("exitCode")
        assert client.text.startswith("None SIG") or client.text.split()[0] != "0"


async def test_a_command_ends_with_the_turn_that_is_cancelled(tmp_path: Path) -> None:
    async def handle(turn: Turn[Any]) -> None:
        await turn.run("sh", "-c", "echo begun; exec sleep 60")

    async with wire_client(both(handle)) as client:
        session = await client.new(tmp_path)
        await client.prompt(session, "go")
        await client.until(lambda: client.of("terminal_output_chunk"))
        client.notify("session/cancel", sessionId=session)
        await client.until(client.ends)

        assert client.states == ["running", "idle cancelled"]
        assert client.validator.order()[-1] == "state_update"
        assert "exitStatus" in client.of("terminal_update")[-1]
        assert statuses(client)[-1] in ("failed", "cancelled")


async def test_a_slow_client_sees_the_end_of_what_was_printed(tmp_path: Path) -> None:
    """More is printed than waits for it: what comes then replaces all that it saw."""

    async def handle(turn: Turn[Any]) -> None:
        script = "i=0; while [ $i -lt 4000 ]; do echo line $i; i=$((i+1)); done; touch done"
        await turn.run("sh", "-c", script, output_limit=2000)

    async with wire_client(both(handle), bound=1000) as client:
        session = await client.new(tmp_path)
        await client.prompt(session, "go")
        client.reads.clear()
        await until((tmp_path / "done").exists)
        client.reads.set()
        await client.until(client.ends)

        assert any("output" in update for update in client.of("terminal_update"))
        shown = output(client)
        assert shown.endswith(b"line 3998\nline 3999\n")
        assert len(shown) <= 2000 + 1000
        assert client.of("terminal_update")[-1]["exitStatus"] == {"exitCode": 0}


async def test_a_terminal_that_is_watched_is_shown_where_the_agent_says(tmp_path: Path) -> None:
    async def handle(turn: Turn[Any]) -> None:
        async with turn.terminal("sh", "-c", "echo one; read x") as terminal, turn.tool("Serve") as tool:
            assert terminal.part is not None
            await tool.show(terminal.part)
            await terminal.kill()
            await terminal.wait()

    async with wire_client(both(handle)) as client:
        await client.turn(await client.new(tmp_path), "go")

        (shown,) = [part for update in client.of("tool_call_update") for part in update.get("content", [])]
        assert shown == {"type": "terminal", "terminalId": client.of("terminal_update")[0]["terminalId"]}
        assert len([update for update in client.of("terminal_update") if "exitStatus" in update]) == 1


async def test_files_are_the_agents_own(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("read me")

    async def handle(turn: Turn[Any]) -> None:
        text = await turn.files.read("in.txt")
        await turn.files.write("out.txt", text.upper())

    async with wire_client(both(handle)) as client:
        end = await client.turn(await client.new(tmp_path), "go")

        assert end["stopReason"] == "end_turn"
        assert (tmp_path / "out.txt").read_text() == "READ ME"
        assert client.asked == []
