"""`duologue tap`, between real programs: every byte passes, and everything is recorded."""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from duologue.client.connect import connect
from duologue.recording.format import Entry
from duologue.recording.reader import RecordingReader, read_recording
from tests.cli.program import PROGRAM, SECONDS, duologue, environment
from tests.cli.test_serve import BUILTIN, served

MIRROR = "import sys, shutil; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"
ECHO = [sys.executable, "-c", MIRROR]


def _frames(path: Path, direction: str) -> list[bytes]:
    return [
        bytes(each.frame)
        for each in read_recording(path)
        if each.dir == direction and isinstance(each.frame, msgspec.Raw)
    ]


def _tap(home: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*PROGRAM, "tap", *arguments], input=stdin, capture_output=True, timeout=SECONDS, check=False, cwd=home,
        env=environment(home),
    )  # fmt: skip


def _random_stream(seed: int) -> bytes:
    """Return lines that are messages, broken ones and bytes that are no text, without an end of the last line."""
    chance = random.Random(seed)
    lines: list[bytes] = []
    for number in range(300):
        message = {"jsonrpc": "2.0", "id": number, "method": "m", "params": {"text": "é\n" * chance.randrange(200)}}
        lines.append(json.dumps(message, ensure_ascii=chance.random() < 0.5).encode())
        lines.append(chance.randbytes(chance.randrange(300)))
    return b"\n".join(lines)


def test_a_line_says_that_an_existing_recording_is_appended_to(tmp_path: Path) -> None:
    (tmp_path / "run.acp").touch()
    first = _tap(tmp_path, "-o", "run.acp", "--", *ECHO, stdin=b"{}\n")
    second = _tap(tmp_path, "-o", "run.acp", "--", *ECHO, stdin=b"[]\n")

    assert (first.stderr, second.stderr) == (b"", b"duologue tap: run.acp exists; appending to it\n")
    assert _frames(tmp_path / "run.acp", "to_agent") == [b"{}", b"[]"]


@pytest.mark.parametrize("seed", range(3))
def test_every_byte_passes_in_both_directions(tmp_path: Path, seed: int) -> None:
    stream = _random_stream(seed)
    ended = _tap(tmp_path, "-o", "run.acp", "--", *ECHO, stdin=stream)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, stream, b"")
    lines = [line for line in stream.split(b"\n") if line and not line.isspace()]
    for direction in ("to_agent", "to_client"):
        recorded = [each for each in read_recording(tmp_path / "run.acp") if each.dir == direction]
        assert len(recorded) == len(lines)


async def test_a_conversation_through_a_tap_is_the_same_and_is_recorded_whole(tmp_path: Path) -> None:
    received: list[bytes] = []
    sent: list[bytes] = []

    def note(direction: str, frame: bytes) -> None:
        (sent if direction == "out" else received).append(frame)

    command = [*PROGRAM, "tap", "-o", str(tmp_path / "run.acp"), "--", *BUILTIN]
    async with (
        asyncio.timeout(SECONDS),
        connect(command, env=environment(tmp_path), observers=(note,)) as agent,
        agent.new_session(tmp_path) as session,
    ):
        await session.prompt("/stream 2000")

    assert _frames(tmp_path / "run.acp", "to_agent") == sent
    assert _frames(tmp_path / "run.acp", "to_client") == received
    assert list(read_recording(tmp_path / "run.acp"))[-1].exit_code == 0


def test_stderr_passes_and_is_recorded_without_secrets(tmp_path: Path) -> None:
    ended = _tap(tmp_path, "-o", "run.acp", "--", "sh", "-c", "echo TOKEN=canary-1 >&2; exit 3")

    assert (ended.returncode, ended.stderr) == (3, b"TOKEN=canary-1\n")
    text, end = read_recording(tmp_path / "run.acp")
    assert (text.stderr, end.exit_code) == ("TOKEN=•••\n", 3)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
