"""Messages of known agents, one sequence for each habit of reporting tokens.

Each turn has the numbers that the model's provider reported for each request, and what the agent makes of them on the
wire, written from the source that `source` names. The sums of a counter are checked against the provider's numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from duologue.usage.amounts import COUNTS, Provenance, TokenCounts

Json = dict[str, Any]


def used(tokens: int, size: int, cost: float | None = None) -> Json:
    """Return a `usage_update`."""
    money = {} if cost is None else {"cost": {"amount": cost, "currency": "USD"}}
    return {"sessionUpdate": "usage_update", "used": tokens, "size": size, **money}


def wire(counts: TokenCounts) -> Json:
    """Return the `usage` of a prompt's response."""
    names = [
        f"{first}{''.join(map(str.capitalize, rest))}Tokens" for first, *rest in (each.split("_") for each in COUNTS)
    ]
    values = [getattr(counts, each) for each in COUNTS]
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}


@dataclass(frozen=True)
class WireTurn:
    """One turn: the provider's numbers of each request, the agent's updates, and its response."""

    requests: Sequence[TokenCounts]
    updates: Sequence[Json] = ()
    usage: TokenCounts | None = None
    meta: Json | None = None
    restarts: bool = False
    """The agent was started again before this turn."""

    @property
    def provided(self) -> TokenCounts:
        total = TokenCounts()
        for request in self.requests:
            total = total.plus(request)
        return total


@dataclass(frozen=True)
class WireSequence:
    """The turns of one session with one agent, and the provenance that they must be given."""

    name: str
    version: str
    source: str
    turns: Sequence[WireTurn]
    provenance: Provenance
    of_turns: Sequence[str]
    costs: Sequence[float | None] = ()
    fields: Sequence[str] = COUNTS
    """The numbers that the agent reports at all."""


def anthropic(input_: int, output: int, read: int, written: int) -> TokenCounts:
    """Return the numbers of one request to Anthropic: the input excludes what the cache has."""
    return TokenCounts(
        total=input_ + output + read + written, input=input_, output=output, cached_read=read, cached_write=written
    )


def openai(input_: int, output: int, read: int, thought: int) -> TokenCounts:
    """Return the numbers of one request to OpenAI as codex-acp shows them: the input excludes what the cache has."""
    return TokenCounts(total=input_ + output, input=input_ - read, output=output, cached_read=read, thought=thought)


def plain(input_: int, output: int) -> TokenCounts:
    """Return the numbers of one request, without a cache."""
    return TokenCounts(total=input_ + output, input=input_, output=output)


# claude-agent-acp#390, session 1: each turn one request; the numbers are those of the issue. A third turn has two.
CLAUDE = WireSequence(
    "@agentclientprotocol/claude-agent-acp",
    "0.99.1",
    "dist/acp-agent.js: sessionUsage(), usage_update with total_cost_usd",
    (
        WireTurn([anthropic(3, 22, 0, 42_653)], [used(42_678, 200_000, 0.27)], anthropic(3, 22, 0, 42_653)),
        WireTurn([anthropic(3, 49, 42_653, 30)], [used(42_735, 200_000, 0.284)], anthropic(3, 49, 42_653, 30)),
        WireTurn(
            [anthropic(4, 120, 42_683, 80), anthropic(6, 40, 42_763, 200)],
            [used(42_887, 200_000), used(43_009, 200_000, 0.31)],
            anthropic(10, 160, 85_446, 280),
        ),
    ),
    "reported_per_turn",
    ["reported_per_turn"] * 3,
    [0.27, 0.014, 0.026],
)

_CODEX = (
    WireTurn(
        [openai(9_000, 300, 0, 120), openai(9_800, 60, 8_960, 0)],
        [used(9_300, 272_000), used(9_860, 272_000)],
        openai(9_800, 60, 8_960, 0),
    ),
    WireTurn([openai(10_000, 40, 9_728, 0)], [used(10_040, 272_000)], openai(10_000, 40, 9_728, 0)),
)

# codex-acp#353 and #447: the response has the last request of the turn.
CODEX_1 = WireSequence(
    "@agentclientprotocol/codex-acp",
    "1.6.2",
    "src/CodexAcpServer.ts: buildPromptUsage(sessionState.lastTokenUsage)",
    _CODEX,
    "partial",
    ["partial"] * 2,
)

CODEX_2 = WireSequence(
    "@agentclientprotocol/codex-acp",
    "2.6.0",
    "dist/index.js: PromptTokenUsage",
    [WireTurn(turn.requests, turn.updates, turn.provided) for turn in _CODEX],
    "reported_per_turn",
    ["reported_per_turn"] * 2,
)


def _quota(input_: int, output: int) -> Json:
    return {"quota": {"token_count": {"input_tokens": input_, "output_tokens": output}, "model_usage": []}}


# gemini-cli#29389: only `_meta.quota`. Thoughts are in neither number, and there is no total.
GEMINI = WireSequence(
    "gemini-cli",
    "0.61.0",
    "bundle: Session.prompt(), totalInputTokens",
    (
        WireTurn([plain(8_461, 9)], meta=_quota(8_461, 9)),
        WireTurn([plain(8_500, 120), plain(8_900, 45)], meta=_quota(17_400, 165)),
        WireTurn([], meta=_quota(0, 0)),  # a slash command
    ),
    "reported_per_turn",
    ["reported_per_turn"] * 3,
    fields=("input", "output"),
)


