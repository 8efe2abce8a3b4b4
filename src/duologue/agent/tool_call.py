"""A tool call, from its announcement to its end, as one `async with` block."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

import msgspec

from duologue.agent.diagnostics.checks import check_tool_call
from duologue.agent.diagnostics.misused_results import must_be_awaited, report_unentered
from duologue.agent.permissions import PendingPermission, request_permission
from duologue.agent.turn_exceptions import StopTurn, ToolCancelled
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
from duologue.conversation.work_state import FINAL_STATUSES, ToolKind, ToolStatus
from duologue.errors import CommandNotFound, RequestError, StoreError
from duologue.protocol.values import PERMISSION_OPTIONS, PermissionOption
from duologue.runtime.incoming_requests import text_for_peer
from duologue.sanitize import quote

if TYPE_CHECKING:
    from duologue.agent.turn import Turn

_log = logging.getLogger("duologue.agent")

Part: TypeAlias = str | Content | ToolContent
_HOW_TO_ENTER = "write `async with turn.tool(…) as tool:`"
_FOR_CLIENTS = (RequestError, StopTurn, CommandNotFound, StoreError)
"""Exceptions whose text a client is sent: the author chose it, or only the user can do something about the cause."""
_PARTS = (ContentPart, FileChange, TerminalPart, UnknownPart)


class ToolCallHandle:
    """A tool call, created by `turn.tool(…)`: entering announces it, leaving completes it, an exception fails it.

    Attributes:
        tool_call_id: The id of the tool call, unique in the session.
        is_cancelled: True if the user cancelled this tool call alone.
        on_cancel: Awaited when the user cancels this tool call. Default: leave the block with `ToolCancelled`.
    """

    def __init__(
        self,
        turn: Turn[Any],
        tool_call_id: str,
        title: str,
        kind: ToolKind,
        *,
        name: str | None = None,
        locations: Iterable[str | Path | Location] = (),
        raw_input: Any = UNSET,
        cancellable: bool = False,
        meta: JsonObject | None = None,
    ) -> None:
        self._is_entered = True  # until it is made: one with a wrong kind is not reported as well
        check_tool_call(kind)
        caller = sys._getframe(2)
        self._code, self._line = caller.f_code, caller.f_lineno
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
            locations=[_as_location(turn, each) for each in locations] or UNSET,
            raw_input=raw_input,
            can_cancel=True if cancellable else UNSET,
            meta=meta if meta is not None else UNSET,
        )
        """Everything that was sent about the tool call so far."""
        self._is_entered = False

    @property
    def turn(self) -> Turn[Any]:
        """The turn that the tool call belongs to."""
        return self._turn

    @property
    def status(self) -> ToolStatus:
        """The current status: `pending`, `in_progress`, `completed`, `failed` or `cancelled`."""
        return cast("ToolStatus", self._known.status)

    @property
    def name(self) -> str | None:
        """The name of the tool for programs, if it has one."""
        return None if self._known.name is UNSET else self._known.name

    @property
    def kind(self) -> ToolKind:
        """The kind of the tool: `read`, `edit`, `execute`, …."""
        return cast("ToolKind", self._known.kind)

    def __repr__(self) -> str:
        return f"<ToolCallHandle {self._known.title!r} ({self._known.kind}), {self.status}>"

    def __del__(self) -> None:
        if not self._is_entered:
            report_unentered(self._turn, "turn.tool", self._code, self._line)

    async def __aenter__(self) -> Self:
        self._is_entered = True
        await self._turn.update(self._known)
        if self._is_cancellable:
            self._task = asyncio.current_task()
            self._cancelling = 0 if self._task is None else self._task.cancelling()
            self._turn.session._cancellable[self.tool_call_id] = self._cancel
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
        self._turn.session._cancellable.pop(self.tool_call_id, None)
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
            await self._fail_with(error)

    async def _fail_with(self, error: BaseException) -> None:
        """Mark the tool call as failed; the text of an exception that is not meant for the client is only logged."""
        if isinstance(error, _FOR_CLIENTS):
            await self.fail(f"{type(error).__name__}: {error}")
            return
        text = text_for_peer(error, debug=True)
        _log.warning(
            "session %s: the tool call %s failed: %s", self._turn.session.id, quote(self._known.title), quote(text)
        )
        await self.fail(text_for_peer(error, debug=self._turn.session._debug))

    async def show(self, *parts: Part, replace: bool = False, status: ToolStatus | None = None) -> None:
        """Add content to the tool call: text, a content block, a `FileChange` or a terminal.

        Args:
            parts: What to show.
            replace: Replace what was shown before.
            status: The new status; `pending` shows what the tool would do before permission is requested.
        """
        shown = [] if replace else self._content
        await self.update(status=status, content=[*shown, *(_as_part(part) for part in parts)])

    async def diff(
        self, path: str | Path, old: str | None, new: str | None, *, status: ToolStatus | None = None
    ) -> None:
        """Show a change to a file; `old` is `None` for a new file, `new` is `None` for a deleted one."""
        await self.show(FileChange(str(path), old, new), status=status)

    async def add_location(self, path: str | Path, line: int | None = None) -> None:
        """Report a location that the tool works on now; clients can follow it."""
        before = self._known.locations if isinstance(self._known.locations, list) else []
        await self.update(locations=[*before, Location(str(path), line)])

    async def update(
        self,
        *,
        title: str | None = None,
        kind: ToolKind | None = None,
        status: ToolStatus | None = None,
        content: list[ToolContent] | None = None,
        locations: list[Location] | None = None,
        raw_input: Any = UNSET,
        raw_output: Any = UNSET,
        meta: JsonObject | None = None,
    ) -> None:
        """Send new values of some fields; the others stay as they are.

        The first change of another field than the status moves a pending tool call to `in_progress`, and so does its
        completion: clients always see `in_progress` in between.
        """
        check_tool_call(kind, status)
        if not self._is_entered:
            raise RuntimeError(f"{self!r} was not announced; {_HOW_TO_ENTER}")
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
                locations=locations and [_as_location(self._turn, each) for each in locations],
                raw_input=raw_input,
                raw_output=raw_output,
                meta=meta,
            )
        )

    async def fail(self, reason: str) -> None:
        """Mark the tool call as failed and show the reason; the turn goes on."""
        await self.update(status="failed", content=[*self._content, _as_part(reason)])

    @must_be_awaited
    async def request_permission(
        self,
        *,
        options: list[PermissionOption] | None = None,
        remember_as: str | None = None,
        meta: JsonObject | None = None,
    ) -> bool:
        """Request the user's permission for this tool call and return True if it is allowed.

        A remembered "always" answer is used without a request; no answer counts as rejected. The status becomes
        `in_progress` or `failed`.

        Args:
            options: The options to choose from. Default: allow and reject, once and always.
            remember_as: What an "always" answer covers in this session. Default: tool calls that show the user the
                same kind, title, input, locations and content (of a changed file its path, not its text).
            meta: Attached to the request.
        """
        chosen = await self._request_option(options, remember_as, meta)
        is_allowed = chosen is not None and chosen.kind.startswith("allow")
        await self.update(status="in_progress" if is_allowed else "failed")
        return is_allowed

    @must_be_awaited
    async def request_permission_option(
        self,
        *,
        options: list[PermissionOption] | None = None,
        remember_as: str | None = None,
        meta: JsonObject | None = None,
    ) -> PermissionOption | None:
        """Request the user's permission and return the chosen option, or `None`; the status does not change.

        Takes the same arguments as `request_permission`.
        """
        return await self._request_option(options, remember_as, meta)

    async def _request_option(
        self, options: list[PermissionOption] | None, remember_as: str | None, meta: JsonObject | None
    ) -> PermissionOption | None:
        self._turn._check_open()
        if not self._is_entered:
            raise RuntimeError(f"{self!r} was not announced; {_HOW_TO_ENTER}")
        # Send everything that is known: for some clients the request is the first message about the tool call.
        request = PendingPermission(msgspec.structs.replace(self._known, is_new=False), remember_as, meta)
        return await request_permission(self._turn.session, request, options or list(PERMISSION_OPTIONS))

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


def _as_location(turn: Turn[Any], path: str | Path | Location) -> Location:
    location = path if isinstance(path, Location) else Location(str(path))
    return msgspec.structs.replace(location, path=str(turn.absolute(location.path)))
