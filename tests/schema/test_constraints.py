"""Checks that a class makes in its constructor."""

from __future__ import annotations

import pytest

from duologue.schema import v1, v2
from duologue.schema.codec import encode


def test_an_integer_over_64_bits_is_rejected_by_the_constructor() -> None:
    assert v1.UsageUpdate(used=2**64 - 1, size=0).used == 2**64 - 1
    with pytest.raises(ValueError, match="out of range"):
        v1.UsageUpdate(used=2**64, size=0)


def test_an_elicitation_needs_a_session_or_a_request() -> None:
    schema = v1.ElicitationSchema()

    assert v1.ElicitationFormMode(message="m", requested_schema=schema, request_id=None).request_id is None
    assert v1.ElicitationFormMode(message="m", requested_schema=schema, session_id="s", request_id=1).session_id == "s"
    with pytest.raises(ValueError, match="needs sessionId or requestId"):
        v1.ElicitationFormMode(message="m", requested_schema=schema)


def test_an_elicitation_of_v2_needs_exactly_one_of_session_and_request() -> None:
    assert v2.ElicitationUrlMode(message="m", elicitation_id="e", url="u", request_id=1).session_id is None
    for scope in ({}, {"session_id": "s", "request_id": 1}):
        with pytest.raises(ValueError, match="needs either sessionId or requestId"):
            v2.ElicitationUrlMode(message="m", elicitation_id="e", url="u", **scope)  # type: ignore[arg-type]  # a bag of both


def test_equal_messages_are_written_equally_however_they_were_built() -> None:
    terse = v1.InitializeResponse(protocol_version=1)
    wordy = v1.InitializeResponse(
        protocol_version=1,
        agent_capabilities=v1.AgentCapabilities(prompt_capabilities=v1.PromptCapabilities(image=False)),
        auth_methods=[],
    )

    assert terse == wordy
    assert encode(terse) == encode(wordy) == b'{"protocolVersion":1}'
