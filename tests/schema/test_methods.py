"""The constants of the methods, and the properties that the runtime needs of each."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from duologue.schema import v1, v2
from duologue.schema.base import Method, Notification
from duologue.schema.v1.stable import STABLE as STABLE_1
from duologue.schema.v2.stable import STABLE as STABLE_2
from tests.schema.official import ALL, MODULES, Official

VERSIONS = pytest.mark.parametrize("module", [v1, v2], ids=["v1", "v2"])


@pytest.mark.parametrize("official", ALL, ids=str)
def test_every_method_of_the_schema_has_a_constant(official: Official) -> None:
    marked = {
        (body["x-method"], body["x-side"], name)
        for name, body in official.document["$defs"].items()
        if "x-method" in body
    }
    module = MODULES[official.version]
    ours: set[tuple[str, str, str]] = set()
    for call in official.schema.calls:
        constant = getattr(module, call.constant)
        assert (constant.name, constant.side) == (call.name, call.side)
        ours.add((call.name, call.side, call.params))
        if isinstance(constant, Method):
            ours.add((call.name, call.side, str(call.result)))

    assert ours == marked


@VERSIONS
def test_the_tables_find_a_constant_by_its_name(module: Any) -> None:
    for name in module.__dict__:
        constant = getattr(module, name)
        if isinstance(constant, Method):
            assert module.METHODS[constant.name] is constant
        if isinstance(constant, Notification):
            assert module.NOTIFICATIONS[constant.name] is constant


def test_the_names_are_those_of_the_wire_in_capitals() -> None:
    assert v1.FS_READ_TEXT_FILE.name == "fs/read_text_file"
    assert v1.CANCEL_REQUEST.name == "$/cancel_request"
    assert v2.TOOL_CALL_CANCEL.name == "tool_call/cancel"


@VERSIONS
def test_a_message_that_is_both_request_and_notification_has_two_constants(module: Any) -> None:
    request: Method[Any, Any] = module.MCP_MESSAGE
    notification: Notification[Any] = module.MCP_MESSAGE_NOTIFICATION

    assert request.name == notification.name == "mcp/message"
    assert (request.side, notification.side) == ("client", "agent")
    assert module.PROXY_SUCCESSOR.name == module.PROXY_SUCCESSOR_NOTIFICATION.name == "proxy/successor"


@VERSIONS
def test_methods_that_open_or_end_something_are_answered_in_order(module: Any) -> None:
    def names(flag: str) -> set[str]:
        return {method.name for method in module.METHODS.values() if getattr(method, flag)}

    loading = {"session/load"} if module is v1 else set[str]()
    assert names("in_order") == {
        "session/new", "session/prompt", "session/resume", "session/fork", "session/close", *loading
    }  # fmt: skip
    assert names("opens_session") == {"session/new", "session/fork"}
    assert names("ends_session") == {"session/close", "session/delete"}


@VERSIONS
def test_only_cancel_notifications_are_urgent(module: Any) -> None:
    urgent = {notification.name for notification in module.NOTIFICATIONS.values() if notification.urgent}

    assert urgent == {"session/cancel", "$/cancel_request"}


@pytest.mark.parametrize(("module", "stable", "count"), [(v1, STABLE_1, 25), (v2, STABLE_2, 18)])
def test_the_stability_table_agrees_with_the_constants(module: Any, stable: Any, count: int) -> None:
    constants = [*module.METHODS.values(), *module.NOTIFICATIONS.values()]

    assert {constant.name for constant in constants if constant.stable} == stable.methods
    assert len(stable.methods) == count


def test_the_stability_table_is_complete() -> None:
    assert "session/fork" not in STABLE_1.methods
    assert "SubagentUpdate" not in STABLE_1.definitions
    assert "usage" not in STABLE_1.fields["PromptResponse"]
    assert "stopReason" in STABLE_1.fields["PromptResponse"]
    assert "plan_update" not in STABLE_1.members["SessionUpdate"]
    assert "plan_update" in STABLE_2.members["SessionUpdate"]
    assert STABLE_2.members["StateUpdate"] == {"running", "idle", "requires_action"}
    assert "error" in STABLE_2.values["IdleStopReason"]


def test_one_version_does_not_load_the_other() -> None:
    """Starting an agent must not load classes that it does not use."""
    code = "import sys, duologue.schema.v1; print('duologue.schema.v2' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert found.stdout == "False\n"
