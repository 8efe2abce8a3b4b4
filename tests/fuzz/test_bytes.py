"""The rule of all code that reads a peer's bytes: a message, or one of our named errors; nothing else, no hang.

The same targets as `make fuzz`, which is guided by coverage and runs for longer; and, here only, a whole connection
with every method of the protocol behind it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.runtime.handlers import Context, Handlers
from duologue.schema import v1, v2
from duologue.schema.base import Method, Notification
from scripts.fuzz import METHODS, TARGETS
from tests.faults.ends import SIDES, Side, open_end
from tests.jsonrpc.frames import broken_frames, frames, json_values

NAMES = sorted({method.name for method in METHODS})
FIELDS = ["sessionId", "prompt", "update", "path", "content", "cwd", "_meta", "toolCall", "options", "protocolVersion"]


def written(members: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


near_params = st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=5) | json_values
near_messages = st.builds(
    written,
    st.fixed_dictionaries(
        {"method": st.sampled_from(NAMES), "params": near_params},
        optional={"id": st.integers(0, 5) | st.text(max_size=3)},
    ),
)
any_frame = frames() | broken_frames() | near_messages | st.binary(max_size=40)
streams = st.lists(any_frame | st.sampled_from([b"", b"\r", b" ", b"x" * 100]), max_size=6).map(b"\n".join)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@given(prefix=st.binary(max_size=2), stream=streams)
def test_a_fuzz_target_raises_no_unexpected_exception(
    target: Callable[[bytes], None], prefix: bytes, stream: bytes
) -> None:
    target(prefix + stream)


def everything() -> Handlers:
    """Return handlers of every method of both versions that answer with an empty result."""

    async def nothing(context: Context, params: Any) -> Any:
        """Done at once, so that it is answered before what came after it."""

    handlers = Handlers()
    for version in (v1, v2):
        for constant in vars(version).values():
            if isinstance(constant, Method | Notification):
                handlers.on(cast("Method[Any, Any]", constant))(nothing)
    return handlers


async def live_through(side: Side, incoming: list[bytes]) -> list[dict[str, Any]]:
    """Return the responses of an end to these frames; check that it is alive and has answered every request."""
    async with open_end(side, everything()) as end:
        for frame in incoming:
            end.wire.send(frame)
        await end.probe()
        for answer in end.received:
            if answer["id"] is not None and not str(answer["id"]).startswith(("probe", "hello")):
                end.expect_response(answer["id"])
        return end.received


@pytest.mark.parametrize("side", SIDES)
@given(incoming=st.lists(any_frame, max_size=8))
def test_a_connection_survives_any_frames_and_answers_each_in_the_form_of_the_protocol(
    side: Side, incoming: list[bytes]
) -> None:
    answers = asyncio.run(live_through(side, incoming))

    assert len(answers) <= len(incoming) + 3  # a greeting and two probes
    for answer in answers:
        assert answer["jsonrpc"] == "2.0"
        assert ("result" in answer) != ("error" in answer)
        if "error" in answer:
            assert isinstance(answer["error"]["code"], int)
            assert isinstance(answer["error"]["message"], str)
