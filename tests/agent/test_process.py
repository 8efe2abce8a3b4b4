"""Agents as real programs: nothing but the protocol on stdout, and an end within moments, whatever they are at."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from duologue.errors import ConnectionLost
from duologue.runtime.handlers import Context
from duologue.schema import v1
from duologue.store.sqlite.store import SqliteStore
from tests.agent.programs import EXAMPLES, NOISY, program


@pytest.mark.rule(1, 2, 3, 4, 6, 7, 8)
async def test_whatever_an_agent_prints_only_messages_reach_its_client(tmp_path: Path) -> None:
    async with program(NOISY, tmp_path) as (client, stderr):
        session = await client.new()
        response = await client.prompt(session, "two\nlines \u2028 and \N{GRINNING FACE}")
        assert response.stop_reason == "end_turn"
        assert client.text == "two\nlines \u2028 and \N{GRINNING FACE}"
        assert client.connection.stray_output == ""
        printed = stderr.decode()
    for words in ("printed in a turn", "without a newline", "to the descriptor", "echoed by a child", "logged in"):
        assert words in printed


WORK = ["wait", "run", "ask", "ignore", "thread", "leave"]


def start(cwd: Path, *arguments: str) -> tuple[subprocess.Popen[bytes], str]:
    """Run the noisy agent as a child process with an open session."""
    process = subprocess.Popen(
        [sys.executable, str(NOISY), *arguments],
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    write(process, id=0, method="initialize", params={"protocolVersion": 1})
    read(process)
    write(process, id=1, method="session/new", params={"cwd": str(cwd), "mcpServers": []})
    return process, read(process)["result"]["sessionId"]


def write(process: subprocess.Popen[bytes], **members: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n")
    process.stdin.flush()


def read(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def prompt(process: subprocess.Popen[bytes], session: str, text: str) -> None:
    """Begin a turn and wait until it is at work."""
    content = [{"type": "text", "text": text}]
    write(process, id=2, method="session/prompt", params={"sessionId": session, "prompt": content})
    awaited = {"ask": "session/request_permission", "run": "tool_call_update"}.get(text, "agent_message_chunk")
    word = ""
    while word != awaited:
        message = read(process)
        word = message["method"]
        if word == "session/update":
            word = message["params"]["update"]["sessionUpdate"]


def exit_code(process: subprocess.Popen[bytes], seconds: float) -> int:
    """Return how the process ended, within so many seconds after the signal."""
    began = time.monotonic()
    try:
        code = process.wait(10)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()
    assert time.monotonic() - began < seconds
    return code


@pytest.mark.fault("LIF-08")
@pytest.mark.parametrize("work", [None, *WORK])
def test_an_agent_whose_client_leaves_is_gone_within_two_seconds(tmp_path: Path, work: str | None) -> None:
    """In the wild, agents 2: the end of the stream as the only goodbye."""
    process, session = start(tmp_path)
    if work is not None:
        prompt(process, session, work)
    assert process.stdin is not None
    process.stdin.close()
    assert exit_code(process, 2) == 0
    assert _children_of_work(tmp_path) == []


@pytest.mark.fault("LIF-16")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("work", [None, "run", "ignore"])
def test_a_signal_ends_an_agent_in_order_within_three_seconds(
    tmp_path: Path, number: signal.Signals, work: str | None
) -> None:
    process, session = start(tmp_path, str(tmp_path / "kept"))
    if work is not None:
        prompt(process, session, work)
    process.send_signal(number)
    assert exit_code(process, 3) == 128 + number
    assert _children_of_work(tmp_path) == []

    async def saved_updates() -> list[str]:
        async with SqliteStore(tmp_path / "kept") as store:
            return [type(update).__name__ async for update in store.replay(session)]

    updates = asyncio.run(saved_updates())
    assert updates[:2] == ([] if work is None else ["MessageChunk", "MessageChunk"])


def _children_of_work(cwd: Path) -> list[str]:
    """Commands that still run in this directory."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "cwd") == str(cwd):
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return found


@pytest.mark.fault("STO-16")
async def test_a_killed_agent_has_kept_what_it_acknowledged_and_its_successor_goes_on(tmp_path: Path) -> None:
    store = str(tmp_path / "kept")
    async with program(NOISY, tmp_path, store) as (client, _):
        asked = asyncio.Event()

        @client.handlers.on(v1.SESSION_REQUEST_PERMISSION)
        async def never(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        session = await client.new()
        await client.prompt(session, "hello")
        turn = asyncio.ensure_future(client.prompt(session, "ask"))
        await asked.wait()
        transport: Any = client.connection._transport
        os.kill(transport.pid, signal.SIGKILL)
        with pytest.raises(ConnectionLost):
            await turn
    async with program(NOISY, tmp_path, store) as (client, _):
        await client.load(session)
        texts = [
            getattr(update.content, "text", "") for update in client.updates if not isinstance(update, v1.ToolCall)
        ]
        assert texts == ["hello", "hello", "ask", "ask"]
        assert [call.status for call in client.of(v1.ToolCall)] == ["failed"]
        assert (await client.prompt(session, "again")).stop_reason == "end_turn"


@pytest.mark.parametrize("argument", ["--help", "--version", "--nonsense"])
def test_an_agent_that_is_a_program_explains_itself(tmp_path: Path, argument: str) -> None:
    command = [sys.executable, str(EXAMPLES / "notes_agent.py"), argument]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)

    assert ended.returncode == (2 if argument == "--nonsense" else 0)
    assert {"--help": "Notes 1.0", "--version": "notes 1.0"}.get(argument, "") in ended.stdout


CARELESS = """
{configuration}
import duologue

async def answer(prompt: str):
    yield "so far so good"
    raise KeyError("an unexpected error")

duologue.run(answer)
"""


@pytest.mark.parametrize(
    ("configuration", "seen"),
    [
        ("", 1),
        ("import logging; logging.basicConfig()", 1),
        ("import logging; logging.getLogger('duologue').setLevel(logging.CRITICAL)", 0),
    ],
)
def test_an_author_who_configures_no_logging_sees_why_a_turn_failed(
    configuration: str, seen: int, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", CARELESS.format(configuration=configuration)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        write(process, id=0, method="initialize", params={"protocolVersion": 1})
        read(process)
        write(process, id=1, method="session/new", params={"cwd": str(tmp_path), "mcpServers": []})
        answer = read(process)
        content = [{"type": "text", "text": "hi"}]
        session = answer["result"]["sessionId"]
        write(process, id=2, method="session/prompt", params={"sessionId": session, "prompt": content})
        while "error" not in answer:
            answer = read(process)
        _, stderr = process.communicate(timeout=60)
    found = re.fullmatch(r"KeyError \((reference \w+)\)", answer["error"]["message"])
    assert found
    assert stderr.decode().count(found[1]) == seen
    assert stderr.decode().count("an unexpected error") == seen
