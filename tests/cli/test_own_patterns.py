"""`[recordings] redact` of the configuration file, in every command that records."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from duologue.client.connect import connect
from tests.cli.program import SECONDS, duologue, environment
from tests.cli.test_lists import configure
from tests.cli.test_serve import BUILTIN, served

OWN = "[recordings]\nredact = ['emp-\\d+']\n"


def test_own_patterns_hold_for_run_chat_and_tap(tmp_path: Path) -> None:
    configure(tmp_path, OWN).chmod(0o600)
    line = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"x":"emp-17"}}\n'
    duologue(
        tmp_path, "run", "/echo of emp-17 and hidden-by-name", "--record", "run.acp", "--env", "K_TOKEN=hidden-by-name"
    )
    duologue(tmp_path, "chat", "--record", "chat.acp", stdin="/echo emp-18\n")
    duologue(
        tmp_path,
        "tap",
        "-o",
        "tap.acp",
        "--env",
        "K_TOKEN=emp-abcdefg",
        "--",
        "sh",
        "-c",
        "cat; echo $K_TOKEN",
        stdin=line,
    )

    for name in ("run", "chat", "tap"):
        text = (tmp_path / f"{name}.acp").read_text()
        assert "•••" in text
        assert "emp-" not in text
        assert "hidden-by-name" not in text


async def test_own_patterns_hold_for_a_server(tmp_path: Path) -> None:
    configure(tmp_path, OWN).chmod(0o600)
    async with served(tmp_path, "--record", "kept", "--", *BUILTIN) as server:
        async with (
            asyncio.timeout(SECONDS),
            connect(server.url, env=environment(tmp_path)) as agent,
            agent.new_session(tmp_path) as session,
        ):
            await session.prompt("/echo emp-17")
        await server.stop()
    (path,) = (tmp_path / "kept").iterdir()

    assert "/echo •••" in path.read_text()
    assert "emp-17" not in path.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("redact = ['(']", "[recordings] redact: '(' is not a regular expression"),
        ("redact = ['(a+)+']", "[recordings] redact: the pattern '(a+)+' repeats a repetition"),
        ("redact = 'x'", "[recordings] must have nothing but `redact`, a list of regular expressions"),
        ("redakt = []", "[recordings] must have nothing but `redact`"),
    ],
)
def test_a_wrong_pattern_is_reported_and_nothing_is_recorded(tmp_path: Path, text: str, message: str) -> None:
    configure(tmp_path, f"[recordings]\n{text}\n").chmod(0o600)
    checked = duologue(tmp_path, "doctor", "--agent", "builtin", "--json")
    assert checked.returncode == 1
    assert any(message in finding["detail"] for finding in map(json.loads, checked.stdout.splitlines()))

    for words in (["run", "hello", "--record", "run.acp"], ["tap", "-o", "run.acp", "--", "true"]):
        ended = duologue(tmp_path, *words)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert message in ended.stderr
        assert not (tmp_path / "run.acp").exists()
    assert duologue(tmp_path, "run", "hello").returncode == 0, "nothing is recorded, and so no pattern is needed"
