"""A check that is repeated has the same verdicts, however busy the machine is.

In the suite twice; a hundred times on a busy machine with

    DUOLOGUE_CHAOS_FACTOR=100 pytest tests/conformance/test_repetition.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from duologue.builtin.agent import builtin_agent
from duologue.client.target import Target
from duologue.conformance.agent_cases.table import CASES
from duologue.conformance.agent_check import AgentCheck
from duologue.conformance.profile import read_profile
from duologue.conformance.verdicts import RuleVerdict

PROCESS = [sys.executable, "-m", "duologue", "agent", "--v2"]
OF_PROCESSES = [each for each in CASES if each.transports == ("stdio",)]
"""Cases that make sense for a process only."""


def target_of(transport: str) -> Target:
    """Return the built-in agent, in memory or as a process."""
    return PROCESS if transport == "stdio" else builtin_agent(protocol_versions=(1, 2), unstable=True)


async def verdicts(transport: str) -> dict[tuple[int, int], RuleVerdict]:
    """Check the built-in agent in both versions; return the verdict of each rule in each version."""
    cases = OF_PROCESSES if transport == "stdio" else CASES
    profile = read_profile("builtin")
    report = await AgentCheck(target_of(transport), profile=profile, versions=[1, 2], jobs=4, cases=cases).run()
    assert not report.harness_errors
    return {(each.rule.number, each.version): each.verdict for each in report.results}


@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("transport", ["memory", "stdio"])
async def test_a_check_that_is_repeated_has_the_same_verdicts(
    transport: str, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    count = max(2, chaos_factor)
    record_property("count", count)
    first = await verdicts(transport)
    assert RuleVerdict.FAIL not in first.values()
    for _ in range(count - 1):
        assert await verdicts(transport) == first
