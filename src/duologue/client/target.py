"""The ways to an agent: a command, an address, an agent object in this very process, or a transport that is there.

A `AgentTarget` can be taken again after the agent is gone: each `open()` starts from nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from msgspec import ValidationError, convert

from duologue.errors import StartError
from duologue.runtime.tasks import TaskScope
from duologue.transports.base import Servable, Transport
from duologue.transports.memory import memory_pair
from duologue.transports.process.transport import ProcessTransport
from duologue.transports.remote.factory import RemoteFactory
from duologue.transports.remote.url import TLSVerify, is_loopback

__all__ = ["AgentTarget", "ProcessOptions", "RemoteOptions", "Target"]

Target: TypeAlias = str | Sequence[str] | Mapping[str, Any] | Servable | Transport
"""A command line, a list, an address (`wss://…`, `https://…`), a configuration (`{"command": …, "args": …, "env": …}`
or `{"url": …, "headers": …}`), an agent object, or a transport."""


@dataclass(frozen=True)
class ProcessOptions:
    """How a command is started."""

    cwd: str | Path | None = None
    env: Mapping[str, str] | None = field(default=None, repr=False)  # keys are in there
    on_stderr: Callable[[bytes], None] | None = None


@dataclass(frozen=True)
class RemoteOptions:
    """How we show who we are to a server, and it to us.

    Attributes:
        headers: Of every request.
        token: A bearer token; an address may also end in `#token=…`.
        tls: Whom to believe that they are the server: a context, a file of certificates beside those of the system, or
            `False` for everybody.
    """

    headers: Mapping[str, str] | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls: TLSVerify = None


class AgentTarget:
    """How one agent is reached.

    Args:
        target: What to reach.
        start: How, if it is a command.
        visit: How, if it is an address.

    Raises:
        StartError: It is an address that makes no sense.
        TypeError: It is nothing that can be reached.
    """

    def __init__(self, target: Target, start: ProcessOptions, visit: RemoteOptions | None = None) -> None:
        visit = visit or RemoteOptions()
        if not isinstance(target, str | Sequence | Mapping | Transport) and not hasattr(target, "serve"):
            raise TypeError(f"no command, address, configuration, agent or transport: {target!r}")
        self._target = target
        self._start = start
        self._remote = RemoteFactory.of(target, headers=visit.headers, token=visit.token, trust=visit.tls)
        self._served = TaskScope()

    @property
    def name(self) -> str:
        """What tells agents apart where answers are remembered: how one is reached, not what it calls itself."""
        target = self._target
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
        """A transport that was handed to us is used up after its end."""
        return not isinstance(self._target, Transport)

    @property
    def is_remote_host(self) -> bool:
        """The agent may be on another machine, where nothing is reached that we have on loopback."""
        return self._remote is not None and not is_loopback(urlsplit(self._remote.url).hostname or "")

    @property
    def command(self) -> list[str] | None:
        """The command that is started, if one is; what a login in a terminal runs with other arguments."""
        if self._remote is not None:
            return None
        if isinstance(self._target, str):
            return shlex.split(self._target)
        if isinstance(self._target, Sequence):
            return list(self._target)
        return _configured(self._target)[0] if isinstance(self._target, Mapping) else None

    @property
    def env(self) -> dict[str, str]:
        """What a command finds in its environment on top of ours."""
        configured: dict[str, str] = {}
        if isinstance(self._target, Mapping) and self._remote is None:
            configured = _configured(self._target)[1]
        return configured | dict(self._start.env or {})

    @property
    def cwd(self) -> str | Path | None:
        """Where a command is started; here if not given."""
        return self._start.cwd

    def open(self) -> Transport:
        """A transport to the agent, not yet entered.

        Raises:
            StartError: The configuration names no agent, or something is not installed.
        """
        target, start = self._target, self._start
        if self._remote is not None:
            return self._remote.open()
        if isinstance(target, Transport):
            return target
        if isinstance(target, str | Sequence):
            return ProcessTransport(target, cwd=start.cwd, env=start.env, on_stderr=start.on_stderr)
        if isinstance(target, Mapping):
            command, variables = _configured(target)
            return ProcessTransport(
                command, cwd=start.cwd, env=variables | dict(start.env or {}), on_stderr=start.on_stderr
            )
        near, far = memory_pair()
        self._served.start(target.serve(far))
        return near

    async def aclose(self) -> None:
        """End the agent objects that were served in this process."""
        await self._served.cancel(5.0)


def _configured(config: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """An agent as a configuration file names it."""
    command = config.get("command")
    if not isinstance(command, str) or not command:
        raise StartError("the configuration of an agent needs a `command` or a `url`")
    try:
        words = convert(config.get("args") or [], list[Any])
        variables = convert(config.get("env") or {}, dict[str, Any])
    except ValidationError as error:
        raise StartError(f"the agent {command!r} needs a list of `args` and a table `env`: {error}") from None
    return [command, *map(str, words)], {name: str(value) for name, value in variables.items()}