def _chunk(counts: TokenCounts, **meta: Any) -> Json:
    content = {"type": "text", "text": ""}
    return {"sessionUpdate": "agent_message_chunk", "content": content, "_meta": {"usage": wire(counts), **meta}}


_QWEN = [TokenCounts(total=375, input=321, output=44, thought=10, cached_read=0), plain(400, 20), plain(410, 30)]
QWEN = WireSequence(
    "qwen-code",
    "0.24.4",
    "chunks/acpAgent: MessageEmitter.emitUsageMetadata()",
    (
        WireTurn(
            _QWEN[:2],
            [_chunk(_QWEN[0], durationMs=842), used(321, 128_000), _chunk(_QWEN[1], durationMs=90), used(400, 128_000)],
        ),
        WireTurn(_QWEN[2:], [_chunk(_QWEN[2], durationMs=50, parentToolCallId="call-1")]),
    ),
    "derived",
    ["derived"] * 2,
)

# opencode#41660: the reported row is that of the last of four requests; the actual sums are in the issue.
OPENCODE = WireSequence(
    "OpenCode",
    "1.18.33",
    "packages/opencode/src/acp/usage.ts: buildUsage(), totalSessionCost()",
    (
        WireTurn(
            [anthropic(5, 217, 22_455, 11_439), anthropic(1, 15, 11_439, 140)],
            [used(11_580, 200_000, 0.06)],
            anthropic(1, 15, 11_439, 140),
        ),
        WireTurn([anthropic(2, 30, 11_579, 60)], [used(11_641, 200_000, 0.071)], anthropic(2, 30, 11_579, 60)),
    ),
    "partial",
    ["partial"] * 2,
    [0.06, 0.011],
)

GOOSE = WireSequence(
    "goose",
    "1.41.0",
    "crates/goose/src/acp/server.rs: build_prompt_usage(), session.usage",
    (WireTurn([plain(5_000, 40), plain(5_100, 20)], [used(5_120, 128_000, 0.02)], plain(5_100, 20)),),
    "partial",
    ["partial"],
    [0.02],
)

# hermes#70204: `session_prompt_tokens` and the like; they start at 0 again with each process.
HERMES = WireSequence(
    "hermes-agent",
    "0.19.0",
    "acp_adapter/server.py: prompt(), run_conversation() returns agent.session_*_tokens",
    (
        WireTurn([plain(4_000, 50), plain(4_100, 30)], [used(4_200, 1_000_000)], plain(8_100, 80)),
        WireTurn([plain(4_300, 20)], [used(4_400, 1_000_000)], plain(12_400, 100)),
        WireTurn([plain(4_400, 10)], [used(4_500, 1_000_000)], plain(4_400, 10), restarts=True),
        WireTurn([plain(20_000, 60)], [used(9_000, 1_000_000)], plain(24_400, 70)),
    ),
    "cumulative",
    ["derived"] * 4,
)

VIBE = WireSequence(
    "@mistralai/mistral-vibe",
    "2.23.2",
    "vibe/acp/acp_agent_loop.py: _build_usage(), _build_usage_update()",
    (
        WireTurn([plain(3_000, 100)], [used(3_100, 200_000, 0.0015)], plain(3_000, 100)),
        WireTurn([plain(3_200, 40), plain(3_300, 25)], [used(3_325, 200_000, 0.0049)], plain(9_500, 165)),
    ),
    "cumulative",
    ["derived"] * 2,
    [0.0015, 0.0034],
)

# An unknown agent that reports running totals: five turns are needed to be sure.
UNKNOWN_TOTALS = WireSequence(
    "nano-agent",
    "0.1",
    "none: as in nano-rlm#116, engine._total_usage",
    [
        WireTurn([plain(100, 10 + n)], usage=plain(100 * (n + 1), sum(10 + each for each in range(n + 1))))
        for n in range(6)
    ],
    "cumulative",
    ["reported_per_turn", "undecided", "undecided", "undecided", "derived", "derived"],
)

UNKNOWN_TURNS = WireSequence(
    "another-agent",
    "0.1",
    "none: usage of the turn, which falls in the third one",
    [WireTurn([plain(100 + n, output)], usage=plain(100 + n, output)) for n, output in enumerate((10, 20, 15, 40))],
    "reported_per_turn",
    ["reported_per_turn", "undecided", "reported_per_turn", "reported_per_turn"],
)

# kimi-cli (src/kimi_cli/acp/session.py), Cline 3.0.65 (cline#14251), Copilot CLI (copilot-cli#4174)
SILENT = WireSequence(
    "Kimi Code CLI", "1.0", "acp/session.py", [WireTurn([plain(1, 1)])], "not_reported", ["not_reported"]
)

SEQUENCES = (
    *(CLAUDE, CODEX_1, CODEX_2, GEMINI, QWEN, OPENCODE, GOOSE, HERMES, VIBE),
    *(UNKNOWN_TOTALS, UNKNOWN_TURNS, SILENT),
)
