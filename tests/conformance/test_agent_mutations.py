"""A check of an agent finds each fault, and blames no other rule for it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from duologue.conformance.agent_cases.table import CASES
from duologue.conformance.agent_check import AgentCheck
from duologue.conformance.report import Report
from duologue.conformance.rule_selection import RuleSelection
from duologue.testing.faults.clock import VirtualClock
from duologue.trace.rules.catalogue import CATALOGUE
from scripts.conformance_mutations import PAGE, page
from tests.conformance import faulty_agent_methods, faulty_agent_turns
from tests.conformance.agent_mutations import HABITS, MUTATIONS, PROCESS_MUTATIONS, UNANSWERED, AgentMutation
from tests.conformance.faulty_agent import HANDLERS, PROFILE, FaultyAgent

ROOT = Path(__file__).parents[2]
PROCESS_SECONDS = 5.0
"""Limit of each wait for a faulty process; some faults are found only when it is over, first once, then repeated."""

assert HANDLERS, (faulty_agent_methods, faulty_agent_turns)  # they register the methods


HEAVY = {180, 182}
"""Rules whose cases move many megabytes: they run only for faults that they find."""


async def check(fault: str, version: int, rules: frozenset[int] = frozenset(HEAVY)) -> Report:
    """Check the faulty agent, with the cases that take long only if one of these rules is theirs."""
    cases = [each for each in CASES if not HEAVY.intersection(each.rules) or rules.intersection(each.rules)]
    with VirtualClock():
        return await AgentCheck(FaultyAgent(fault), profile=PROFILE, versions=[version], cases=cases).run()


@pytest.mark.parametrize("version", [1, 2])
async def test_an_agent_without_a_fault_keeps_every_rule(version: int) -> None:
    report = await check("", version)
    assert not report.harness_errors
    assert not {each.rule.number: each.message for each in report.failures()}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: f"v{each.version} {each.fault}")
async def test_a_fault_fails_exactly_its_rules(mutation: AgentMutation) -> None:
    report = await check(mutation.fault, mutation.version, mutation.fails)
    failed = {each.rule.number: each.message for each in report.failures()}
    assert mutation.fails <= set(failed) <= mutation.fails | mutation.also | {UNANSWERED}, failed


@pytest.mark.parametrize("habit", HABITS, ids=lambda each: f"v{each.version} {each.fault}")
async def test_a_habit_that_no_rule_forbids_fails_none(habit: AgentMutation) -> None:
    report = await check(habit.fault, habit.version)
    assert not {each.rule.number: each.message for each in report.failures()}


@pytest.mark.parametrize(("skipped", "failed"), [([], [18]), (["33"], [18]), (["18"], [])])
async def test_a_rule_that_only_traffic_shows_is_judged_if_it_alone_is_selected(
    skipped: list[str], failed: list[int]
) -> None:
    selection = RuleSelection.of(None, ["18", "47"], skipped)
    cases = [each for each in CASES if not HEAVY.intersection(each.rules)]
    with VirtualClock():
        agent = FaultyAgent("custom field in a session")
        report = await AgentCheck(agent, profile=PROFILE, versions=[1], selection=selection, cases=cases).run()

    assert [each.rule.number for each in report.failures()] == failed
    assert not [each.case for each in report.cases if "33" in skipped and each.case == "baseline-methods"]


async def check_process(fault: str, limit: float) -> Report:
    """Check the faulty agent as a process, with the cases that need one."""
    command = [sys.executable, "-m", "tests.conformance.faulty_agent_process", *fault.split()]
    target = {"command": command[0], "args": command[1:], "env": {"PYTHONPATH": str(ROOT)}}
    cases = [each for each in CASES if each.transports == ("stdio",)]
    return await AgentCheck(target, profile=PROFILE, versions=[1], cases=cases, limit=limit).run()


@pytest.mark.parametrize("habit", ["", "answers after the end of its stdin"])
async def test_a_process_without_a_fault_keeps_every_rule(habit: str) -> None:
    report = await check_process(habit, 60.0)
    assert not report.harness_errors
    assert not {each.rule.number: each.message for each in report.failures()}


async def test_faults_of_processes_fail_exactly_their_rules() -> None:
    """Check all of them at the same time: they are found by waiting."""
    checks = (check_process(each.fault, PROCESS_SECONDS) for each in PROCESS_MUTATIONS)
    for mutation, report in zip(PROCESS_MUTATIONS, await asyncio.gather(*checks), strict=True):
        failed = {each.rule.number: each.message for each in report.failures()}
        found = mutation.fails <= set(failed) <= mutation.fails | mutation.also | {UNANSWERED}
        assert found, (mutation.fault, failed)


def test_every_rule_with_a_case_has_a_fault() -> None:
    provoked = {rule for each in CASES for rule in each.rules}
    found = {rule for each in (*MUTATIONS, *PROCESS_MUTATIONS) for rule in each.fails}
    assert provoked - found == set()


def test_every_rule_that_needs_a_case_has_one() -> None:
    needed = {rule.number for rule in CATALOGUE.values() if rule.needs_case and rule.binds in ("agent", "both")}
    assert needed - {rule for each in CASES for rule in each.rules} == set()


def test_the_page_of_faults_is_current() -> None:
    assert PAGE.read_text("utf-8") == page()
