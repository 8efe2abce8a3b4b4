"""Secrets taken out of a message before anybody writes it down.

By place: values of `env` and `headers`, what `authenticate` carries beside its method, members whose name says secret.
By looks: bearer tokens, well-known key prefixes, secrets in the query of an address. What a person typed into a prompt
cannot be judged any better than that.
"""

from __future__ import annotations

import re
from typing import Any, TypeGuard

__all__ = ["MASK", "redact"]

MASK = "•••"
"""What stands in a secret's place."""

_SECRET_NAME = re.compile(
    r"authorization|cookie|token$|secret|passw(or)?d|api[-_]?key|credential|private[-_]?key", re.IGNORECASE
)
_NOT_SECRET = frozenset({"totalTokens", "inputTokens", "outputTokens", "thoughtTokens"})
_LOOKS = re.compile(
    r"(?P<keep>\bBearer\s+|[?&](?:token|key|secret|code|sig|access_token|api_key)=)[^\s&\"'#]+"
    r"|\b(?:sk-|ghp_|gho_|github_pat_|xox[abp]-|AKIA|AIza)[A-Za-z0-9_-]{8,}",
    re.IGNORECASE,
)


def redact(message: Any) -> Any:
    """The same message without its secrets."""
    if _is_object(message):
        params = message.get("params")
        if message.get("method") == "authenticate" and _is_object(params):
            return {**message, "params": {"methodId": params.get("methodId")}}
        return {name: _member(name, value) for name, value in message.items()}
    if _is_array(message):
        return [redact(item) for item in message]
    return _LOOKS.sub(lambda found: (found["keep"] or "") + MASK, message) if isinstance(message, str) else message


def _member(name: str, value: Any) -> Any:
    if name in ("env", "headers"):
        return _values_masked(value)
    if _SECRET_NAME.search(name) and name not in _NOT_SECRET and isinstance(value, str):
        return MASK
    return redact(value)


def _values_masked(value: Any) -> Any:
    """`{"A": "x"}` and `[{"name": "A", "value": "x"}]` keep their names."""
    if _is_object(value):
        return dict.fromkeys(value, MASK)
    if _is_array(value):
        return [{**pair, "value": MASK} if _is_object(pair) else MASK for pair in value]
    return value


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_array(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)
