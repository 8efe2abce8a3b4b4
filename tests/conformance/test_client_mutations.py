"""The cases for clients are sharp: each fault of a client is found, by exactly the rules that are about it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from duologue.conformance.client_cases.table import CASES
from duologue.conformance.client_side.client_check import ClientCheck
from duologue.conformance.client_side.client_start import ClientCommand
from duologue.conformance.report import Report
from duologue.conformance.verdicts import RuleVerdict
from duologue.trace.rules.catalogue import CATALOGUE
from tests.conformance import faulty_client
from tests.conformance.client_faults import FAULTS
from tests.conformance.in_process_client import check_in_process

PROGRAM = [sys.executable, str(Path(faulty_client.__file__))]
PLANTED = [(fault, version) for fault in FAULTS for version in FAULTS[fault].versions]


def _failed(report: Report) -> dict[int, str]:
    return {each.rule.number: each.message for each in report.failures()}


@pytest.mark.parametrize("version", [1, 2])
def test_a_client_without_a_fault_passes_every_rule_that_has_a_case(version: int) -> None:
    report = check_in_process(version, "")

    with_case = {rule for case in CASES if version in case.versions for rule in case.rules}
    verdicts = {each.rule.number: (each.verdict, each.message) for each in report.results}
    with_case &= set(verdicts)
    assert report.harness_errors == []
    assert _failed(report) == {}
    assert {rule: verdicts[rule] for rule in with_case if verdicts[rule][0] is not RuleVerdict.PASS} == {}


@pytest.mark.parametrize(("fault", "version"), PLANTED)
def test_a_fault_is_found_by_its_rules_and_by_no_other(fault: str, version: int) -> None:
    report = check_in_process(version, fault)

    failed, planted = _failed(report), FAULTS[fault]
    assert report.harness_errors == []
    assert planted.rules <= set(failed), f"not found; {failed}"
    assert set(failed) <= planted.rules | planted.also, failed


def test_every_rule_with_a_case_has_a_fault() -> None:
    missing = {
        (rule, version)
        for case in CASES
        for rule in case.rules
        for version in case.versions
        if version in CATALOGUE[rule].versions
        and not any(rule in fault.rules and version in fault.versions for fault in FAULTS.values())
    }
    assert missing == set()


def test_every_rule_that_a_client_can_break_on_the_wire_has_a_case() -> None:
    wanted = {
        (rule.number, version)
        for rule in CATALOGUE.values()
        for version in rule.versions
        if rule.needs_case and rule.binds in ("client", "both")
    }
    assert wanted - {(rule, version) for case in CASES for rule in case.rules for version in case.versions} == set()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("fault", ["", "unknown-method-accepted"])
async def test_a_fault_of_a_real_process_is_found(
    fault: str, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the client works in the directory of the check
    client = ClientCommand([*PROGRAM, str(version), fault or "none", "{agent}"])
    wanted = [case for case in CASES if case.name in ("one-turn", "unknown-messages", "cancelled-turn", "split-lines")]
    async with asyncio.timeout(240):
        report = await ClientCheck(client, fault, versions=(version,), cases=wanted).run()

    assert report.harness_errors == []
    assert set(_failed(report)) == ({13} if fault else set())
