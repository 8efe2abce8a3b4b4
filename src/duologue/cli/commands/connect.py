"""`duologue connect`: a remote agent, or one of another protocol version, as a local command for editors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from duologue.agent.hosting.stdio import serve_stdio
from duologue.cli.console.safe_output import log_to_stderr, safe
from duologue.cli.exit_codes import ExitCode
from duologue.cli.targets import remote_config, remote_factory
from duologue.compat.dialects import DIALECTS
from duologue.compat.transport import DialectAdapter, open_with_dialect
from duologue.relay.bridge.auto_bridge import AutoBridge
from duologue.relay.drain import DrainingRelay
from duologue.relay.pump import OpenProcess
from duologue.relay.stdio_proxy import StdioProxy
from duologue.transports.process.transport import ProcessTransport

VERSIONS = {"v1": 1, "v2": 2}


def connect(arguments: argparse.Namespace) -> int:
    """Relay frames until the editor disconnects or the agent is lost; return the exit code."""
    open_agent = open_with_dialect(_opener(arguments), arguments.dialect)
    version = arguments.protocol
    relay = AutoBridge(open_agent, VERSIONS[version]) if version in VERSIONS else StdioProxy(open_agent)
    # What cannot be translated between the versions is logged as a warning.
    log_to_stderr("duologue.relay", "duologue connect: %(message)s")
    served = DialectAdapter(relay, version, default_cwd=str(Path.cwd())) if version in DIALECTS else relay
    serve_stdio(DrainingRelay(served, arguments.drain_timeout))
    if relay.failure is not None:
        sys.stderr.write(f"duologue connect: {relay.failure}\n")
        return ExitCode.AGENT_ERROR
    return ExitCode.OK


def _opener(arguments: argparse.Namespace) -> OpenProcess:
    if arguments.command_line:
        return lambda: ProcessTransport(arguments.command_line, on_stderr=safe(sys.stderr).write_bytes)
    return remote_factory(remote_config({"url": arguments.url}, arguments)).open
