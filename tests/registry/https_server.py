"""An https server on loopback whose every answer is written by the test, byte by byte if need be."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.transports.certificates import Authority

Answer = Callable[[ssl.SSLSocket], None]


class HttpsServer:
    """Answers each path with what `answers` has for it; `requests` has what was asked, with all headers."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder)
        self.authority = authority.file
        self.answers: dict[str, Answer] = {}
        self.requests: list[str] = []
        self.ended = threading.Event()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(authority.sign("127.0.0.1"))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in list(self._threads):
            thread.join()

    def add(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> str:
        """Answer a path with this body; return its URL."""
        return self.add_raw(path, lambda peer: peer.sendall(response(body, headers or {})))

    def add_raw(self, path: str, answer: Answer) -> str:
        """Answer a path with whatever the function sends; return its URL."""
        self.answers[path] = answer
        return f"{self.url}{path}"

    def _accept(self) -> None:
        with suppress(OSError):
            while not self.ended.is_set():
                peer, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(peer,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, peer: socket.socket) -> None:
        # A client that refuses the answer ends the connection in the middle of it.
        with suppress(OSError), self._context.wrap_socket(peer, server_side=True) as encrypted:
            encrypted.settimeout(60)
            request = b""
            while b"\r\n\r\n" not in request and (piece := encrypted.recv(4096)):
                request += piece
            text = request.decode()
            self.requests.append(text)
            answer = self.answers.get(text.split(" ")[1])
            if answer is None:
                encrypted.sendall(response(b"", {}, "404 Not Found"))
            else:
                answer(encrypted)


def response(body: bytes, headers: Mapping[str, str], status: str = "200 OK") -> bytes:
    """Return a response with this body, and its length unless a header says another."""
    lines = {"Content-Length": str(len(body)), "Connection": "close", **headers}
    head = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in lines.items()), "", ""]
    return "\r\n".join(head).encode() + body


def redirect(to: str) -> bytes:
    """Return a redirect to a URL."""
    return response(b"", {"Location": to}, "302 Found")
