"""Content, file changes, session parameters and config options, and how updates are stored."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from duologue.conversation.content import ImageContent, TextContent, as_content, text_of
from duologue.conversation.session_setup import SessionParams, StdioMcpServer
from duologue.conversation.settings import ConfigOption, Mode, Modes, Option, OptionGroup
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import (
    FileChange,
    MessageChunk,
    SettingsUpdate,
    ToolCallUpdate,
    decode_update,
)


def test_a_string_is_accepted_as_text_content() -> None:
    image = ImageContent("aGk=", "image/png")

    assert as_content("hi") == TextContent("hi")
    assert as_content(image) is image
    assert text_of([TextContent("a"), image, TextContent("b")]) == "ab"


@pytest.mark.parametrize("value", [None, b"bytes", 5, {"type": "text", "text": "hi"}])
def test_a_value_that_is_neither_string_nor_content_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match=f"expected a string or content, got {type(value).__name__}"):
        as_content(value)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (FileChange("/a", None, "new"), "add"),
        (FileChange("/a", "old", "new"), "modify"),
        (FileChange("/a", "old", None), "delete"),
        (FileChange("/a", "same", "same", operation="move", old_path="/b"), "move"),
    ],
)
def test_the_operation_of_a_change_follows_from_its_texts_unless_it_is_set(change: FileChange, kind: str) -> None:
    assert change.kind == kind


def test_an_update_is_stored_and_read_back_and_damage_is_an_error() -> None:
    update = ToolCallUpdate(tool_call_id="t", title=None, content=[FileChange("/a", new_text="x")], raw_input={"a": 1})

    assert decode_update(msgspec.json.encode(update)) == update
    with pytest.raises(ValueError, match="enum value"):
        decode_update(b'{"update":"message_chunk","role":"nobody"')


def test_the_roots_of_a_session_begin_with_its_directory() -> None:
    server = StdioMcpServer(name="s", command="/bin/s")
    setup = SessionParams(cwd="/a", additional_directories=["/b"], mcp_servers=[server])

    assert setup.roots == ["/a", "/b"]


def test_the_repr_of_a_server_hides_its_secrets() -> None:
    server = StdioMcpServer(name="s", command="/bin/s", env={"TOKEN": "hush"})

    assert repr(server) == "StdioMcpServer(name='s', command='/bin/s', args=[], env={'TOKEN': '…'}, meta=None)"


def test_a_config_option_has_all_its_choices_and_can_get_another_value() -> None:
    small, large = Option("s", "Small"), Option("l", "Large")
    setting = ConfigOption(setting_id="m", name="Model", options=[small], groups=[OptionGroup("g", "More", [large])])

    assert setting.choices == [small, large]
    assert setting.with_value("l").value == "l"


def test_modes_come_from_the_config_option_if_there_is_one() -> None:
    transcript = Transcript()
    transcript.modes = Modes("old", [Mode("old", "Old")])
    assert transcript.modes_shown is transcript.modes

    options = [Option("ask", "Ask"), Option("code", "Code", "Does not ask")]
    setting = ConfigOption(setting_id="mode", name="Mode", category="mode", value="code", options=options)
    transcript.apply(SettingsUpdate(settings=[setting]))
    assert transcript.modes_shown == Modes("code", [Mode("ask", "Ask"), Mode("code", "Code", "Does not ask")])


def test_an_unchanged_message_is_built_once() -> None:
    transcript = Transcript()
    transcript.apply(MessageChunk(role="agent", content=TextContent("a")))

    assert transcript.messages[0] is transcript.messages[0]
