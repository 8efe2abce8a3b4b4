"""The faults that a turn of a script can have, and the errors of both providers."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from duologue.conversation.content import JsonObject

Provider = Literal["openai", "anthropic"]


class ProviderError(Struct, frozen=True):
    """An answer that is an error, in the words of one provider.

    Attributes:
        status: The status of HTTP.
        type: The type in the body.
        message: The text for a user.
        code: The code in the body, which only OpenAI has.
    """

    status: int
    type: str
    message: str
    code: str | None = None

    def body(self, provider: Provider, request_id: str) -> JsonObject:
        """Return the body of the answer."""
        if provider == "anthropic":
            return {
                "type": "error",
                "error": {"type": self.type, "message": self.message},
                "request_id": request_id,
            }
        return {"error": {"message": self.message, "type": self.type, "param": None, "code": self.code}}


class _Errors(Struct, frozen=True):
    description: str
    openai: ProviderError
    anthropic: ProviderError


def _errors(description: str, openai: tuple[int, str, str | None, str], anthropic: tuple[int, str, str]) -> _Errors:
    status, type, code, message = openai
    return _Errors(description, ProviderError(status, type, message, code), ProviderError(*anthropic))


INVALID = "invalid_request_error"

_STATUS_FAULTS: dict[str, _Errors] = {
    "unauthorized": _errors(
        "401: the key is not valid",
        (401, INVALID, "invalid_api_key", "Incorrect API key provided."),
        (401, "authentication_error", "invalid x-api-key"),
    ),
    "forbidden": _errors(
        "403: the key may not use this model",
        (403, INVALID, "permission_denied", "You are not allowed to use this model."),
        (403, "permission_error", "Your API key does not have permission to use this model."),
    ),
    "model_not_found": _errors(
        "404: the provider has no such model",
        (404, INVALID, "model_not_found", "The model does not exist or you do not have access to it."),
        (404, "not_found_error", "model: not found"),
    ),
    "rate_limited": _errors(
        "429 with `retry-after`",
        (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests."),
        (429, "rate_limit_error", "This request would exceed the rate limit of your organization."),
    ),
    "quota_exceeded": _errors(
        "the account has no credit: 429 of OpenAI, 400 of Anthropic",
        (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota."),
        (400, INVALID, "Your credit balance is too low to access the API."),
    ),
    "bad_request": _errors(
        "400: the request is not valid",
        (400, INVALID, None, "The request is not valid."),
        (400, INVALID, "The request is not valid."),
    ),
    "context_length": _errors(
        "400: the conversation is longer than the model's context",
        (400, INVALID, "context_length_exceeded", "This model's maximum context length is 8192 tokens."),
        (400, INVALID, "prompt is too long: 210000 tokens > 200000 maximum"),
    ),
    "request_too_large": _errors(
        "413: the body has too many bytes",
        (413, INVALID, "request_too_large", "The request is too large."),
        (413, "request_too_large", "Request exceeds the maximum size"),
    ),
    "server_error": _errors(
        "500",
        (500, "server_error", None, "The server had an error while processing your request."),
        (500, "api_error", "Internal server error"),
    ),
    "unavailable": _errors(
        "503",
        (503, "server_error", None, "The service is temporarily unavailable."),
        (503, "api_error", "The service is temporarily unavailable."),
    ),
    "overloaded": _errors(
        "the provider is overloaded: 503 of OpenAI, 529 of Anthropic",
        (503, "server_error", "overloaded", "The engine is currently overloaded, please try again later."),
        (529, "overloaded_error", "Overloaded"),
    ),
}

CONNECTION_FAULTS = {
    "timeout": "no answer at all, not even headers",
    "reset": "the connection is reset before the answer begins",
    "reset_midstream": "the connection is reset after `fault_after` pieces",
    "hang": "the answer stops after `fault_after` pieces, and the connection stays open",
    "truncated": "the answer ends after `fault_after` pieces as if it were whole; half the body if it is not streamed",
    "slow_drip": "the answer arrives a few bytes at a time, cut inside of events and characters",
}

FORMAT_FAULTS = {
    "malformed_json": "an event after `fault_after` pieces, or the body, is not JSON",
    "wrong_content_type": "a web page with the status 200",
    "bad_gateway": "a web page with the status 502, as a proxy sends it",
    "empty_body": "the status 200 and not a byte more",
    "error_event": "an error of the provider after `fault_after` pieces; the status 500 if it is not streamed",
    "duplicate_event": "the piece after `fault_after` pieces is sent twice",
    "unknown_event": "an event of an unknown type after `fault_after` pieces",
    "no_usage": "no count of tokens",
}

CONTENT_FAULTS = {
    "malformed_arguments": "the arguments of each tool call are not JSON",
    "cut_arguments": "the arguments of each tool call end half way, with the stop reason `max_tokens`",
    "wrong_arguments": "the arguments of each tool call are a list instead of an object",
    "unknown_tool": "a call of a tool that was not offered: the turn's own, or `no_such_tool`",
    "duplicate_tool_id": "all tool calls have the same id",
    "empty": "an answer without content",
    "refusal": "the model refuses; the text of the turn is its reason",
    "content_filter": "the provider's filter cuts the answer",
    "giant": "a text of `size` bytes",
}

MODEL_FAULTS: dict[str, str] = {
    **{name: errors.description for name, errors in _STATUS_FAULTS.items()},
    **CONNECTION_FAULTS,
    **FORMAT_FAULTS,
    **CONTENT_FAULTS,
}
"""The name of each fault, and its effect."""

RETRY_LATER = ("rate_limited", "unavailable", "overloaded")
"""Faults whose answer has the header `retry-after`, if the turn gives seconds; `rate_limited` always."""


def provider_error(name: str, provider: Provider, message: str | None = None) -> ProviderError | None:
    """Return the error of a fault that is a status of HTTP, with another message if given; `None` for other faults."""
    errors = _STATUS_FAULTS.get(name)
    if errors is None:
        return None
    error = errors.anthropic if provider == "anthropic" else errors.openai
    return error if message is None else ProviderError(error.status, error.type, message, error.code)


def error_of_status(status: int, message: str, provider: Provider) -> ProviderError:
    """Return an error with a status that a server of ours decided, such as 405 or 413."""
    names = {401: "unauthorized", 403: "forbidden", 413: "request_too_large", 429: "rate_limited", 503: "unavailable"}
    known = provider_error(names.get(status, "bad_request"), provider)
    assert known is not None
    type = "not_found_error" if status == 404 and provider == "anthropic" else known.type
    return ProviderError(status, type, message, known.code)
