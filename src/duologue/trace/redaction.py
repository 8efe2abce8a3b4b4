"""Secrets taken out of a message before anybody writes it down.

By place: values of `env` and `headers`, what `authenticate` carries beside its method, members whose name says secret,
arguments behind an option whose name does. By looks: bearer tokens, well-known key prefixes, `TOKEN=…`, secrets in the
query of an address. What a person typed into a prompt cannot be judged any better than that.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, TypeGuard

__all__ = ["MASK", "redact", "redact_broken"]

MASK = "•••"
"""What stands in a secret's place."""

_SECRET_NAME = re.compile(
    r"authorization|cookie|token$|secret|passw(or)?d|passphrase|api[-_]?key|access[-_]?key|credential|private[-_]?key",
    re.IGNORECASE,
)
_LOOKS = re.compile(
    r"(?P<keep>\b(?:Bearer|Basic)\s+|[?&](?:token|key|secret|code|sig|access_token|api_key)="
    r"|(?:token|secret|passw(?:or)?d|api[-_]?key|access[-_]?key)(?:=|:\s)\s*"
    r"|(?<!-)--[a-z-]{0,40}?(?:token|secret|passw(?:or)?d|api-key|access-key)\s+)[^\s&\"'#]+"
    r"|(?P<user>://[^/\s:@]*+:)[^/\s@]++(?=@)"
    r"|\b(?:sk-|ghp_|gho_|github_pat_|xox[abp]-|AKIA|AIza)[A-Za-z0-9_-]{8,}",
    re.IGNORECASE,
)
_SIGNS = (
    *("bearer", "basic", "token", "secret", "passw", "key", "code=", "sig=", "://"),
    *("sk-", "ghp_", "gho_", "github_pat_", "xox", "akia", "aiza"),
)
"""One of these is in everything that `_LOOKS` finds."""

_ENCODED = ("data", "blob")
_LONG = 4096
"""Pictures and sounds are in base64, where no secret can be seen, and searching megabytes of it holds everybody up."""
_SHORT = 64
"""Names that are worth remembering."""
_OPTION = re.compile(r"--?[\w-]+")
_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"?+(?P<is_name>\s*+:)?+', re.DOTALL)


def redact(message: Any) -> Any:
    """The same message without its secrets."""
    if _is_object(message):
        params = message.get("params")
        if message.get("method") == "authenticate" and _is_object(params):
            return {**message, "params": {"methodId": params.get("methodId")}}
        return {name: _member(name, value) for name, value in message.items()}
    if _is_array(message):
        return _items(message)
    return _text(message) if isinstance(message, str) else message


def redact_broken(text: str) -> str:
    """Text that was no message. In one that was meant to be, only names can be told from secrets; so those stay."""
    if text.lstrip().startswith(("{", "[")):
        text = _JSON_TEXT.sub(lambda found: found[0] if found["is_name"] else f'"{MASK}"', text)
    return str(redact(text))


def _text(text: str) -> str:
    # Most texts hold nothing that is looked for, and finding that out this way costs a tenth of the search.
    folded = text.casefold()
    return _LOOKS.sub(_masked, text) if any(sign in folded for sign in _SIGNS) else text


def _masked(found: re.Match[str]) -> str:
    return (found["keep"] or found["user"] or "") + MASK


def _member(name: str, value: Any) -> Any:
    if name in ("env", "headers"):
        return _values_masked(value)
    if name in _ENCODED and isinstance(value, str) and len(value) > _LONG:
        return value
    is_secret = _is_secret(name) if len(name) <= _SHORT else _SECRET_NAME.search(name)
    return _hidden(value) if is_secret else redact(value)


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def _hidden(value: Any) -> Any:
    """Nothing but the shape of it."""
    if _is_object(value):
        return {name: _hidden(inner) for name, inner in value.items()}
    if _is_array(value):
        return [_hidden(inner) for inner in value]
    return value if value is None or isinstance(value, bool) else MASK


def _items(values: list[Any]) -> list[Any]:
    """Arguments follow their options: `["--token", "x"]`."""
    return [
        MASK if isinstance(value, str) and number and _is_secret_option(values[number - 1]) else redact(value)
        for number, value in enumerate(values)
    ]


def _is_secret_option(value: Any) -> bool:
    return isinstance(value, str) and _OPTION.fullmatch(value) is not None and _SECRET_NAME.search(value) is not None


def _values_masked(value: Any) -> Any:
    """`{"A": "x"}` and `[{"name": "A", "value": "x"}]` keep their names."""
    if _is_object(value):
        return dict.fromkeys(value, MASK)
    if _is_array(value):
        return [{**pair, "value": MASK} if _is_object(pair) else MASK for pair in value]
    return _hidden(value)


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_array(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)
