"""A check of an agent on an SDK finds what is known of it, and nothing else."""

from __future__ import annotations

import pytest

from duologue.conformance.verdicts import RuleVerdict
from duologue.trace.rules.catalogue import CATALOGUE
from scripts.conformance_page import OF_PROGRAM, OF_SDK, PAGE
from tests.interop import peers
from tests.interop.conformance.agents import AGENTS, KNOWN, SdkAgent

LONGEST_SECONDS = 300


@pytest.mark.interop
@pytest.mark.timeout(LONGEST_SECONDS, func_only=True)
@pytest.mark.parametrize("agent", AGENTS, ids=lambda each: each.name)
async def test_a_check_of_an_agent_on_an_sdk_finds_what_is_known_and_nothing_else(agent: SdkAgent) -> None:
    try:
        report = await agent.check()
    except peers.Absent as reason:
        pytest.skip(f"{agent.sdk}: {reason}")
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
