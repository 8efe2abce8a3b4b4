"""Amounts of tokens and money, each with its provenance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self, TypeAlias, cast

from msgspec import Struct

from duologue.conversation.work_state import TokenUsage
from duologue.sanitize import escape_line

Provenance: TypeAlias = Literal["reported_per_turn", "cumulative", "derived", "partial", "undecided", "not_reported"]
"""Origin of the tokens of a turn or of a session:

- `reported_per_turn`: The agent reported them for the turn; those of a session are the sum of its turns.
- `cumulative`: The agent's own running total of the session.
- `derived`: Computed: the difference of two running totals, or the sum of the requests to the model.
- `partial`: A lower bound: of the last request only, or without turns that reported nothing.
- `undecided`: As reported; whether it is of the turn or of the session is not known (yet).
- `not_reported`: There are none.
"""

COUNTS = ("total", "input", "output", "thought", "cached_read", "cached_write")


class TokenCounts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Numbers of tokens; `None`: not reported.

    Attributes:
        total: All tokens, as the agent adds them up.
        input: Tokens sent to the model. Agents differ in whether those read from a cache are among them.
        output: Tokens of the answer.
        thought: Tokens of the model's reasoning.
        cached_read: Tokens of the input that were read from a cache.
        cached_write: Tokens of the input that were written to a cache.
    """

    total: int | None = None
    input: int | None = None
    output: int | None = None
    thought: int | None = None
    cached_read: int | None = None
    cached_write: int | None = None

    def plus(self, other: TokenCounts) -> TokenCounts:
        """Return the sum; a number that only one of them has stays."""
        return TokenCounts(**{name: one if two is None else two + (one or 0) for name, one, two in _pairs(self, other)})

    def minus(self, earlier: TokenCounts) -> TokenCounts:
        """Return what was added since an earlier running total."""
        return TokenCounts(
            **{name: None if one is None else one - (two or 0) for name, one, two in _pairs(self, earlier)}
        )

    def falls_below(self, earlier: TokenCounts) -> bool:
        """Return True if any number is smaller than before, which a running total never is."""
        return any(one is not None and two is not None and one < two for _, one, two in _pairs(self, earlier))

    def exceeds(self, earlier: TokenCounts) -> bool:
        """Return True if the tokens of the answer, or else all tokens, are more than before."""
        if self.output is not None and earlier.output is not None:
            return self.output > earlier.output
        return (self.total or 0) > (earlier.total or 0)

    @classmethod
    def of(cls, usage: TokenUsage) -> Self:
        """Return the numbers that an agent reported."""
        return cls(**{name: getattr(usage, name) for name in COUNTS})


class TurnUsage(TokenCounts, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens and cost of one turn.

    Attributes:
        provenance: Origin of the tokens.
        turns: Number of turns that the tokens are of: more than 1 if turns before this one reported none, and a
            running total includes them.
        cost: What the turn added to the cost of the session; `None`: not known.
        currency: ISO 4217 code of the cost.
    """

    provenance: Provenance = "not_reported"
    turns: int = 1
    cost: float | None = None
    currency: str | None = None

    @property
    def text(self) -> str:
        """The tokens and the cost in one line; empty if neither is known."""
        return ", ".join(filter(None, (tokens_text(self, self.provenance), cost_text(self.cost, self.currency))))

    def __repr__(self) -> str:
        return f"<TurnUsage: {_described(self, self.provenance, self.text)}>"


class SessionUsage(TokenCounts, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens and cost of a session so far, and its context.

    Attributes:
        provenance: Origin of the tokens.
        turns: Number of turns.
        cost: Cost of the session so far; `None`: not reported.
        currency: ISO 4217 code of the cost.
        used: Tokens in the context of the model; `None`: not reported.
        size: Size of the context window in tokens; `None`: not reported.
        warnings: Numbers that contradict each other, in words.
    """

    provenance: Provenance = "not_reported"
    turns: int = 0
    cost: float | None = None
    currency: str | None = None
    used: int | None = None
    size: int | None = None
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The tokens and the cost in one line; empty if neither is known."""
        return ", ".join(filter(None, (tokens_text(self, self.provenance), cost_text(self.cost, self.currency))))

    @property
    def context_text(self) -> str:
        """How full the context is; empty if it is not known."""
        return "" if self.used is None or self.size is None else f"{self.used:,} of {self.size:,} tokens"

    def __repr__(self) -> str:
        context = f"; context {self.context_text}" if self.context_text else ""
        return f"<SessionUsage: {_described(self, self.provenance, self.text)}{context}>"


def tokens_text(counts: TokenCounts, provenance: Provenance) -> str:
    """Return the tokens in words that say how far they can be trusted; empty if there are none."""
    if counts.total is not None:
        tokens = f"{counts.total:,} tokens"
    elif counts.input is not None or counts.output is not None:
        tokens = f"{counts.input or 0:,} tokens in, {counts.output or 0:,} out"
    else:
        return ""
    return {"partial": f"at least {tokens}", "undecided": f"{tokens} in the turn or the session"}.get(
        provenance, tokens
    )


def cost_text(cost: float | None, currency: str | None) -> str:
    """Return an amount of money; empty if it is not known."""
    return "" if cost is None else f"{cost:g} {escape_line(currency or '')}".rstrip()


def _described(counts: TokenCounts, provenance: Provenance, text: str) -> str:
    details = [f"{getattr(counts, name):,} {name}" for name in COUNTS[1:] if getattr(counts, name) is not None]
    return f"{text or 'nothing'} ({', '.join([*details, provenance.replace('_', ' ')])})"


def _pairs(one: TokenCounts, two: TokenCounts) -> Iterator[tuple[str, int | None, int | None]]:
    for name in COUNTS:
        yield name, cast("int | None", getattr(one, name)), cast("int | None", getattr(two, name))
