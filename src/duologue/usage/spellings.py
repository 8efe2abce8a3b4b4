"""Reading tokens from `_meta`, where some agents report them instead of, or in addition to, the protocol's fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import structs

from duologue.conversation.work_state import TokenUsage
from duologue.usage.amounts import TokenCounts
from duologue.usage.habits import Meaning

META_PATHS = (
    # Qwen Code 0.24, with each request to the model; Grok, with the response to a prompt.
    ("usage",),
    # Gemini CLI 0.61 and codex-acp 2.6, with the response to a prompt.
    ("quota", "token_count"),
)
"""Keys that lead to an object of token counts in `_meta`."""

SPELLINGS: Mapping[str, str] = {
    "totalTokens": "total",
    "inputTokens": "input",
    "outputTokens": "output",
    "thoughtTokens": "thought",
    "reasoningTokens": "thought",
    "reasoningOutputTokens": "thought",
    "cachedReadTokens": "cached_read",
    "cachedInputTokens": "cached_read",
    "cachedWriteTokens": "cached_write",
    # Gemini CLI 0.61
    "total_tokens": "total",
    "input_tokens": "input",
    "output_tokens": "output",
    # Qwen Code before 0.5
    "promptTokens": "input",
    "completionTokens": "output",
    "thoughtsTokens": "thought",
    "cachedTokens": "cached_read",
}
"""Name of a number in JSON -> field of `TokenCounts`."""

SCOPE_KEY = "duologue/scope"
"""Key in the `_meta` of reported tokens that says what they are of, a key of `SCOPES`. Agents made with this package
send it."""

SCOPES: Mapping[str, Meaning] = {"turn": "per_turn", "session": "cumulative", "request": "last_request"}

_MOST = 2**63


def counts_in(meta: Mapping[str, Any] | None) -> TokenCounts | None:
    """Return the tokens in the `_meta` of an update or a response; `None` if it has none."""
    for path in META_PATHS if meta else ():
        found: Any = meta
        for key in path:
            found = cast("Mapping[str, Any]", found).get(key) if isinstance(found, dict) else None
        if isinstance(found, dict) and (counts := counts_of(cast("Mapping[str, Any]", found))) is not None:
            return counts
    return None


def counts_reported(usage: TokenUsage | None, meta: Mapping[str, Any] | None) -> TokenCounts | None:
    """Return the tokens of a prompt's response: those of the protocol's field, or else those of `_meta`."""
    return counts_in(meta) if usage is None else TokenCounts.of(usage)


def meaning_in(meta: Mapping[str, Any] | None) -> Meaning | None:
    """Return what reported tokens mean, if their `_meta` says so."""
    scope = None if meta is None else meta.get(SCOPE_KEY)
    return SCOPES.get(scope) if isinstance(scope, str) else None


def with_scope(usage: TokenUsage) -> TokenUsage:
    """Return the tokens of a turn marked as such, unless the agent has marked them otherwise."""
    return structs.replace(usage, meta={SCOPE_KEY: "turn", **(usage.meta or {})})


def counts_of(fields: Mapping[str, Any]) -> TokenCounts | None:
    """Return the tokens that a JSON object has under any known name; `None` if there are none."""
    known = {SPELLINGS[name]: value for name, value in fields.items() if name in SPELLINGS and _is_count(value)}
    return TokenCounts(**known) if known else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
