"""The target of `connect`: a name, a command, a URL, an agent object in this process, or an open transport.

Each `AgentTarget.open()` starts the agent, or connects to it, anew. What a name means is not known here: programs and
the public modules call `use_name_resolver`.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypedDict, Unpack

from msgspec import ValidationError, convert

from duologue.errors import StartError
from duologue.runtime.tasks import TaskScope
from duologue.sanitize import shorten
from duologue.transports.base import Servable, Transport
from duologue.transports.process.child import UNRESPONSIVE
from duologue.transports.process.command import split_command
from duologue.transports.process.transport import ProcessTransport

if TYPE_CHECKING:
    from duologue.transports.remote.factory import RemoteFactory
    from duologue.transports.remote.url import TLSVerify

Target: TypeAlias = str | Sequence[str] | Mapping[str, Any] | Servable | Transport
"""A name of an agent (`gemini`, `gemini@0.61.0`, or `builtin` for duologue's own), a command (string or list), a URL
(`wss://…`, `https://…`), a configuration (`{"command": …, "args": …, "env": …}` or `{"url": …, "headers": …}`), an
agent object, or an open transport."""

NOTED_LINES = 40
"""Lines of the agent's stderr in the note of an error, which a traceback of Python shows whole."""

LONGEST_NOTED = 1000
"""Characters of each of these lines."""

BUILTIN = "builtin"
BUILTIN_COMMAND = ("duologue", "agent")

NameResolver: TypeAlias = "Callable[[str, str | Path | None], Mapping[str, Any]]"
"""Returns the configuration of the agent that a word names, and checks its program; the second argument is the lock
file to use. Raises `StartError`."""


def is_name(target: object) -> bool:
    """Return True if a target is one word that may name an agent: no blank, no slash, not the built-in agent."""
    return isinstance(target, str) and target != BUILTIN and re.fullmatch(r"[^\s/\\'\"]+", target) is not None


class TargetOptions(TypedDict, total=False):
    """Arguments of `connect` that are about reaching the agent."""

    cwd: str | Path | None
    env: Mapping[str, str] | None
    on_stderr: Callable[[bytes], None] | None
    headers: Mapping[str, str] | None
    token: str | None
    tls: TLSVerify
    lock: str | Path | None


class AgentTarget:
    """How to reach one agent; the other arguments are those of `connect`.

    Raises:
        StartError: The URL is not valid.
        TypeError: The target is none of these.
    """

    name_resolver: ClassVar[NameResolver | None] = None

    def __init__(self, target: Target, **options: Unpack[TargetOptions]) -> None:
        if not isinstance(target, str | Sequence | Mapping | Transport) and not hasattr(target, "serve"):
            raise TypeError(f"expected a command, URL, configuration, agent object or transport, not {target!r}")
        if (lock := options.get("lock")) is not None and not is_name(target):
            raise ValueError("`lock` needs the name of an agent as the target, such as gemini or gemini@0.61.0")
        self.cwd = options.get("cwd")
        self._word = str(target) if type(self).name_resolver is not None and is_name(target) else None
        self._lock = lock
        self._target = list(BUILTIN_COMMAND) if target == BUILTIN else target
        self._env = options.get("env")
        self._on_stderr = options.get("on_stderr")
        self._remote_options = (options.get("headers"), options.get("token"), options.get("tls"))
        self._remote = _remote_factory(target, *self._remote_options)
        self._served: TaskScope | None = None
        self._process: ProcessTransport | None = None

    async def prepare(self) -> None:
        """Find the agent that a name means, and check the program that will be started.

        Raises:
            StartError: Nothing has that name, or the program is not the one that was installed.
        """
        resolver = type(self).name_resolver
        if self._word is not None and resolver is not None:
            # A large program takes a moment to read.
            self._target = await asyncio.to_thread(resolver, self._word, self._lock)
            self._remote = _remote_factory(self._target, *self._remote_options)

    @property
    def name(self) -> str:
        """Key of the agent among remembered decisions: its name for the user, command or URL, not the name it sends."""
        target = self._target
        if self._word is not None:
            return self._word.partition("@")[0]
        if self._remote is not None:
            return self._remote.url
        if isinstance(target, str):
            return target
        if isinstance(target, Sequence):
            return shlex.join(target)
        if isinstance(target, Mapping):
            return shlex.join([str(target.get("command")), *map(str, target.get("args") or ())])
        return f"{type(target).__module__}.{type(target).__qualname__}"

    @property
    def is_reopenable(self) -> bool:
        """False for a transport, which cannot be opened a second time."""
        return not isinstance(self._target, Transport)

    @property
    def is_remote_host(self) -> bool:
        """True if the agent may run on another machine, which cannot reach our loopback interface."""
        if self._remote is None:
            return False
        from urllib.parse import urlsplit

        from duologue.transports.remote.url import is_loopback

        return not is_loopback(urlsplit(self._remote.url).hostname or "")

    @property
    def command(self) -> list[str] | None:
        """Command that is started, if any; a login in a terminal runs it with other arguments."""
        if self._remote is not None:
            return None
        if isinstance(self._target, str | Sequence):
            return split_command(self._target)
        return split_command(_configured(self._target)[0]) if isinstance(self._target, Mapping) else None

    @property
    def env(self) -> dict[str, str]:
        """Environment variables that are added to a command's."""
        configured: dict[str, str] = {}
        if isinstance(self._target, Mapping) and self._remote is None:
            configured = _configured(self._target)[1]
        return configured | dict(self._env or {})

    def open(self) -> Transport:
        """Return a transport to the agent, not yet entered.

        Raises:
            StartError: The configuration names no agent, or an extra is not installed.
        """
        target = self._target
        if self._remote is not None:
            return self._remote.open()
        if isinstance(target, Transport):
            return target
        if isinstance(target, str | Sequence | Mapping):
            command = _configured(target)[0] if isinstance(target, Mapping) else target
            self._process = ProcessTransport(command, cwd=self.cwd, env=self.env, on_stderr=self._on_stderr)
            return self._process
        from duologue.transports.memory import memory_pair

        near, far = memory_pair()
        self._served = self._served or TaskScope()
        self._served.start(target.serve(far))
        return near

    def add_stderr_to(self, error: BaseException) -> None:
        """Add the last lines that the agent's process wrote to stderr, if there are any, as a note to its error."""
        if self._process is None or getattr(error, "__notes__", None):
            return
        from duologue.traceback_filter import trim_tracebacks

        lines = trim_tracebacks(self._process.stderr_tail).rstrip().split("\n")[-NOTED_LINES:]
        if any(lines):
            error.add_note("the agent wrote to stderr:\n" + "\n".join(shorten(line, LONGEST_NOTED) for line in lines))

    def mark_unresponsive(self) -> None:
        """Give the process of an agent that did not answer in time less time to exit by itself."""
        if self._process is not None:
            self._process.timeouts = UNRESPONSIVE

    async def aclose(self) -> None:
        """Stop the agent objects that are served in this process."""
        if self._served is not None:
            await self._served.cancel(5.0)


def use_name_resolver(resolver: NameResolver) -> None:
    """Set the function that finds agents by their names; without one, a word is a command on PATH."""
    AgentTarget.name_resolver = staticmethod(resolver)


def _remote_factory(
    target: Target, headers: Mapping[str, str] | None, token: str | None, tls: TLSVerify
) -> RemoteFactory | None:
    if not isinstance(target, Mapping) and not (isinstance(target, str) and "://" in target):
        return None
    from duologue.transports.remote.factory import RemoteFactory

    return RemoteFactory.of(target, headers=headers, token=token, trust=tls)


def _configured(config: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment variables of an agent in a configuration file."""
    command = config.get("command")
    if not isinstance(command, str) or not command:
        raise StartError("the configuration of an agent needs a `command` or a `url`")
    try:
        args = convert(config.get("args") or [], list[Any])
        variables = convert(config.get("env") or {}, dict[str, Any])
    except ValidationError as error:
        raise StartError(f"the agent {command!r} needs a list of `args` and a table `env`: {error}") from None
    return [command, *map(str, args)], {name: str(value) for name, value in variables.items()}
