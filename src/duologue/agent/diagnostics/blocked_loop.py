"""Name the line that blocks the event loop, while it does."""

from __future__ import annotations

import asyncio
import linecache
import logging
import sys
import sysconfig
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

_log = logging.getLogger("duologue.agent")

BLOCKED_SECONDS = 0.5
"""Seconds without an answer of the event loop after which it is blocked; as in `runtime.loop_monitor`."""

_PACKAGE = str(Path(__file__).parents[2])
_ASYNCIO = str(Path(asyncio.__file__).parent)
_LIBRARIES = tuple({_PACKAGE, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))})


@contextmanager
def report_blocked_loop(seconds: float = BLOCKED_SECONDS) -> Generator[None]:
    """Log the line that blocks the running event loop, once for each time, inside the block."""
    loop, blocked_thread, is_over = asyncio.get_running_loop(), threading.get_ident(), threading.Event()

    def watch() -> None:
        while not is_over.wait(seconds):
            answered = threading.Event()
            try:
                loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # the loop is closed
                return
            if answered.wait(seconds):
                continue
            where = location_of(sys._current_frames().get(blocked_thread))
            if where:
                _log.warning("the event loop is blocked, so the agent cannot answer or be cancelled: %s", where)
            while not answered.wait(seconds) and not is_over.is_set():
                pass

    thread = threading.Thread(target=watch, name="duologue-blocked-loop", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()


def location_of(frame: FrameType | None) -> str:
    """Return file, line and source of the author's innermost frame that the loop runs; nothing if the loop is idle."""
    found: FrameType | None = None
    while frame is not None and not frame.f_code.co_filename.startswith(_ASYNCIO):
        if found is None or (_is_library(found) and not _is_library(frame)):
            found = frame
        frame = frame.f_back
    if found is None or found.f_code.co_filename.endswith("selectors.py"):
        return ""
    file, line = found.f_code.co_filename, found.f_lineno
    return f"{file}:{line}, in {found.f_code.co_name}: {linecache.getline(file, line).strip()}".rstrip(": ")


def _is_library(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_LIBRARIES)
