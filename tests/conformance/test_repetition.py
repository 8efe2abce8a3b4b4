"""A check that is repeated has the same verdicts, however busy the machine is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from duologue.builtin.agent import builtin_agent
from duologue.conformance.agent_check import AgentCheck
from duologue.conformance.profile import read_profile
from duologue.conformance.verdicts import RuleVerdict

LIMIT = 600.0
"""Seconds that a single wait may take: this agent answers everything, so that only a busy machine makes them pass."""


async def verdicts() -> dict[tuple[int, int], RuleVerdict]:
    """Check the built-in agent in both versions; return the verdict of each rule in each version."""
    agent = builtin_agent(protocol_versions=(1, 2), unstable=True)
    report = await AgentCheck(agent, profile=read_profile("builtin"), versions=[1, 2], jobs=4, limit=LIMIT).run()
    assert not report.harness_errors
    return {(each.rule.number, each.version): each.verdict for each in report.results}


@pytest.mark.timeout(14_400)
async def test_a_check_that_is_repeated_has_the_same_verdicts(
    chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    count = max(2, chaos_factor)
    record_property("count", count)
    first = await verdicts()
    for _ in range(count - 1):
        assert await verdicts() == first
