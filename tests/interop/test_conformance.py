"""A check of an agent on an SDK finds what is known of it, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from duologue.conformance.report import Report
from duologue.conformance.verdicts import RuleVerdict
from duologue.trace.rules.catalogue import CATALOGUE
from scripts.conformance_page import OF_PROGRAM, OF_SDK, PAGE
from tests.interop import peers
from tests.interop.conformance.agents import AGENTS, KNOWN, SdkAgent

LONGEST_SECONDS = 600
AT_ONCE = 4
"""Agents that are checked at the same time: most of the time a check waits for answers that do not come."""


@pytest.fixture(scope="module")
def reports(request: pytest.FixtureRequest) -> dict[str, Report | peers.Absent]:
    """Check the agents of all chosen tests; return the reports, or why there is none."""
    chosen = {each.name for each in request.session.items}
    slots = asyncio.Semaphore(AT_ONCE)

    async def check(agent: SdkAgent) -> Report | peers.Absent:
        async with slots, asyncio.timeout(LONGEST_SECONDS):
            try:
                return await agent.check()
            except peers.Absent as reason:
                return reason

    async def check_all() -> dict[str, Report | peers.Absent]:
        agents = [each for each in AGENTS if any(name.endswith(f"[{each.name}]") for name in chosen)]
        return dict(zip([each.name for each in agents], await asyncio.gather(*map(check, agents)), strict=True))

    return asyncio.run(check_all())


@pytest.mark.interop
@pytest.mark.timeout(LONGEST_SECONDS, func_only=True)
@pytest.mark.parametrize("agent", AGENTS, ids=lambda each: each.name)
def test_a_check_of_an_agent_on_an_sdk_finds_what_is_known_and_nothing_else(
    agent: SdkAgent, reports: dict[str, Report | peers.Absent]
) -> None:
    report = reports[agent.name]
    if isinstance(report, peers.Absent):
        pytest.skip(f"{agent.sdk} cannot be had here: {report}")
    assert not report.harness_errors
    assert not {each.rule.number: each.message for each in report.failures()}
    failed = {each.rule.number for each in report.results if each.verdict is RuleVerdict.FAIL}
    assert not {each.rule for each in agent.own_known.known} - failed, "the baseline lists what no longer fails"


def test_every_known_finding_has_a_cause_and_is_explained_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    for agent in AGENTS:
        assert agent.program in page
        for known in agent.known.known:
            assert known.reason.startswith((OF_SDK, OF_PROGRAM)), f"{agent.name}: rule {known.rule}"
        for known in agent.known.known:
            assert f"{known.rule} {CATALOGUE[known.rule].name}" in page
            assert known.reason.removeprefix(OF_SDK).removeprefix(OF_PROGRAM) in page


def test_every_baseline_belongs_to_an_agent() -> None:
    names = {name for agent in AGENTS for name in (agent.name, agent.shared)}
    assert {path.stem for path in KNOWN.glob("*.toml")} <= names
