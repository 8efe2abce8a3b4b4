"""The judge of these tests can say no."""

from __future__ import annotations

import pytest

from tests.agent.wire_validator import WireValidator

FINE = b'{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}'
UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan"%s}}}'


def validated(*frames: bytes) -> WireValidator:
    validator = WireValidator()
    validator("out", b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{}}')
    for frame in frames:
        validator("in", frame)
    return validator


def test_messages_that_the_schema_allows_have_no_findings() -> None:
    assert validated(UPDATE % b',"entries":[]', FINE).complaints == []


@pytest.mark.parametrize(
    "frames",
    [
        [b"printed"],
        [b"\xff"],
        [FINE, FINE],
        [FINE.replace(b"1,", b'"1",')],
        [FINE.replace(b"2.0", b"1.0")],
        [FINE.replace(b"end_turn", b"tired")],
        [FINE.replace(b'"stop', b'"extra":1,"stop')],
        [FINE.replace(b'"result"', b'"error":{},"result"')],
        [UPDATE % b""],
        [UPDATE.replace(b"session/update", b"session/nonsense")],
        [UPDATE.replace(b'"method"', b'"id":1,"method"') % b',"entries":[]'],
    ],
)
def test_messages_that_break_a_rule_are_reported(frames: list[bytes]) -> None:
    assert len(validated(*frames).complaints) == 1
