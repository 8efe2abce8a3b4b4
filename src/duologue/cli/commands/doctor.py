"""`duologue doctor`: check the installation and the agents, and say how to fix problems."""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import platform
import sys
import time
from collections.abc import Iterator

import msgspec

from duologue.cli.console.safe_output import Style, safe
from duologue.cli.exit_codes import ExitCode
from duologue.cli.targets import name_of, remote_config, versions_for, with_version
from duologue.client.connect import connect
from duologue.client.permissions.rules_file import read_rules
from duologue.config.agents import NamedAgent, config_file, find_agents
from duologue.config.permissions import rules_files
from duologue.errors import AuthenticationRequired, CommandNotFound, ConnectError, DuologueError, StartError
from duologue.sanitize import escape_line
from duologue.transports.remote.url import is_remote

EXTRAS = {
    "cli": (("rich", "prompt-toolkit"), "Markdown in the terminal, and line editing in `duologue chat`"),
    "mcp": (("mcp",), "MCP servers for agents"),
    "remote": (("websockets", "httptools", "starlette", "uvicorn"), "agents behind WebSocket and HTTP"),
}
"""Extra -> its packages and their purpose."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one check.

    Attributes:
        what: The checked part.
        state: `ok`, `missing` (optional), or `broken`.
        detail: Version, path or error.
        fix: How to solve the problem.
    """

    what: str
    state: str
    detail: str
    fix: str | None = None


def doctor(arguments: argparse.Namespace) -> int:
    """Check everything; return 1 if something is broken."""
    findings = [*_installation(), *_configuration(arguments)]
    for finding in findings:
        _print(finding, arguments.json)
    for finding in asyncio.run(_check_agents(arguments)):
        findings.append(finding)
        _print(finding, arguments.json)
    return int(ExitCode.AGENT_ERROR if any(finding.state == "broken" for finding in findings) else ExitCode.OK)


def _installation() -> Iterator[Finding]:
    yield Finding(what="python", state="ok", detail=f"{platform.python_version()} on {platform.system()}")
    for name in ("duologue", "msgspec"):
        yield Finding(what=name, state="ok", detail=importlib.metadata.version(name))
    for extra, (packages, purpose) in EXTRAS.items():
        versions = {package: _version(package) for package in packages}
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
        yield Finding(what="config", state="broken", detail=str(error), fix=f"correct {path}")
        return
    if not path.exists():
        yield Finding(what="config", state="missing", detail=str(path), fix="needed only for your own agents and rules")
    else:
        yield Finding(what="config", state="ok", detail=str(path))
    yield from _rules()
    if arguments.agent is not None and arguments.agent not in agents and not is_remote(arguments.agent):
        fix = f"one of: {', '.join(agents)}"
        yield Finding(what=arguments.agent, state="broken", detail="unknown agent", fix=fix)


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
                fix="correct it: until then `run` and `chat` ignore this file",
            )


async def _check_agents(arguments: argparse.Namespace) -> list[Finding]:
    try:
        agents = list(find_agents().values())
    except StartError:
        return []
    chosen = [agent for agent in agents if arguments.agent in (None, agent.name)]
    if arguments.agent is not None and is_remote(arguments.agent):
        config = remote_config({"url": arguments.agent}, arguments)
        chosen.append(NamedAgent(name=name_of(arguments), source="config", config=config))
    return await asyncio.gather(*(_check_agent(agent, arguments) for agent in chosen))


async def _check_agent(agent: NamedAgent, arguments: argparse.Namespace) -> Finding:
    what = f"agent {agent.name}"
    began = time.monotonic()
    try:
        target = with_version(agent, arguments)
        versions = versions_for(arguments)
        async with connect(
            target, startup_timeout=arguments.timeout, protocol_versions=versions, dialect=arguments.dialect
        ) as remote:
            agent_name = f"{remote.info.title or remote.info.name} {remote.info.version}" if remote.info else "no name"
            took = f"answered in {time.monotonic() - began:.1f} s"
            methods = ", ".join(method.name for method in remote.login_methods)
            logins = f"; logins: {escape_line(methods)}" if methods else ""
            version = f", version {remote.version} of the protocol" if arguments.v2 else ""
            return Finding(what=what, state="ok", detail=f"{escape_line(agent_name)}, {took}{version}{logins}")
    except CommandNotFound as error:
        return Finding(what=what, state="broken", detail=str(error), fix="install it, or correct `command`")
    except AuthenticationRequired as error:
        return Finding(what=what, state="broken", detail=str(error), fix="log in with the agent's own command first")
    except ConnectError as error:
        fix = "pass the right token" if error.status in (401, 403) else "correct `url`, or start the server"
        return Finding(what=what, state="broken", detail=escape_line(str(error), 600), fix=fix)
    except DuologueError as error:
        fix = "start it by hand; it may need a login, a download or another argument"
        return Finding(what=what, state="broken", detail=escape_line(str(error), 600), fix=fix)


MARKS = {"ok": ("✓", Style.GREEN), "missing": ("–", Style.YELLOW), "broken": ("✗", Style.RED)}


def _print(finding: Finding, as_json: bool) -> None:
    out = safe(sys.stdout, is_exact=True)
    if as_json:
        out.write_json(finding)
        return
    fix = f"\n    → {finding.fix}" if finding.fix else ""
    out.write(*MARKS[finding.state])
    out.write(f" {finding.what}: {finding.detail}{fix}\n")
    out.flush()
