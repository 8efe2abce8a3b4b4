"""The client's public classes show a user what a user needs, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from duologue import connect, sync
from duologue.builtin.agent import builtin_agent

# Change these lists on purpose, with a line in the changelog: every name here is a promise.
AGENT = {
    *("info", "version", "capabilities", "login_methods", "connection", "is_closed"),
    *("on_session", "on_subagent"),
    *("new_session", "load_session", "resume_session", "fork_session"),
    *("list_sessions", "delete_session", "archive_session", "unarchive_session"),
    *("login", "logout", "login_status", "providers", "set_provider", "disable_provider", "call", "notify"),
}
SESSION = {
    *("id", "agent", "cwd", "state", "is_open", "is_busy", "is_cancelling", "is_interrupted", "lost_reason"),
    *("transcript", "title", "commands", "usage", "settings", "modes", "models", "background", "location"),
    *("background_tasks", "stop_task", "children"),
    *("late_updates", "last_message_text", "usage_state", "restore_usage"),
    *("prompt", "ask", "cancel", "cancel_tool_call", "cancel_terminal", "watch", "events", "fork", "aclose"),
    *("set_mode", "set_model", "set_option", "set_title", "status"),
}
TURN = {
    *("session", "prompt", "cancel", "steer", "is_over", "is_cancelling"),
    *("text", "tool_calls", "plan", "usage", "stop_reason", "error", "meta", "is_truncated", "denied", "check"),
}


def shown(value: object) -> set[str]:
    """Return the names that completion in an editor or a shell offers."""
    return {name for name in dir(value) if not name.startswith("_")}


async def test_the_asynchronous_classes_show_exactly_these_names(tmp_path: Path) -> None:
    async with connect(builtin_agent()) as agent, agent.new_session(tmp_path) as session:
        turn = await session.prompt("hello")

        assert (shown(agent), shown(session), shown(turn)) == (AGENT, SESSION, TURN)


def test_the_blocking_classes_show_the_same_except_for_what_an_event_loop_needs(tmp_path: Path) -> None:
    with sync.connect(builtin_agent()) as agent, agent.new_session(tmp_path) as session:
        turn = session.prompt("hello").wait()

        assert shown(agent) == AGENT - {"connection", "on_session", "on_subagent"} | {"close"}
        assert shown(session) == SESSION - {"agent", "aclose"} | {"close"}
        assert shown(turn) == TURN - {"session"} | {"wait"}


@pytest.mark.parametrize("cls", [sync.BlockingAgent, sync.BlockingSession, sync.BlockingTurn])
def test_every_blocking_method_has_a_docstring(cls: type) -> None:
    assert [name for name in shown(cls) if callable(getattr(cls, name)) and not getattr(cls, name).__doc__] == []