def test_the_tap_ends_as_the_agent_ends(tmp_path: Path, number: signal.Signals) -> None:
    ended = _tap(tmp_path, "-o", "run.acp", "--", "sh", "-c", f"kill -{int(number)} $$")

    assert ended.returncode == -number
    (end,) = read_recording(tmp_path / "run.acp")
    assert end.exit_code == -number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_the_agent(tmp_path: Path, number: signal.Signals) -> None:
    program = (
        "import os, signal, sys\n"
        f"signal.signal({int(number)}, lambda *_: (os.write(1, b'got it\\n'), os._exit(7)))\n"
        "os.write(1, b'ready\\n')\nsignal.pause()"
    )
    with _started(tmp_path, "--", sys.executable, "-c", program) as tap:
        assert tap.stdout is not None
        assert tap.stdout.readline() == b"ready\n"
        tap.send_signal(number)
        rest, _ = tap.communicate(timeout=SECONDS)

    assert (rest, tap.returncode) == (b"got it\n", 7)


def _started(home: Path, *arguments: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*PROGRAM, "tap", "-o", "run.acp", *arguments], stdin=pipe, stdout=pipe, stderr=pipe, cwd=home,
        env=environment(home),
    )  # fmt: skip


def test_an_agent_whose_client_no_longer_reads_gets_the_error_that_it_would_get_without_a_tap(tmp_path: Path) -> None:
    program = "import os\ntry:\n  while True: print('x' * 1000)\nexcept BrokenPipeError:\n  os._exit(9)"
    with _started(tmp_path, "--", sys.executable, "-c", program) as tap:
        assert tap.stdout is not None
        tap.stdout.read(10)
        tap.stdout.close()
        assert tap.wait(SECONDS) == 9


def test_a_client_whose_agent_no_longer_reads_gets_the_error_that_it_would_get_without_a_tap(tmp_path: Path) -> None:
    program = "import os, sys, time\nos.close(0)\nprint('closed', flush=True)\ntime.sleep(3600)"
    with _started(tmp_path, "--", sys.executable, "-c", program) as tap:
        assert tap.stdout is not None
        assert tap.stdin is not None
        assert tap.stdout.readline() == b"closed\n"
        with pytest.raises(BrokenPipeError):
            while True:
                os.write(tap.stdin.fileno(), b"x" * 1000)
        tap.stdin.close()
        tap.terminate()
        assert tap.wait(SECONDS) == -signal.SIGTERM


@pytest.mark.parametrize("output", ["/dev/full", "/proc/none/run.acp"])
def test_a_recording_that_cannot_be_written_stops_no_one(tmp_path: Path, output: str) -> None:
    stream = _random_stream(1)
    ended = _tap(tmp_path, "-o", output, "--", *ECHO, stdin=stream)

    assert (ended.returncode, ended.stdout) == (0, stream)
    assert b"recorded" in ended.stderr or b"missing from" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--"], "there is no command after `--`"),
        ([], "tap needs a command after `--`, or `--agent NAME|URL`"),
        (["-o", "notes.md", "--", "true"], "the file exists and is not a recording"),
        (["--redact", "(", "--", "true"], "'(' is not a regular expression"),
        (["--agent", "builtin", "--", "true"], "either `--agent` or a command"),
        (["--agent", "missing"], "unknown agent 'missing'"),
    ],
)
def test_a_wrong_command_line_starts_nothing(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "notes.md").write_text("mine")
    ended = duologue(tmp_path, "tap", *arguments)

    assert ended.returncode == 2
    assert message in ended.stderr
    assert (tmp_path / "notes.md").read_text() == "mine"


def test_without_a_file_name_the_recording_goes_to_the_data_directory(tmp_path: Path) -> None:
    _tap(tmp_path, "--", *ECHO, stdin=b'{"id":1,"method":"m"}\n')
    (path,) = (tmp_path / "data/duologue/recordings").iterdir()

    assert path.stat().st_mode & 0o777 == 0o600
    assert _frames(path, "to_agent") == [b'{"id":1,"method":"m"}']


def test_own_patterns_and_secrets_of_the_environment_are_not_recorded(tmp_path: Path) -> None:
    line = b'{"id":1,"method":"m","params":["emp-17","canary-0123456789"]}\n'
    ended = duologue(
        tmp_path, "tap", "-o", "run.acp", "--redact", r"emp-\d+", "--", *ECHO, stdin=line, MY_TOKEN="canary-0123456789"
    )

    assert ended.stdout == line.decode()
    assert set(_frames(tmp_path / "run.acp", "to_agent")) == {'{"id":1,"method":"m","params":["•••","•••"]}'.encode()}


