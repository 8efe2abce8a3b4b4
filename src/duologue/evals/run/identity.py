"""Describe the machine, and an agent as it reported itself."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

import duologue
from duologue.client.agent import RemoteAgent
from duologue.client.session import ClientSession
from duologue.client.target import AgentTarget
from duologue.evals.record.manifest import AgentIdentity, Machine
from duologue.evals.run.credentials import clean_command
from duologue.evals.run.targets import EvalAgent, is_url
from duologue.evals.suite.case import SessionSettings


@cache
def this_machine() -> Machine:
    """Return the machine and the programs that run trials."""
    memory: int | None = None
    with suppress(ValueError, OSError, AttributeError):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        architecture=platform.machine(),
        cores=os.cpu_count(),
        memory_bytes=memory,
        python=platform.python_version(),
        duologue=duologue.__version__,
    )


def identity_of(agent: EvalAgent, target: AgentTarget, connected: RemoteAgent | None = None) -> AgentIdentity:
    """Return an agent as it is recorded: how it is reached, and if it is connected, what it says of itself."""
    command = target.command or []
    url = target.name.partition("#")[0] if is_url(agent.target) or (not command and "://" in target.name) else None
    identity = AgentIdentity(
        label=agent.label,
        command=clean_command(command, target.env),
        url=None if url is None else str(clean_command([url], {})[0]),
        title=agent.source if not command and url is None else "",
        program_sha256=_program_digest(command[0]) if command else None,
    )
    if connected is None:
        return identity
    info = connected.info
    return msgspec.structs.replace(
        identity,
        name="" if info is None else info.name,
        title=(info.title or "") if info is not None else identity.title,
        version="" if info is None else info.version,
        protocol_version=connected.version,
        capabilities=msgspec.to_builtins(connected.capabilities),
    )


def requested_settings(settings: SessionSettings) -> dict[str, str | bool]:
    """Return the settings of a case by their ids."""
    named = {"mode": settings.mode, "model": settings.model}
    return {**{name: value for name, value in named.items() if value is not None}, **settings.options}


def reported_settings(session: ClientSession) -> dict[str, str | bool]:
    """Return the settings of a session as the agent reported them."""
    found: dict[str, str | bool] = {}
    if session.modes is not None:
        found["mode"] = session.modes.current
    if session.models is not None and session.models.value is not None:
        found["model"] = session.models.value
    return {**found, **{each.setting_id: each.value for each in session.settings if each.value is not None}}


@cache
def _program_digest(program: str) -> str | None:
    path = shutil.which(program)
    if path is None:
        return None
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
