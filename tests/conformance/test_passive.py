"""The passive rules judge what a peer did, not what a case left undone."""

from __future__ import annotations

import pytest

from duologue.conformance.case import CaseRun
from duologue.conformance.passive import UNANSWERED, judge_passively
from duologue.conformance.verdicts import RuleVerdict
from duologue.conformance.wait_limit import WaitLimit

REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}'
OTHER = b'{"jsonrpc":"2.0","id":2,"method":"_duologue/unknown","params":{}}'


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_a_request_without_a_response_is_a_finding_only_if_the_case_waited_for_it(is_waited_for: bool) -> None:
    run = CaseRun("a case", (), 1, WaitLimit(1.0))
    connection = run.log.connect()
    number = connection.add("to_agent", REQUEST)
    connection.add("to_agent", OTHER)
    if is_waited_for:
        connection.note_unanswered(number)
    errors = judge_passively(run, "agent")

    failed = [each.frames for each in run.judgements if (each.rule, each.verdict) == (UNANSWERED, RuleVerdict.FAIL)]
    assert errors == []
    assert failed == ([(number,)] if is_waited_for else [])


def test_a_response_that_came_is_no_finding_even_if_a_wait_was_cut_off() -> None:
    run = CaseRun("a case", (), 1, WaitLimit(1.0))
    connection = run.log.connect()
    connection.note_unanswered(connection.add("to_agent", REQUEST))
    connection.add("to_client", b'{"jsonrpc":"2.0","id":1,"result":{"sessions":[]}}')
    judge_passively(run, "agent")

    assert UNANSWERED not in {each.rule for each in run.judgements if each.verdict is RuleVerdict.FAIL}
