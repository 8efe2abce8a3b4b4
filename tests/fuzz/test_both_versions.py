"""A client of version 1 and one of version 2 see the same conversation."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from tests.fuzz.conversations import conversations, converse, leading_agent

pytestmark = pytest.mark.timeout(120)

EVERYTHING: Any = [
    ("say", "one"),
    ("think", "two"),
    ("say", "three"),
    ("tool", ["a", "b"]),
    ("edit", (None, "new\n")),
    ("ask", "may I"),
    ("plan", ["x"]),
    ("compaction", "short"),
    ("mode", "code"),
    ("end", "refusal"),
]


@given(conversation=conversations)
@example(conversation=[EVERYTHING, [("echo", "x"), ("end", "error")], [("say", "after"), ("end", "end_turn")]])
@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_a_conversation_is_the_same_in_both_versions(conversation: Any) -> None:
    async def both() -> list[Any]:
        outcomes: list[Any] = []
        with tempfile.TemporaryDirectory() as directory:
            for version in (1, 2):
                agent = leading_agent(protocol_versions=(1, 2))
                allowed = Permissions(other="allow")
                async with (
                    asyncio.timeout(60),
                    connect(agent, protocol_versions=(version,), permissions=allowed) as remote,
                ):
                    assert remote.version == version
                    outcomes.append(await converse(remote, conversation, Path(directory)))
        return outcomes

    older, newer = asyncio.run(both())
    assert older == newer
