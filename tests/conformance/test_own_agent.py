"""The agent of this library keeps every rule that a case can provoke."""

from __future__ import annotations

import pytest

from duologue.builtin.agent import builtin_agent
from duologue.conformance.agent_cases import auth, handshake, messages, stored_sessions
from duologue.conformance.agent_check import AgentCheck
from duologue.conformance.profile import read_profile
from duologue.conformance.verdicts import RuleVerdict
from duologue.transports.server.run import ServerAddress, serve

LIMIT = 200.0
"""Seconds that a single wait may take: this agent answers everything, so that only a busy machine makes them pass."""


@pytest.mark.parametrize("version", [1, 2])
async def test_the_built_in_agent_keeps_every_rule(version: int) -> None:
    agent = builtin_agent(protocol_versions=(1, 2), unstable=True)
    report = await AgentCheck(agent, profile=read_profile("builtin"), versions=[version], limit=LIMIT).run()
    assert not report.harness_errors
    assert not [f"{each.rule.number}: {each.message}" for each in report.failures()]
    stdio_only = {3, 4, 181, 183, 184}
    unobserved = [
        f"{each.rule.number}: {each.message}"
        for each in report.results
        if each.rule.needs_case and each.verdict is RuleVerdict.NOT_OBSERVED and each.rule.number not in stdio_only
    ]
    assert not unobserved


async def test_the_login_of_the_built_in_agent_keeps_every_rule() -> None:
    agent = builtin_agent(login=True, protocol_versions=(1, 2), unstable=True)
    check = AgentCheck(agent, profile=read_profile("builtin"), versions=[1, 2], cases=[auth.login], limit=LIMIT)
    report = await check.run()
    assert not report.failures()
    verdicts = {(each.rule.number, each.version): each.verdict for each in report.results}
    assert {verdicts[rule, version] for rule in (40, 41, 43) for version in (1, 2)} == {RuleVerdict.PASS}


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_the_built_in_agent_on_a_server_keeps_the_rules_of_messages_and_sessions(scheme: str) -> None:
    app = builtin_agent(protocol_versions=(1, 2), unstable=True).asgi(token="secret")
    cases = [handshake.request_before_initialize, *messages.CASES, *stored_sessions.CASES]
    async with serve(app, ServerAddress()) as port:
        target = {"url": f"{scheme}://127.0.0.1:{port}/acp", "token": "secret"}
        check = AgentCheck(target, profile=read_profile("builtin"), versions=[1, 2], cases=cases, limit=LIMIT)
        report = await check.run()
    assert not report.harness_errors
    assert not [f"{each.rule.number}: {each.message}" for each in report.failures()]
