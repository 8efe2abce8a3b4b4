"""The logs of acpx: `~/.acpx/sessions/*.stream.ndjson` and the output of `--format json`.

Each line is a message as it was sent, without its time and receiver, or in a stream a note of acpx, which has a schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from duologue.trace.importers.foreign_log import ForeignFrame, ForeignLog
from duologue.trace.importers.receivers import Receivers

_HEAD = re.compile(rb'\s*\{(?:"schema":"acpx\.|[^\n]*"jsonrpc"\s*:)')


class _Line(Struct):
    schema: str = ""
    id: int | str | None = None
    method: str | None = None


_decode = msgspec.json.Decoder(_Line).decode


def is_acpx(head: bytes) -> bool:
    """Return True if a file begins with a note of acpx, or a message of JSON-RPC."""
    return _HEAD.match(head) is not None


def read_acpx(log: ForeignLog) -> Iterator[ForeignFrame]:
    """Yield the messages."""
    receivers = Receivers()
    for number, line in log.lines():
        try:
            message = _decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            log.leave_out(number, f"not a message of JSON-RPC: {error}")
            continue
        if message.schema.startswith("acpx."):
            continue
        direction = receivers.of_message(message.method, message.id)
        if direction is None:
            what = f"method {message.method!r}" if message.method is not None else f"response {message.id!r}"
            log.leave_out(number, f"nothing says who receives the {what}")
        else:
            yield ForeignFrame(0.0, direction, line.strip())
