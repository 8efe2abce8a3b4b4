"""All cases that play an agent for a client."""

from __future__ import annotations

from duologue.conformance.case import CheckCase
from duologue.conformance.client_cases import (
    cancellation,
    elicitation,
    files,
    framing,
    handshake,
    messages,
    prompts,
    session_setup,
    terminals,
    updates,
)
from duologue.conformance.client_side.checked_client import ClientCaseRun

CASES: tuple[CheckCase[ClientCaseRun], ...] = (
    *prompts.CASES,
    *messages.CASES,
    *handshake.CASES,
    *session_setup.CASES,
    *cancellation.CASES,
    *files.CASES,
    *terminals.CASES,
    *elicitation.CASES,
    *updates.CASES,
    *framing.CASES,
)
"""All cases, in the order in which they run; the first one finds out about the client."""
