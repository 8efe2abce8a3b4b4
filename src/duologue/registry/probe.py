"""Start an installed agent, and record how it describes itself; compare two such records.

The agent gets an empty directory to work in, no files and no commands of this machine through the protocol, and no
prompt. Its own home directory stays as it is, since its login and its settings decide what it offers.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
from msgspec import Struct

from duologue.client.agent import RemoteAgent
from duologue.client.connect import connect
from duologue.client.quirks import Quirks, quirks_of
from duologue.client.session import ClientSession
from duologue.errors import AuthenticationRequired, DuologueError, ProtocolViolation
from duologue.registry.lock_file import ProbedAuthMethod, ProbeResult
from duologue.runtime.observers import Direction
from duologue.sanitize import escape_line

PROBE_SECONDS = 60.0
"""Time for an agent to start, to answer `initialize`, and to open a session."""
END_SECONDS = 20.0
"""Time for an agent to end, in addition; one that does not is killed long before."""

MAX_TEXT = 300
"""Characters that are stored of a name or an error."""

MAX_NAMES = 1000
"""Modes, models, config options or login methods that are stored."""

MAX_CAPABILITIES_BYTES = 64 * 1024
"""Size of the capabilities that are stored; larger ones are left out."""

LOGIN_NEEDED = "login needed"


class ProbeChange(Struct, frozen=True, kw_only=True):
    """One difference between two probes.

    Attributes:
        field: What differs, with dots for nested fields.
        before: Its earlier value; None if there was none.
        after: Its value now.
    """

    field: str
    before: Any
    after: Any


async def probe(configuration: Mapping[str, Any], seconds: float = PROBE_SECONDS) -> ProbeResult:
    """Start an agent twice, offering version 1 and then versions 1 and 2, and return how it describes itself.

    Args:
        configuration: Its command, arguments and environment variables, as `connect` accepts them.
        seconds: Time for each of the two starts, including a session in the first.

    Raises:
        DuologueError: It cannot be started, or ended.
        TimeoutError: It did not answer `initialize` in time.
    """
    with tempfile.TemporaryDirectory(prefix="duologue-probe-") as directory:
        first = _Probe(configuration, directory)
        failure: ProtocolViolation | None = None
        versions: set[int] = set()
        try:
            versions.add(await first.run((1,), seconds, has_session=True))
        except ProtocolViolation as error:  # it may support version 2 only
            failure = error
        second = _Probe(configuration, directory)
        try:
            versions.add(await second.run((1, 2), seconds, has_session=failure is not None))
        except (DuologueError, TimeoutError):
            if failure is not None:
                raise failure from None
        return (first if failure is None else second).result(sorted(versions))


class _Initialized(Struct):
    """The capabilities in the response to `initialize`: of version 1, or of version 2."""

    class Result(Struct, rename="camel"):
        agent_capabilities: dict[str, Any] | None = None
        capabilities: dict[str, Any] | None = None

    result: Result


class _Probe:
    """One start of an agent."""

    def __init__(self, configuration: Mapping[str, Any], directory: str) -> None:
        self._configuration = configuration
        self._directory = directory
        self._session = ""
        self._names: dict[str, list[str]] = {}
        self._agent: RemoteAgent | None = None
        self._capabilities: dict[str, Any] = {}
        self._start_seconds = 0.0

    async def run(self, versions: tuple[int, ...], seconds: float, *, has_session: bool) -> int:
        """Start the agent; return the version it chose."""
        began = time.monotonic()
        async with (
            asyncio.timeout(2 * seconds + END_SECONDS),
            connect(
                self._configuration,
                cwd=self._directory,
                protocol_versions=versions,
                startup_timeout=seconds,
                observers=(self._observe,),
            ) as agent,
        ):
            self._start_seconds = time.monotonic() - began
            self._agent = agent
            if has_session:
                await self._open_session(agent, seconds)
            return agent.version

    def _observe(self, direction: Direction, frame: bytes) -> None:
        """Read the capabilities in the response to `initialize`, as they were sent."""
        if direction == "in" and not self._capabilities and b'"protocolVersion"' in frame:
            with suppress(msgspec.MsgspecError):  # the connection reports what is wrong with the response
                result = msgspec.json.decode(frame, type=_Initialized).result
                sent = _without_meta(result.agent_capabilities or result.capabilities or {})
                if len(msgspec.json.encode(sent)) <= MAX_CAPABILITIES_BYTES:
                    self._capabilities = sent

    async def _open_session(self, agent: RemoteAgent, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                session = await agent.new_session(self._directory)
                self._session = "opened"
                self._read_names(session)
                await session.aclose()
                if agent.capabilities.delete:
                    await agent.delete_session(session.id)
        except AuthenticationRequired:
            self._session = LOGIN_NEEDED
        except TimeoutError:
            self._session = self._session or f"failed: no answer within {seconds:g} s"
        except DuologueError as error:
            self._session = self._session or f"failed: {escape_line(str(error))[:MAX_TEXT]}"

    def _read_names(self, session: ClientSession) -> None:
        modes = [] if session.modes is None else [mode.mode_id for mode in session.modes.available]
        models = [] if session.models is None else [choice.value for choice in session.models.choices]
        options = [option.setting_id for option in session.settings]
        self._names = {"modes": _stored(modes), "models": _stored(models), "config_options": _stored(options)}

    def result(self, versions: list[int]) -> ProbeResult:
        """Return what this start has shown."""
        agent = self._agent
        info = None if agent is None else agent.info
        methods = [] if agent is None else agent.login_methods[:MAX_NAMES]
        return ProbeResult(
            probed_at=datetime.now(UTC).isoformat(timespec="seconds"),
            protocol_versions=versions,
            agent_info=None
            if info is None
            else {"name": info.name[:MAX_TEXT], "title": info.title, "version": info.version[:MAX_TEXT]},
            capabilities=self._capabilities,
            auth_methods=[
                ProbedAuthMethod(
                    id=method.method_id[:MAX_TEXT],
                    name=method.name[:MAX_TEXT],
                    type="terminal" if method.is_terminal else "agent" if method.other is None else "other",
                )
                for method in methods
            ],
            session=self._session,
            quirks=_names_of(quirks_of(info)),
            start_seconds=round(self._start_seconds, 3),
            **self._names,
        )


def drift(before: ProbeResult, after: ProbeResult) -> list[ProbeChange]:
    """Return what differs, except times and the reason for which a session failed."""
    ignored = {"probed_at", "start_seconds"}
    old, new = (
        {
            name: value.partition(":")[0] if name == "session" else value
            for name, value in msgspec.to_builtins(each).items()
            if name not in ignored
        }
        for each in (before, after)
    )
    return _changes("", old, new)


def _changes(path: str, before: Any, after: Any) -> list[ProbeChange]:
    if isinstance(before, dict) and isinstance(after, dict):
        old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
        return [
            change
            for name in dict.fromkeys([*old, *new])
            for change in _changes(f"{path}.{name}".lstrip("."), old.get(name), new.get(name))
        ]
    return [] if before == after else [ProbeChange(field=path, before=before, after=after)]


def _stored(names: list[str]) -> list[str]:
    return [name[:MAX_TEXT] for name in names[:MAX_NAMES]]


def _names_of(quirks: Quirks) -> list[str]:
    usual = msgspec.to_builtins(Quirks())
    return [f"{name}={value}" for name, value in msgspec.to_builtins(quirks).items() if value != usual[name]]


def _without_meta(value: Any) -> Any:
    """Return a value without `_meta`, which may have ids of one run."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {name: _without_meta(each) for name, each in sorted(fields.items()) if name != "_meta"}
    return [*map(_without_meta, cast("Iterable[Any]", value))] if isinstance(value, list) else value
