"""Outcomes: the kinds of failures, and which of them count as the agent's own result."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from duologue import errors
from duologue.evals.record.outcomes import (
    OUTCOMES,
    OutcomeKind,
    TrialOutcome,
    outcome_of_error,
    outcome_of_stop,
)


def test_every_kind_of_outcome_has_a_rule() -> None:
    assert set(OUTCOMES) == set(get_args(OutcomeKind))


def test_the_table_in_the_reference_has_every_kind() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "evals" / "formats.md").read_text("utf-8")
    rows = [
        f"| `{kind}` | {rule.meaning} | {rule.retry.replace('nothing', '')} | {'yes' if rule.grade else ''} "
        f"| {'yes' if rule.counts else ''} |".replace("|  |", "| |").replace("|  |", "| |")
        for kind, rule in OUTCOMES.items()
    ]

    assert [row for row in rows if row not in page] == []


def test_only_what_the_agent_did_itself_counts() -> None:
    counted: set[OutcomeKind] = {kind for kind, rule in OUTCOMES.items() if rule.counts}

    assert counted == {"completed", "agent_exhausted_budget", "agent_refused"}
    assert all(rule.grade and rule.retry == "nothing" for kind, rule in OUTCOMES.items() if kind in counted)


@pytest.mark.parametrize(
    ("stop_reason", "failure", "denied", "kind"),
    [
        ("end_turn", None, False, "completed"),
        ("end_turn", None, True, "completed"),
        ("end_turn", "usage limit reached", False, "provider_failed"),
        ("max_tokens", None, False, "agent_exhausted_budget"),
        ("max_turn_requests", None, False, "agent_exhausted_budget"),
        ("refusal", None, False, "agent_refused"),
        ("cancelled", None, False, "cancelled"),
        ("cancelled", None, True, "permission_denied"),
        ("something_new", None, False, "unclassified"),
        (None, None, False, "unclassified"),
    ],
)
def test_a_stop_reason_leads_to_an_outcome(
    stop_reason: str | None, failure: str | None, denied: bool, kind: OutcomeKind
) -> None:
    assert outcome_of_stop(stop_reason, failure=failure, denied=denied).kind == kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.ModelFailed("quota"), "provider_failed"),
        (errors.AuthenticationRequired("log in"), "auth_required"),
        (errors.TurnTimeout("late", stop_reason="cancelled"), "agent_exhausted_budget"),
        (errors.TurnIncomplete("no", stop_reason="refusal"), "agent_refused"),
        (errors.TurnIncomplete("no", stop_reason="max_tokens"), "agent_exhausted_budget"),
        (errors.TurnIncomplete("no", stop_reason="cancelled", denied=["edit"]), "permission_denied"),
        (errors.ConnectionLost("gone"), "agent_crashed"),
        (errors.ProtocolViolation("what"), "protocol_error"),
        (errors.InternalError("oops"), "protocol_error"),
        (errors.CommandNotFound("no such command"), "sandbox_failed"),
        (OSError("disk full"), "harness_failed"),
        (ZeroDivisionError(), "unclassified"),
    ],
)
def test_an_error_leads_to_an_outcome(error: BaseException, kind: OutcomeKind) -> None:
    found = outcome_of_error(error)

    assert found == TrialOutcome(kind=kind, reason=found.reason, detail=str(error))
