"""The client's side of the daemon's socket: start the daemon, send it a request, attach to an agent."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import msgspec

from duologue.daemon.messages import CallerCommand, DaemonReply, DaemonRequest
from duologue.daemon.runtime_directory import RuntimeDirectory
from duologue.errors import ConnectionLost, StartError
from duologue.private_files import FILE_MODE
from duologue.transports.process import environment
from duologue.transports.process.command import split_command
from duologue.transports.stdio.socket import SocketTransport

START_SECONDS = 15.0
"""Time for a daemon to start, on a machine that is busy."""

REPLY_SECONDS = 30.0
"""Time for a daemon to reply: to cancel a job takes it up to 15 seconds."""

POLL_SECONDS = 0.02

DAEMON_VARIABLES = ("XDG_RUNTIME_DIR", "XDG_DATA_HOME", "PYTHONPATH")
"""Variables that the daemon needs in addition to those of every program: where its files are."""


class DaemonClient:
    """Reaches the daemon of this user.

    Args:
        version: Version of this program.
        directory: Where the daemon's socket is.

    Raises:
        StartError: The directory cannot be used.
    """

    def __init__(self, version: str, directory: RuntimeDirectory | None = None) -> None:
        self._version = version
        self._directory = directory or RuntimeDirectory()

    async def request(self, request: DaemonRequest) -> DaemonReply | None:
        """Send a request and return the reply; None if no daemon is running.

        Raises:
            StartError: The daemon refused the request, or did not reply.
        """
        opened = await self._open(request)
        if opened is None:
            return None
        transport, reply = opened
        await transport.aclose()
        if reply.error:
            raise StartError(reply.error)
        return reply

    async def status(self) -> DaemonReply | None:
        """Return the state of the daemon; None if none is running, or one of another version has just ended."""
        return await self.request(DaemonRequest(version=self._version, action="status"))

    def is_running(self) -> bool:
        """Return True while a daemon has the lock, which it releases at its very end."""
        descriptor = self._directory.lock()
        if descriptor is not None:
            os.close(descriptor)
        return descriptor is None

    async def attach(self, command: Sequence[str], env: Mapping[str, str]) -> AttachedTransport:
        """Return the transport to an agent of the daemon, which starts if there is none.

        Raises:
            StartError: There is no daemon, and none can be started.
        """
        caller = CallerCommand.of(split_command(command), str(Path.cwd()), environment.inherited(env))
        request = DaemonRequest(version=self._version, action="attach", caller=caller)
        transport, reply = await self._open_started(request)
        transport.needs_login = reply.without_session > 0
        return transport

    async def run(self, command: Sequence[str], text: str, title: str) -> str:
        """Run a command in the background; return the id of its job.

        Raises:
            StartError: There is no daemon, and none can be started; or it cannot run the command.
        """
        caller = CallerCommand.of(split_command(command), str(Path.cwd()), os.environ)
        request = DaemonRequest(version=self._version, action="run", caller=caller, input=text, title=title)
        transport, reply = await self._open_started(request)
        await transport.aclose()
        return reply.job

    async def _open_started(self, request: DaemonRequest) -> tuple[AttachedTransport, DaemonReply]:
        opened = await self._open(request)
        if opened is None or opened[1].is_ending:
            if opened is not None:
                await opened[0].aclose()
            await self.start()
            opened = await self._open(request)
        if opened is None:
            raise StartError(f"the daemon does not run; its log is {self._directory.log}")
        transport, reply = opened
        if reply.error:
            await transport.aclose()
            is_other = reply.version != self._version
            raise StartError(f"{reply.error}: the daemon of {reply.version} is busy" if is_other else reply.error)
        return opened

    async def _open(self, request: DaemonRequest) -> tuple[AttachedTransport, DaemonReply] | None:
        try:
            connected = self._directory.connect()
        except OSError as error:
            if isinstance(error, FileNotFoundError | ConnectionRefusedError):
                return None
            raise StartError(f"cannot connect to the daemon: {error}") from None
        transport = AttachedTransport(connected)
        await transport.open()
        try:
            transport.send(msgspec.json.encode(request))
            async with asyncio.timeout(REPLY_SECONDS):
                frames = await transport.receive()
            if not frames:
                raise ConnectionLost("it closed the connection; it may have too many clients")
            return transport, msgspec.json.decode(frames[0], type=DaemonReply)
        except (TimeoutError, ConnectionLost, msgspec.MsgspecError) as error:
            await transport.aclose()
            raise StartError(f"the daemon did not reply: {str(error) or 'it took too long'}") from None
        except BaseException:
            await transport.aclose()
            raise

    async def start(self) -> DaemonReply:
        """Start a daemon, or wait for one that another program starts; return its state.

        Raises:
            StartError: It did not start in time; or this program belongs to an agent, whose processes end with it.
        """
        if environment.OWNER in os.environ:
            raise StartError("an agent's command starts no daemon, because it would end with the agent")
        process = self._spawn()
        loop = asyncio.get_running_loop()
        end = loop.time() + START_SECONDS
        failure: StartError | None = None
        while loop.time() < end:
            try:
                reply = await self.status()
            except StartError as error:  # one of another version, which may be ending
                reply, failure = None, error
            if reply is not None:
                return reply
            if process.poll() not in (None, 0):
                break
            if process.poll() == 0:  # another one was running, and may be ending
                process = self._spawn()
                await asyncio.sleep(10 * POLL_SECONDS)
            await asyncio.sleep(POLL_SECONDS)
        raise failure or StartError(f"the daemon did not start; its log is {self._directory.log}")

    def _spawn(self) -> subprocess.Popen[bytes]:
        needed = {name: value for name in DAEMON_VARIABLES if (value := os.environ.get(name)) is not None}
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        log = os.open(self._directory.log, flags, FILE_MODE)
        try:
            # It must outlive this program, and must not keep its terminal, directory or secrets.
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "duologue", "daemon", "start", "--foreground"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=environment.safe(needed),
                start_new_session=True,
            )
        finally:
            os.close(log)


class AttachedTransport(SocketTransport):
    """The connection to the daemon, on which an agent's frames follow its reply; it is open already."""

    needs_login: bool = False
    """The agent that waits for this command opens no session before a login."""

    async def open(self) -> None:
        """Open the transport."""
        await super().__aenter__()

    async def __aenter__(self) -> Self:
        return self
