"""The command behind `serving.serve_stdio`: its stdin and stdout are a socket of the program that offers the tools.

It runs as a script of its own, far from this package, so it needs nothing but the standard library.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

__all__ = ["main"]

CHUNK = 64 * 1024


def main(path: str) -> None:
    """Copy both ways until either side ends."""
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
