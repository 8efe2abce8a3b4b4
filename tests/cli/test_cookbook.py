"""The programs of the cookbook run as a reader would run them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.program import environment

EXAMPLES = Path(__file__).parents[2] / "examples"
BESIDE_PYTHON = str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"]
SECONDS = 60.0


class ScriptedService:
    """A chat service whose user reads each post before writing the next message."""

    def __init__(self, messages: list[tuple[str, str]]) -> None:
        self._messages = messages
        self._posted = asyncio.Event()
        self._posted.set()
        self.posts: list[tuple[str, str]] = []

    async def next_message(self) -> tuple[str, str] | None:
        await asyncio.wait_for(self._posted.wait(), SECONDS)
        self._posted.clear()
        return self._messages.pop(0) if self._messages else None

    async def post(self, thread: str, text: str) -> None:
        self.posts.append((thread, text))
        self._posted.set()


@pytest.mark.parametrize(("answer", "written"), [("yes", True), ("yes, but later", False), ("no", False)])
async def test_the_bot_asks_in_the_thread_before_it_writes(tmp_path: Path, answer: str, written: bool) -> None:
    service = ScriptedService([("ops", "/echo hello"), ("web", "/write notes.md milk"), ("web", answer)])
    await runpy.run_path(str(EXAMPLES / "chat_bot.py"))["Bot"](service, tmp_path).run()

    assert [thread for thread, _ in service.posts] == ["ops", "web", "web"]
    assert "You said: hello" in service.posts[0][1]
    assert service.posts[1][1] == f"May I? edit: {tmp_path / 'notes.md'} (yes/no)"
    assert (tmp_path / "notes.md").exists() is written


async def test_the_bot_answers_a_failed_turn_and_goes_on(tmp_path: Path) -> None:
    service = ScriptedService([("ops", "/refuse"), ("ops", "/echo again")])
    await runpy.run_path(str(EXAMPLES / "chat_bot.py"))["Bot"](service, tmp_path).run()

    assert service.posts[0][1].startswith("Sorry: ")
    assert "You said: again" in service.posts[1][1]


def post(url: str, body: dict[str, Any]) -> tuple[str, str]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=SECONDS) as response:
        return response.headers["content-type"], response.read().decode()


@contextlib.contextmanager
def web_application(tmp_path: Path) -> Generator[int]:
    """Run the application as its page says; its log is checked at the end."""
    command = [sys.executable, "-m", "uvicorn", "web_app:app", "--port", "0"]
    env = environment(tmp_path, AGENT="builtin", TMPDIR=str(tmp_path))
    with subprocess.Popen(command, cwd=EXAMPLES, env=env, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            line = next((line for line in server.stderr if "running on" in line), "")
            yield int(re.findall(r"http://127.0.0.1:(\d+)", line)[0])
        finally:
            server.send_signal(signal.SIGINT)
            log = server.communicate(timeout=SECONDS)[1]
    assert "Traceback" not in log


def test_the_web_application_streams_an_answer_and_names_an_incomplete_one(tmp_path: Path) -> None:
    with web_application(tmp_path) as port:
        kind, answer = post(f"http://127.0.0.1:{port}/ask", {"question": "/echo hello"})
        _, refusal = post(f"http://127.0.0.1:{port}/ask", {"question": "/refuse"})

    assert kind == "text/plain; charset=utf-8"
    assert answer.startswith("You said: hello")
    assert refusal.endswith("[the answer is incomplete: refusal]\n")


def test_the_web_application_ends_the_session_of_a_reader_that_goes_away(tmp_path: Path) -> None:
    body = b'{"question": "/slow 600"}'
    head = f"POST /ask HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    with web_application(tmp_path) as port:
        with socket.create_connection(("127.0.0.1", port), SECONDS) as reader:
            reader.sendall(head.encode() + body)
            assert reader.recv(100).startswith(b"HTTP/1.1 200")
            assert list(tmp_path.glob("tmp*")) != []
        deadline = time.monotonic() + SECONDS
        while list(tmp_path.glob("tmp*")) and time.monotonic() < deadline:
            time.sleep(0.05)

        assert list(tmp_path.glob("tmp*")) == []


def test_the_review_step_of_the_action_reviews_a_change(tmp_path: Path) -> None:
    steps = yaml.safe_load((EXAMPLES / "review.yml").read_text("utf-8"))["jobs"]["review"]["steps"]
    script = next(step["run"] for step in steps if step.get("name") == "Review")
    identity = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = environment(tmp_path, PATH=BESIDE_PYTHON, AGENT="duologue agent", BASE="main", **identity)
    repo = tmp_path / "repo"
    repo.mkdir()
    prepare = """
        git init --quiet --initial-branch main && echo old > file && git add file && git commit --quiet -m one
        git switch --quiet -c change && echo new > file && git commit --quiet -a -m two
    """
    for shell in (prepare, script):
        ended = subprocess.run(
            ["bash", "-e", "-c", shell], cwd=repo, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert ended.returncode == 0, ended.stderr

    review = (repo / "review.md").read_text("utf-8")
    assert "Review this change." in review
    assert "-old\n+new" in review
    assert (repo / "review.acp").exists()
