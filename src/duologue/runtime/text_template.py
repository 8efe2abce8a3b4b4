"""A notification that is sent often with another text each time: all of its frame but the text is serialized once."""

from __future__ import annotations

import os
from collections.abc import Awaitable
from typing import Any

import msgspec

from duologue.jsonrpc.codec import serialize_notification
from duologue.runtime.writer import FrameWriter
from duologue.sanitize import replace_lone_surrogates
from duologue.schema.base import Notification

PLACEHOLDER = os.urandom(16).hex()
"""Stands for the text in the parameters of a template. It is random, so that no id of a peer contains it."""

_encode = msgspec.json.Encoder().encode
_encoded_placeholder = _encode(PLACEHOLDER)


class TextTemplate:
    """Sends one notification with changing texts.

    Args:
        writer: Sends the frames.
        notification: The notification.
        params: Its parameters, with `PLACEHOLDER` as the text.
    """

    __slots__ = ("_head", "_method", "_session_id", "_tail", "_writer")

    def __init__(self, writer: FrameWriter, notification: Notification[Any], params: Any) -> None:
        self._writer = writer
        self._method = notification.name
        self._session_id: str | None = getattr(params, "session_id", None)
        self._head, self._tail = serialize_notification(notification.name, params).split(_encoded_placeholder)

    def send(self, text: str) -> Awaitable[None] | None:
        """Send the notification with this text; return what to await before the next, if anything.

        Raises:
            ConnectionLost: The peer no longer accepts frames.
        """
        try:
            encoded = _encode(text)
        except UnicodeEncodeError:
            encoded = _encode(replace_lone_surrogates(text))
        frame = b"".join((self._head, encoded, self._tail))
        return self._writer.send_notification(self._method, self._session_id, frame)
