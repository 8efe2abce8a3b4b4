"""The turns of a script that are left, and the choice of the one that answers a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct

from duologue.testing.models.request import ModelRequest, mismatch
from duologue.testing.models.script import ModelTurn

MakeTurn: TypeAlias = Callable[[ModelRequest], "ModelTurn | str"]
"""A function that returns the turn for a request, for answers that depend on it."""

ScriptItem: TypeAlias = "ModelTurn | str | MakeTurn"
"""A turn; a text is a turn that is only this text."""


class NoTurn(Exception):
    """No turn of the script answers a request, or the one that does expects another request."""


class _Entry(Struct):
    number: int
    turn: ModelTurn
    make: MakeTurn | None
    used: int = 0

    @property
    def is_left(self) -> bool:
        return not self.turn.times or self.used < self.turn.times


class TurnQueue:
    """The turns of a script. A request is answered by the first turn whose `when` matches, else by the next one."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def add(self, items: Iterable[ScriptItem]) -> None:
        """Append turns."""
        for item in items:
            number = len(self._entries) + 1
            match item:
                case ModelTurn():
                    self._entries.append(_Entry(number, item, None))
                case str():
                    self._entries.append(_Entry(number, ModelTurn(item), None))
                case _:
                    self._entries.append(_Entry(number, ModelTurn(), item))

    @property
    def unused(self) -> list[int]:
        """The numbers of the turns that have not answered as often as they should; unlimited ones may answer none."""
        return [entry.number for entry in self._entries if entry.turn.times and entry.is_left]

    def take(self, request: ModelRequest, *, is_lenient: bool) -> ModelTurn:
        """Return the turn that answers a request, and count it as used.

        Raises:
            NoTurn: There is none, or it expects another request.
        """
        left = [entry for entry in self._entries if entry.is_left]
        entry = next((entry for entry in left if _is_for(entry.turn, request)), None)
        entry = entry or next((entry for entry in left if entry.turn.when is None), None)
        if entry is None:
            raise NoTurn(self._nothing_left(request, left))
        turn = entry.turn if entry.make is None else _made(entry.make, entry.number, request)
        found = None if turn.expect is None else mismatch(turn.expect, request)
        if found is not None:
            raise NoTurn(f"turn {entry.number} expects another request: {found}")
        if not is_lenient and turn.fault != "unknown_tool":
            _check_tools(turn, entry.number, request)
        entry.used += 1
        request.turn = entry.number
        return turn

    def _nothing_left(self, request: ModelRequest, left: list[_Entry]) -> str:
        reasons = [
            f"turn {entry.number}: {mismatch(entry.turn.when, request)}"
            for entry in left
            if entry.turn.when is not None
        ]
        others = "; ".join(reasons) or "none is left"
        return (
            f"the script has no turn for request {request.number} ({request.api}, last text of the user "
            f"{request.prompt[-200:]!r}, {len(request.tool_results)} tool results); "
            f"of {len(self._entries)} turns {others}"
        )


def _is_for(turn: ModelTurn, request: ModelRequest) -> bool:
    return turn.when is not None and mismatch(turn.when, request) is None


def _made(make: MakeTurn, number: int, request: ModelRequest) -> ModelTurn:
    try:
        made = make(request)
    except Exception as error:
        raise NoTurn(f"the function of turn {number} failed: {type(error).__name__}: {error}") from error
    return ModelTurn(made) if isinstance(made, str) else made


def _check_tools(turn: ModelTurn, number: int, request: ModelRequest) -> None:
    for call in turn.tools:
        if call.name not in request.tools:
            offered = ", ".join(request.tools) or "none"
            raise NoTurn(
                f"turn {number} calls the tool `{call.name}`, which the request does not offer (it offers {offered}); "
                "if that is intended, give the turn the fault `unknown_tool`"
            )
