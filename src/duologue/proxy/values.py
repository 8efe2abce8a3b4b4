"""Values that the functions of a proxy receive and return, the same for both versions of the protocol."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, Self, TypeAlias

import msgspec
from msgspec import Raw, Struct, structs

from duologue.conversation.content import Content, TextContent, text_of
from duologue.conversation.updates import ToolCallUpdate
from duologue.jsonrpc.codec import Malformed
from duologue.jsonrpc.messages import Id
from duologue.protocol.values import PermissionOption
from duologue.recording.format import FrameDirection

MessageKind: TypeAlias = Literal["request", "notification", "response", "invalid"]


class _WithSession(Struct, rename="camel"):
    session_id: str | None = None


class WireMessage(Struct, kw_only=True, dict=True):
    """One message on its way.

    Attributes:
        direction: Its receiver: `to_agent` or `to_client`.
        kind: `request`, `notification`, `response`, or `invalid` for a line that is no message.
        frame: The message as it was received.
        method: Its method, or that of the request that it answers; empty if unknown.
        id: Id of a request or response.
        version: Version of the protocol: 1 until `initialize` was answered.
        problem: Why an invalid line is no message.
        is_error: True for a response that is an error.
    """

    direction: FrameDirection
    kind: MessageKind
    frame: bytes
    method: str = ""
    id: Id | None = None
    version: int = 1
    problem: Malformed | None = None
    is_error: bool = False
    content: Raw = Raw(b"null")
    """The JSON text of the params, or of the result."""

    @cached_property
    def params(self) -> Any:
        """The params of a request or notification, or the result of a response, as JSON."""
        return msgspec.json.decode(self.content)

    @property
    def session_id(self) -> str | None:
        """The session that a request or notification names."""
        try:
            return msgspec.json.decode(self.content, type=_WithSession).session_id
        except msgspec.MsgspecError:
            return None


class Prompt(Struct, frozen=True, kw_only=True):
    """The params of `session/prompt`.

    Attributes:
        session_id: Id of the session.
        content: Text, images and other content of the prompt.
    """

    session_id: str
    content: list[Content]

    @property
    def text(self) -> str:
        """All text of the prompt."""
        return text_of(self.content)

    def with_prefix(self, text: str) -> Self:
        """Return the same prompt with a text in front of its content, as a paragraph of its own."""
        return structs.replace(self, content=[TextContent(f"{text}\n\n"), *self.content])


class PermissionQuestion(Struct, frozen=True, kw_only=True):
    """The params of `session/request_permission`; only the options can be changed.

    Attributes:
        session_id: Id of the session.
        tool: The tool call, as far as this request describes it.
        options: What the user may choose.
    """

    session_id: str
    tool: ToolCallUpdate
    options: list[PermissionOption]


class RequestAnswer(Struct, frozen=True):
    """An answer in place of the receiver; made by `Proxy.answer`.

    Attributes:
        result: The result.
    """

    result: Any = None
