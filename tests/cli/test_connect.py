"""`duologue connect`, and addresses for the other commands, as programs."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from duologue import connect
from tests.cli.program import PROGRAM, duologue, environment
from tests.cli.test_serve import served

INITIALIZE = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'

STORING = """
import sys
with open(sys.argv[1], "wb") as kept:
    for line in sys.stdin.buffer:
        kept.write(line)
        kept.flush()
        if b'"id"' in line:
            sys.stdout.buffer.write(line.replace(b'"method":"initialize","params"', b'"result"'))
            sys.stdout.flush()
"""


SLOW = """
import sys, time
time.sleep(2)
for line in sys.stdin.buffer:
    if b'"initialize"' in line:
        sys.stdout.write('{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}\\n')
        sys.stdout.flush()
"""


@pytest.mark.fault("LIF-19")
@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_piped_requests_are_answered_by_a_slow_agent(tmp_path: Path, scheme: str) -> None:
    async with served(tmp_path, "--", sys.executable, "-c", SLOW) as server:
        url = scheme + server.url.removeprefix("ws")
        ended = await asyncio.to_thread(duologue, tmp_path, "connect", url, stdin=INITIALIZE)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["result"] == {"protocolVersion": 1}


@pytest.mark.fault("LIF-19")
@pytest.mark.parametrize("arguments", [[], ["--protocol", "v1"], ["--protocol", "v2"]])
def test_requests_piped_to_a_command_are_answered(tmp_path: Path, arguments: list[str]) -> None:
    sent = INITIALIZE
    if arguments == ["--protocol", "v2"]:
        sent = (
            '{"jsonrpc":"2.0","id":1,"method":"initialize","params":'
            '{"protocolVersion":2,"info":{"name":"n","version":"1"},"capabilities":{}}}\n'
        )
    ended = duologue(tmp_path, "connect", *arguments, "--", sys.executable, "-c", SLOW, stdin=sent)
    assert ended.returncode == 0
    answer = json.loads(ended.stdout)
    assert (answer["id"], answer["result"]["protocolVersion"]) == (1, 2 if arguments[-1:] == ["v2"] else 1)


@pytest.mark.fault("LIF-19")
def test_an_answer_that_never_comes_is_waited_for_as_long_as_the_user_says(tmp_path: Path) -> None:
    never = "import sys\nfor line in sys.stdin: pass"
    command = ["--", sys.executable, "-c", never]
    began = time.monotonic()
    ended = duologue(tmp_path, "connect", "--drain-timeout", "0.2", *command, stdin=INITIALIZE)
    assert (ended.returncode, ended.stdout) == (0, "")
    assert time.monotonic() - began < 8
    assert duologue(tmp_path, "connect", "--drain-timeout", "soon", *command).returncode == 2


@pytest.mark.fault("LIF-19")
def test_an_agent_that_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    command = ["--", sys.executable, "-c", "import sys; sys.stdin.readline(); sys.exit(3)"]
    ended = duologue(tmp_path, "connect", "--drain-timeout", "60", *command, stdin=INITIALIZE)
    assert json.loads(ended.stdout)["error"]["code"] == -32603
    assert ended.returncode == 1


@pytest.mark.fault("LIF-19")
async def test_a_prompt_that_runs_when_stdin_ends_is_cancelled_and_answered(tmp_path: Path) -> None:
    sent = [
        INITIALIZE,
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}),
    ]
    async with served(tmp_path, "--", *PROGRAM, "agent") as server:
        process = await asyncio.create_subprocess_exec(
            *PROGRAM, "connect", server.url, stdin=PIPE, stdout=PIPE, env=environment(tmp_path)
        )
        assert process.stdin is not None
        assert process.stdout is not None
        async with asyncio.timeout(60):
            process.stdin.write("".join(line.strip() + "\n" for line in sent).encode())
            answer: dict[str, Any] = {}
            while answer.get("id") != 2:
                answer = json.loads(await process.stdout.readline())
            prompt = [{"type": "text", "text": "/stream 100000"}]
            params: dict[str, Any] = {"sessionId": answer["result"]["sessionId"], "prompt": prompt}
            process.stdin.write(
                json.dumps({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": params}).encode() + b"\n"
            )
            while b"agent_message_chunk" not in await process.stdout.readline():
                pass
            process.stdin.close()
            rest = (await process.stdout.read()).splitlines()
            await process.wait()
    assert json.loads(rest[-1])["id"] == 3
    assert json.loads(rest[-1])["result"]["stopReason"] == "cancelled"


def test_an_address_that_makes_no_sense_is_a_mistake_in_the_command_line(tmp_path: Path) -> None:
    for url in ("gemini", "ftp://host", "ws://host?token=secret", "ws://user:secret@host"):
        ended = duologue(tmp_path, "connect", url)
        assert ended.returncode == 2
        assert "secret" not in ended.stderr
    assert duologue(tmp_path, "connect", "ws://h", "--header", "nonsense").returncode == 2


def test_a_missing_server_is_reported_to_the_editor_and_on_stderr(tmp_path: Path) -> None:
    for scheme in ("ws", "http"):
        ended = duologue(tmp_path, "connect", f"{scheme}://127.0.0.1:1", stdin=INITIALIZE)
        assert ended.returncode == 1
        assert f"cannot reach {scheme}://127.0.0.1:1/acp" in ended.stderr
        answer = json.loads(ended.stdout)
        assert (answer["id"], answer["error"]["code"]) == (1, -32603)


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_every_command_takes_an_address_for_an_agent(tmp_path: Path, scheme: str) -> None:
    async with served(tmp_path, "--", *PROGRAM, "agent") as server:
        url = scheme + server.url.removeprefix("ws")
        ran = await asyncio.to_thread(duologue, tmp_path, "run", "/echo hello", "--agent", url)
        looked = await asyncio.to_thread(duologue, tmp_path, "doctor", "--agent", url, "--json")
        address, _, token = url.partition("#token=")
        listed = await asyncio.to_thread(duologue, tmp_path, "sessions", "--agent", address, "--token", token)
        known = await asyncio.to_thread(duologue, tmp_path, "sessions", "--agent", address, DUOLOGUE_TOKEN=token)
        refused = await asyncio.to_thread(duologue, tmp_path, "run", "hello", "--agent", address)
    assert ran.returncode == 0
    assert "You said: hello" in ran.stdout
    assert json.loads(looked.stdout.splitlines()[-1])["state"] == "ok"
    assert (listed.returncode, known.returncode) == (0, 0)
    assert refused.returncode == 1
    assert "pass a valid token" in refused.stderr
    assert token not in ran.stderr + looked.stdout + looked.stderr


async def test_a_named_agent_may_be_behind_an_address(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    async with served(tmp_path, "--", *PROGRAM, "agent") as server:
        config.write_text(f'[agents.team]\nurl = "{server.url}"\n')
        there = str(config)
        asked = ["run", "/echo hi", "--agent", "team"]
        ran = await asyncio.to_thread(duologue, tmp_path, *asked, DUOLOGUE_CONFIG=there)
        listed = await asyncio.to_thread(duologue, tmp_path, "agents", "--json", DUOLOGUE_CONFIG=there)
    assert ran.returncode == 0
    assert "You said: hi" in ran.stdout
    lines = [json.loads(line) for line in listed.stdout.splitlines()]
    [team] = [line for line in lines if line["name"] == "team"]
    assert team["url"] == server.url.partition("#")[0]  # the token must not be shown


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_an_editor_talks_through_both_programs_to_an_agent_as_if_it_had_started_it(
    tmp_path: Path, scheme: str
) -> None:
    async with served(tmp_path, "--", *PROGRAM, "agent") as server:
        url = scheme + server.url.removeprefix("ws")
        command = [*PROGRAM, "connect", url]
        async with asyncio.timeout(60), connect(command, env=environment(tmp_path)) as agent:
            async with agent.new_session(tmp_path) as session:
                assert "You said: through two programs" in await session.ask("/echo through two programs")
                turn = await session.prompt("/stream 200")
                assert turn.stop_reason == "end_turn"


async def test_the_frames_are_the_same_at_both_ends_of_both_programs(tmp_path: Path) -> None:
    stored = tmp_path / "kept"
    sent = [
        INITIALIZE.encode(),
        b'{"jsonrpc":"2.0","id":"a","method":"b","params":{"n":12345678901234567890.10,"text":"\xf0\x9f\x8e\x88"}}\n',
        b'{ "jsonrpc" : "2.0" , "id" : 7, "method":"c" }\n',
    ]
    async with served(tmp_path, "--", sys.executable, "-c", STORING, str(stored)) as server:
        ended = await asyncio.to_thread(duologue, tmp_path, "connect", server.url, stdin=b"".join(sent))
    assert ended.returncode == 0
    assert stored.read_bytes() == b"".join(sent)
    assert ended.stdout.encode() == b"".join(sent).replace(b'"method":"initialize","params"', b'"result"')
