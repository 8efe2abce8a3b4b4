"""The meaning of recorded messages, read without being one of the two sides.

version 1    the answer to a prompt ends its turn
version 2    an idle state ends it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec import Raw

from duologue.conversation.content import Content
from duologue.conversation.updates import StateUpdate, Update
from duologue.protocol.steering import SPELLINGS, Spelling, SteerRequest
from duologue.protocol.v1 import content as content_v1
from duologue.protocol.v1 import updates as updates_v1
from duologue.protocol.v1.terminal_meta import terminal_updates
from duologue.protocol.v2 import content as content_v2
from duologue.protocol.v2 import tools as tools_v2
from duologue.protocol.v2 import updates as updates_v2
from duologue.schema import v1, v2
from duologue.schema.codec import decode, encode


class ObservedMessage(NamedTuple):
    """A message about a session: a prompt, updates, or a text for the running turn in some spelling."""

    session_id: str
    prompt: Sequence[Content] = ()
    steering: Sequence[Content] = ()
    spelling: Spelling | None = None
    updates: Sequence[Update] = ()


def observe(version: int, method: str, params: Raw) -> ObservedMessage | None:
    """Read a request or notification about a session; None if the method is not one of those.

    Raises:
        InvalidParams: The parameters do not match the schema.
    """
    read = _READERS.get((version, method))
    return None if read is None else read(params)


def ends_turn(version: int, answered: str | None = None, update: Update | None = None) -> bool:
    """Return True if a turn ends with the answer to this method, or with this update."""
    if version == 1:
        return answered == "session/prompt"
    return isinstance(update, StateUpdate) and update.state == "idle"


def _prompt(schema: Any, content: Any, params: Raw) -> ObservedMessage:
    request = decode(schema.PromptRequest, params)
    return ObservedMessage(request.session_id, prompt=content.blocks_from_wire(request.prompt))


def _steer(schema: Any, content: Any, spelling: Spelling, params: Raw) -> ObservedMessage:
    request = decode(SteerRequest, params)
    fields = {"sessionId": request.session_id, "prompt": request.prompt or request.content or []}
    blocks = content.blocks_from_wire(decode(schema.PromptRequest, encode(fields)).prompt)
    return ObservedMessage(request.session_id, steering=blocks, spelling=spelling)


def _update_v1(params: Raw) -> ObservedMessage:
    notification = decode(v1.SessionNotification, params)
    update = updates_v1.update_from_wire(notification.update)
    return ObservedMessage(notification.session_id, updates=[*terminal_updates(update), update])


def _permission_v1(params: Raw) -> ObservedMessage:
    request = decode(v1.RequestPermissionRequest, params)
    return ObservedMessage(request.session_id, updates=[updates_v1.permission_tool_from_wire(request.tool_call)])


def _update_v2(params: Raw) -> ObservedMessage:
    notification = decode(v2.UpdateSessionNotification, params)
    return ObservedMessage(notification.session_id, updates=[updates_v2.update_from_wire(notification.update)])


def _permission_v2(params: Raw) -> ObservedMessage:
    request = decode(v2.RequestPermissionRequest, params)
    tool = tools_v2.permission_tool_from_wire(request)
    return ObservedMessage(request.session_id, updates=[tool] if tool.tool_call_id else [])


_READERS: dict[tuple[int, str], Callable[[Raw], ObservedMessage]] = {
    (1, "session/prompt"): partial(_prompt, v1, content_v1),
    (1, "session/update"): _update_v1,
    (1, "session/request_permission"): _permission_v1,
    (2, "session/prompt"): partial(_prompt, v2, content_v2),
    (2, "session/update"): _update_v2,
    (2, "session/request_permission"): _permission_v2,
    **{(1, each.method): partial(_steer, v1, content_v1, each) for each in SPELLINGS},
    **{(2, each.method): partial(_steer, v2, content_v2, each) for each in SPELLINGS},
}
