"""Putting an agent on this process's stdin and stdout, until its client leaves or somebody asks it to end."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from duologue.compat.dialects import DIALECTS
from duologue.conversation.session_setup import Implementation
from duologue.runtime.tasks import TaskScope
from duologue.transports.base import Servable
from duologue.transports.stdio.stdio import StdioTransport

__all__ = ["errors_on_stderr", "read_command_line", "serve_stdio"]

LEAVE_SECONDS = 0.25
"""For what still runs when the client is gone and the sessions are closed: the client waits two seconds for our end."""

POLL_SECONDS = 0.005
"""Nobody tells when a thread ends."""


def serve_stdio(agent: Servable) -> None:
    """Serve on stdin and stdout until the client leaves or somebody asks us to end."""
    with errors_on_stderr():
        _serve(agent)


def _serve(agent: Servable) -> None:
    loop = asyncio.new_event_loop()
    threads = ThreadPoolExecutor(thread_name_prefix="duologue")
    loop.set_default_executor(threads)
    try:
        code = loop.run_until_complete(_serve_until_told(agent))
        threads.shutdown(wait=False, cancel_futures=True)
        has_ended = loop.run_until_complete(_end_the_rest())
    except KeyboardInterrupt:
        sys.exit(130)
    if not has_ended:
        _leave(code)
    loop.close()
    if code:
        sys.exit(code)


@contextmanager
def errors_on_stderr() -> Generator[None]:
    """Let the author of a program that configures no logging see what goes wrong; the library by itself is quiet."""
    log = logging.getLogger("duologue")
    if logging.getLogger().handlers or any(not isinstance(each, logging.NullHandler) for each in log.handlers):
        yield
        return
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


async def _serve_until_told(agent: Servable) -> int:
    """A signal ends the conversation in good order: sessions are saved, children ended. The exit code."""
    serving = TaskScope().start(agent.serve(StdioTransport()))
    loop = asyncio.get_running_loop()
    told: list[int] = []

    def end(number: int) -> None:
        told.append(number)
        serving.cancel()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, end, number)
    try:
        await serving
    except asyncio.CancelledError:
        if not told:
            raise
    return 128 + told[0] if told else 0


async def _end_the_rest() -> bool:
    """End what the author's code left running, tasks and threads; whether all of it has ended."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    with suppress(TimeoutError):
        async with asyncio.timeout(LEAVE_SECONDS):
            if tasks:
                await asyncio.wait(tasks)
            await asyncio.get_running_loop().shutdown_asyncgens()
            while _working_threads():  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)
            return True
    return False


def _working_threads() -> list[threading.Thread]:
    """Threads that an interpreter waits for before it ends."""
    return [thread for thread in threading.enumerate() if thread is not threading.main_thread() and not thread.daemon]


def _leave(code: int) -> None:
    """End the process although something in it does not: an interpreter would wait for it for ever."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(code)


def read_command_line(info: Implementation) -> argparse.Namespace:
    """The command line of an agent that is its own program: where to talk, if not on stdin and stdout."""
    name = info.title or info.name
    parser = argparse.ArgumentParser(description=f"{name} {info.version}: an ACP agent. Start it from an editor.")
    parser.add_argument("--version", action="version", version=f"{info.name} {info.version}")
    places = parser.add_mutually_exclusive_group()
    places.add_argument("--ws", type=_port, metavar="PORT", help="serve on the network: WebSocket on this port")
    places.add_argument("--http", type=_port, metavar="PORT", help="serve on the network: streamable HTTP on this port")
    parser.add_argument("--dialect", choices=DIALECTS, help="what the client speaks, if that is an older dialect")
    return parser.parse_args()


def _port(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535, and 0 lets the system choose")
    return number
