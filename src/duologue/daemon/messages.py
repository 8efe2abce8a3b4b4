"""The first line of each direction on the daemon's socket: a request, and its reply.

After the reply to `attach` both directions carry frames of the protocol, one per line. Every version of the daemon
reads the version and the action of a request, so that two versions can say who they are.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

VOLATILE = frozenset({"_", "SHLVL", "OLDPWD", "COLUMNS", "LINES"})
"""Variables that differ from one command of a shell to the next, and mean nothing to an agent."""

LOGIN_NEEDED = "it needs a login in each process, so it is started in advance, but its session is not opened"
"""Note for the user of an agent that opens no session before a login."""

Path = Annotated[str, Meta(max_length=10_000)]
Command = Annotated[list[Annotated[str, Meta(max_length=1 << 20)]], Meta(max_length=10_000)]
Environment = Annotated[dict[str, str], Meta(max_length=100_000)]


class CallerCommand(Struct, frozen=True, kw_only=True):
    """A command and where it is started: text that stands for bytes, each by the character of its number.

    Attributes:
        command: The program and its arguments.
        cwd: Its working directory.
        env: Its whole environment.
    """

    command: Command
    cwd: Path
    env: Environment

    @classmethod
    def of(cls, command: Sequence[str], cwd: str, env: Mapping[str, str]) -> CallerCommand:
        """Return the caller with this command, directory and environment."""
        variables = {_packed(name): _packed(value) for name, value in env.items()}
        return cls(command=[_packed(word) for word in command], cwd=_packed(cwd), env=variables)

    def command_key(self) -> str:
        """Return the digest of the command and its directory, whatever the environment is."""
        return hashlib.sha256(msgspec.json.encode([self.command, self.cwd])).hexdigest()

    def key(self, initialize: bytes) -> str:
        """Return the digest of everything that an agent was started with, and of its `initialize` parameters."""
        variables = {name: value for name, value in self.env.items() if name not in VOLATILE}
        started = msgspec.json.encode([self.command, self.cwd, variables], order="sorted")
        return hashlib.sha256(started + b"\n" + initialize).hexdigest()

    def unpacked(self) -> tuple[list[str], str, dict[str, str]]:
        """Return the command, the directory and the environment."""
        env = {_unpacked(name): _unpacked(value) for name, value in self.env.items()}
        return [_unpacked(word) for word in self.command], _unpacked(self.cwd), env


def _packed(text: str) -> str:
    return os.fsencode(text).decode("latin-1")


def _unpacked(text: str) -> str:
    return os.fsdecode(text.encode("latin-1"))


class DaemonRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line of a client.

    Attributes:
        version: Version of the client.
        action: What the client wants.
        caller: attach, run: what to start.
        input: run: what the command reads from stdin.
        title: run: description of the job that `status` shows.
        job: cancel: id of a job.
    """

    version: str
    action: Literal["attach", "run", "status", "cancel", "stop"]
    caller: CallerCommand | None = None
    input: Annotated[str, Meta(max_length=16 << 20)] = ""
    title: Annotated[str, Meta(max_length=1000)] = ""
    job: Annotated[str, Meta(max_length=100)] = ""


class DaemonReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line of the daemon.

    Attributes:
        version: Version of the daemon.
        error: Why the request was refused; empty if it was not.
        is_ending: The daemon ends, because of the request or because its version is another one.
        job: run: id of the new job.
        pid: status: its process id.
        seconds: status: how long it has been running.
        clients: status: number of agents that are in use.
        warm: status: number of agents that are started and not in use.
        without_session: status: number of those that need a login to open a session; attach: those of this command.
        jobs: status: ids of the jobs that are running.
    """

    version: str
    error: str = ""
    is_ending: bool = False
    job: str = ""
    pid: int = 0
    seconds: float = 0.0
    clients: int = 0
    warm: int = 0
    without_session: int = 0
    jobs: list[str] = []
