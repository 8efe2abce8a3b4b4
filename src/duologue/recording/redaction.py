"""Remove secrets from messages before they are written to a file.

By position: values of `env` and `headers`, everything that authenticates except the method, members and command-line
options whose name says secret. By appearance: bearer tokens, well-known key prefixes, private keys, `TOKEN=…` (also
quoted, in JSON or in TOML), secrets in the query of a URL. Secrets typed into a prompt are found by appearance only.
By patterns: what the user's own regular expressions match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeGuard

import msgspec

from duologue.recording.marker_search import MarkerSearch, any_of
from duologue.recording.patterns import UserPattern

MASK = "•••"
"""Replaces a secret."""

_SECRET_NAME = re.compile(
    r"authorization|cookie|token$|secret|passw(or)?d|passphrase|api[-_]?key|access[-_]?key|credential|private[-_]?key",
    re.IGNORECASE,
)
_NAMES = (
    r"(?:token|(?:secret|passw(?:or)?d|passphrase|credentials?|(?:api|access|private|signing|encryption)[-_]?key)"
    r"(?:[-_.]\w{1,40})?)"
)
_QUOTED_ASSIGNMENT = re.compile(
    # A name, in quotes or not, and `=`, `:` or `=>`; then a text in quotes of any kind, escaped ones too.
    _NAMES + r"(?:\\*[\"'])?\s{0,8}(?:=>|:=|=|:)\s{0,8}"
    r"(?P<quote>\\*(?:\"{3}|'{3}|[\"']))(?:(?!(?P=quote))(?:\\.|[^\\]))++",
    re.IGNORECASE | re.DOTALL,
)
_SECRET_VALUE = re.compile(
    r"(?P<keep>\b(?:Bearer|Basic)\s+|[?&](?:token|key|secret|code|sig|access_token|api_key)="
    r"|" + _NAMES + r"(?:\\*[\"'])?(?:=|:\s)\s*(?![{\[])"
    r"|(?<!-)--[a-z-]{0,40}?(?:token|secret|passw(?:or)?d|api-key|access-key)\s+)[^\s&\"'#•]+"
    r"|(?P<user>://[^/\s:@]*+:)[^/\s@]++(?=@)"
    r"|(?P<begin>-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)(?:(?!-----END).)*+"
    r"|\b(?:sk-|ghp_|gho_|github_pat_|xox[abp]-|AKIA|AIza)[A-Za-z0-9_-]{8,}"
    r"|(?-i:\b(?:(?:[srp]k|rk)_(?:live|test|prod)_|whsec_|gh[usr]_|gl(?:pat|dt|rt|ptt|soat|cbt)-|xox[ers]-|xoxe\.xox[bp]-"
    r"|xapp-|ASIA|ABIA|ACCA|ya29\.|GOCSPX-|shp(?:at|ca|pa|ss)_|dop_v1_|dckr_pat_|lin_api_|nvapi-|tvly-|pplx-|xai-|gsk_"
    r"|r8_|AGE-SECRET-KEY-1|SG\.)[A-Za-z0-9_.-]{12,}"
    r"|\b(?:hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,})"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)",
    re.IGNORECASE | re.DOTALL,
)
_MARKERS = """
bearer basic token secret passw passphrase key credential code= sig= :// sk- k_live_ k_test_ k_prod_ ghp_ gho_ ghu_
ghs_ ghr_ github_pat_ glpat- gldt- glrt- glptt- glsoat- glcbt- xox xapp- akia asia abia acca aiza ya29. gocspx- whsec_
shpat_ shpca_ shppa_ shpss_ dop_v1_ dckr_pat_ lin_api_ nvapi- tvly- pplx- xai- gsk_ r8_ sg. hf_ npm_ pypi- eyj
"""
_PREFILTER = tuple(_MARKERS.split())
"""Every match of `_QUOTED_ASSIGNMENT` and `_SECRET_VALUE` contains one of these."""
_NAME_MARKERS = ('"env"', '"headers"', "authenticate", "auth/login", "authorization", "cookie")
"""A message with a secret at a known position contains one of these, or one of `_PREFILTER`."""
_ESCAPES = (r"\u", r"\/")
"""Escapes in JSON that can hide a marker."""

_AUTH_REQUESTS = ("authenticate", "auth/login")
_ENCODED = ("data", "blob")
_LONG = 4096
"""Longer encoded data is not searched: images and audio in base64 show no secrets, and searching megabytes is slow."""
MIN_SECRET_LENGTH = 8
"""Shorter values of environment variables are not searched for: they would be found in words."""
_SHORT = 64
"""Names up to this length are cached."""
_encode = msgspec.json.encode
_OPTION = re.compile(r"--?[\w-]+")
_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"?+(?P<is_name>\s*+:)?+', re.DOTALL)


_RARE = "_-=9/\\xz.kjbc"
"""Characters that few texts contain often, in which most markers can be recognized."""
_SIGN = re.compile(any_of(_PREFILTER))
_SIGN_IN_JSON = re.compile(any_of((*_PREFILTER, *_NAME_MARKERS, *_ESCAPES)))
_SIGNS_IN_ASCII_JSON = MarkerSearch((*_PREFILTER, *_NAME_MARKERS, *_ESCAPES), _RARE)
_SIGNS_IN_STRING = MarkerSearch((*_PREFILTER, *_ESCAPES), _RARE)
FOLDED_TO_ASCII = (
    "\u00df\u0130\u0149\u017f\u01f0\u1e96\u1e97\u1e98\u1e99\u1e9a\u1e9e\u212a\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06"
)
"""Characters beyond ASCII that become ASCII without case, such as the Kelvin sign: they can be a part of a marker."""
_FOLDED = MarkerSearch((each.encode().decode("latin-1") for each in FOLDED_TO_ASCII), "\x9f\xb0\xc5\xba\x84\xac")


class Redactor:
    """Removes secrets from messages.

    Args:
        patterns: Regular expressions of the user; every match in a text is masked, too.
        values: Secrets that are known, such as those of `environment_secrets`; they are masked wherever they occur.

    Raises:
        ValueError: One of the patterns is not a regular expression, matches an empty text, or repeats a repetition.
    """

    def __init__(self, patterns: Iterable[str] = (), *, values: Iterable[str] = ()) -> None:
        self._patterns = [UserPattern(pattern) for pattern in patterns]
        # The longest first: one may be a part of another.
        self._values = sorted({value for value in values if value}, key=len, reverse=True)
        self._values_in_json = _value_search(self._values)

    def may_have_secret(self, json: bytes) -> bool:
        """Return False if this JSON certainly has no secret."""
        if self._patterns:
            return True  # they may say where a text begins and ends, which only its reader knows
        if self._values_in_json is not None and self._values_in_json.is_in(json):
            return True
        if _SIGNS_IN_ASCII_JSON.is_in(json.lower()):
            return True
        if json.isascii() or not _FOLDED.is_in(json):
            return False
        return _SIGN_IN_JSON.search(json.decode("utf-8", "replace").casefold()) is not None

    def lines_with_signs(self, strings: bytes) -> set[int]:
        """Return the numbers of the strings that may have a secret; the first is 0.

        Args:
            strings: Strings as in JSON, one on each line, none of them at a position that makes it a secret.
        """
        if self._patterns:
            return set(range(strings.count(b"\n") + 1))
        found = _SIGNS_IN_STRING.lines_in(strings.lower())
        if self._values_in_json is not None:
            found |= self._values_in_json.lines_in(strings)
        if not strings.isascii():
            for number in _FOLDED.lines_in(strings) - found:
                folded = strings.split(b"\n")[number].decode("utf-8", "replace").casefold()
                found |= {number} if _SIGN_IN_JSON.search(folded) is not None else set()
        return found

    def redact(self, message: Any) -> Any:
        """Return the message without its secrets."""
        if _is_object(message):
            params = message.get("params")
            if message.get("method") in _AUTH_REQUESTS and _is_object(params):
                return {**message, "params": {"methodId": params.get("methodId")}}
            return {self._name(name): self._member(name, value) for name, value in message.items()}
        if _is_array(message):
            return self._items(message)
        return self._text(message) if isinstance(message, str) else message

    def redact_broken(self, text: str) -> str:
        """Return text that is not a valid message without its secrets; of broken JSON only member names remain."""
        if text.lstrip().startswith(("{", "[")):
            text = _JSON_TEXT.sub(lambda found: found[0] if found["is_name"] else f'"{MASK}"', text)
        return str(self.redact(text))

    def _text(self, text: str) -> str:
        # Most texts contain no secret, and this check costs a tenth of the search.
        if _SIGN.search(text.casefold()) is not None:
            text = _SECRET_VALUE.sub(_masked, _QUOTED_ASSIGNMENT.sub(_masked_in_quotes, text))
        for value in self._values:
            text = text.replace(value, MASK)
        for pattern in self._patterns:
            text = pattern.mask(text, MASK)
        return text

    def _name(self, name: str) -> str:
        return self._text(name) if self._patterns or self._values else name

    def _member(self, name: str, value: Any) -> Any:
        if name in ("env", "headers"):
            return _values_masked(value)
        if name in _ENCODED and isinstance(value, str) and len(value) > _LONG:
            return value
        is_secret = _is_secret(name) if len(name) <= _SHORT else _SECRET_NAME.search(name)
        return _hidden(value) if is_secret else self.redact(value)

    def _items(self, values: list[Any]) -> list[Any]:
        """Mask arguments that follow a secret option: `["--token", "x"]`."""
        return [
            MASK if isinstance(value, str) and number and _is_secret_option(values[number - 1]) else self.redact(value)
            for number, value in enumerate(values)
        ]


def environment_secrets(environment: Mapping[str, str]) -> list[str]:
    """Return the values of the variables whose names say secret; short ones and existing paths are no secrets."""
    return [
        value
        for name, value in environment.items()
        if len(value) >= MIN_SECRET_LENGTH and _SECRET_NAME.search(name) is not None and not _is_path(value)
    ]


def _is_path(value: str) -> bool:
    return value.startswith(("/", "~")) and Path(value).expanduser().exists()


def _value_search(values: Iterable[str]) -> MarkerSearch | None:
    """Return a search for these values in JSON, which finds them unless they are hidden by an escape of `_ESCAPES`."""
    forms = {form for value in values for form in (_encode(value)[1:-1], value.encode("utf-8", "surrogatepass"))}
    return MarkerSearch(form.decode("latin-1") for form in sorted(forms)) if forms else None


def _masked(found: re.Match[str]) -> str:
    return (found["keep"] or found["user"] or found["begin"] or "") + MASK


def _masked_in_quotes(found: re.Match[str]) -> str:
    """Return name, separator and opening quote with the value masked; the closing quote is not in the match."""
    return found.string[found.start() : found.end("quote")] + MASK


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def _hidden(value: Any) -> Any:
    """Return the structure of a value with every leaf masked."""
    if _is_object(value):
        return {name: _hidden(inner) for name, inner in value.items()}
    if _is_array(value):
        return [_hidden(inner) for inner in value]
    return value if value is None or isinstance(value, bool) else MASK


def _is_secret_option(value: Any) -> bool:
    return isinstance(value, str) and _OPTION.fullmatch(value) is not None and _SECRET_NAME.search(value) is not None


def _values_masked(value: Any) -> Any:
    """Mask the values of `{"A": "x"}` and `[{"name": "A", "value": "x"}]`, and keep the names."""
    if _is_object(value):
        return dict.fromkeys(value, MASK)
    if _is_array(value):
        return [{**pair, "value": MASK} if _is_object(pair) else MASK for pair in value]
    return _hidden(value)


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_array(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


_REDACTOR = Redactor()
redact = _REDACTOR.redact
redact_broken = _REDACTOR.redact_broken
