"""The program that a client starts instead of an agent: connects its stdin and stdout to the checker's socket.

It imports nothing of this package, so that it starts quickly: `python agent_stub.py SOCKET [ARGUMENT ...]`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading

SIZE = 65536
REPORTED = ("DUOLOGUE_CHECK_LOGIN",)
"""Environment variables whose values the checker wants to know."""


def main() -> None:
    """Copy bytes in both directions until both ends are done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the client, which cancels the turn
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(sys.argv[1])
    started = {"arguments": sys.argv[2:], "env": {name: os.environ[name] for name in REPORTED if name in os.environ}}
    connection.sendall(json.dumps(started).encode() + b"\n")
    threading.Thread(target=_send_input, args=(connection,), daemon=True).start()
    while data := connection.recv(SIZE):
        while data:
            data = data[os.write(1, data) :]


def _send_input(connection: socket.socket) -> None:
    try:
        while data := os.read(0, SIZE):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, ConnectionError):
        sys.exit(1)
