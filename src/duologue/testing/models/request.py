"""A request to a model, the same for every API; and whether it matches a description."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from duologue.conversation.content import JsonObject
from duologue.testing.message_pattern import difference
from duologue.testing.models.script import Api, ModelToolCall, RequestPattern, Texts

CHARS_PER_TOKEN = 4
"""The estimate of tokens: about right for English text, and the same on every machine."""

Outcome = Literal["answering", "answered", "abandoned", "rejected"]
Role = Literal["user", "assistant"]


class ModelToolResult(Struct, frozen=True):
    """The result of a tool that a request brings.

    Attributes:
        id: The id of the tool call.
        text: The text of the result.
        is_error: The tool failed; only Anthropic's API says so.
    """

    id: str
    text: str
    is_error: bool = False


class ModelMessage(Struct, frozen=True):
    """A message of a request.

    Attributes:
        role: `user` or `assistant`; results of tools belong to `user`.
        text: Its text.
        tool_calls: The tool calls of an assistant's message.
        tool_results: The results of tools.
    """

    role: Role
    text: str = ""
    tool_calls: list[ModelToolCall] = []
    tool_results: list[ModelToolResult] = []


class ModelRequest(Struct, kw_only=True, eq=False):
    """A request that the server received, without keys.

    Attributes:
        number: Its number, from 1 on.
        api: The API: `chat` or `responses` of OpenAI, `messages` of Anthropic.
        model: The name of the model.
        system: The system prompt.
        messages: The messages, in the form that is common to all APIs; a system prompt is not one of them.
        tools: The names of the tools that it offers.
        is_streamed: The answer is to be streamed.
        body: The JSON body.
        headers: The headers, without those that authenticate.
        turn: The number of the turn that answers it, from 1 on; `None` if there is none.
        outcome: `answering` until the answer has ended; `abandoned` if the client left before; `rejected` if no turn
            answers it.
    """

    api: Api
    model: str
    system: str
    messages: list[ModelMessage]
    tools: list[str]
    is_streamed: bool
    body: JsonObject
    headers: dict[str, str] = {}
    number: int = 0
    turn: int | None = None
    outcome: Outcome = "answering"

    @property
    def prompt(self) -> str:
        """The last text of the user."""
        texts = (message.text for message in reversed(self.messages) if message.role == "user" and message.text)
        return next(texts, "")

    @property
    def tool_results(self) -> list[ModelToolResult]:
        """The results of the tools that the last answer called."""
        found: list[ModelToolResult] = []
        for message in reversed(self.messages):
            if message.role == "assistant":
                break
            found[:0] = message.tool_results
        return found

    @property
    def text(self) -> str:
        """The system prompt and all messages, tool calls and results, one after the other."""
        return "\n".join([self.system, *map(_text_of, self.messages)])

    @property
    def tokens(self) -> int:
        """The estimated number of its tokens."""
        tools = msgspec.json.encode(self.body.get("tools", []))
        return max(1, (len(self.text) + len(tools)) // CHARS_PER_TOKEN)


def _text_of(message: ModelMessage) -> str:
    calls = [f"{call.name} {call.json}" for call in message.tool_calls]
    return "\n".join([message.text, *calls, *(result.text for result in message.tool_results)])


def mismatch(pattern: RequestPattern, request: ModelRequest) -> str | None:
    """Describe where a request differs from a description; `None` if it matches."""
    results = "\n".join(result.text for result in request.tool_results)
    found = (
        _missing("the last message of the user", request.prompt, pattern.prompt)
        or _missing("the result of the last tool calls", results, pattern.tool_result)
        or _missing("the system prompt", request.system, pattern.system)
        or _missing("the request", request.text, pattern.contains)
        or _disordered(pattern.history, request)
        or _wrong_tools(pattern, request)
    )
    if found is not None:
        return found
    if (present := next((text for text in _list(pattern.absent) if text in request.text), None)) is not None:
        return f"the request contains {present!r}, which must be absent"
    if pattern.messages is not None and len(request.messages) != pattern.messages:
        return f"the request has {len(request.messages)} messages, not {pattern.messages}"
    if pattern.model is not None and request.model != pattern.model:
        return f"the model is {request.model!r}, not {pattern.model!r}"
    if pattern.api is not None and request.api != pattern.api:
        return f"the API is {request.api}, not {pattern.api}"
    return None if pattern.body is None else difference(pattern.body, request.body, "the body")


def _missing(name: str, text: str, wanted: Texts) -> str | None:
    missing = next((each for each in _list(wanted) if each not in text), None)
    return None if missing is None else f"{name} is {_short(text)}, which does not contain {missing!r}"


def _disordered(history: list[str], request: ModelRequest) -> str | None:
    messages = iter(request.messages)
    for text in history:
        if not any(text in _text_of(message) for message in messages):
            return f"no message contains {text!r} at its position in the history {history}"
    return None


def _wrong_tools(pattern: RequestPattern, request: ModelRequest) -> str | None:
    offered = f"the tools offered are {', '.join(request.tools) or 'none'}"
    for name in pattern.tools:
        if name not in request.tools:
            return f"{offered}; `{name}` is missing"
    for name in pattern.tools_absent:
        if name in request.tools:
            return f"{offered}; `{name}` must be absent"
    return None


def _list(texts: Texts) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def _short(text: str) -> str:
    return repr(text if len(text) <= 300 else f"{text[:150]} … {text[-150:]}")
