"""`duologue tap`: record what an editor and an agent send each other, from between the two."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from duologue.cli.arguments import parse_key_values
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.cli.recordings import own_patterns
from duologue.cli.targets import command_of, remote_factory, target_of
from duologue.client.target import Target
from duologue.config.recordings import new_recording
from duologue.recording.format import FrameDirection
from duologue.recording.recorder import Recorder
from duologue.relay.byte_tap import ByteTap, StreamRecorder

SUMMARY_SECONDS = 1.0
"""Time between two summaries on a terminal."""


def tap(arguments: argparse.Namespace) -> int:
    """Pass everything on and record it until the agent ends; return the exit code of the agent."""
    target = target_of(arguments)
    started = command_of(target, arguments.lock)
    if started is None:
        return _tap_remote(arguments, target)
    command, env = started[0], {**started[1], **parse_key_values(arguments.env, "--env")}
    recorder = _recorder(arguments, command, env)
    streams = _Streams(recorder)
    try:
        code = ByteTap(command, streams, env).run()
    finally:
        streams.close()
    return exit_like(code)


def _recorder(
    arguments: argparse.Namespace, agent: Sequence[str], env: Mapping[str, str] | None = None
) -> Recorder | None:
    """Open the recording; None if the disk does not take it, which must not stop an editor's agent.

    Raises:
        UsageError: The file exists and is not a recording, or a pattern is not valid.
    """
    path, patterns = Path(arguments.output or new_recording()), [*own_patterns(), *arguments.redact]
    try:
        is_appended = path.exists() and path.stat().st_size > 0
        recorder = Recorder(path, agent=agent, patterns=patterns, env=env)
    except FileExistsError as error:
        raise UsageError(f"-o {arguments.output}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"--redact: {error}") from None
    except OSError as error:
        sys.stderr.write(f"duologue tap: nothing is recorded: {error}\n")
        return None
    if is_appended:
        sys.stderr.write(f"duologue tap: {recorder.path} exists; appending to it\n")
    elif sys.stderr.isatty():
        sys.stderr.write(f"duologue tap: recording to {recorder.path}\n")
    return recorder


class _Streams(StreamRecorder):
    """Gives the streams to the recorder, and shows a line about them if stderr is a terminal."""

    def __init__(self, recorder: Recorder | None) -> None:
        self._recorder = recorder
        self._frames: dict[FrameDirection, int] = {"to_agent": 0, "to_client": 0}
        self._bytes = 0
        self._began = time.monotonic()
        self._closed = threading.Event()
        self._is_shown = sys.stderr.isatty()
        if self._is_shown:
            threading.Thread(target=self._show_summaries, daemon=True).start()

    def add_bytes(self, direction: FrameDirection, data: bytes) -> None:
        if self._is_shown:
            self._frames[direction] += data.count(b"\n")
            self._bytes += len(data)
        if self._recorder is not None:
            self._recorder.add_bytes(direction, data)

    def add_stderr(self, data: bytes) -> None:
        if self._recorder is not None:
            self._recorder.add_stderr(data)

    def add_exit(self, exit_code: int) -> None:
        if self._recorder is not None:
            self._recorder.add_exit(exit_code)

    def close(self) -> None:
        """Finish the recording, and say on stderr what is missing from it."""
        self._closed.set()
        recorder = self._recorder
        if recorder is not None:
            recorder.close()
            if recorder.lost:
                sys.stderr.write(f"duologue tap: {recorder.lost:,} messages are missing from {recorder.path}\n")
        if self._is_shown:
            sys.stderr.write(f"\r\x1b[K{self._summary()}\n")

    def _show_summaries(self) -> None:
        while not self._closed.wait(SUMMARY_SECONDS):
            sys.stderr.write(f"\r\x1b[K{self._summary()}")
            sys.stderr.flush()

    def _summary(self) -> str:
        sent, received = self._frames["to_agent"], self._frames["to_client"]
        lost = 0 if self._recorder is None else self._recorder.lost
        missing = f", {lost:,} not recorded" if lost else ""
        seconds = time.monotonic() - self._began
        return (
            f"duologue tap: {seconds:,.0f} s, {sent:,} messages to the agent, {received:,} to the client, "
            f"{self._bytes / 1000:,.0f} kB{missing}"
        )


def _tap_remote(arguments: argparse.Namespace, target: Target) -> int:
    from duologue.agent.hosting.stdio import serve_stdio
    from duologue.relay.drain import DrainingRelay
    from duologue.relay.recorded_relay import RecordedRelay
    from duologue.relay.stdio_proxy import StdioProxy

    remote = remote_factory(target)
    proxy = StdioProxy(remote.open)
    recorder = _recorder(arguments, [remote.url])
    served = proxy if recorder is None else RecordedRelay(proxy, lambda: recorder)
    serve_stdio(DrainingRelay(served))
    if proxy.failure is not None:
        sys.stderr.write(f"duologue tap: {proxy.failure}\n")
        return ExitCode.AGENT_ERROR
    return ExitCode.OK


def exit_like(code: int) -> int:
    """Return the agent's exit code; if a signal ended it, end this process by the same one."""
    if code >= 0 or os.name != "posix":
        return abs(code)
    sys.stdout.flush()
    with contextlib.suppress(OSError):  # no one can handle SIGKILL, and so no one can reset it
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code  # a signal that is blocked
