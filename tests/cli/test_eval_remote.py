"""`duologue eval run` with agents that are reached over a socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.report.run_summary import read_run
from tests.cli.program import duologue
from tests.cli.test_serve import BUILTIN, served
from tests.evals.run.suites import GREET, WRITE, write_suite


@pytest.mark.parametrize(("scheme", "is_named"), [("ws", False), ("http", False), ("ws", True)])
async def test_an_agent_behind_a_url_is_evaluated_and_its_token_is_recorded_nowhere(
    tmp_path: Path, scheme: str, is_named: bool
) -> None:
    write_suite(tmp_path / "suite", GREET, WRITE)
    config = tmp_path / "config.toml"
    async with served(tmp_path, "--", *BUILTIN) as server:
        url, _, token = server.url.replace("ws:", f"{scheme}:").partition("#token=")
        config.write_text(f'[agents.there]\nurl = "{url}"\ntoken = "{token}"\n')
        agent = "far=there" if is_named else f"far={url}#token={token}"
        words = ["--agent", agent, "-n", "2", "-j", "2", "-o", "out"]
        ended = await asyncio.to_thread(
            duologue, tmp_path, "eval", "run", "suite/suite.toml", *words, DUOLOGUE_CONFIG=str(config)
        )

    assert ended.returncode == 0, ended.stderr
    run, records = read_run(tmp_path / "out"), list(RunDirectory.open(tmp_path / "out").records())
    assert [trial.passed for trial in run.trials()] == [True] * 4
    assert (run.manifest.agents[0].url, run.manifest.agents[0].command) == (url, [])
    assert {record.manifest().workspace.sandbox for record in records} == {"none"}
    assert {record.manifest().workspace.is_watched for record in records} == {False}
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert token
    assert [path for path in files if token.encode() in path.read_bytes()] == []


async def test_an_agent_behind_a_url_without_a_server_is_an_error_before_the_first_trial(tmp_path: Path) -> None:
    write_suite(tmp_path / "suite", GREET)
    async with served(tmp_path, "--", *BUILTIN) as server:
        url = server.url
        await server.stop()
    words = ["--agent", f"far={url}", "-o", "out"]
    ended = await asyncio.to_thread(duologue, tmp_path, "eval", "run", "suite/suite.toml", *words)

    assert ended.returncode == 1
    assert "the agent 'far' cannot be started" in ended.stderr
    assert url.partition("#token=")[2] not in ended.stderr
    assert not (tmp_path / "out").exists()
