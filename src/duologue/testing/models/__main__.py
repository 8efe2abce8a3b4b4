"""Run a model server for programs in any language: `python -m duologue.testing.models SCRIPT.toml [--port N]`."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import threading
from pathlib import Path

from duologue.errors import StartError
from duologue.testing.models.server import ModelServer


def main() -> int:
    """Serve until a signal; return 0, 1 if a request did not fit the script, or 2 if the script cannot be served."""
    parser = argparse.ArgumentParser(prog="python -m duologue.testing.models", description=__doc__)
    parser.add_argument("script", type=Path, help="a TOML file with the turns of the model")
    parser.add_argument("--port", type=int, default=0, help="the port on 127.0.0.1; default: a free one")
    parser.add_argument("--api-key", help="the key that clients must send; default: a new one")
    arguments = parser.parse_args()
    try:
        server = ModelServer(arguments.script, port=arguments.port, api_key=arguments.api_key, raise_failures=False)
        server.start()
    except (OSError, ValueError, StartError) as error:
        sys.stderr.write(f"{arguments.script}: {error}\n")
        return 2
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: stopped.set())
    for name, value in server.environment.items():
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
    sys.stdout.flush()
    stopped.wait()
    server.close()
    for failure in server.failures:
        sys.stderr.write(f"{arguments.script}: {failure}\n")
    return 1 if server.failures else 0


if __name__ == "__main__":
    sys.exit(main())
