"""Compaction of a long conversation: cleared tool results first, then a summary, reported to the client."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic_ai import RunContext
from pydantic_ai.messages import CompactionPart, ModelMessage
from pydantic_ai_harness.compaction import ClearToolResults, SummarizingCompaction, TieredCompaction

from duologue.coder.turn import CodeTurn

FULL = 0.8
"""Part of the context at which a conversation is compacted."""

RECENT_MESSAGES = 10
"""Messages that stay as they are."""


@dataclass
class ReportedCompaction(SummarizingCompaction[CodeTurn]):
    """A summary that is reported as a compaction of the session; if it fails, the conversation stays as it is."""

    async def compact(self, messages: list[ModelMessage], ctx: RunContext[CodeTurn]) -> list[ModelMessage]:
        """Replace older messages by a summary."""
        if len(messages) <= self.keep_messages:
            return messages  # there are no older ones
        turn = ctx.deps.turn
        compaction_id = turn.session.new_id("compaction")
        await turn.report_compaction(compaction_id, "in_progress")
        try:
            compacted = await super().compact(messages, ctx)
        except Exception as error:
            await turn.report_compaction(compaction_id, "failed", error=str(error))
            return messages
        if compacted is messages:
            await turn.report_compaction(compaction_id, "failed", error="the newest messages alone fill the context")
        else:
            await turn.report_compaction(compaction_id, "completed", summary=_summary(compacted) or None)
        return compacted


def compaction(context_window: int | None) -> TieredCompaction[CodeTurn]:
    """Return the strategy; the size of the context is needed if the library does not know it."""
    return TieredCompaction(
        tiers=[
            ClearToolResults[CodeTurn](max_tokens=1),
            ReportedCompaction(max_messages=1, keep_messages=RECENT_MESSAGES),
        ],
        target_fraction=FULL,
        context_window=context_window,
    )


def _summary(messages: list[ModelMessage]) -> str:
    parts = [part for message in messages for part in message.parts if isinstance(part, CompactionPart)]
    return parts[-1].content or "" if parts else ""
