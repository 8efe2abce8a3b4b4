"""Limits of a case: its time and its budget."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
VariableName = Annotated[str, Meta(pattern=r"\A[A-Za-z_]\w*\Z")]


class Timeouts(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Times in seconds after which a trial is ended.

    Attributes:
        start: Until the agent has started and opened a session; then the trial is missing, not failed.
        turn: For each prompt.
        trial: For all prompts together; the time of a simulated user is not part of it.
        grade: For each grader, unless it has its own.
    """

    start: Seconds = 60.0
    turn: Seconds = 600.0
    trial: Seconds = 1800.0
    grade: Seconds = 300.0


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Amounts that an agent may use up in one trial; one that exceeds them has exhausted its budget.

    Attributes:
        cost: Money, as the agent reports it.
        currency: ISO 4217 code of the cost.
        tokens: Tokens of all turns, as the agent reports them.
        tool_calls: Number of tool calls.
        prompts: Number of prompts, those of a simulated user included.
    """

    cost: Annotated[float, Meta(gt=0)] | None = None
    currency: Annotated[str, Meta(pattern=r"\A[A-Z]{3}\Z")] = "USD"
    tokens: Count | None = None
    tool_calls: Count | None = None
    prompts: Count | None = None
