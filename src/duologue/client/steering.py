"""Steering from the client's side: send text into a running turn, or do with it what the caller chose instead.

A text is sent on the connection of its turn and never again: if the agent is lost, so is the turn that could take it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar, cast

from msgspec import Struct

from duologue.client.prompt import build_prompt
from duologue.client.quirks import quirks_of
from duologue.conversation.content import Content, JsonObject, ResourceLink, UnknownContent
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import InfoUpdate, MessageChunk
from duologue.errors import ConnectionLost
from duologue.protocol.steering import (
    MAX_PULLED,
    NO_RUNNING_TURN,
    PROMPT_REQUIRED_META,
    STEERED_META,
    Spelling,
    SteerAnswer,
    SteerOutcome,
    value_at,
)

if TYPE_CHECKING:
    from duologue.client.session import ClientSession
    from duologue.client.turn import ClientTurn

T = TypeVar("T")

Fallback: TypeAlias = Literal["queue", "cancel_and_send"]
"""The fallback for a text that the agent did not take: send it as the next prompt, or also cancel the running turn."""

_FALLBACKS: tuple[Fallback | None, ...] = (None, "queue", "cancel_and_send")


class SteerResult(Struct, Generic[T], frozen=True):
    """The outcome of a text that was sent into a running turn.

    Attributes:
        outcome: `injected`: it is part of the running turn. `started_new_turn`: the agent makes a turn of its own of
            it. `prompt_required`: the agent did not take it, because no turn runs. `not_supported`: the agent cannot
            do that, and got nothing.
        reason: Why it was not injected, in a word of the agent's.
        turn: The turn that the text is the prompt of, because the caller chose that with `otherwise`: sent after the
            running one, without being entered. Cancelling the running turn withdraws it, as any queued prompt.
    """

    outcome: SteerOutcome
    reason: str | None = None
    turn: T | None = None

    @property
    def is_taken(self) -> bool:
        """True if the agent has taken the text; otherwise it is the caller's again, unless `turn` has it."""
        return self.outcome in ("injected", "started_new_turn")


async def steer(
    turn: ClientTurn, message: str | Content | Iterable[str | Content], otherwise: Fallback | None
) -> SteerResult[ClientTurn]:
    """Do what `ClientTurn.steer` says."""
    if otherwise not in _FALLBACKS:
        raise ValueError(f"otherwise={otherwise!r}: it takes 'queue', 'cancel_and_send' or None")
    if turn._task is None:
        raise RuntimeError("the turn was not started; steer it inside `async with session.prompt(…) as turn:`")
    session = turn.session
    blocks = build_prompt(
        message, files=(), images=(), audio=(), cwd=session.cwd, capabilities=session.agent.capabilities
    )
    answer = await _send(turn, turn._task, blocks)
    result = SteerResult["ClientTurn"](answer.outcome, answer.reason)
    if otherwise is None or result.is_taken:
        return result
    following = session.prompt(blocks)
    following._start(is_steering=True)
    if otherwise == "cancel_and_send":
        await turn._cancel(turn._runner.cancel_running)
    return SteerResult(answer.outcome, answer.reason, following)


async def _send(turn: ClientTurn, task: asyncio.Task[None], blocks: list[Content]) -> SteerAnswer:
    session, agent = turn.session, turn.session.agent
    await turn._until_steerable(task)
    pulls = session._pulled_steering.is_used or quirks_of(agent.info).pulls_steering
    if agent._steering is None and not pulls:
        return SteerAnswer("not_supported")
    if turn.is_over or turn.is_cancelling:
        return SteerAnswer("prompt_required", NO_RUNNING_TURN)
    if agent._steering is None:
        return await session._pulled_steering.put(blocks, task)

    def note(answer: SteerAnswer) -> None:
        if answer.outcome in ("injected", "started_new_turn"):
            add_to_transcript(session.transcript, blocks)

    sending = agent._tasks.start(
        agent._proxy.steer(session.id, blocks, PROMPT_REQUIRED_META, agent._steering, session._run_id, note)
    )
    try:
        await asyncio.wait({sending, task}, return_when=asyncio.FIRST_COMPLETED)
        # The turn has ended: an agent that answers late gets as long as one that ends a turn late.
        await asyncio.wait({sending}, timeout=agent._cancel_timeout)
    finally:
        sending.cancel()
    if not sending.done() or sending.cancelled():
        return SteerAnswer("prompt_required", "noResponse")
    try:
        return sending.result()
    except ConnectionLost:
        return SteerAnswer("prompt_required", "connectionLost")


class PulledSteering:
    """The texts of one session that wait until an agent asks for them, which some do between their steps.

    Attributes:
        is_used: The agent has asked.
    """

    def __init__(self) -> None:
        self.is_used = False
        self._waiting: list[tuple[list[Content], asyncio.Future[None]]] = []

    async def put(self, blocks: list[Content], task: asyncio.Task[None]) -> SteerAnswer:
        """Let a text wait until it is taken or the turn has ended."""
        if any(isinstance(block, ResourceLink | UnknownContent) for block in blocks):
            return SteerAnswer("not_supported", "the agent takes no links into a running turn")
        waiting = (blocks, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            await asyncio.wait({waiting[1], task}, return_when=asyncio.FIRST_COMPLETED)
            return SteerAnswer("injected") if waiting[1].done() else SteerAnswer("prompt_required", NO_RUNNING_TURN)
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def take(self, session: ClientSession) -> list[list[Content]]:
        """Return the texts that wait, now part of the turn."""
        self.is_used = True
        if session.is_cancelling:
            return []
        taken, self._waiting = self._waiting[:MAX_PULLED], self._waiting[MAX_PULLED:]
        for blocks, answer in taken:
            answer.set_result(None)
            add_to_transcript(session.transcript, blocks)
        return [blocks for blocks, _ in taken]


def run_id_in(spelling: Spelling | None, update: InfoUpdate, before: str | None) -> str | None:
    """Return the id of the running turn after an update; `before` if the update does not tell it."""
    if spelling is None or not spelling.run_id:
        return before
    *parents, key = spelling.run_id
    parent = value_at(update.meta, (*parents,))
    if not isinstance(parent, dict) or key not in parent:
        return before
    found = cast("JsonObject", parent)[key]
    return found if isinstance(found, str) else None


def add_to_transcript(transcript: Transcript, blocks: Sequence[Content]) -> None:
    """Add a text that the agent has taken: a message of the user, where it became part of the turn."""
    message_id = f"steer-{os.urandom(8).hex()}"
    for block in blocks:
        transcript.apply(MessageChunk(role="user", content=block, message_id=message_id, meta=STEERED_META))
