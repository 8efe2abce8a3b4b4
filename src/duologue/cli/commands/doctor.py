"""`duologue doctor`: check the installation and the agents, and say how to fix problems."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.metadata
import platform
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain

import msgspec

from duologue.cli.arguments import close_session
from duologue.cli.console.safe_output import Style, safe
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.cli.targets import lock_for, name_of, named_agent, remote_config, versions_for, with_version
from duologue.client.agent import RemoteAgent
from duologue.client.permissions.rules_file import read_rules
from duologue.client.target import Target
from duologue.config.agents import NamedAgent, config_file, find_agents
from duologue.config.permissions import rules_files
from duologue.config.recordings import configured_patterns
from duologue.config.servers import named_servers
from duologue.config.sessions import saved_usages
from duologue.errors import (
    AuthenticationRequired,
    CommandNotFound,
    ConnectError,
    DuologueError,
    RequestError,
    StartError,
)
from duologue.named_agents import connect
from duologue.registry.resolver import named_agents
from duologue.sanitize import escape_line
from duologue.transports.remote.url import is_remote

EXTRAS = {
    "cli": "Markdown in the terminal, and line editing in `duologue chat`",
    "mcp": "MCP servers for agents",
    "remote": "agents behind WebSocket and HTTP",
    "http2": "HTTP/2 for remote agents",
    "agents": "installing agents from PyPI",
    "evals": "statistics of evaluations",
    "dask": "evaluations on a Dask cluster",
    "ray": "evaluations on a Ray cluster",
    "pydantic-ai": "the adapter for pydantic-ai",
    "langgraph": "the adapter for LangGraph",
    "coder": "the coding agent (`duologue code`)",
}
"""Extra -> its purpose."""


MOST_WARNINGS = 3
"""Contradictions in the usage of an agent that are shown, the newest."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one check.

    Attributes:
        what: The checked part.
        state: `ok`, `missing` (optional), `login` (the agent answers, but wants a login), `warning`, or `broken`.
        detail: Version, path or error.
        fix: How to solve the problem.
    """

    what: str
    state: str
    detail: str
    fix: str | None = None


def doctor(arguments: argparse.Namespace) -> int:
    """Check everything; return 1 if something is broken, 7 if an agent wants a login."""
    states: set[str] = set()
    for finding in chain(_installation(), _configuration(arguments), _check_agents(arguments)):
        states.add(finding.state)
        _print(finding, arguments.json)
    return next((code for state, code in CODES.items() if state in states), ExitCode.OK)


def _installation() -> Iterator[Finding]:
    yield Finding(what="python", state="ok", detail=f"{platform.python_version()} on {platform.system()}")
    for name in ("duologue", "msgspec"):
        yield Finding(what=name, state="ok", detail=importlib.metadata.version(name))
    required = importlib.metadata.requires("duologue") or []
    for extra, purpose in EXTRAS.items():
        of_extra = (line for line in required if re.search(rf"extra == [\"']{extra}[\"']", line))
        versions = {name: _version(name) for line in of_extra for name in re.findall(r"^[\w.-]+", line)}
        absent = [package for package, version in versions.items() if version is None]
        if absent:
            fix = f"pip install 'duologue[{extra}]'"
            yield Finding(what=extra, state="missing", detail=f"{', '.join(absent)}: {purpose}", fix=fix)
        else:
            detail = ", ".join(f"{package} {version}" for package, version in versions.items())
            yield Finding(what=extra, state="ok", detail=detail)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _configuration(arguments: argparse.Namespace) -> Iterator[Finding]:
    path = config_file()
    try:
        agents = find_agents()
    except StartError as error:
        for complaint in str(error).splitlines():
            yield Finding(what="config", state="broken", detail=complaint, fix=f"correct {path}")
        return
    if not path.exists():
        fix = "needed only for your own agents and rules; `duologue config init` writes an example"
        yield Finding(what="config", state="missing", detail=str(path), fix=fix)
    else:
        yield Finding(what="config", state="ok", detail=str(path))
    try:
        named_servers()
        configured_patterns()
    except (ValueError, StartError) as error:
        yield Finding(what="config", state="broken", detail=str(error), fix=f"correct {path}")
    yield from _rules()
    try:
        agents = named_agents(arguments.lock)
    except StartError as error:
        yield Finding(what="lock", state="broken", detail=str(error), fix="correct it; no locked agent can be started")
    if arguments.agent is not None and not is_remote(arguments.agent):
        try:
            named_agent(arguments.agent, arguments)
        except UsageError:
            fix = f"one of: {', '.join(agents)}"
            yield Finding(what=arguments.agent, state="broken", detail="unknown agent", fix=fix)
        except StartError as error:
            yield Finding(what=arguments.agent, state="broken", detail=str(error), fix="do what the message says")


def _rules() -> Iterator[Finding]:
    """Report every invalid line of the user's rules."""
    try:
        for path in rules_files():
            read_rules(path)
            yield Finding(what="rules", state="ok", detail=str(path))
    except (ValueError, OSError) as error:
        for complaint in str(error).splitlines():
            yield Finding(
                what="rules",
                state="broken",
                detail=complaint,
                fix="correct it: until then `run` and `chat` do not start",
            )


