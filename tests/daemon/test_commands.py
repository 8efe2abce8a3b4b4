"""`run --warm`, `run --no-wait` and `duologue daemon` as processes: killed, raced, and without a daemon."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import duologue
from duologue.daemon.runtime_directory import RuntimeDirectory
from duologue.daemon.server import DaemonServer

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no daemon on Windows")

AGENT = Path(__file__).parent / "counting_agent.py"


class Program:
    """`duologue` with directories of its own."""

    def __init__(self, directory: Path) -> None:
        own = {name: value for name, value in os.environ.items() if name != "DUOLOGUE_OWNER"}
        self.env = {
            **own,
            "XDG_RUNTIME_DIR": str(directory),
            "XDG_DATA_HOME": str(directory / "data"),
            "MARK": "m",
        }
        self.log = directory / "log"

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "duologue", *arguments],
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def prompt(self, *options: str, text: str = "hi", **env: str) -> subprocess.CompletedProcess[str]:
        return self.run("run", *options, text, "--", sys.executable, str(AGENT), str(self.log.parent), **env)

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("daemon", "status", "--json").stdout.splitlines()[0])
        return found

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("daemon", "status", job_id, "--json").stdout)
        return found

    def agents(self) -> list[int]:
        return [int(line.split()[1]) for line in self.log.read_text().splitlines() if line.startswith("start")]


@pytest.fixture
def program() -> Iterator[Program]:
    directory = Path(tempfile.mkdtemp(prefix="dd"))
    made = Program(directory)
    yield made
    made.run("daemon", "stop")
    shutil.rmtree(directory)


def until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.02)  # another process says nothing when it changes


def is_gone(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_the_first_run_starts_the_daemon_and_the_second_uses_its_agent(program: Program) -> None:
    first = program.prompt("--warm")
    until(lambda: program.log.read_text().count("session/new") == 2)
    second = program.prompt("--warm")

    assert (first.returncode, first.stdout.strip()) == (0, "before after m"), first.stderr
    assert (second.returncode, second.stdout.strip()) == (0, "before after m"), second.stderr
    assert "daemon" not in first.stderr + second.stderr
    assert program.state()["daemon"] == "running"


def test_a_killed_daemon_leaves_no_process_and_the_next_run_starts_another(program: Program) -> None:
    program.prompt("--warm")
    until(lambda: len(program.agents()) == 2)
    pid = program.state()["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: all(map(is_gone, [pid, *program.agents()])))

    assert program.prompt("--warm").stdout.strip() == "before after m"
    assert program.state()["pid"] != pid


def test_a_killed_client_ends_its_agent(program: Program) -> None:
    assert program.run("daemon", "start").returncode == 0
    command = [sys.executable, "-m", "duologue", "run", "--warm", "wait", "--", sys.executable, str(AGENT)]
    client = subprocess.Popen([*command, str(program.log.parent)], env=program.env, stdin=subprocess.DEVNULL)
    until(lambda: program.log.exists() and "session/prompt" in program.log.read_text())
    agent = program.agents()[0]
    client.kill()
    client.wait()

    until(lambda: is_gone(agent))
    assert program.state()["clients"] == 0


def test_two_starts_at_once_give_one_daemon(program: Program) -> None:
    command = [sys.executable, "-m", "duologue", "daemon", "start"]
    starts = [subprocess.Popen(command, env=program.env, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = {start.communicate(timeout=60)[1] for start in starts}

    assert len(outputs) == 1, outputs
    assert f"pid {program.state()['pid']}" in outputs.pop()


async def test_an_idle_daemon_of_another_version_is_replaced(program: Program) -> None:
    directory = RuntimeDirectory(Path(program.env["XDG_RUNTIME_DIR"]) / "duologue" / "daemon")
    is_ready = asyncio.Event()
    async with asyncio.timeout(120):
        other = asyncio.create_task(DaemonServer(directory, "another").run(is_ready.set))
        await is_ready.wait()
        done = await asyncio.to_thread(program.prompt, "--warm")
        assert await other

        assert (done.stdout.strip(), "daemon" in done.stderr) == ("before after m", False), done.stderr
        assert (await asyncio.to_thread(program.state))["version"] == duologue.__version__


def test_without_a_daemon_the_run_goes_on_and_says_so_in_one_line(program: Program) -> None:
    too_long = f"{program.env['XDG_RUNTIME_DIR']}/{'x' * 100}"
    Path(too_long).mkdir()
    done = program.prompt("--warm", XDG_RUNTIME_DIR=too_long)

    assert (done.returncode, done.stdout.strip()) == (0, "before after m")
    assert done.stderr.count("without the daemon") == 1


def test_a_command_of_an_agent_starts_no_daemon(program: Program) -> None:
    done = program.prompt("--warm", DUOLOGUE_OWNER="x")

    assert done.stdout.strip() == "before after m"
    assert "starts no daemon" in done.stderr
    assert program.state()["daemon"] == "stopped"


def test_a_run_in_the_background_is_a_job_whose_output_is_inherited(program: Program) -> None:
    started = program.prompt("--no-wait")
    job_id = started.stdout.strip()
    assert len(job_id) == 12, started.stderr
    until(lambda: program.job(job_id)["state"] == "ended")
    job = program.job(job_id)

    assert job["exit_code"] == 0
    assert Path(job["output"]).read_text().strip() == "before after m"
    assert Path(job["output"]).stat().st_mode & 0o777 == 0o600
    assert program.run("daemon", "stop").returncode == 0
    assert program.job(job_id)["state"] == "ended"


def test_a_cancelled_job_cancels_its_turn(program: Program) -> None:
    job_id = program.prompt("--no-wait", text="wait").stdout.strip()
    until(lambda: program.log.exists() and "session/prompt" in program.log.read_text())
    agent = program.agents()[0]
    assert program.run("daemon", "cancel", job_id).returncode == 0

    until(lambda: is_gone(agent))
    until(lambda: program.job(job_id)["state"] == "cancelled")
    assert program.run("daemon", "cancel", job_id).returncode != 0


def test_the_output_of_a_job_is_printed_and_its_exit_code_is_returned(program: Program) -> None:
    job_id = program.prompt("--no-wait").stdout.strip()
    followed = program.run("daemon", "output", job_id, "--follow")
    failed = program.run("run", "--no-wait", "hi", "--", "/no/such/agent").stdout.strip()
    waited = program.run("daemon", "wait", failed, "--timeout", "60")

    assert (followed.returncode, followed.stdout.strip()) == (0, "before after m"), followed.stderr
    assert program.run("daemon", "wait", job_id).returncode == 0
    assert program.run("daemon", "output", job_id).stdout == followed.stdout
    assert waited.returncode == program.job(failed)["exit_code"] == 1
    assert "/no/such/agent" in program.run("daemon", "output", failed).stderr


def test_a_wait_for_a_job_has_an_end(program: Program) -> None:
    job_id = program.prompt("--no-wait", text="wait").stdout.strip()
    for arguments in (("wait", job_id), ("output", job_id, "--follow")):
        done = program.run("daemon", *arguments, "--timeout", "0.3")
        assert (done.returncode, "still runs after 0.3 s" in done.stderr) == (6, True), done.stderr
    assert ", 1 job running" in program.run("daemon", "status").stdout
    assert program.run("daemon", "cancel", job_id).returncode == 0
    assert program.run("daemon", "wait", job_id).returncode == 130


def test_a_wrong_action_gets_a_suggestion_and_no_hidden_choice(program: Program) -> None:
    refused = program.run("daemon", "stauts")

    assert refused.returncode == 2
    assert "did you mean 'status'?" in refused.stderr
    assert "'job'" not in refused.stderr
    assert "did you mean 'list'?" in program.run("sessions", "lits").stderr


def test_a_job_of_a_killed_daemon_is_lost(program: Program) -> None:
    job_id = program.prompt("--no-wait", text="wait").stdout.strip()
    until(lambda: program.log.exists() and "session/prompt" in program.log.read_text())
    os.kill(program.state()["pid"], signal.SIGKILL)

    until(lambda: is_gone(program.agents()[0]))
    assert program.job(job_id)["state"] == "lost"
    waited = program.run("daemon", "wait", job_id)
    assert (waited.returncode, "is lost" in waited.stderr) == (1, True)


def test_neither_the_prompt_nor_the_environment_is_in_the_arguments_or_the_status(program: Program) -> None:
    program.prompt("--no-wait", text="wait")
    job = program.prompt("--no-wait", "--env", "KEY=geheim", text="geheim").stdout.strip()
    until(lambda: program.job(job)["state"] == "ended")
    pid = program.state()["pid"]

    assert b"geheim" not in Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    assert "geheim" not in program.run("daemon", "status").stdout + program.run("daemon", "status", "--json").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("daemon", "cancel"),
        ("daemon", "status", "no such job"),
        ("daemon", "wait"),
        ("daemon", "output", "no such job"),
        ("daemon", "status", "--follow"),
        ("daemon", "status", "--timeout", "1"),
        ("daemon", "stop", "x"),
        ("run", "--warm", "--stderr", "hi"),
    ],
)
def test_a_wrong_command_line_is_refused(program: Program, arguments: tuple[str, ...]) -> None:
    assert program.run(*arguments).returncode == 2
