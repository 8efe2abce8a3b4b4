"""A case that waited longer than the limit is repeated once, alone and with more time, and only that run decides."""

from __future__ import annotations

import asyncio

import pytest

from duologue.conformance.agent_cases import handshake, messages, prompts
from duologue.conformance.agent_check import SECONDS, AgentCheck
from duologue.conformance.case import CheckCase
from duologue.conformance.checked_agent import AgentRun
from duologue.conformance.client_cases.table import CASES as CLIENT_CASES
from duologue.conformance.client_side.client_check import ClientCheck
from duologue.conformance.raw_peer import BARRIER
from duologue.conformance.report import Report
from duologue.conformance.reports.document import make_document
from duologue.conformance.verdicts import CaseResult, RuleVerdict
from duologue.conformance.wait_limit import REPEATED_FACTOR
from duologue.testing.faults.clock import VirtualClock
from duologue.transports.base import Transport
from tests.conformance import faulty_agent_methods, faulty_agent_turns
from tests.conformance.faulty_agent import HANDLERS, PROFILE, Connection, FaultyAgent
from tests.conformance.in_process_client import InProcessClient, run_in_virtual_time

assert HANDLERS, (faulty_agent_methods, faulty_agent_turns)  # they register the methods

SLOW = SECONDS * 1.5
"""Seconds that an agent on a busy machine takes to start: longer than the limit, shorter than that of a repetition."""
STUCK = SECONDS * REPEATED_FACTOR * 100


class SlowAgent(FaultyAgent):
    """An agent that reads nothing on some of its connections for a while.

    Args:
        delays: Seconds by number of the connection, from 1.
        later: Seconds on every other connection.

    Attributes:
        connections: How many there were.
        most_open: How many were open at the same time, of those that were not delayed.
    """

    def __init__(self, delays: dict[int, float], later: float = 0.0) -> None:
        super().__init__()
        self.connections = 0
        self.most_open = 0
        self._open = 0
        self._delays = delays
        self._later = later

    async def serve(self, transport: Transport) -> None:
        self.connections += 1
        delay = self._delays.get(self.connections, self._later)
        await asyncio.sleep(delay)
        self._open += not delay
        self.most_open = max(self.most_open, self._open)
        try:
            await Connection(self, transport).run()
        finally:
            self._open -= not delay


async def check(
    agent: FaultyAgent, *cases: CheckCase[AgentRun], versions: list[int] | None = None, jobs: int = 2
) -> Report:
    """Check an agent with some cases on a virtual clock."""
    with VirtualClock():
        made = AgentCheck(agent, profile=PROFILE, versions=versions, jobs=jobs, cases=cases)
        return await made.run()


def verdicts(report: Report, case: str) -> set[RuleVerdict]:
    [result] = [each for each in report.cases if each.case == case]
    return {each.verdict for each in result.judgements}


@pytest.mark.parametrize("later", [0.0, SLOW])
async def test_a_case_that_was_too_slow_once_is_decided_by_its_repetition(later: float) -> None:
    agent = SlowAgent({1: 0.0, 2: SLOW}, later)  # the first connection finds out how to check the agent
    report = await check(agent, prompts.turn, versions=[1])

    assert agent.connections == 3
    assert verdicts(report, "turn") == {RuleVerdict.PASS}
    assert [(each.is_repeated, each.has_timed_out) for each in report.cases] == [(True, False)]
    assert report.failures() == []


async def test_a_case_in_time_is_not_repeated() -> None:
    agent = SlowAgent({}, SECONDS / 2)
    report = await check(agent, prompts.turn, versions=[1])

    assert agent.connections == 2
    assert [(each.is_repeated, each.has_timed_out) for each in report.cases] == [(False, False)]
    assert make_document(report).notes() == []


async def test_an_agent_that_never_answers_is_asked_twice_only() -> None:
    agent = SlowAgent({1: 0.0}, STUCK)
    report = await check(agent, prompts.turn, versions=[1])

    assert agent.connections == 3
    assert RuleVerdict.PASS not in verdicts(report, "turn")
    assert [(each.is_repeated, each.has_timed_out) for each in report.cases] == [(True, True)]


async def test_a_request_that_is_not_answered_in_either_run_fails_its_rule() -> None:
    agent = FaultyAgent("garbage ignored")
    report = await check(agent, messages.parse_error, versions=[1])

    assert [each.rule.number for each in report.failures()] == [10]
    assert report.cases[0].is_repeated


@pytest.mark.parametrize("slow", [1, 2])
async def test_a_slow_start_hides_no_version(slow: int) -> None:
    report = await check(SlowAgent({slow: SLOW}), prompts.turn)

    assert report.versions == (1, 2)


class SilentOnce(FaultyAgent):
    """An agent that leaves requests of unknown methods without a response on its first connection."""

    def __init__(self) -> None:
        super().__init__("unknown methods ignored")
        self._connections = 0

    async def serve(self, transport: Transport) -> None:
        self._connections += 1
        self.fault = self.fault if self._connections == 1 else ""
        await super().serve(transport)


async def test_an_agent_that_once_was_too_slow_for_an_unknown_method_is_checked_like_any_other() -> None:
    report = await check(SilentOnce(), messages.parse_error, versions=[1])
    [case] = make_document(report).cases

    assert any(BARRIER in frame.text for frame in case.wire)
    assert report.failures() == []


async def test_repeated_cases_run_one_at_a_time() -> None:
    cases = (prompts.turn, messages.parse_error, messages.batch, handshake.second_initialize, prompts.second_prompt)
    agent = SlowAgent(dict.fromkeys(range(2, 2 + len(cases)), STUCK))
    report = await check(agent, *cases, versions=[1], jobs=len(cases))

    assert all(each.is_repeated and not each.has_timed_out for each in report.cases)
    assert agent.most_open == 1
    assert report.failures() == []


async def test_progress_counts_a_repeated_case_once_and_the_report_names_it() -> None:
    shown: list[CaseResult] = []
    with VirtualClock():
        cases = (prompts.turn, messages.parse_error)
        agent = SlowAgent({2: SLOW})
        made = AgentCheck(agent, profile=PROFILE, versions=[1], jobs=1, cases=cases, on_case=shown.append)
        report = await made.run()

    assert sorted(each.case for each in shown) == ["parse-error", "turn"]
    [note] = make_document(report).notes()
    assert note.endswith("the second run decides: turn (version 1); none of them waited in vain again")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("slow_start", [0, 1, 2])
def test_a_client_that_was_too_slow_once_is_decided_by_the_repetition(version: int, slow_start: int) -> None:
    cases = [each for each in CLIENT_CASES if each.name in ("one-turn", "unknown-messages", "invalid-messages")]
    client = InProcessClient(version, "", [SLOW if number == slow_start else 0.0 for number in range(3)])
    report = run_in_virtual_time(ClientCheck(client, versions=(version,), cases=cases))

    assert client.starts == len(cases) + 1
    assert {verdict for each in cases for verdict in verdicts(report, each.name)} == {RuleVerdict.PASS}
    assert [each.is_repeated for each in report.cases].count(True) == 1