def _check_agents(arguments: argparse.Namespace) -> Iterator[Finding]:
    """Check one agent after the other: on a busy machine, many that start at once are too slow for their timeouts."""
    try:
        chosen = _chosen_agents(arguments)
    except (StartError, UsageError):
        return
    for agent in chosen:
        yield asyncio.run(_check_agent(agent, arguments))
        yield from _check_usage(agent.name)


def _chosen_agents(arguments: argparse.Namespace) -> list[NamedAgent]:
    if arguments.agent is None:
        return list(named_agents(arguments.lock).values())
    if is_remote(arguments.agent):
        config = remote_config({"url": arguments.agent}, arguments)
        return [NamedAgent(name=name_of(arguments), source="config", config=config)]
    return [named_agent(arguments.agent, arguments)]


async def _check_agent(agent: NamedAgent, arguments: argparse.Namespace) -> Finding:
    what = f"agent {agent.name}"
    began = time.monotonic()
    try:
        target: Target = agent.name if agent.source == "locked" else with_version(agent, arguments)
        async with connect(
            target,
            lock=lock_for(target, arguments),
            startup_timeout=arguments.timeout,
            protocol_versions=versions_for(arguments),
            dialect=arguments.dialect,
        ) as remote:
            agent_name = f"{remote.info.title or remote.info.name} {remote.info.version}" if remote.info else "no name"
            took = f"answered in {time.monotonic() - began:.1f} s"
            version = f", version {remote.version} of the protocol" if arguments.v2 else ""
            detail = f"{escape_line(agent_name)}, {took}{version}"
            async with asyncio.timeout(arguments.timeout):
                if await _wants_login(remote):
                    fix = _login_command(agent.name, remote)
                    return Finding(what=what, state="login", detail=f"{detail}, and wants a login", fix=fix)
            return Finding(what=what, state="ok", detail=detail)
    except CommandNotFound as error:
        return Finding(what=what, state="broken", detail=str(error), fix="install it, or correct `command`")
    except AuthenticationRequired as error:
        return Finding(what=what, state="login", detail=str(error), fix="log in with the agent's own command first")
    except TimeoutError:
        detail = f"answered, but opened no session within {arguments.timeout:g} s"
        return Finding(
            what=what, state="broken", detail=detail, fix="try it with `duologue chat`, or a longer --timeout"
        )
    except ConnectError as error:
        detail, fix = escape_line(error.message, 600), escape_line(error.next_step, 300)
        return Finding(what=what, state="broken", detail=detail, fix=fix)
    except DuologueError as error:
        fix = "start it by hand; it may need a login, a download or another argument"
        return Finding(what=what, state="broken", detail=escape_line(str(error), 600), fix=fix)


def _check_usage(agent: str) -> Iterator[Finding]:
    """Report numbers of tokens or cost that contradict each other, in the sessions of earlier runs."""
    found = {warning: session_id for session_id, usage in saved_usages(agent).items() for warning in usage.warnings}
    for warning, session_id in [*found.items()][-MOST_WARNINGS:]:
        yield Finding(
            what=f"usage of {agent}",
            state="warning",
            detail=escape_line(f"{warning} (session {session_id})", 600),
            fix="do not rely on the sums of this agent; tell its authors",
        )


async def _wants_login(remote: RemoteAgent) -> bool:
    """Return True if the agent opens a session only after a login; delete the session that it opens otherwise."""
    with tempfile.TemporaryDirectory(prefix="duologue-doctor-") as folder:
        try:
            session = await remote.new_session(folder)
        except AuthenticationRequired:
            return True
        await close_session(session)
        if remote.capabilities.delete:
            with contextlib.suppress(RequestError):
                await remote.delete_session(session.id)
        return False


def _login_command(name: str, remote: RemoteAgent) -> str:
    methods = [method.method_id for method in remote.login_methods]
    if not methods:
        return "log in with the agent's own command first"
    return f"duologue chat --agent {escape_line(shlex.quote(name))} --login {escape_line(shlex.quote(methods[0]))}"


MARKS = {
    "ok": ("✓", Style.GREEN),
    "missing": ("–", Style.YELLOW),
    "login": ("!", Style.YELLOW),
    "warning": ("!", Style.YELLOW),
    "broken": ("✗", Style.RED),
}
CODES = {"broken": ExitCode.AGENT_ERROR, "login": ExitCode.LOGIN}
"""Exit codes for the states that are a problem, the worst first."""


def _print(finding: Finding, as_json: bool) -> None:
    out = safe(sys.stdout, is_exact=True)
    if as_json:
        out.write_json(finding)
        return
    fix = f"\n    → {finding.fix}" if finding.fix else ""
    out.write(*MARKS[finding.state])
    out.write(f" {finding.what}: {finding.detail}{fix}\n")
    out.flush()
