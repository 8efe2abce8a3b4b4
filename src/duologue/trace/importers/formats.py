"""The formats that can be imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from duologue.recording.format import MAGIC
from duologue.trace.importers.acp_devtools import is_acp_devtools, read_acp_devtools
from duologue.trace.importers.acpx import is_acpx, read_acpx
from duologue.trace.importers.conductor import is_conductor, read_conductor
from duologue.trace.importers.foreign_log import ForeignFrame, ForeignLog
from duologue.trace.importers.python_sdk import is_python_sdk, read_python_sdk
from duologue.trace.importers.zed import is_zed, read_zed


class LogFormat(NamedTuple):
    """A format: how it is recognized by its first bytes, and how it is read."""

    matches: Callable[[bytes], bool]
    read: Callable[[ForeignLog], Iterator[ForeignFrame]]


FORMATS = {
    "zed": LogFormat(is_zed, read_zed),
    "acp-devtools": LogFormat(is_acp_devtools, read_acp_devtools),
    "conductor": LogFormat(is_conductor, read_conductor),
    "python-sdk": LogFormat(is_python_sdk, read_python_sdk),
    "acpx": LogFormat(is_acpx, read_acpx),
}
"""Formats by name, in the order in which they are tried."""


def format_of(log: ForeignLog) -> str:
    """Return the name of the format of a log.

    Raises:
        ValueError: It is none of these, or a recording already.
    """
    if log.head.startswith(MAGIC):
        raise ValueError("it is a recording already")
    for name, each in FORMATS.items():
        if each.matches(log.head):
            return name
    raise ValueError(f"the format is not one of {', '.join(FORMATS)}")
