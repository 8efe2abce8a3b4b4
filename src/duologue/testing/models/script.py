"""The script of a model: its turns, as Python objects or as a TOML file. See `docs/reference/model-servers.md`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from duologue.conversation.content import JsonObject
from duologue.suggestion import suggestion
from duologue.testing.models.faults import MODEL_FAULTS

MAX_SECONDS = 600.0
"""Longest delay of a turn: every wait has an end."""

MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""Largest answer of the fault `giant`."""

Api = Literal["chat", "responses", "messages"]
StopReason = Literal["end", "tool_calls", "max_tokens", "stop_sequence", "content_filter", "refusal"]
Texts = str | list[str]


class RequestPattern(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A description of requests: all that is given must hold. Texts are found anywhere, in the given case.

    Attributes:
        prompt: Texts in the last message of the user.
        tool_result: Texts in the results of the tools that the last answer called.
        system: Texts in the system prompt.
        contains: Texts anywhere in the system prompt or the messages.
        absent: Texts that occur nowhere in them.
        history: Texts that occur in the messages in this order, each in a later message than the one before.
        messages: The number of messages, without the system prompt.
        tools: Names of tools that are offered, among others.
        tools_absent: Names of tools that are not offered.
        model: The name of the model.
        api: The API: `chat` or `responses` of OpenAI, `messages` of Anthropic.
        body: Members of the JSON body; other members do not matter, and `"*"` matches every value.
    """

    prompt: Texts = []
    tool_result: Texts = []
    system: Texts = []
    contains: Texts = []
    absent: Texts = []
    history: list[str] = []
    messages: int | None = None
    tools: list[str] = []
    tools_absent: list[str] = []
    model: str | None = None
    api: Api | None = None
    body: JsonObject | None = None


class ModelToolCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A call of a tool.

    Attributes:
        name: The name of the tool.
        arguments: Its arguments; a text is sent as it is, whether it is JSON or not.
        id: The id of the call; without one, each call gets its own.
    """

    name: str
    arguments: JsonObject | str = {}
    id: str | None = None

    @property
    def json(self) -> str:
        """The arguments as they are sent."""
        return self.arguments if isinstance(self.arguments, str) else msgspec.json.encode(self.arguments).decode()


def tool_call(name: str, /, **arguments: Any) -> ModelToolCall:
    """Return a call of a tool with these arguments."""
    return ModelToolCall(name, arguments)


class ModelUsage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tokens of one answer.

    Attributes:
        input: Tokens of the request that were not read from a cache or written to it.
        output: Tokens of the answer, with `reasoning`.
        cache_read: Tokens of the request that were read from a cache.
        cache_write: Tokens of the request that were written to a cache.
        reasoning: Tokens of the answer that are thinking.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    @property
    def all_input(self) -> int:
        """All tokens of the request, cached or not."""
        return self.input + self.cache_read + self.cache_write


class ModelTurn(Struct, frozen=True, forbid_unknown_fields=True):
    """One answer of the model: thinking, then text, then tool calls. Pieces are the events that carry its content.

    Attributes:
        text: The text; a list is sent piece by piece.
        thinking: The thinking before it; a list is sent piece by piece.
        tools: Calls of tools, all in this one answer.
        usage: Its tokens. Default: an estimate, the same for the same request and answer.
        stop: Reason of the end. Default: `tool_calls` if there are any, else `end`.
        delay: Seconds before the answer begins.
        piece_delay: Seconds between two pieces.
        piece_chars: Length of a piece of a text that is not a list.
        hold_after: Pieces after which the answer waits for `ModelServer.release`; 0 waits before it begins.
        fault: What goes wrong; a name in `MODEL_FAULTS`.
        fault_after: Pieces before a fault in the middle of an answer.
        retry_after: Seconds in the header `retry-after` of `rate_limited`, `unavailable` and `overloaded`.
        message: Text of the error, for faults that are an error of the provider.
        size: Bytes of the text of `giant`.
        when: The requests that this turn answers. Without it, the turn answers the next request that no other turn
            describes.
        expect: Description that the request must match; if it does not, the test fails.
        times: Requests that it answers, one after the other; 0 is unlimited.
    """

    text: Texts = ""
    thinking: Texts = ""
    tools: list[ModelToolCall] = []
    usage: ModelUsage | None = None
    stop: StopReason | None = None
    delay: float = 0.0
    piece_delay: float = 0.0
    piece_chars: int = 16
    hold_after: int | None = None
    fault: str | None = None
    fault_after: int = 1
    retry_after: float | None = None
    message: str | None = None
    size: int = 4 * 1024 * 1024
    when: RequestPattern | None = None
    expect: RequestPattern | None = None
    times: int = 1

    def __post_init__(self) -> None:
        if self.fault is not None and self.fault not in MODEL_FAULTS:
            hint = suggestion(self.fault, MODEL_FAULTS)
            raise ValueError(f"unknown fault `{self.fault}`{hint}; the faults are {', '.join(MODEL_FAULTS)}")
        for name, most in (("delay", MAX_SECONDS), ("piece_delay", MAX_SECONDS), ("size", MAX_ANSWER_BYTES)):
            if not 0 <= getattr(self, name) <= most:
                raise ValueError(f"`{name}` must be from 0 to {most:g}, not {getattr(self, name)}")
        for name in ("hold_after", "fault_after", "retry_after", "times"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"`{name}` must not be negative")
        if self.piece_chars < 1:
            raise ValueError("`piece_chars` must be at least 1")
        if (
            self.fault in ("malformed_arguments", "cut_arguments", "wrong_arguments", "duplicate_tool_id")
            and not self.tools
        ):
            raise ValueError(f"the fault `{self.fault}` needs a tool call in `tools`")


class ModelScript(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole script.

    Attributes:
        turn: The turns, in order.
        models: Models that the server has; a request for another one is answered with 404. Default: every model.
        context_limit: Tokens of the longest request, by the server's estimate; longer ones get the provider's error.
        is_lenient: Accept requests that a real provider rejects, such as a tool call without a result, and turns that
            call tools that are not offered.
    """

    turn: list[ModelTurn] = []
    models: list[str] = []
    context_limit: int | None = None
    is_lenient: bool = False


def read_model_script(path: str | Path) -> ModelScript:
    """Read a script from a TOML file.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not a script; the message says where it is wrong.
    """
    content = tomllib.loads(Path(path).read_text("utf-8"))
    try:
        return msgspec.convert(content, ModelScript)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
