"""Conversion to version 1 and back loses nothing: every golden vector survives the round trip."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from duologue.conversation.content import TextContent
from duologue.conversation.settings import ConfigOption, Option
from duologue.conversation.updates import (
    CompactionUpdate,
    MessageUpdate,
    PlanEntry,
    PlanUpdate,
    StateUpdate,
    TerminalOutputChunk,
    TerminalPart,
    TerminalUpdate,
    ToolCallUpdate,
    ToolContentChunk,
    UnrecognizedUpdate,
    Update,
    UsageUpdate,
    decode_update,
)
from duologue.protocol.shared.session_setup import session_params_from_wire, session_params_to_wire
from duologue.protocol.v1 import content, updates
from duologue.protocol.v1 import session_setup as setup
from duologue.protocol.v1.settings import config_option_from_wire, config_option_to_wire, modes_from_wire, modes_to_wire
from duologue.schema import v1
from duologue.schema.codec import decode, encode
from tests.wire.vectors import vectors


def wires(definition: str) -> list[Any]:
    return [json.loads(bytes(vector.wire)) for _, vector in vectors("v1") if vector.definition == definition]


def canonical(value: Any) -> Any:
    return msgspec.json.decode(encode(value))


@pytest.mark.parametrize("wire", wires("SessionNotification"), ids=lambda wire: wire["update"]["sessionUpdate"])
def test_every_update_means_the_same_after_the_round_trip(wire: Any) -> None:
    read = decode(v1.SessionNotification, msgspec.json.encode(wire)).update
    meaning = updates.update_from_wire(read)

    assert canonical(updates.update_to_wire(meaning)) == canonical(read)


@pytest.mark.parametrize("wire", wires("SessionNotification"), ids=lambda wire: wire["update"]["sessionUpdate"])
def test_every_update_can_be_stored(wire: Any) -> None:
    meaning = updates.update_from_wire(decode(v1.SessionNotification, msgspec.json.encode(wire)).update)

    assert decode_update(msgspec.json.encode(meaning)) == meaning


def test_an_unknown_update_is_written_back_unchanged() -> None:
    wire = {"sessionUpdate": "from_the_future", "answer": [1, {"a": None}]}
    frame = msgspec.json.encode({"sessionId": "s", "update": wire})
    meaning = updates.update_from_wire(decode(v1.SessionNotification, frame).update)

    assert meaning == UnrecognizedUpdate(tag="from_the_future", fields=wire)
    assert canonical(updates.update_to_wire(meaning)) == wire


@pytest.mark.parametrize("wire", wires("ContentBlock"), ids=lambda wire: str(wire.get("type")))
def test_every_block_means_the_same_after_the_round_trip(wire: Any) -> None:
    frame = msgspec.json.encode({"sessionId": "s", "prompt": [wire]})
    (block,) = decode(v1.PromptRequest, frame).prompt

    assert canonical(content.to_wire(content.from_wire(block))) == canonical(block)


@pytest.mark.parametrize("definition", ["NewSessionRequest", "LoadSessionRequest", "ForkSessionRequest"])
def test_session_params_mean_the_same_after_the_round_trip(definition: str) -> None:
    for wire in wires(definition):
        request = decode(getattr(v1, definition), msgspec.json.encode(wire))
        meaning = session_params_from_wire(v1, request, content.blocks_from_wire)
        written = session_params_to_wire(v1, meaning, content.blocks_to_wire)

        assert written["cwd"] == request.cwd
        assert written["additional_directories"] == request.additional_directories
        assert canonical(written["mcp_servers"]) == canonical(request.mcp_servers)
        assert canonical(written["system_prompt"]) == canonical(request.system_prompt)


def test_capabilities_mean_the_same_after_the_round_trip() -> None:
    for wire in wires("InitializeRequest"):
        caps = decode(v1.InitializeRequest, msgspec.json.encode(wire)).client_capabilities
        meaning = setup.client_capabilities_from_wire(caps)
        assert setup.client_capabilities_from_wire(setup.client_capabilities_to_wire(meaning)) == meaning
    for wire in wires("InitializeResponse"):
        answer = decode(v1.InitializeResponse, msgspec.json.encode(wire))
        features = setup.agent_capabilities_from_wire(answer.agent_capabilities)
        assert setup.agent_capabilities_from_wire(setup.agent_capabilities_to_wire(features)) == features
        methods = [setup.auth_method_to_wire(setup.auth_method_from_wire(method)) for method in answer.auth_methods]
        assert canonical(methods) == canonical(answer.auth_methods)


def test_modes_and_options_mean_the_same_after_the_round_trip() -> None:
    seen = 0
    for wire in wires("NewSessionResponse"):
        answer = decode(v1.NewSessionResponse, msgspec.json.encode(wire))
        assert canonical(modes_to_wire(modes_from_wire(answer.modes))) == canonical(answer.modes)
        for option in answer.config_options or []:
            assert canonical(config_option_to_wire(config_option_from_wire(option))) == canonical(option)
            seen += 1
    assert seen


@pytest.mark.parametrize(
    ("update", "wire"),
    [
        (StateUpdate(state="idle", stop_reason="end_turn"), None),
        (TerminalUpdate(terminal_id="x", output=b"hi"), None),
        (TerminalOutputChunk(terminal_id="x", data=b"hi"), None),
        (MessageUpdate(role="agent", message_id="m", content=[TextContent("hi")]), None),
        (
            ToolContentChunk(tool_call_id="t", content=[TerminalPart("x")]),
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "t",
                "content": [{"type": "terminal", "terminalId": "x"}],
            },
        ),
        (
            ToolCallUpdate(tool_call_id="t", status="paused", can_cancel=True),
            {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress"},
        ),
        (
            ToolCallUpdate(tool_call_id="t", status="cancelled"),
            {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "failed"},
        ),
        (
            PlanUpdate(entries=[PlanEntry("a"), PlanEntry("b", "cancelled")]),
            {"sessionUpdate": "plan", "entries": [{"content": "a", "priority": "medium", "status": "pending"}]},
        ),
        (UsageUpdate(used=1, size=2), {"sessionUpdate": "usage_update", "used": 1, "size": 2}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_updates_that_only_version_2_has_are_written_in_the_nearest_form_or_not_at_all(
    update: Update, wire: Any
) -> None:
    written = updates.update_to_wire(update)

    assert (None if written is None else canonical(written)) == wire


def test_the_meta_of_a_compaction_replaces_the_previous_one() -> None:
    wire = {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed", "_meta": {"k": 1}}
    frame = msgspec.json.encode({"sessionId": "s", "update": wire})
    meaning = updates.update_from_wire(decode(v1.SessionNotification, frame).update)

    assert meaning == CompactionUpdate(compaction_id="c", status="completed", meta={"k": 1}, replaces_meta=True)


def test_an_unknown_option_from_version_2_is_written_with_the_id_field_of_version_1() -> None:
    setting = ConfigOption(
        setting_id="h", name="Heat", kind="_dial", other={"type": "_dial", "configId": "h", "name": "H"}
    )

    assert canonical(config_option_to_wire(setting)) == {"type": "_dial", "name": "H", "id": "h"}


def test_a_select_option_without_a_value_is_written_with_an_empty_one() -> None:
    setting = ConfigOption(setting_id="m", name="M", options=[Option("a", "A")])

    assert canonical(config_option_to_wire(setting))["currentValue"] == ""


def test_an_unknown_option_keeps_its_category() -> None:
    wire = {"type": "_dial", "id": "h", "name": "H", "category": "model"}
    frame = {"sessionUpdate": "config_option_update", "configOptions": [wire]}
    option = config_option_from_wire(decode(v1.ConfigOptionUpdate, msgspec.json.encode(frame)).config_options[0])

    assert (option.category, option.other) == ("model", wire)
