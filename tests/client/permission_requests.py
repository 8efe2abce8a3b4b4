"""Questions and acts for the tests of permissions, as short as they can be said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from duologue.conversation.items import ToolCall
from duologue.conversation.updates import FileChange, Location
from duologue.errors import InvalidRequest
from duologue.protocol.values import PermissionOption

KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")


def option(kind: str, option_id: str | None = None, name: str = "") -> PermissionOption:
    return PermissionOption(option_id=option_id or kind, name=name or kind, kind=kind)


ALL = [option(kind) for kind in KINDS]


def question(
    cwd: object = "/",
    *,
    kind: str = "edit",
    paths: Sequence[object] = (),
    changes: Sequence[object] = (),
    command: object = None,
    options: Sequence[PermissionOption] = tuple(ALL),
    session_id: str = "s",
    title: str = "a title",
    raw_input: Mapping[str, Any] | None = None,
) -> PermissionRequest:
    """Make a permission request."""
    given = {**(raw_input or {}), **({} if command is None else {"command": command})}
    tool = ToolCall(
        tool_call_id="call",
        title=title,
        kind=kind,
        locations=[Location(str(path)) for path in paths],
        content=[FileChange(path=str(path), old_text="a", new_text="b") for path in changes],
        raw_input=given,
    )
    return PermissionRequest(session_id=session_id, cwd=str(cwd), tool=tool, options=list(options), raw=b"{}")


class User:
    """A user who gives the same answer to every request, and records the requests."""

    def __init__(self, answer: Callable[[PermissionRequest], object] = lambda asked: None) -> None:
        self.asked: list[PermissionRequest] = []
        self._answer = answer

    async def __call__(self, asked: PermissionRequest) -> object:
        self.asked.append(asked)
        return self._answer(asked)


def user_answering(answer: object) -> User:
    return User(lambda asked: answer)


def allowing_user() -> User:
    return User(lambda asked: asked.allow())


def rejecting_user() -> User:
    return User(lambda asked: asked.reject())


async def is_permitted(check: Awaitable[None]) -> bool:
    """Return True if a check passes; every rejection must have the same message."""
    try:
        await check
    except InvalidRequest as refused:
        assert refused.message == "not permitted by the client's rules"
        return False
    return True


async def writes(permissions: Permissions, cwd: object, path: object, session_id: str = "s") -> bool:
    return await is_permitted(permissions.check_write(session_id, str(cwd), str(path)))


async def reads(permissions: Permissions, cwd: object, path: object, session_id: str = "s") -> bool:
    return await is_permitted(permissions.check_read(session_id, str(cwd), str(path)))


async def runs(
    permissions: Permissions,
    cwd: object,
    *argv: str,
    directory: object = None,
    env: Mapping[str, str] | None = None,
    session_id: str = "s",
) -> bool:
    where = str(cwd if directory is None else directory)
    return await is_permitted(permissions.check_command(session_id, str(cwd), argv, where, env=env))
