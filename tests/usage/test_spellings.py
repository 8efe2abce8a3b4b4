"""Tokens in `_meta`, in each agent's spelling."""

from __future__ import annotations

from typing import Any

import pytest

from duologue.conversation.work_state import TokenUsage
from duologue.usage.amounts import TokenCounts
from duologue.usage.spellings import SCOPE_KEY, counts_in, counts_of, counts_reported, meaning_in, with_scope


@pytest.mark.parametrize(
    ("meta", "counts"),
    [
        (
            {"usage": {"promptTokens": 120, "completionTokens": 45, "thoughtsTokens": 10, "cachedTokens": 6}},
            TokenCounts(input=120, output=45, thought=10, cached_read=6),  # qwen-code#1176
        ),
        (
            {
                "usage": {
                    "inputTokens": 158_453,
                    "outputTokens": 2_204,
                    "cachedReadTokens": 69_120,
                    "reasoningTokens": 7,
                }
            },
            TokenCounts(input=158_453, output=2_204, thought=7, cached_read=69_120),
        ),
        (
            {"quota": {"token_count": {"totalTokens": 90, "cachedInputTokens": 20, "reasoningOutputTokens": 1}}},
            TokenCounts(total=90, cached_read=20, thought=1),
        ),
        ({"quota": {"token_count": None, "model_usage": []}}, None),
        ({"quota": [], "usage": "many"}, None),
        ({"usage": {"inputTokens": -1, "outputTokens": 1.5, "totalTokens": True, "thoughtTokens": 2**63}}, None),
        ({"usage": {"other": 1}, "quota": {"token_count": {"input_tokens": 1}}}, TokenCounts(input=1)),
        ({}, None),
        (None, None),
    ],
)
def test_tokens_are_found_where_agents_put_them(meta: dict[str, Any] | None, counts: TokenCounts | None) -> None:
    assert counts_in(meta) == counts


def test_the_field_of_the_protocol_comes_first() -> None:
    meta = {"usage": {"inputTokens": 9}}

    assert counts_reported(TokenUsage(total=3, input=1, output=2), meta) == TokenCounts(total=3, input=1, output=2)
    assert counts_reported(None, meta) == TokenCounts(input=9)
    assert counts_of({}) is None


@pytest.mark.parametrize(
    ("meta", "meaning"),
    [
        (None, None),
        ({SCOPE_KEY: "turn"}, "per_turn"),
        ({SCOPE_KEY: "session"}, "cumulative"),
        ({SCOPE_KEY: "request"}, "last_request"),
        ({SCOPE_KEY: "galaxy"}, None),
        ({SCOPE_KEY: ["turn"]}, None),
    ],
)
def test_an_agent_can_say_what_its_numbers_mean(meta: dict[str, Any] | None, meaning: str | None) -> None:
    assert meaning_in(meta) == meaning


def test_an_agent_made_with_this_package_says_it() -> None:
    assert with_scope(TokenUsage(total=1, input=1, output=0)).meta == {SCOPE_KEY: "turn"}
    assert with_scope(TokenUsage(total=1, input=1, output=0, meta={SCOPE_KEY: "session", "x": 1})).meta == {
        SCOPE_KEY: "session",
        "x": 1,
    }
