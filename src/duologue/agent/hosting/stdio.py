"""Serve an agent on this process's stdin and stdout until its client disconnects or a signal arrives."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from duologue.agent.diagnostics.stderr_output import TracebackFormatter, is_development, show_mistakes
from duologue.conversation.session_setup import Implementation
from duologue.runtime.tasks import TaskScope
from duologue.transports.base import Servable
from duologue.transports.stdio.stdio import StdioTransport

if TYPE_CHECKING:
    import argparse

EXIT_SECONDS = 0.25
"""Seconds for tasks and threads that still run after the sessions are closed: the client waits two seconds in all."""

POLL_SECONDS = 0.005
"""Interval of looking whether threads have ended, which nothing reports."""

ON_TERMINAL = """\
This is an ACP agent: it waits for a client (an editor, or `duologue`) that sends JSON-RPC messages to its stdin.
To talk to it: duologue chat -- python {}
To exit: Ctrl-C"""
"""Printed if a person starts an agent without a client."""

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

has_served = False
"""Whether this process has served an agent, as far as it got."""


def serve_stdio(agent: Servable) -> None:
    """Serve an agent on stdin and stdout until the client disconnects or a signal arrives.

    Raises:
        RuntimeError: An event loop is running in this thread.
    """
    check_no_loop("await agent.serve(StdioTransport())", "with `from duologue.lowlevel import StdioTransport`")
    global has_served  # noqa: PLW0603  # of the process, as stdin and stdout are
    has_served = True
    if is_development():
        show_mistakes()
    if sys.stdin is not None and sys.stdin.isatty():
        import shlex  # only here: an agent that a client starts never needs it

        sys.stderr.write(f"{ON_TERMINAL.format(shlex.join(sys.argv))}\n")
    with errors_on_stderr():
        _serve(agent)


def check_no_loop(instead: str, detail: str) -> None:
    """Check that `run` can start an event loop.

    Args:
        instead: What to write inside a coroutine.
        detail: What that needs.

    Raises:
        RuntimeError: An event loop is running in this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        f"`run()` starts an event loop of its own, but one is running already: write `{instead}`, {detail}, "
        "or call `run()` outside of coroutines"
    )


def _serve(agent: Servable) -> None:
    loop = asyncio.new_event_loop()
    try:
        with ExitStack() as until_end:
            code = loop.run_until_complete(_serve_until_signal(agent, until_end))
            if not loop.run_until_complete(_end_leftovers()):
                _exit_now(code)
    except KeyboardInterrupt:
        sys.exit(130)
    loop.close()
    if code:
        sys.exit(code)


@contextmanager
def errors_on_stderr() -> Generator[None]:
    """Log warnings to stderr while the block runs, unless the program has configured logging.

    Under `duologue dev`, log the records of every logger from `INFO` on; the chat shortens their tracebacks.
    """
    log, root, is_all = logging.getLogger("duologue"), logging.getLogger(), is_development()
    if root.handlers or any(not isinstance(each, logging.NullHandler) for each in log.handlers):
        yield
        return
    handler = logging.StreamHandler()
    handler.setLevel(logging.INFO if is_all else logging.WARNING)
    make_formatter = logging.Formatter if is_all else TracebackFormatter
    handler.setFormatter(make_formatter("%(levelname)s %(name)s: %(message)s"))
    if is_all:
        root.setLevel(min(root.level, logging.INFO))
    logged = root if is_all else log
    logged.addHandler(handler)
    try:
        yield
    finally:
        logged.removeHandler(handler)


async def _serve_until_signal(agent: Servable, until_end: ExitStack) -> int:
    """Serve and return the exit code; on a signal, store the sessions and end child processes first.

    Args:
        agent: The agent.
        until_end: Closed when nothing is left to do; later signals must not interrupt that.
    """
    serving = TaskScope().start(agent.serve(StdioTransport()))
    loop = asyncio.get_running_loop()
    received: list[int] = []

    def end(number: int) -> None:
        received.append(number)
        serving.cancel()

    until_end.enter_context(_signals_received(loop, end))
    try:
        with _blocked_loop_report():
            await serving
    except asyncio.CancelledError:
        if not received:
            raise
    return 128 + received[0] if received else 0


@contextmanager
def _signals_received(loop: asyncio.AbstractEventLoop, receive: Callable[[int], None]) -> Generator[None]:
    """Call a function in the event loop for each signal that ends an agent.

    `loop.add_signal_handler` does the same, but looks up the names of all signals each time: a millisecond of a start.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    loop.add_reader(reader, os.read, reader, 1)
    woken_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)  # ends the wait for events

    def handle(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(receive, number)

    handled_before = {number: signal.signal(number, handle) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in handled_before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(woken_before)
        loop.remove_reader(reader)
        os.close(reader)
        os.close(writer)


def _blocked_loop_report() -> AbstractContextManager[None]:
    if not is_development():
        return nullcontext()
    from duologue.agent.diagnostics.blocked_loop import report_blocked_loop

    return report_blocked_loop()


async def _end_leftovers() -> bool:
    """Cancel tasks that the author's code left running, wait for its threads; return True if all have ended."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    with suppress(TimeoutError):
        async with asyncio.timeout(EXIT_SECONDS):
            if tasks:
                await asyncio.wait(tasks)
            await asyncio.get_running_loop().shutdown_asyncgens()
            # A task of its own: a cancellation would wait for the threads, which may never end.
            await asyncio.wait({TaskScope().start(asyncio.get_running_loop().shutdown_default_executor())})
            while _working_threads():  # noqa: ASYNC110  # the end of a thread is not reported
                await asyncio.sleep(POLL_SECONDS)
            return True
    return False


def _working_threads() -> list[threading.Thread]:
    """Return the threads that the interpreter waits for before it exits."""
    return [thread for thread in threading.enumerate() if thread is not threading.main_thread() and not thread.daemon]


def _exit_now(code: int) -> None:
    """Exit although threads still run: the interpreter would wait for them forever."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(code)


def read_command_line(info: Implementation) -> argparse.Namespace:
    """Parse the command line of a program that is an agent."""
    import argparse  # 3 ms that an agent without a command line need not wait for

    from duologue.compat.dialects import DIALECTS

    name = info.title or info.name
    parser = argparse.ArgumentParser(description=f"{name} {info.version}: an ACP agent. Start it from an editor.")
    parser.add_argument("--version", action="version", version=f"{info.name} {info.version}")
    ports = parser.add_mutually_exclusive_group()
    ports.add_argument("--ws", type=_port, metavar="PORT", help="serve WebSocket clients on this port")
    ports.add_argument("--http", type=_port, metavar="PORT", help="serve streamable HTTP clients on this port")
    parser.add_argument("--dialect", choices=DIALECTS, help="the older dialect that the client speaks")
    return parser.parse_args()


def _port(text: str) -> int:
    import argparse

    number = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; use 0 to 65535, where 0 lets the system choose")
    return number
