"""The kinds of outcomes of a trial, and what each means: whether to try again, to grade, and to count.

A trial counts only if its outcome is the agent's own: it completed, exhausted its budget or refused. Every other kind
is a failure of something else; such a trial is missing, which is not the same as a score of 0.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from duologue import errors

OutcomeKind: TypeAlias = Literal[
    "completed", "agent_exhausted_budget", "agent_refused", "permission_denied", "sandbox_failed", "provider_failed",
    "harness_failed", "agent_crashed", "protocol_error", "auth_required", "verifier_failed", "cancelled",
    "unclassified",
]  # fmt: skip


class OutcomeRule(Struct, frozen=True, kw_only=True):
    """The consequences of an outcome.

    Attributes:
        retry: What may be tried again: the whole `trial`, only the `grade`, or `nothing`.
        grade: The record is graded.
        counts: The grade counts in scores; otherwise the trial is missing.
        meaning: What happened.
    """

    retry: Literal["trial", "grade", "nothing"]
    grade: bool
    counts: bool
    meaning: str


OUTCOMES: dict[OutcomeKind, OutcomeRule] = {
    "completed": OutcomeRule(
        retry="nothing", grade=True, counts=True, meaning="all prompts were answered and ended with `end_turn`"
    ),
    "agent_exhausted_budget": OutcomeRule(
        retry="nothing",
        grade=True,
        counts=True,
        meaning="the agent ran into a limit: time, tokens, requests, tool calls or cost",
    ),
    "agent_refused": OutcomeRule(
        retry="nothing", grade=True, counts=True, meaning="the agent ended a turn with `refusal`"
    ),
    "permission_denied": OutcomeRule(
        retry="nothing",
        grade=True,
        counts=False,
        meaning="the agent ended a turn early because a permission was rejected",
    ),
    "sandbox_failed": OutcomeRule(
        retry="trial", grade=False, counts=False, meaning="the workspace or the isolation could not be made"
    ),
    "provider_failed": OutcomeRule(
        retry="trial",
        grade=False,
        counts=False,
        meaning="the agent reports that its model or its provider failed, even if it says `end_turn`",
    ),
    "harness_failed": OutcomeRule(
        retry="trial", grade=False, counts=False, meaning="the program that runs the trial failed"
    ),
    "agent_crashed": OutcomeRule(
        retry="trial", grade=False, counts=False, meaning="the agent's process or connection ended before its turn"
    ),
    "protocol_error": OutcomeRule(
        retry="trial", grade=False, counts=False, meaning="the agent broke the protocol, or answered with an error"
    ),
    "auth_required": OutcomeRule(
        retry="nothing", grade=False, counts=False, meaning="the agent requires a login that was not given"
    ),
    "verifier_failed": OutcomeRule(
        retry="grade", grade=True, counts=False, meaning="the agent ended, and a grader could not decide"
    ),
    "cancelled": OutcomeRule(retry="nothing", grade=False, counts=False, meaning="the run was cancelled by its user"),
    "unclassified": OutcomeRule(retry="trial", grade=False, counts=False, meaning="none of the other kinds"),
}
"""Each kind of outcome and what follows from it."""

STOP_REASONS: dict[str, OutcomeKind] = {
    "end_turn": "completed",
    "max_tokens": "agent_exhausted_budget",
    "max_turn_requests": "agent_exhausted_budget",
    "refusal": "agent_refused",
    "cancelled": "cancelled",
}
"""The outcome that each stop reason of the protocol stands for."""

_ERRORS: tuple[tuple[type[BaseException], OutcomeKind], ...] = (
    (errors.ModelFailed, "provider_failed"),
    (errors.AuthenticationRequired, "auth_required"),
    (errors.TurnTimeout, "agent_exhausted_budget"),
    (errors.TurnStalled, "agent_exhausted_budget"),
    (errors.CrashLoop, "agent_crashed"),
    (errors.ConnectionLost, "agent_crashed"),
    (errors.SessionLost, "agent_crashed"),
    (errors.NotAnAgent, "protocol_error"),
    (errors.ProtocolViolation, "protocol_error"),
    (errors.MessageTooLarge, "protocol_error"),
    (errors.RequestError, "protocol_error"),
    (errors.InitializeTimeout, "agent_crashed"),
    (errors.StartError, "sandbox_failed"),
    (errors.DuologueError, "harness_failed"),
    (OSError, "harness_failed"),
)
"""Errors and their outcomes; the first class that fits decides."""


class TrialOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the agent's part of a trial ended.

    Attributes:
        kind: Kind of the outcome; `OUTCOMES` has its consequences.
        reason: A word for the cause, such as the stop reason, `timeout`, `cost` or the class of an error.
        detail: What happened, for people.
    """

    kind: OutcomeKind
    reason: str = ""
    detail: str = ""

    @property
    def rule(self) -> OutcomeRule:
        """Its consequences."""
        return OUTCOMES[self.kind]


def outcome_of_stop(stop_reason: str | None, *, failure: str | None = None, denied: bool = False) -> TrialOutcome:
    """Return the outcome of a turn that ended.

    Args:
        stop_reason: The stop reason of the turn.
        failure: Why the model failed, if the agent reports that although it ended with `end_turn`.
        denied: A permission was rejected in this turn.
    """
    reason = stop_reason or ""
    if failure is not None:
        return TrialOutcome(kind="provider_failed", reason=reason, detail=failure)
    if reason == "cancelled" and denied:
        return TrialOutcome(kind="permission_denied", reason=reason)
    return TrialOutcome(kind=STOP_REASONS.get(reason, "unclassified"), reason=reason)


def outcome_of_error(error: BaseException) -> TrialOutcome:
    """Return the outcome of a trial that an error ended."""
    detail = str(error)[: errors.MAX_DETAIL]
    if isinstance(error, errors.TurnIncomplete) and not isinstance(error, errors.TurnTimeout):
        stopped = outcome_of_stop(error.stop_reason, denied=bool(error.denied))
        return TrialOutcome(kind=stopped.kind, reason=stopped.reason, detail=detail)
    kinds: list[OutcomeKind] = [kind for cls, kind in _ERRORS if isinstance(error, cls)]
    kind: OutcomeKind = kinds[0] if kinds else "unclassified"
    reason = "timeout" if kind == "agent_exhausted_budget" else type(error).__name__
    return TrialOutcome(kind=kind, reason=reason, detail=detail)
