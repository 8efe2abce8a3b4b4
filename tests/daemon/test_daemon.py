"""The daemon in this process, with real agents: what a client gets, and what is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from duologue.daemon.client import AttachedTransport, DaemonClient
from duologue.daemon.file_versions import file_versions
from duologue.daemon.messages import CallerCommand, DaemonRequest
from duologue.daemon.runtime_directory import RuntimeDirectory
from duologue.daemon.server import DaemonLimits, DaemonServer
from duologue.errors import ConnectionLost, DuologueError, StartError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no daemon on Windows")

AGENT = Path(__file__).parent / "counting_agent.py"


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[RuntimeDirectory]:
    short = tempfile.mkdtemp(prefix="dd")  # the path of a socket is short
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    yield RuntimeDirectory(Path(short) / "d")
    shutil.rmtree(short)


@asynccontextmanager
async def running(
    directory: RuntimeDirectory, version: str = "1", **limits: Any
) -> AsyncGenerator[tuple[DaemonServer, DaemonClient]]:
    server = DaemonServer(directory, version, DaemonLimits(**limits))
    is_ready = asyncio.Event()
    async with asyncio.timeout(120):
        task = asyncio.create_task(server.run(is_ready.set))
        try:
            await asyncio.wait({task, asyncio.create_task(is_ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
            yield server, DaemonClient(version, directory)
        finally:
            server.stop()
            assert await task


async def exchange(transport: AttachedTransport, id: int, method: str, params: Any) -> list[dict[str, Any]]:
    """Send a request; return everything up to its response."""
    transport.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode())
    found: list[dict[str, Any]] = []
    while not any(message.get("id") == id for message in found):
        frames = await transport.receive()
        if not frames:
            raise ConnectionLost("the daemon closed the connection")
        found += map(json.loads, frames)
    return found


async def run_turn(
    client: DaemonClient, log: Path, cwd: str = "/", script: Path = AGENT, **env: str
) -> tuple[str, list[str]]:
    """Open a session and send a prompt; return its id and the texts in order."""
    transport = await client.attach([sys.executable, str(script), str(log.parent)], env)
    await exchange(transport, 0, "initialize", {"protocolVersion": 1})
    messages = await exchange(transport, 1, "session/new", {"cwd": cwd, "mcpServers": []})
    session = next(message["result"]["sessionId"] for message in messages if message.get("id") == 1)
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}
    messages += await exchange(transport, 2, "session/prompt", prompt)
    await transport.aclose()
    updates = [message["params"]["update"] for message in messages if "method" in message]
    return session, [update["content"]["text"] for update in updates]


def lines_with(log: Path, text: str) -> int:
    return sum(line.startswith(text) for line in log.read_text().splitlines()) if log.exists() else 0


async def until(log: Path, text: str, count: int = 1) -> None:
    """Wait until the agents have written a line that often."""
    while lines_with(log, text) < count:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def started(log: Path) -> list[str]:
    return [f"s{line.split()[1]}" for line in log.read_text().splitlines() if line.startswith("start")]


async def test_the_second_client_gets_a_session_that_was_opened_before_it(
    directory: RuntimeDirectory, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    async with running(directory) as (_, client):
        first = await run_turn(client, log, MARK="m")
        await until(log, "session/new", 2)
        second = await run_turn(client, log, MARK="m")

        assert first[1] == second[1] == ["before ", "after ", "m"]
        assert started(log)[:2] == [first[0], second[0]]
        lines = log.read_text().splitlines()
        assert sum(line == f"initialize {second[0][1:]}" for line in lines) == 1


@pytest.mark.parametrize("change", ["environment", "session"])
async def test_a_client_that_differs_gets_a_session_of_its_own(
    directory: RuntimeDirectory, tmp_path: Path, change: str
) -> None:
    log = tmp_path / "log"
    async with running(directory) as (_, client):
        await run_turn(client, log, MARK="one")
        await until(log, "session/new", 2)
        is_environment = change == "environment"
        _, texts = await run_turn(
            client, log, cwd="/" if is_environment else "/tmp", MARK="two" if is_environment else "one"
        )

        assert texts[-1] == ("two" if is_environment else "one")
        assert log.read_text().count("session/new") >= 3


async def test_the_agent_has_the_environment_of_its_client_and_not_of_the_daemon(
    directory: RuntimeDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    async with running(directory) as (_, client):
        caller = CallerCommand.of([sys.executable, str(AGENT), str(log.parent)], "/", {"PATH": os.environ["PATH"]})
        monkeypatch.setenv("MARK", "the daemon's")
        opened = await client._open(DaemonRequest(version="1", action="attach", caller=caller))
        assert opened is not None
        transport = opened[0]
        await exchange(transport, 0, "initialize", {})
        await exchange(transport, 1, "session/new", {})
        prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]}
        texts = [
            m["params"]["update"]["content"]["text"]
            for m in await exchange(transport, 2, "session/prompt", prompt)
            if "method" in m
        ]
        await transport.aclose()

        assert texts[-1] == "None"


async def until_warm(client: DaemonClient, count: int) -> None:
    while (state := await client.status()) is None or state.warm != count:  # noqa: ASYNC110  # the daemon sends no events
        await asyncio.sleep(0.01)


async def test_an_agent_whose_file_was_edited_is_ended_and_the_next_client_gets_the_new_code(
    directory: RuntimeDirectory, tmp_path: Path
) -> None:
    log, script = tmp_path / "log", tmp_path / "agent.py"
    script.write_text(AGENT.read_text())
    async with running(directory) as (_, client):
        await run_turn(client, log, MARK="m", script=script)
        await until(log, "session/new", 2)
        script.write_text(AGENT.read_text().replace('"before "', '"new "'))
        _, texts = await run_turn(client, log, MARK="m", script=script)
        assert texts == ["new ", "after ", "m"]

        await until(log, "session/new", 4)
        script.write_text(AGENT.read_text())
        await until_warm(client, 0)  # also if no client comes
        for name in started(log):
            await until_gone(int(name[1:]))


async def test_a_file_that_is_changed_before_the_agent_is_ready_counts(
    directory: RuntimeDirectory, tmp_path: Path
) -> None:
    log, script = tmp_path / "log", tmp_path / "agent.py"
    script.write_text(AGENT.read_text())
    async with running(directory) as (_, client):
        await run_turn(client, log, MARK="m", script=script)  # the next agent is starting
        script.write_text(AGENT.read_text().replace('"before "', '"new "'))
        _, texts = await run_turn(client, log, MARK="m", script=script)

        assert texts[0] == "new "


async def test_one_agent_waits_for_each_command_and_directory(directory: RuntimeDirectory, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with running(directory) as (_, client):
        for mark in ("one", "two", "three"):
            _, texts = await run_turn(client, log, MARK=mark)
            assert texts[-1] == mark
            state = await client.status()
            assert state is not None
            assert state.warm == 1
        await until(log, "end", 3)


async def test_an_agent_that_needs_a_login_waits_without_a_session_and_its_client_knows(
    directory: RuntimeDirectory, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    command = [sys.executable, str(AGENT), str(tmp_path)]
    async with running(directory) as (_, client):
        transport = await client.attach(command, {"LOGIN": "1"})
        assert not transport.needs_login
        await exchange(transport, 0, "initialize", {})
        assert "error" in (await exchange(transport, 1, "session/new", {}))[-1]
        await exchange(transport, 2, "authenticate", {})
        await exchange(transport, 3, "session/new", {})
        prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]}
        await exchange(transport, 4, "session/prompt", prompt)
        await transport.aclose()
        while (state := await client.status()) is None or not state.without_session:  # noqa: ASYNC110  # the daemon sends no events
            await asyncio.sleep(0.01)

        assert (state.warm, state.without_session) == (1, 1)
        second = await client.attach(command, {"LOGIN": "1"})
        assert second.needs_login
        await exchange(second, 0, "initialize", {})
        assert "error" in (await exchange(second, 1, "session/new", {}))[-1]
        await second.aclose()
        assert lines_with(log, "start") == 2
        other = await client.attach([*command, "x"], {})
        assert not other.needs_login
        await other.aclose()


async def test_a_client_that_leaves_ends_its_agent_after_its_turn_was_cancelled(
    directory: RuntimeDirectory, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    async with running(directory, max_warm=0, cancel_seconds=0.1) as (_, client):
        transport = await client.attach([sys.executable, str(AGENT), str(log.parent)], {})
        await exchange(transport, 0, "initialize", {})
        prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "wait"}]}
        transport.send(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": prompt}).encode())
        await until(log, "session/prompt")
        pid = int(started(log)[0][1:])
        transport._drop()  # as if the client had been killed
        await until_gone(pid)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until_gone(pid: int) -> None:
    while is_running(pid):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_an_agent_that_is_killed_answers_the_open_request_with_the_reason(
    directory: RuntimeDirectory, tmp_path: Path
) -> None:
    async with running(directory, max_warm=0) as (_, client):
        transport = await client.attach([sys.executable, str(AGENT), str(tmp_path)], {})
        await exchange(transport, 0, "initialize", {})
        prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "die"}]}
        answer = (await exchange(transport, 2, "session/prompt", prompt))[-1]

        assert "SIGKILL" in answer["error"]["message"]
        await transport.aclose()


async def test_a_waiting_agent_that_is_killed_is_not_handed_out(directory: RuntimeDirectory, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with running(directory) as (_, client):
        await run_turn(client, log)
        await until(log, "session/new", 2)
        os.kill(int(started(log)[1][1:]), signal.SIGKILL)
        await until_warm(client, 0)
        session, texts = await run_turn(client, log)

        assert session not in started(log)[:2]
        assert texts[:2] == ["before ", "after "]


async def test_a_command_that_cannot_be_started_is_an_error_response(directory: RuntimeDirectory) -> None:
    async with running(directory) as (_, client):
        transport = await client.attach(["/no/such/agent"], {})
        answer = await exchange(transport, 0, "initialize", {})

        assert "/no/such/agent" in answer[0]["error"]["message"]
        await transport.aclose()


async def test_nothing_is_left_when_the_daemon_stops(directory: RuntimeDirectory, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with running(directory) as (_, client):
        await run_turn(client, log)
        await until(log, "session/new", 2)
    assert not directory.socket.exists()
    assert log.read_text().count("session/close") >= 1
    for name in started(log):
        await until_gone(int(name[1:]))


async def test_there_is_one_daemon_at_a_time(directory: RuntimeDirectory) -> None:
    async with running(directory) as (_, client):
        assert not await DaemonServer(directory, "1").run(lambda: None)
        assert await client.status() is not None


async def test_the_socket_of_a_daemon_that_was_killed_is_replaced(directory: RuntimeDirectory) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(directory.socket))
    left.close()
    assert await DaemonClient("1", directory).status() is None
    async with running(directory) as (_, client):
        assert await client.status() is not None


async def test_an_idle_daemon_ends(directory: RuntimeDirectory) -> None:
    async with asyncio.timeout(60):
        assert await DaemonServer(directory, "1", DaemonLimits(idle_seconds=0.01)).run(lambda: None)


async def test_a_daemon_of_another_version_ends_if_it_is_idle(directory: RuntimeDirectory) -> None:
    server = DaemonServer(directory, "1")
    is_ready = asyncio.Event()
    async with asyncio.timeout(60):
        task = asyncio.create_task(server.run(is_ready.set))
        await is_ready.wait()
        with pytest.raises(StartError, match="another version"):
            await DaemonClient("2", directory).status()
        assert await task


async def test_a_busy_daemon_of_another_version_goes_on(directory: RuntimeDirectory, tmp_path: Path) -> None:
    async with running(directory) as (_, client):
        transport = await client.attach([sys.executable, str(AGENT), str(tmp_path)], {})
        await exchange(transport, 0, "initialize", {})
        with pytest.raises(StartError, match="the daemon of 1 is busy"):
            await DaemonClient("2", directory).attach(["x"], {})
        assert await exchange(transport, 1, "session/new", {})
        await transport.aclose()


@pytest.mark.parametrize(
    "sent",
    [
        b"garbage\n",
        b"\xff\xfe\n",
        b'{"version": "1"}\n',
        b'{"version": "1", "action": "attach"}\n',
        b'{"version": "1", "action": "status"}\n{"more": 1}\n',
        b"[" * 100_000 + b"\n",
        b'{"version": "1", "action": "run", "input": "' + b"x" * (17 << 20) + b'"}\n',
    ],
    ids=["garbage", "not UTF-8", "no action", "no caller", "two lines", "deep", "huge"],
)
async def test_a_malformed_request_is_refused_and_the_next_client_is_served(
    directory: RuntimeDirectory, sent: bytes
) -> None:
    async with running(directory) as (_, client):
        reader, writer = await asyncio.open_unix_connection(str(directory.socket))
        writer.write(sent)
        reply = json.loads(await reader.readline())
        writer.close()

        assert reply["error"]
        assert await client.status() is not None


async def test_a_client_that_sends_half_a_line_is_dropped(directory: RuntimeDirectory) -> None:
    async with running(directory, request_seconds=0.1) as (_, client):
        reader, writer = await asyncio.open_unix_connection(str(directory.socket))
        writer.write(b'{"version"')

        assert await reader.read() == b""
        writer.close()
        assert await client.status() is not None


async def test_more_clients_than_the_limit_are_refused(directory: RuntimeDirectory) -> None:
    async with running(directory, max_clients=1) as (_, client):
        reader, writer = await asyncio.open_unix_connection(str(directory.socket))
        writer.write(b"{")
        await writer.drain()
        with pytest.raises(StartError, match="did not reply"):
            while await client.status() is not None:
                pass
        writer.close()
        await writer.wait_closed()
        while True:
            try:
                assert await client.status() is not None
                break
            except DuologueError:
                await asyncio.sleep(0.01)
        assert await reader.read() is not None


async def test_a_client_of_another_user_is_refused(
    directory: RuntimeDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from duologue.daemon import server as module

    def another_user(connected: socket.socket) -> int:
        return os.geteuid() + 1

    async with running(directory):
        monkeypatch.setattr(module, "peer_user", another_user)
        reader, writer = await asyncio.open_unix_connection(str(directory.socket))
        writer.write(b'{"version": "1", "action": "status"}\n')

        with suppress(ConnectionError):  # a connection with unread data is reset
            assert await reader.read() == b""
        writer.close()


def test_a_directory_that_others_may_use_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "d"
    shared.mkdir(mode=0o755)
    with pytest.raises(StartError, match="chmod 700"):
        RuntimeDirectory(shared)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    with pytest.raises(StartError, match="only you may use"):
        RuntimeDirectory(link)


def test_the_socket_and_its_directory_are_for_their_owner_only(directory: RuntimeDirectory) -> None:
    listener = directory.listen(1)
    listener.close()

    assert directory.path.stat().st_mode & 0o777 == 0o700
    assert directory.socket.stat().st_mode & 0o777 == 0o600


def test_the_key_has_the_environment_without_what_every_command_changes() -> None:
    one = CallerCommand.of(["a"], "/", {"A": "1", "SHLVL": "1"})

    assert one.key(b"{}") == CallerCommand.of(["a"], "/", {"SHLVL": "2", "A": "1"}).key(b"{}")
    others = [
        CallerCommand.of(["a"], "/", {"A": "2"}),
        CallerCommand.of(["b"], "/", {"A": "1"}),
        CallerCommand.of(["a"], "/b", {"A": "1"}),
    ]
    assert len({one.key(b"{}"), one.key(b"[]"), *(other.key(b"{}") for other in others)}) == 5


def test_bytes_that_are_no_text_reach_the_agent_unchanged() -> None:
    env = {"A": os.fsdecode(b"\xff\xfe")}
    caller = CallerCommand.of([os.fsdecode(b"\xff")], "/", env)

    assert json.loads(json.dumps(caller.env)) == caller.env
    assert caller.unpacked() == ([os.fsdecode(b"\xff")], "/", env)


def test_the_versions_are_of_the_program_and_of_every_file_that_the_command_names(tmp_path: Path) -> None:
    for name in ("tool", "agent.py", "one.json", "two.json", "pkg/__main__.py"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("x")
        file.chmod(0o700)
    command = ["tool", "agent.py:made", "--config=one.json", "two.json", "-m", "pkg", "nothing", ".", "\0"]
    found = file_versions(command, str(tmp_path), {"PATH": str(tmp_path)})

    expected = [str(tmp_path / "tool"), "agent.py", "one.json", "two.json", "pkg/__main__.py"]
    assert [path for path, *_ in found] == expected
    (tmp_path / "agent.py").write_text("longer")
    assert found != file_versions(command, str(tmp_path), {"PATH": str(tmp_path)})
    assert file_versions([], "/", {}) == []
