"""A running trial as others may watch it: its updates so far, and those that follow."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from duologue.conversation.content import TextContent
from duologue.conversation.updates import MessageChunk, Update
from duologue.errors import InvalidParams
from duologue.evals.record.key import TrialKey
from duologue.protocol.observation import observe
from duologue.runtime.observers import Direction

MOST_BYTES = 16 << 20
"""Bytes of the frames of a trial whose updates are kept for those that attach later; the oldest are forgotten."""


class _Call(Struct):
    method: str = ""
    params: Raw = Raw(b"{}")


class Controlled(Protocol):
    """The conversation of a trial, as far as a watcher may change it."""

    async def interrupt(self) -> None: ...
    async def say(self, text: str) -> None: ...


class Follower:
    """Reads the updates of a trial at its own pace; for the oldest ones, a slow reader may get a message instead."""

    def __init__(self, trial: WatchedTrial) -> None:
        self._trial = trial
        self._position = 0

    def take(self) -> Update | None:
        """Return the next update that is there; None if all were read."""
        update, self._position = self._trial.update_at(self._position)
        return update

    async def wait(self) -> bool:
        """Wait until there is another update; return False if the trial has ended and all were read."""
        return await self._trial.wait(self._position)


class WatchedTrial:
    """One attempt at a trial. Pass it to `connect` as an observer.

    Args:
        key: The trial.
        attempt: Number of the attempt.
        clean: Removes secrets from a frame.

    Attributes:
        id: Its session id for watchers.
        key: The trial.
        cwd: The workspace.
        version: Version of the protocol that its agent speaks.
        conversation: Its conversation; None before it has begun.
        changed_at: When something last happened, in UTC (ISO 8601).
        ended: How it ended; None while it runs.
    """

    def __init__(self, key: TrialKey, attempt: int, clean: Callable[[bytes], bytes]) -> None:
        self.id = f"{key.agent}/{key.case}/{key.trial}" + (f"/attempt-{attempt}" if attempt > 1 else "")
        self.key = key
        self.cwd = "/"
        self.version = 1
        self.conversation: Controlled | None = None
        self.ended: str | None = None
        self.changed_at = _now()
        self._clean = clean
        self._updates: deque[tuple[Update, int]] = deque()
        self._bytes = 0
        self._forgotten = 0
        self._changed = asyncio.Event()

    def __call__(self, direction: Direction, frame: bytes) -> None:
        """Keep the updates of a frame."""
        if b'"session/' not in frame:
            return
        try:
            call = msgspec.json.decode(self._clean(frame), type=_Call)
            observed = observe(self.version, call.method, call.params)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidParams):
            return  # the recording has it
        if observed is None:
            return
        for content in observed.prompt:
            self._add(MessageChunk(role="user", content=content), len(frame))
        for update in observed.updates:
            self._add(update, len(frame))

    def end(self, text: str) -> None:
        """Say how it ended; that is the last update."""
        self._add(MessageChunk(role="agent", content=TextContent(f"\n\n[the trial has ended: {text}]\n")), 0)
        self.ended = text

    def update_at(self, position: int) -> tuple[Update | None, int]:
        """Return the update at a position and the position after it; None if there is none yet.

        For a position that was forgotten, return a message that says so.
        """
        if position < self._forgotten:
            lost = self._forgotten - position
            text = f"[{lost} earlier updates are in the recording]\n\n"
            return MessageChunk(role="agent", content=TextContent(text)), self._forgotten
        if position < self._forgotten + len(self._updates):
            return self._updates[position - self._forgotten][0], position + 1
        return None, position

    async def wait(self, position: int) -> bool:
        """Wait until there is an update at a position; return False if the trial ended before."""
        while position >= self._forgotten + len(self._updates):
            if self.ended is not None:
                return False
            await self._changed.wait()
        return True

    def _add(self, update: Update, size: int) -> None:
        self.changed_at = _now()
        self._updates.append((update, size))
        self._bytes += size
        while self._bytes > MOST_BYTES and len(self._updates) > 1:
            self._bytes -= self._updates.popleft()[1]
            self._forgotten += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class TrialWatch:
    """The trials of a run that can be watched."""

    def __init__(self) -> None:
        self._trials: dict[str, WatchedTrial] = {}

    @property
    def running(self) -> list[WatchedTrial]:
        """The trials that run."""
        return list(self._trials.values())

    def get(self, id: str) -> WatchedTrial | None:
        """Return a trial that runs."""
        return self._trials.get(id)

    def add(self, trial: WatchedTrial) -> None:
        """Offer a trial to watchers."""
        self._trials[trial.id] = trial

    def remove(self, trial: WatchedTrial, text: str) -> None:
        """End the view of a trial; those that follow it see how it ended."""
        trial.end(text)
        self._trials.pop(trial.id, None)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
