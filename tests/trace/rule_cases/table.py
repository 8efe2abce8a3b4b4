"""The table of cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tests.trace.recorded_run import RecordedRun, handshake

Case: TypeAlias = Callable[[bool], RecordedRun]
"""Returns a recording that keeps the rule, or with True one that breaks it."""

CASES: dict[tuple[int, str], Case] = {}
"""The cases by number of the rule and a word."""


def case(number: int, word: str = "") -> Callable[[Case], Case]:
    """Add a function to the cases of a rule."""

    def add(function: Case) -> Case:
        assert (number, word) not in CASES
        CASES[number, word] = function
        return function

    return add


def opened(version: int = 1, **options: Any) -> RecordedRun:
    return RecordedRun().opened(version, **options)


def shaken(
    version: int = 1, *, offer: dict[str, Any] | None = None, result: dict[str, Any] | None = None
) -> RecordedRun:
    """Return a handshake in which some members have other values; None leaves a member out."""
    params, answer = handshake(version)
    params |= offer or {}
    answer |= result or {}
    return RecordedRun().request(
        "to_agent",
        "initialize",
        {name: value for name, value in params.items() if value is not None},
        {name: value for name, value in answer.items() if value is not None},
    )


def ask(run: RecordedRun, method: str, result: Any, **params: Any) -> RecordedRun:
    """Add a request of the client about the session, and its response."""
    return run.request("to_agent", method, {"sessionId": run.session, **params}, result)


def call(run: RecordedRun, method: str, result: Any, **params: Any) -> RecordedRun:
    """Add a request of the agent about the session, and its response."""
    return run.request("to_client", method, {"sessionId": run.session, **params}, result)


def new(run: RecordedRun, result: dict[str, Any] | None = None, **params: Any) -> RecordedRun:
    """Add another session with these members of the params and of the result."""
    setup: dict[str, Any] = {"cwd": "/project", "mcpServers": [], **params}
    answer = {"sessionId": "s2", **(result or {})}
    return run.request("to_agent", "session/new", {k: v for k, v in setup.items() if v is not None}, answer)


def load(run: RecordedRun, method: str = "session/load", **params: Any) -> RecordedRun:
    """Add a request to load the session `old`, without its response."""
    run.session = "old"
    setup: dict[str, Any] = {"sessionId": "old", "cwd": "/project", "mcpServers": [], **params}
    return run.frame("to_agent", id="load", method=method, params=setup)


def cancel(run: RecordedRun) -> RecordedRun:
    return run.frame("to_agent", method="session/cancel", params={"sessionId": run.session})


def error(code: int) -> dict[str, Any]:
    return {"code": code, "message": "no"}
