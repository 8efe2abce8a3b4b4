"""The programs in the how-tos about remote agents run against a real server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import PROGRAM, environment
from tests.cli.test_serve import served

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(example: str, url: str, home: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / example), url]
    env = environment(home, AGENT_URL=url)
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=home, env=env)


@pytest.mark.parametrize(
    ("example", "output"), [("remote_client.py", "ended: end_turn"), ("notebook.py", "You said: hello from a notebook")]
)
async def test_the_examples_for_remote_agents_run(example: str, output: str, tmp_path: Path) -> None:
    async with served(tmp_path, "--", *PROGRAM, "agent") as server:
        ended = await asyncio.to_thread(run, example, server.url, tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert output in ended.stdout


def test_an_unreachable_url_is_reported_in_one_line(tmp_path: Path) -> None:
    ended = run("remote_client.py", "ws://127.0.0.1:1", tmp_path)

    assert ended.returncode == 1
    assert ended.stderr.startswith("no agent: cannot reach ws://127.0.0.1:1/acp")
