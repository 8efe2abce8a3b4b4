"""An answer in the form that is common to all APIs: what a turn becomes for one request, with its faults of content."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from duologue.testing.models.request import CHARS_PER_TOKEN, ModelRequest
from duologue.testing.models.script import ModelToolCall, ModelTurn, ModelUsage, StopReason, Texts

GIANT_PIECE = 64 * 1024
REFUSAL = "I cannot help with that."


class AnsweredCall(Struct, frozen=True):
    """A tool call with its id, and its arguments in pieces."""

    id: str
    name: str
    pieces: list[str]

    @property
    def arguments(self) -> str:
        """The arguments as they are sent."""
        return "".join(self.pieces)


class ModelAnswer(Struct, frozen=True, kw_only=True):
    """One answer, in pieces. `usage` is `None` if it is left out."""

    number: int
    model: str
    thinking: list[str]
    text: list[str]
    refusal: list[str]
    calls: list[AnsweredCall]
    stop: StopReason
    usage: ModelUsage | None

    @property
    def piece_count(self) -> int:
        """The number of pieces of its content."""
        arguments = sum(len(call.pieces) for call in self.calls)
        return len(self.thinking) + len(self.text) + len(self.refusal) + arguments


def answer_of(turn: ModelTurn, request: ModelRequest) -> ModelAnswer:
    """Return the answer of a turn to a request."""
    text = list(_pieces(turn.text, turn.piece_chars))
    thinking = list(_pieces(turn.thinking, turn.piece_chars))
    calls = _calls(turn, request)
    refusal: list[str] = []
    stop: StopReason = turn.stop or ("tool_calls" if calls else "end")
    match turn.fault:
        case "empty":
            text, thinking, calls, stop = [], [], [], turn.stop or "end"
        case "giant":
            text = ["x" * GIANT_PIECE] * (turn.size // GIANT_PIECE) + ["x" * (turn.size % GIANT_PIECE)]
        case "refusal":
            text, calls, stop = [], [], "refusal"
            refusal = list(_pieces(turn.text or REFUSAL, turn.piece_chars))
        case "content_filter":
            calls, stop = [], "content_filter"
        case "cut_arguments":
            stop = "max_tokens"
        case _:
            pass
    usage = None if turn.fault == "no_usage" else turn.usage or _estimate(request, [text, thinking, refusal], calls)
    return ModelAnswer(
        number=request.number,
        model=request.model,
        thinking=thinking,
        text=text,
        refusal=refusal,
        calls=calls,
        stop=stop,
        usage=usage,
    )


def _calls(turn: ModelTurn, request: ModelRequest) -> list[AnsweredCall]:
    tools = turn.tools
    if turn.fault == "unknown_tool" and not tools:
        tools = [ModelToolCall("no_such_tool")]
    prefix = "toolu" if request.api == "messages" else "call"
    calls: list[AnsweredCall] = []
    for index, call in enumerate(tools, 1):
        id = call.id or f"{prefix}_{request.number}_{1 if turn.fault == 'duplicate_tool_id' else index}"
        arguments = call.json
        if turn.fault == "malformed_arguments":
            arguments = f"{{oops {arguments[1:]}"
        elif turn.fault == "cut_arguments":
            arguments = arguments[: len(arguments) // 2]
        elif turn.fault == "wrong_arguments":
            arguments = '["not an object"]'
        calls.append(AnsweredCall(id, call.name, list(_pieces(arguments, turn.piece_chars))))
    return calls


def _pieces(text: Texts, size: int) -> Iterator[str]:
    if isinstance(text, list):
        yield from text
    else:
        yield from (text[i : i + size] for i in range(0, len(text), size))


def _estimate(request: ModelRequest, texts: list[list[str]], calls: list[AnsweredCall]) -> ModelUsage:
    chars = sum(len(piece) for pieces in texts for piece in pieces) + sum(len(call.arguments) for call in calls)
    return ModelUsage(input=request.tokens, output=max(1, chars // CHARS_PER_TOKEN))
