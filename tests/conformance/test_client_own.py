"""The client of this project passes the cases for clients, on every transport and in both versions."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Literal

import pytest

from duologue.conformance.client_cases.table import CASES
from duologue.conformance.client_side.client_check import ClientCheck
from duologue.conformance.client_side.client_start import ClientCommand

COMMAND = [sys.executable, "-m", "duologue", "run", "hello", "--yes"]
EXAMPLES = Path(__file__).parents[2] / "examples"
CHOSEN = ("one-turn", "invalid-messages", "cancelled-turn")
"""Cases that a real process runs here; `duologue check client -- duologue run hello --yes -- {agent}` runs all."""


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("url", [None, "ws", "http"])
async def test_the_own_client_passes(
    url: Literal["ws", "http"] | None, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the client works in the directory of the check
    agent = ["--", "{agent}"] if url is None else ["--agent", "{agent}"]
    client = ClientCommand([*COMMAND, *(["--v2"] if version == 2 else []), *agent])
    cases = [case for case in CASES if case.name in CHOSEN]
    async with asyncio.timeout(240):
        report = await ClientCheck(client, versions=(version,), url=url, limit=60.0, jobs=2, cases=cases).run()

    assert report.harness_errors == []
    assert [(each.rule.number, each.message) for each in report.failures()] == []
    assert {10, 11, 12, 22, 80} <= {each.rule.number for each in report.results if each.verdict == "PASS"}


async def test_a_client_that_ends_because_of_an_error_leaves_no_request_unanswered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent cannot expect an answer to a request that it sends after the error."""
    monkeypatch.chdir(tmp_path)
    client = ClientCommand([sys.executable, str(EXAMPLES / "plain_client.py"), "hello", "{agent}"])
    cases = [case for case in CASES if case.name in ("one-turn", "unknown-error", "login-lost")]
    async with asyncio.timeout(240):
        report = await ClientCheck(client, versions=(1,), limit=60.0, cases=cases).run()

    verdicts = {each.rule.number: each.verdict for each in report.results}
    assert (verdicts[17], verdicts[42], verdicts[166]) == ("PASS", "PASS", "PASS")
