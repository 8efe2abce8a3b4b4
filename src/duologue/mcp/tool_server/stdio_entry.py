"""The command of `transports.serve_stdio`: connects stdin and stdout to a socket of the program with the tools.

It runs as a separate script without this package, so it uses only the standard library.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

CHUNK = 64 * 1024


def main(path: str) -> None:
    """Copy bytes in both directions until either side ends."""
    with socket.socket(socket.AF_UNIX) as tunnel:
        tunnel.connect(path)
        threading.Thread(target=_copy_input, args=(tunnel,), daemon=True).start()
        while data := tunnel.recv(CHUNK):
            while data:
                data = data[os.write(1, data) :]


def _copy_input(tunnel: socket.socket) -> None:
    while data := os.read(0, CHUNK):
        tunnel.sendall(data)
    tunnel.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main(sys.argv[1])
