"""Habits of known agents, as data: name and version of an agent -> meaning of the tokens that it reports.

Each row was read in the published source of the agent; `source` names the file. An agent that is not here, or reports
nothing, has no habit: `counter` then finds out from the numbers what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from duologue.conversation.session_setup import Implementation

Meaning: TypeAlias = Literal["per_turn", "cumulative", "last_request", "per_request"]
"""Scope of the tokens of a prompt's response: the turn, the session so far, the last request to the model, or each
request (reported in updates, so that the turn is their sum)."""


class UsageHabit(Struct, frozen=True):
    """How one agent reports tokens.

    Attributes:
        agent: Name of the agent, as in `agentInfo`.
        meaning: What its numbers mean.
        source: Where that was read: version and file.
        since: First version that does so.
        until: First version that no longer does so; `None`: every later one does.
        restarts: Its running total starts at 0 with each process, even for an earlier session.
        reports_cost: It reports the cost of the session in `usage_update`.
    """

    agent: str
    meaning: Meaning
    source: str
    since: str = "0"
    until: str | None = None
    restarts: bool = False
    reports_cost: bool = False


HABITS: Sequence[UsageHabit] = (
    # `accumulatedUsage` is set to zero when a turn begins. The cost is `total_cost_usd`, which grows; `used` is of the
    # last message of the model.
    UsageHabit(
        "@agentclientprotocol/claude-agent-acp",
        "per_turn",
        "0.99.1, dist/acp-agent.js, sessionUsage()",
        reports_cost=True,
    ),
    UsageHabit(
        "@zed-industries/claude-agent-acp",
        "per_turn",
        "0.25.0, src/acp-agent.ts, sessionUsage()",
        reports_cost=True,
    ),
    # `lastTokenUsage`; from 2.2 on the difference of the thread's totals at the end and at the beginning of the prompt.
    UsageHabit(
        "@agentclientprotocol/codex-acp",
        "last_request",
        "1.6.2, src/CodexAcpServer.ts, buildPromptUsage()",
        until="2.2",
    ),
    UsageHabit("@agentclientprotocol/codex-acp", "per_turn", "2.6.0, dist/index.js, PromptTokenUsage", since="2.2"),
    # Sums over the requests of a prompt, in `_meta.quota.token_count`; later also in `usage`.
    UsageHabit("gemini-cli", "per_turn", "0.61.0, bundle, Session.prompt()"),
    # Each request: `_meta.usage` of an empty `agent_message_chunk`. A replay of the session repeats them.
    UsageHabit("qwen-code", "per_request", "0.24.4, chunks/acpAgent, MessageEmitter.emitUsageMetadata()"),
    # The tokens of the last assistant message. The cost is the sum of all messages of the session.
    UsageHabit(
        "OpenCode", "last_request", "1.18.33, packages/opencode/src/acp/usage.ts, buildUsage()", reports_cost=True
    ),
    # `session.usage`, which each request to the model replaces. The cost is `accumulated_cost`.
    UsageHabit(
        "goose", "last_request", "1.35.0, crates/goose/src/acp/server.rs, build_prompt_usage()", reports_cost=True
    ),
    # `session_prompt_tokens` and the like of an object that is made with each process.
    UsageHabit("hermes-agent", "cumulative", "0.19.0, acp_adapter/server.py, prompt()", restarts=True),
    # `stats.session_prompt_tokens` and the like; `used` is `stats.context_tokens`.
    UsageHabit("@mistralai/mistral-vibe", "cumulative", "2.x, vibe/acp/acp_agent_loop.py, _build_usage()"),
)


def habit_of(info: Implementation | None) -> UsageHabit | None:
    """Return the habit of the agent with this name and version; `None` if it is not known."""
    rows = [] if info is None else [row for row in HABITS if row.agent == info.name]
    version = _parsed(info.version) if info is not None and rows else ()
    return next((row for row in rows if _is_in(row, version)), None)


def _is_in(row: UsageHabit, version: tuple[int, ...]) -> bool:
    if not version:  # an unreadable version is most likely the newest
        return row.until is None
    return _parsed(row.since) <= version and (row.until is None or version < _parsed(row.until))


def _parsed(version: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(each) for each in found[1].split(".")[:4]) if found and len(found[1]) < 40 else ()
