"""The public names of the agent side: exactly what `dir()` shows is what users need, and each name is documented."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest

from duologue import Agent, Session, Settings, Turn
from duologue.agent.command import CommandResult
from duologue.agent.files import Files
from duologue.agent.persistence import SavedState, SessionPersistence
from duologue.agent.providers import Providers
from duologue.agent.terminal import TerminalHandle
from duologue.agent.tool_call import ToolCallHandle
from duologue.conversation.session_setup import SessionParams
from duologue.protocol.shared.client_proxy import ClientProxy
from duologue.protocol.values import ClientCapabilities

# Change these lists on purpose, with a line in the changelog: every name is a promise.
NAMES: dict[type, list[str]] = {
    Agent: [
        *("asgi", "cli", "command", "extension", "info", "login", "login_in_terminal", "on_login_status", "on_logout"),
        *(
            "on_open",
            "on_prompt",
            "on_request",
            "on_steer",
            "persist_sessions",
            "run",
            "serve",
            "store",
            "use_providers",
        ),
    ],
    Session: [
        *("available_commands", "background", "call_extension", "client_capabilities", "client_info", "commit"),
        *("complete_elicitation", "cwd", "has_mcp", "history", "id", "mcp", "new_id", "notify_extension"),
        *("run_in_background", "save"),
        *("set_commands", "set_option", "settings", "setup", "state", "tasks", "title", "update", "update_subagent"),
    ],
    Turn: [
        *("absolute", "client_capabilities", "cwd", "elicit", "elicit_url", "files", "mcp", "message_id", "meta"),
        *(
            "notify",
            "plan",
            "plan_document",
            "prompt",
            "remove_plan",
            "report_compaction",
            "report_usage",
            "run",
            "say",
        ),
        *("send_compaction_chunk", "send_final_update", "send_user_message", "session", "set_option", "set_title"),
        *("settings", "steering", "stop", "take_steering", "terminal", "text", "think", "tokens", "tool", "update"),
    ],
    ToolCallHandle: [
        *("add_location", "diff", "fail", "is_cancelled", "kind", "name", "on_cancel", "request_permission"),
        *("request_permission_option", "show", "status", "tool_call_id", "turn", "update"),
    ],
    TerminalHandle: ["kill", "output", "part", "wait"],
    Files: ["read", "write"],
    CommandResult: ["exit_code", "ok", "output", "signal", "timed_out", "truncated"],
    Providers: ["disable", "headers", "known", "set"],
    Settings: ["change", "describe", "models", "modes", "values"],
}


@pytest.fixture
async def instances(tmp_path: Path) -> AsyncGenerator[dict[type, object]]:
    """One object of each class."""
    agent: Agent[Any] = Agent("x")
    params = SessionParams(cwd=str(tmp_path))
    session = Session("s", params, agent, cast("ClientProxy", _Client()), SessionPersistence("s"), SavedState())
    turn = Turn(session, [], None)
    yield {
        Agent: agent,
        Session: session,
        Turn: turn,
        ToolCallHandle: turn.tool("Read"),
        TerminalHandle: TerminalHandle,
        Files: turn.files,
        CommandResult: CommandResult(output=""),
        Providers: agent.use_providers(),
        Settings: Settings(),
    }
    await session._aclose()


class _Client:
    is_gone = False
    features = ClientCapabilities()
    info = None


@pytest.mark.parametrize("class_", NAMES, ids=lambda class_: class_.__name__)
async def test_a_class_shows_exactly_these_public_names(class_: type, instances: dict[type, object]) -> None:
    shown = {name for name in dir(instances[class_]) if not name.startswith("_")}

    assert sorted(shown) == sorted(NAMES[class_])


@pytest.mark.parametrize(
    ("class_", "name"),
    [(class_, name) for class_, names in NAMES.items() for name in names],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_public_name_is_documented(class_: type, name: str) -> None:
    """Methods and properties have a docstring; attributes are listed in the docstring of the class."""
    member = getattr(class_, name, None)
    documented = member.__doc__ if callable(member) or isinstance(member, property) else None
    listed = re.search(rf"^ {{8}}{name}: \S", class_.__doc__ or "", re.MULTILINE)

    assert documented or listed