@pytest.mark.chaos
async def test_a_tap_that_is_killed_leaves_whole_lines_and_no_agent(tmp_path: Path, chaos_factor: int) -> None:
    """Kill it at a random moment while it records; each line is there once and in order."""
    program = (
        "import itertools, sys\nprint(__import__('os').getpid(), file=sys.stderr, flush=True)\n"
        "for n in itertools.count():\n"
        ' sys.stdout.write(\'{"method":"m","params":%d}\\n\' % n)\n'
    )
    chance = random.Random(7)
    for number in range(20 * chaos_factor):
        path = tmp_path / f"{number}.acp"
        tap = await asyncio.create_subprocess_exec(
            *PROGRAM, "tap", "-o", path, "--", sys.executable, "-c", program,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(tmp_path),
        )  # fmt: skip
        assert tap.stdout is not None
        assert tap.stderr is not None
        agent = int(await tap.stderr.readline())
        await tap.stdout.readexactly(chance.randrange(1, 400_000))
        tap.kill()
        await tap.stdout.read()
        await tap.wait()
        with RecordingReader(path) as reader:
            entries = [each for each in reader if each.dir]
        numbers = [json.loads(bytes(each.frame))["params"] for each in entries if isinstance(each.frame, msgspec.Raw)]

        assert numbers == list(range(len(entries))), "no line is missing in between, damaged or written twice"
        assert reader.damaged == 0
        await asyncio.to_thread(_wait_for_end, agent)
        path.unlink()


def _wait_for_end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with open(descriptor, "rb"):
        assert select.select([descriptor], [], [], SECONDS)[0], "the agent still runs"


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_remote_agent_is_recorded_too(tmp_path: Path, scheme: str) -> None:
    async with served(tmp_path, "--", *BUILTIN) as server:
        url = server.url.replace("ws:", f"{scheme}:")
        command = [*PROGRAM, "tap", "-o", str(tmp_path / "run.acp"), "--agent", url]
        async with (
            asyncio.timeout(SECONDS),
            connect(command, env=environment(tmp_path)) as agent,
            agent.new_session(tmp_path) as session,
        ):
            await session.prompt("/stream 50")
        await server.stop()

    with RecordingReader(tmp_path / "run.acp") as reader:
        assert reader.header.agent == [url.partition("#")[0]]
    methods = [json.loads(frame).get("method") for frame in _frames(tmp_path / "run.acp", "to_client")]
    assert methods.count("session/update") >= 50


async def test_a_remote_agent_that_cannot_be_reached_is_an_answer_and_an_exit_code(tmp_path: Path) -> None:
    request = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
    arguments = ["tap", "-o", "run.acp", "--agent", "ws://127.0.0.1:9/acp"]
    ended = await asyncio.to_thread(lambda: duologue(tmp_path, *arguments, stdin=request))

    assert ended.returncode == 1
    assert '"error"' in ended.stdout
    (question, answer) = read_recording(tmp_path / "run.acp")
    assert (question.dir, answer.dir) == ("to_agent", "to_client")


@pytest.mark.parametrize("shared", [[], ["--shared"]])
async def test_a_server_records_each_connection_in_a_file_of_its_own(tmp_path: Path, shared: list[str]) -> None:
    async with served(tmp_path, *shared, "--record", "wire", "--", *BUILTIN) as server:
        for number in range(2):
            async with connect(server.url) as agent, agent.new_session(tmp_path) as session:
                await session.prompt(f"/echo number {number}")
        await server.stop()
    recordings = sorted((tmp_path / "wire").iterdir())
    entries: list[list[Entry]] = [list(read_recording(path)) for path in recordings]

    assert len(entries) == 2
    for found in entries:
        assert {each.dir for each in found} == {"to_agent", "to_client"}
        assert sum(b"number" in bytes(each.frame) for each in found if isinstance(each.frame, msgspec.Raw)) >= 2
        assert [each for each in found if each.invalid] == []


def test_a_server_that_cannot_record_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    ended = duologue(tmp_path, "serve", "--record", "taken/wire")

    assert ended.returncode == 2
    assert "--record taken/wire: File exists" in ended.stderr
