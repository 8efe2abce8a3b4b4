"""`duologue serve`, as a program."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from duologue import connect
from duologue.client.session import ClientSession
from duologue.errors import ConnectionLost, InitializeTimeout, StartError
from tests.cli.program import PROGRAM, duologue, environment

SECONDS = 60.0
BUILTIN = [*PROGRAM, "agent"]


@dataclass
class Server:
    """A server that runs."""

    url: str
    process: Process

    async def stop(self) -> tuple[int, str]:
        """Wait for the end of the server; return its exit code and stderr."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(SECONDS):
            _, stderr = await self.process.communicate()
        return self.process.returncode or 0, stderr.decode()


@asynccontextmanager
async def served(home: Path, *arguments: str, **env: str) -> AsyncGenerator[Server]:
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "serve", *arguments, stdout=PIPE, stderr=PIPE, cwd=home, env=environment(home, **env)
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SECONDS):
            url = (await process.stdout.readline()).decode().strip()
        yield Server(url, process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


@pytest.mark.parametrize("shared", [[], ["--shared"]])
@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_command_is_served_to_clients_that_have_the_url(tmp_path: Path, shared: list[str], scheme: str) -> None:
    async with served(tmp_path, *shared, "--", *BUILTIN) as server:
        assert re.fullmatch(r"ws://127\.0\.0\.1:\d+/acp#token=[\w-]{43}", server.url)
        url = server.url.replace("ws:", f"{scheme}:")
        async with connect(url) as one, connect(url) as other:
            first, second = await one.new_session(tmp_path), await other.new_session(tmp_path)
            turns = await asyncio.gather(_text_of(first, "hello"), _text_of(second, "hello"))
        code, _ = await server.stop()

    assert list(turns) == ["end_turn", "end_turn"]
    assert code == 0


async def _text_of(session: ClientSession, text: str) -> str | None:
    return (await session.prompt(text)).stop_reason


async def test_a_given_token_is_not_printed_and_works(tmp_path: Path) -> None:
    async with served(tmp_path, DUOLOGUE_TOKEN="from-the-environment") as server:
        assert "#" not in server.url
        async with connect(server.url, token="from-the-environment") as agent:
            await agent.new_session(tmp_path)


async def test_the_access_log_is_json_and_has_no_secrets(tmp_path: Path) -> None:
    async with served(tmp_path, "--access-log") as server:
        base, _, token = server.url.replace("ws:", "http:").partition("/acp#token=")
        async with httpx2.AsyncClient(trust_env=False) as client:
            await client.get(f"{base}/metrics?token={token}")
            await client.get(f"{base}/metrics?x={token}", headers={"Authorization": f"Bearer {token}"})
        _, stderr = await server.stop()

    lines = [json.loads(line) for line in stderr.splitlines()]
    assert [(line["path"], line["status"], line["caller"]) for line in lines] == [
        ("/metrics", 401, None),
        ("/metrics", 200, "owner"),
    ]
    assert token not in stderr


@pytest.mark.fault("HTT-05")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "without TLS"),
        (["--host", "::"], "without TLS"),
        (["--host", "192.0.2.1", "--dangerously-without-token", "--behind-tls-proxy"], "without a token"),
        (["--host", "0.0.0.0", "--tls-cert", "nowhere.pem"], "nowhere.pem"),
        (["--port", "1", "--host", "192.0.2.1", "--behind-tls-proxy"], "cannot listen"),
    ],
)
def test_an_unsafe_server_does_not_start(tmp_path: Path, arguments: list[str], message: str) -> None:
    ended = duologue(tmp_path, "serve", *arguments)

    assert ended.returncode == 1
    assert message in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--agent", "absent"],
        ["--token", "with spaces"],
        ["--cwd", "nowhere"],
        ["--agent", "builtin", "--", "x"],
        ["--env", "x"],
    ],
)
def test_a_wrong_command_line_is_reported(tmp_path: Path, arguments: list[str]) -> None:
    assert duologue(tmp_path, "serve", *arguments).returncode == 2


@pytest.mark.fault("GWY-13")
async def test_a_stop_signal_lets_a_running_turn_end(tmp_path: Path) -> None:
    async with served(tmp_path, "--", *BUILTIN) as server:
        async with connect(server.url) as agent:
            session = await agent.new_session(tmp_path)
            turn = session.prompt("/stream 20000")
            async for _ in turn:
                break
            server.process.send_signal(signal.SIGTERM)
            ended = await turn
            async with asyncio.timeout(SECONDS):
                code = await server.process.wait()

    assert (ended.stop_reason, code) == ("end_turn", 0)


async def test_no_process_is_left(tmp_path: Path) -> None:
    async with served(tmp_path, "--", sys.executable, "-c", _SLEEPER, str(tmp_path / "pid")) as server:
        with pytest.raises(InitializeTimeout):
            async with connect(server.url, startup_timeout=5):
                pass
        await server.stop()

    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


_SLEEPER = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"


@pytest.mark.fault("REC-09")
async def test_after_the_server_was_killed_sessions_are_there_and_its_agents_are_not(tmp_path: Path) -> None:
    command = ["--resume-timeout", "1", "--", *BUILTIN, "--sessions", str(tmp_path / "kept")]
    async with served(tmp_path, *command) as server, connect(server.url) as agent:
        session = await agent.new_session(tmp_path)
        await session.prompt("/stream 3")
        turn = session.prompt("/cancel-me")
        async for _ in turn:
            break
        agents = descendants(server.process.pid)
        server.process.kill()
        with pytest.raises(ConnectionLost):
            await turn
    async with asyncio.timeout(SECONDS):
        while any(is_running(process) for process in agents):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    async with served(tmp_path, *command) as server, connect(server.url) as agent:
        listed = [each.session_id for each in await agent.list_sessions()]
        again = await agent.load_session(session.id, tmp_path)
        after = await again.prompt("/stream 2")

    assert agents
    assert listed == [session.id]
    assert "0 1 2" in str(again.transcript.items)
    assert after.stop_reason == "end_turn"


@pytest.mark.parametrize("scheme", ["wss", "https"])
async def test_the_server_serves_tls_itself(tmp_path: Path, scheme: str) -> None:
    certificate, key = tmp_path / "agents.pem", tmp_path / "agents.key"
    made = await asyncio.create_subprocess_exec(
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
        *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)),
        stderr=PIPE,
    )
    await made.communicate()
    async with served(tmp_path, "--tls-cert", str(certificate), "--tls-key", str(key)) as server:
        assert server.url.startswith("wss://")
        url = server.url.replace("wss:", f"{scheme}:")
        async with connect(url, tls=certificate) as agent:
            turn = await (await agent.new_session(tmp_path)).prompt("hello")
        with pytest.raises(StartError):
            async with connect(url):
                pass

    assert turn.stop_reason == "end_turn"


def descendants(pid: int) -> list[int]:
    """Return all descendants of this process."""
    found = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return found + [each for child in found for each in descendants(child)]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
