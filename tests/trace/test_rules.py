"""Each rule that recordings can show: kept and observed in one recording, broken in another."""

from __future__ import annotations

import pytest

from duologue.trace.frames import Tracer
from duologue.trace.rules.base import ProtocolRule
from duologue.trace.rules.catalogue import CATALOGUE
from duologue.trace.validation import RULES, RuleFinding, Validator
from tests.trace.recorded_run import RecordedRun
from tests.trace.rule_cases import connection, conversation, version_2
from tests.trace.rule_cases.table import CASES

FILES = (connection, conversation, version_2)
"""The modules that fill the table."""


def check(run: RecordedRun) -> tuple[list[RuleFinding], Validator]:
    validator = Validator()
    found = [finding for frame in Tracer().trace(run.entries) for finding in validator.check(frame)]
    return [*found, *validator.finish()], validator


def test_every_rule_that_recordings_can_show_has_a_class_and_a_case() -> None:
    passive = {number for number, rule in CATALOGUE.items() if rule.is_passive}

    assert {number for rule in RULES for number in rule.numbers} == passive
    assert {number for number, _ in CASES} == passive


@pytest.mark.parametrize("rule", RULES)
def test_a_class_says_what_it_is(rule: type[ProtocolRule]) -> None:
    assert rule.__doc__
    assert all(CATALOGUE[number].level != "MAY" for number in rule.numbers)


@pytest.mark.parametrize(("number", "word"), CASES)
def test_a_recording_that_keeps_the_rule_has_no_findings_and_observes_it(number: int, word: str) -> None:
    found, validator = check(CASES[number, word](False))

    assert found == []
    assert number in validator.observed


@pytest.mark.parametrize(("number", "word"), CASES)
def test_a_recording_that_breaks_the_rule_has_findings_of_it_alone(number: int, word: str) -> None:
    found, validator = check(CASES[number, word](True))
    rule = CATALOGUE[number]

    assert {finding.rule for finding in found} == {rule.name}
    assert len(found) == 1
    assert found[0].number == number
    assert found[0].level == ("error" if rule.level == "MUST" else "warning")
    assert rule.binds in ("both", found[0].side)
    assert found[0].frames
    assert found[0].side
    assert number in validator.observed_by(found[0].side)


@pytest.mark.parametrize(("number", "word"), CASES)
def test_a_rule_alone_finds_what_it_finds_with_the_others(number: int, word: str) -> None:
    alone = Validator([number])
    run = CASES[number, word](True)
    found = [finding for frame in Tracer().trace(run.entries) for finding in alone.check(frame)]

    assert [finding.number for finding in [*found, *alone.finish()]] == [number]
    assert alone.observed == {number}
