"""Assertions about turns that show the transcript when they fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duologue.client.turn import ClientTurn
from duologue.conversation.items import ToolCall
from duologue.testing.transcript_lines import transcript_text


def assert_turn(
    turn: ClientTurn,
    *,
    stop_reason: str | None = "end_turn",
    text: str | None = None,
    tool_calls: Sequence[str | Mapping[str, Any]] | None = None,
) -> None:
    """Fail, with the transcript of the session, unless a turn ended as expected.

    Args:
        turn: A turn that has ended.
        stop_reason: Its stop reason; `None` for any.
        text: A part of its text.
        tool_calls: Its tool calls in order: the title of each, or its attributes, such as
            `{"kind": "delete", "status": "completed"}`.

    Raises:
        AssertionError: The turn ended otherwise.
    """
    problems: list[str] = []
    if stop_reason is not None and turn.stop_reason != stop_reason:
        problems.append(f"the turn ended with {turn.stop_reason or turn.error!r}, not {stop_reason!r}")
    if text is not None and text not in turn.text:
        problems.append(f"the text has no {text!r}: {turn.text!r}")
    if tool_calls is not None:
        problems += _compare(turn.tool_calls, tool_calls)
    if problems:
        raise AssertionError("\n".join([*problems, "transcript:", transcript_text(turn.session)]))


def _compare(calls: Sequence[ToolCall], expected: Sequence[str | Mapping[str, Any]]) -> list[str]:
    problems: list[str] = []
    if len(calls) != len(expected):
        problems.append(f"the turn has {len(calls)} tool calls, not {len(expected)}: {[call.title for call in calls]}")
    for number, (call, wanted) in enumerate(zip(calls, expected, strict=False), 1):
        fields = {"title": wanted} if isinstance(wanted, str) else wanted
        for name, value in fields.items():
            if (found := getattr(call, name)) != value:
                problems.append(f"tool call {number}: {name} is {found!r}, not {value!r}")
    return problems
