"""A tool call, from its announcement to its end, as one `async with`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import msgspec

from duologue.agent.permissions import _PendingPermission
from duologue.agent.stop_reasons import ToolCancelled
from duologue.conversation.content import Content, JsonObject, as_content
from duologue.conversation.updates import (
    UNSET,
    ContentPart,
    FileChange,
    Location,
    TerminalPart,
    ToolCallUpdate,
    ToolContent,
    UnknownPart,
)
from duologue.conversation.work_state import FINAL_STATUSES
from duologue.protocol.values import PERMISSION_OPTIONS, PermissionOption

if TYPE_CHECKING:
    from duologue.agent.turn import Turn

__all__ = ["ToolCallHandle"]

Part: TypeAlias = str | Content | ToolContent
_PARTS = (ContentPart, FileChange, TerminalPart, UnknownPart)


class ToolCallHandle:
    """One tool call. Entering announces it; leaving completes it, or fails it if an exception passes.

    Made by `turn.tool(…)`.

    Attributes:
        tool_call_id: Unique in the session.
        is_cancelled: The user cancelled this call, and nothing else of the turn.
        on_cancel: What to do then; if nothing is given, the block is left with `ToolCancelled`.
    """

    def __init__(
        self,
        turn: Turn[Any],
        tool_call_id: str,
        title: str,
        kind: str,
        *,
        name: str | None = None,
        locations: Iterable[str | Path | Location] = (),
        raw_input: Any = UNSET,
        cancellable: bool = False,
        meta: JsonObject | None = None,
    ) -> None:
        self.tool_call_id = tool_call_id
        self.is_cancelled = False
        self.on_cancel: Callable[[], Awaitable[None]] | None = None
        self._turn = turn
        self._is_cancellable = cancellable
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._known = ToolCallUpdate(
            is_new=True,
            tool_call_id=tool_call_id,
            title=title,
            kind=kind,
            status="pending",
            name=name if name is not None else UNSET,
            locations=[_as_location(turn, place) for place in locations] or UNSET,
            raw_input=raw_input,
            can_cancel=True if cancellable else UNSET,
            meta=meta if meta is not None else UNSET,
        )
        """All that was said of it so far."""

    @property
    def status(self) -> str:
        """`pending`, `in_progress`, `completed`, `failed` or `cancelled`."""
        return str(self._known.status)

    async def __aenter__(self) -> Self:
        await self._turn.update(self._known)
        if self._is_cancellable:
            self._task = asyncio.current_task()
            self._cancelling = 0 if self._task is None else self._task.cancelling()
            self._turn.session.cancellable[self.tool_call_id] = self._cancel
        return self

    async def _cancel(self) -> None:
        if self.is_cancelled:
            return
        self.is_cancelled = True
        if self.on_cancel is not None:
            await self.on_cancel()
        elif self._task is not None:
            self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turn.session.cancellable.pop(self.tool_call_id, None)
        is_ours = isinstance(error, asyncio.CancelledError) and self.is_cancelled and self.on_cancel is None
        if is_ours and self._task is not None and self._task.uncancel() <= self._cancelling:
            await self.update(status="cancelled")
            raise ToolCancelled(self.tool_call_id)
        await self._end(error)

    async def _end(self, error: BaseException | None) -> None:
        if self.status in FINAL_STATUSES:
            return
        if error is None:
            await self.update(status="cancelled" if self.is_cancelled else "completed")
        elif isinstance(error, asyncio.CancelledError):
            await self._turn.send_final_update(self._patch(status="cancelled"))
        else:
            await self.fail(f"{type(error).__name__}: {error}")

    async def show(self, *parts: Part, replace: bool = False, status: str | None = None) -> None:
        """Add to what the tool call shows: text, content, a `FileChange`, a terminal. `replace` starts afresh.

        With `status="pending"` it shows what it would do, before the user was asked.
        """
        shown = [] if replace else self._content
        await self.update(status=status, content=[*shown, *(_as_part(part) for part in parts)])

    async def diff(self, path: str | Path, old: str | None, new: str | None, *, status: str | None = None) -> None:
        """Show a change to a file: `old` is `None` for a new one, `new` for one that is deleted."""
        await self.show(FileChange(str(path), old, new), status=status)

    async def add_location(self, path: str | Path, line: int | None = None) -> None:
        """Say where the tool works now; clients can follow along."""
        before = self._known.locations if isinstance(self._known.locations, list) else []
        await self.update(locations=[*before, Location(str(path), line)])

    async def update(
        self,
        *,
        title: str | None = None,
        kind: str | None = None,
        status: str | None = None,
        content: list[ToolContent] | None = None,
        locations: list[Location] | None = None,
        raw_input: Any = UNSET,
        raw_output: Any = UNSET,
        meta: JsonObject | None = None,
    ) -> None:
        """Change what is given and leave the rest.

        Work has begun with the first change that is not a status, and before the call is completed: clients see
        `in_progress` in between.
        """
        if self.status == "pending":
            if status == "completed":
                await self._turn.update(self._patch(status="in_progress"))
            elif status is None:
                status = "in_progress"
        await self._turn.update(
            self._patch(
                title=title,
                kind=kind,
                status=status,
                content=content and [self._absolute(part) for part in content],
                locations=locations and [_as_location(self._turn, place) for place in locations],
                raw_input=raw_input,
                raw_output=raw_output,
                meta=meta,
            )
        )

    async def fail(self, reason: str) -> None:
        """The tool did not succeed; the turn goes on."""
        await self.update(status="failed", content=[*self._content, _as_part(reason)])

    async def request_permission(
        self,
        *,
        options: list[PermissionOption] | None = None,
        remember_as: str | None = None,
        meta: JsonObject | None = None,
    ) -> bool:
        """Ask the user whether this may happen. A remembered answer asks nobody; no answer is a no.

        Args:
            options: What the user may choose from; once and always, yes and no, unless given.
            remember_as: What an "always" answer covers in this session; otherwise calls that show the user the same:
                kind, title, input, places and content (of a changed file its path, not its text).
            meta: Attached to the question.
        """
        chosen = await self.ask_permission(options=options, remember_as=remember_as, meta=meta)
        is_allowed = chosen is not None and chosen.kind.startswith("allow")
        await self.update(status="in_progress" if is_allowed else "failed")
        return is_allowed

    async def ask_permission(
        self,
        *,
        options: list[PermissionOption] | None = None,
        remember_as: str | None = None,
        meta: JsonObject | None = None,
    ) -> PermissionOption | None:
        """Like `allow()`, but says which option was chosen, if any, and leaves the status as it is."""
        # All there is to know about it: for some clients the question is the first they hear of the tool call.
        about = msgspec.structs.replace(self._known, is_new=False)
        return await self._turn.ask_permission(
            _PendingPermission(about, remember_as, meta), options or list(PERMISSION_OPTIONS)
        )

    @property
    def _content(self) -> list[ToolContent]:
        return self._known.content if isinstance(self._known.content, list) else []

    def _patch(self, **fields: Any) -> ToolCallUpdate:
        given = {key: value for key, value in fields.items() if value is not None and value is not UNSET}
        self._known = msgspec.structs.replace(self._known, **given)
        return ToolCallUpdate(tool_call_id=self.tool_call_id, **given)

    def _absolute(self, part: ToolContent) -> ToolContent:
        if not isinstance(part, FileChange):
            return part
        return msgspec.structs.replace(part, path=str(self._turn.absolute(part.path)))


def _as_part(part: Part) -> ToolContent:
    return part if isinstance(part, _PARTS) else ContentPart(as_content(part))


def _as_location(turn: Turn[Any], place: str | Path | Location) -> Location:
    location = place if isinstance(place, Location) else Location(str(place))
    return msgspec.structs.replace(location, path=str(turn.absolute(location.path)))
