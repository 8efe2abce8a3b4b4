"""`duologue proxy`: rules in Python between an editor and an agent, or in a conductor's chain."""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path
from typing import Any

from duologue.agent.hosting.stdio import serve_stdio
from duologue.cli.arguments import parse_key_values
from duologue.cli.commands.tap import exit_like
from duologue.cli.console.safe_output import log_to_stderr, safe
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.cli.targets import command_of, name_of, remote_factory, target_of
from duologue.config.permissions import remembered_decisions_file, rules_files, state_folder
from duologue.errors import StartError
from duologue.proxy.loader import load_proxy
from duologue.proxy.proxy import Proxy
from duologue.proxy.relay import ComponentRelay, ProxyRelay
from duologue.relay.byte_tap import ByteTap
from duologue.relay.drain import DrainingRelay
from duologue.transports.process.transport import ProcessTransport
from duologue.transports.stdio.stdio import StdioRedirect

CHAIN = "conductor"
"""Name of the agent, which is not known, behind a component."""


def proxy(arguments: argparse.Namespace) -> int:
    """Apply rules to messages until the editor disconnects or the agent ends; return the exit code."""
    log_to_stderr("duologue.proxy", "duologue proxy: %(message)s")
    made = _proxy(arguments)
    if arguments.rule_timeout is not None:
        made.timeout = arguments.rule_timeout
    if not arguments.command_line and arguments.agent is None:
        serve_stdio(ComponentRelay(made))
        return ExitCode.OK
    target = target_of(arguments)
    started = command_of(target, arguments.lock)
    if started is None:
        return _serve(ProxyRelay(made, remote_factory(target).open))
    command, env = started[0], {**started[1], **parse_key_values(arguments.env, "--env")}
    if made.is_passive:
        return _observe(made, command, env)
    on_stderr = safe(sys.stderr).write_bytes
    return _serve(ProxyRelay(made, lambda: ProcessTransport(command, env=env, on_stderr=on_stderr)))


def _proxy(arguments: argparse.Namespace) -> Proxy:
    """Return the proxy that the command line names.

    Raises:
        UsageError: There is none, or a file of it cannot be used.
    """
    source = arguments.rules_source
    _check_options(arguments)
    try:
        if source == "logger":
            from duologue.proxy.logger import LoggerProxy

            return LoggerProxy(arguments.log)
        if source == "policy":
            return _policy(arguments)
        return load_proxy(source)
    except (StartError, ValueError, OSError) as error:
        raise UsageError(str(error)) from error


def _check_options(arguments: argparse.Namespace) -> None:
    owned = {"--rules": "policy", "--audit": "policy", "--log": "logger"}
    for option, owner in owned.items():
        if getattr(arguments, option[2:]) and arguments.rules_source != owner:
            raise UsageError(f"{option} is an option of `duologue proxy {owner}`")


def _policy(arguments: argparse.Namespace) -> Proxy:
    from duologue.proxy.policy import PolicyProxy

    defaults: dict[str, Any] = {"audit": state_folder() / "audit.jsonl", "memory": remembered_decisions_file()}
    options = {} if arguments.audit is None else {"audit": arguments.audit}
    files = arguments.rules or rules_files()
    has_agent = arguments.agent is not None or arguments.command_line
    made = PolicyProxy(*files, agent=name_of(arguments) if has_agent else CHAIN, defaults=defaults, **options)
    for file in arguments.rules:
        if not tomllib.loads(Path(file).read_text("utf-8")).get("permissions"):
            raise UsageError(f"--rules {file}: the file has no rules; they belong into its table `[permissions]`")
    return made


def _serve(relay: ProxyRelay) -> int:
    serve_stdio(DrainingRelay(relay))
    if relay.failure is not None:
        sys.stderr.write(f"duologue proxy: {relay.failure}\n")
        return ExitCode.AGENT_ERROR
    return ExitCode.OK


def _observe(made: Proxy, command: list[str], env: dict[str, str]) -> int:
    """Pass every byte on unchanged, and give the observers copies; what they print goes to stderr."""
    from duologue.proxy.observation import StreamObserver

    observer = StreamObserver(made)
    redirect = StdioRedirect()  # until the process ends: a slow observer may print even then
    try:
        code = ByteTap(command, observer, env, wire=(redirect.wire_in, redirect.wire_out)).run()
    finally:
        observer.close()
    return exit_like(code)
