"""Failures of a model, as a sentence for the user and the way in which the turn ends. The session goes on."""

from __future__ import annotations

from typing import Any

from pydantic_ai import exceptions
from pydantic_ai.messages import ModelResponse

from duologue.agent.turn import Turn
from duologue.errors import InternalError
from duologue.sanitize import escape_line


class CutAnswer(exceptions.UnexpectedModelBehavior):
    """An answer that ended without a reason: its connection was closed in the middle."""


_SENTENCES: list[tuple[type[Exception], str]] = [
    (exceptions.ModelAuthenticationError, "the provider does not accept the key, or the key may not use this model"),
    (exceptions.ModelNotFoundError, "the provider has no such model; `/model` shows the others"),
    (exceptions.ModelQuotaExceededError, "the account at the provider has no credit left"),
    (
        exceptions.ModelRateLimitError,
        "the provider limits how often it is asked; wait a moment and send the prompt again",
    ),
    (exceptions.ModelOverloadedError, "the provider is overloaded; send the prompt again later"),
    (exceptions.ModelUnavailableError, "the provider is not available at the moment; send the prompt again later"),
    (exceptions.ModelServerError, "the provider failed; send the prompt again"),
    (exceptions.ModelTimeoutError, "the model did not answer in time; send the prompt again"),
    (exceptions.ModelConnectionError, "the connection to the model failed, or broke in the middle of its answer"),
    (exceptions.ModelRequestRejectedError, "the provider rejected the request"),
    (CutAnswer, "the answer of the model broke off; send the prompt again"),
    (exceptions.ModelAPIError, "the model sent no usable answer"),
    (exceptions.UnexpectedModelBehavior, "the model sent no usable answer"),
]

TOO_LONG = "The conversation is longer than the model's context. `/compact` shortens it, `/clear` begins anew.\n"

_STOPS: list[tuple[type[Exception], tuple[str, str]]] = [
    (exceptions.ModelContextWindowExceededError, ("max_tokens", TOO_LONG)),
    (exceptions.IncompleteToolCall, ("max_tokens", "The model's answer was cut off by its limit of tokens.\n")),
    (exceptions.ContentFilterError, ("refusal", "The provider's filter stopped the answer.\n")),
]


async def end_turn(turn: Turn[Any], error: InternalError) -> str:
    """Return the stop reason that a failed run stands for, after a sentence to the user.

    Raises:
        InternalError: It is an error, of the model with a sentence and what the provider said.
    """
    cause = error.__cause__
    for kind, (reason, text) in _STOPS:
        if isinstance(cause, kind):
            await turn.say(text)
            return reason
    for kind, sentence in _SENTENCES:
        if isinstance(cause, kind):
            raise InternalError(f"{turn.settings.model}: {sentence} ({escape_line(str(cause), 300)})") from error
    raise error


def check_complete(response: ModelResponse) -> None:
    """Check that an answer is whole, so that no half of a tool call is executed; both APIs say why an answer ends.

    Raises:
        CutAnswer: It ended without a reason.
        IncompleteToolCall: It ended in a tool call, at the limit of tokens.
    """
    if response.finish_reason == "length" and response.tool_calls:
        raise exceptions.IncompleteToolCall("the answer ends in a tool call, at the limit of tokens")
    # The library assumes a reason where the server sent none; what was sent is in the details.
    is_refused = response.finish_reason == "content_filter"  # its details are those of the refusal
    is_known = response.provider_name in ("openai", "anthropic") and not is_refused
    if is_known and "finish_reason" not in (response.provider_details or {}):
        raise CutAnswer("the answer has no stop reason")
