"""`duologue serve`: any agent over WebSocket and HTTP, protected by a token."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from duologue.agent.hosting.stdio import errors_on_stderr
from duologue.cli.arguments import parse_key_values
from duologue.cli.console.safe_output import log_to_stderr, safe
from duologue.cli.exit_codes import UsageError
from duologue.cli.recordings import own_patterns
from duologue.cli.targets import TOKEN_VARIABLE, command_of, target_of
from duologue.compat.transport import open_with_dialect
from duologue.relay.backoff import RestartBackoff
from duologue.relay.process_relay import ProcessRelay
from duologue.relay.pump import OpenProcess
from duologue.relay.shared_process import SharedProcessRelay
from duologue.transports.base import Servable
from duologue.transports.process.transport import ProcessTransport

if TYPE_CHECKING:
    from duologue.transports.server.app import ServerApp
    from duologue.transports.server.run import ServerAddress

RELAY_READ_AHEAD = 32 * 1024
"""Output of an agent that waits here for a slow client; the rest stays in the pipe, where it costs no CPU."""


def serve(arguments: argparse.Namespace) -> int:
    """Serve until a signal stops the program; return the exit code."""
    try:
        from duologue.transports.server.run import ServerAddress, new_token, run
    except ImportError as error:
        raise UsageError(f"serve needs {error.name}; install the extra: pip install 'duologue[remote]'") from None
    given = None if arguments.dangerously_without_token else arguments.token or os.environ.get(TOKEN_VARIABLE)
    # Only a token that was made here is printed.
    made = new_token() if not given and not arguments.dangerously_without_token else None
    address = ServerAddress(
        host=arguments.host,
        port=arguments.port,
        certificate=arguments.tls_cert,
        key=arguments.tls_key,
        has_token=not arguments.dangerously_without_token,
        is_behind_tls=arguments.behind_tls_proxy,
    )
    address.check()
    app = _app(arguments, address, given or made)
    if arguments.access_log:
        log_to_stderr("duologue.access", "%(message)s")

    def started(port: int) -> None:
        sys.stdout.write(f"{address.url(port, 'ws', made)}\n")
        sys.stdout.flush()

    gc.freeze()  # what is imported stays: a collection need not examine it
    with errors_on_stderr():
        return asyncio.run(run(app, address, started, drain_seconds=arguments.drain_timeout))


def _app(arguments: argparse.Namespace, address: ServerAddress, token: str | None) -> ServerApp:
    from duologue.transports.server.app import ServerApp
    from duologue.transports.server.auth import AccessControl
    from duologue.transports.server.limits import Limits
    from duologue.transports.server.tokens import single_token

    if token is not None and (not token.isascii() or not token.isprintable() or " " in token):
        raise UsageError("the token must consist of visible ASCII characters")
    limits = Limits(idle_seconds=arguments.idle_timeout, grace_seconds=arguments.resume_timeout)
    access = AccessControl(
        None if token is None else single_token(token),
        limits,
        hosts=(*address.hostnames, *arguments.allow_host),
        origins=arguments.allow_origin,
        trusted_proxies=arguments.behind_proxy,
        is_behind_tls=arguments.behind_tls_proxy,
    )
    agents = _agents(_opener(arguments), arguments.shared)
    return ServerApp(agents if arguments.record is None else _recorded(agents, arguments), access, limits)


def _agents(open_process: OpenProcess, is_shared: bool) -> Callable[[str], Servable]:
    """Return a function from caller to agent; callers never share a process."""
    backoff = RestartBackoff()
    if not is_shared:
        relay = ProcessRelay(open_process, backoff)
        return lambda caller: relay
    shared: dict[str, SharedProcessRelay] = {}
    return lambda caller: shared.setdefault(caller, SharedProcessRelay(open_process, backoff))


def _recorded(agents: Callable[[str], Servable], arguments: argparse.Namespace) -> Callable[[str], Servable]:
    """Return a function from caller to agent; each connection is recorded in a file of its own.

    Raises:
        UsageError: The directory cannot be made, or the configuration file is wrong.
    """
    from duologue.config.recordings import new_recording
    from duologue.recording.recorder import Recorder
    from duologue.relay.recorded_relay import RecordedRelay

    folder = Path(arguments.record).absolute()
    patterns, env = own_patterns(), parse_key_values(arguments.env, "--env")
    try:
        new_recording(folder)
    except OSError as error:
        raise UsageError(f"--record {arguments.record}: {error.strerror}") from None
    return lambda caller: RecordedRelay(
        agents(caller), lambda: Recorder(new_recording(folder), patterns=patterns, env=env)
    )


def _opener(arguments: argparse.Namespace) -> OpenProcess:
    """Return how to start the agent; it depends on this command line only, never on a client."""
    cwd = Path(arguments.cwd).absolute()
    if not cwd.is_dir():
        raise UsageError(f"--cwd {arguments.cwd}: no such directory")
    target, own_env = target_of(arguments), parse_key_values(arguments.env, "--env")
    on_stderr = safe(sys.stderr).write_bytes

    def started() -> tuple[list[str], dict[str, str]]:
        """Return the command and its variables; the program of a locked agent is compared at each start."""
        found = command_of(target, arguments.lock)
        if found is None:
            raise UsageError("only commands can be served, not a remote agent")
        return found[0], {**found[1], **own_env}

    def open_process() -> ProcessTransport:
        command, env = started()
        return ProcessTransport(command, cwd=cwd, env=env, on_stderr=on_stderr, read_ahead=RELAY_READ_AHEAD)

    started()  # what is wrong with it is known before the server starts
    return open_with_dialect(open_process, arguments.dialect)
