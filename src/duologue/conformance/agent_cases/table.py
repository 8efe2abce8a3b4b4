"""All cases that drive an agent."""

from __future__ import annotations

from duologue.conformance.agent_cases import (
    auth,
    cancellation,
    client_features,
    endings,
    framing,
    handshake,
    messages,
    permissions,
    prompts,
    session_list,
    session_setup,
    settings,
    stored_sessions,
)
from duologue.conformance.case import CheckCase
from duologue.conformance.checked_agent import AgentRun

CASES: tuple[CheckCase[AgentRun], ...] = (
    *handshake.CASES,
    *messages.CASES,
    *auth.CASES,
    *session_setup.CASES,
    *session_list.CASES,
    *stored_sessions.CASES,
    *prompts.CASES,
    *cancellation.CASES,
    *permissions.CASES,
    *client_features.CASES,
    *settings.CASES,
    *framing.CASES,
    *endings.CASES,
)
"""All cases, in the order in which they run."""
