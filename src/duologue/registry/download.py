"""Download a file over https: bounded in size and time, hashed while it arrives, and written whole or not at all.

A server is hostile input. Every redirect is checked, nothing is decompressed, and a response that sends nothing, sends
too slowly or never ends is abandoned. The network is read in a thread of its own, because resolving a name and reading
headers have no time limit in the standard library; everything that touches files happens in the calling thread.
"""

from __future__ import annotations

import email.message
import hashlib
import http.client
import os
import queue
import ssl
import threading
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit, urlunsplit

from msgspec import Struct

from duologue.registry.index import RegistryError

MAX_REDIRECTS = 5
"""Redirects that are followed for one download; release servers use two."""

SILENCE_SECONDS = 60.0
"""How long a server may send nothing."""

TOTAL_SECONDS = 3600.0
"""How long a download may take in all."""

PIECE = 1 << 16
PIECES_AHEAD = 16
"""Pieces that are read before they are written."""

Progress = Callable[[int, int | None], None]
"""Called with the bytes received so far, and the size if the server announced it."""


class DownloadError(RegistryError):
    """A file cannot be downloaded, or is not what was expected; the message says why."""


class Fetched(Struct, frozen=True, kw_only=True):
    """A finished download.

    Attributes:
        is_unchanged: The server has nothing newer than the given ETag; no file was written.
        etag: The ETag that the server sent.
        sha256: Hash of the content, in hexadecimal.
        size: Bytes of the content.
    """

    is_unchanged: bool = False
    etag: str | None = None
    sha256: str = ""
    size: int = 0


class DownloadLimits(Struct, frozen=True, kw_only=True):
    """Limits of one download.

    Attributes:
        silence: Seconds without a byte after which it fails.
        total: Seconds after which it fails in any case.
    """

    silence: float = SILENCE_SECONDS
    total: float = TOTAL_SECONDS


def fetch(
    url: str,
    path: Path,
    *,
    max_bytes: int,
    sha256: str | None = None,
    etag: str | None = None,
    progress: Progress | None = None,
    limits: DownloadLimits | None = None,
) -> Fetched:
    """Download a URL into a file, which is replaced at once when the download is complete and checked.

    Args:
        url: An https URL; a user name and password in it are sent as basic authentication, and not to redirects.
        path: The file.
        max_bytes: Largest size that is accepted.
        sha256: Expected hash of the content, in hexadecimal; None: any.
        etag: Ask only for something newer than this.
        progress: Called while bytes arrive.
        limits: Limits of time.

    Raises:
        DownloadError: The download failed or was refused; nothing is left behind.
        OSError: The file cannot be written.
    """
    limits = limits or DownloadLimits()
    check_url(url)
    stream = _Stream(url, etag, limits)
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        headers = stream.open()
        if headers is None:
            return Fetched(is_unchanged=True, etag=etag)
        announced = _announced_size(url, headers, max_bytes)
        with partial.open("wb") as file:
            size, found = _receive(stream, file, announced, max_bytes, progress)
            file.flush()
            os.fsync(file.fileno())
        if announced is not None and size != announced:
            raise DownloadError(f"{shown(url)} ended after {size:,} of {announced:,} bytes; try again")
        if sha256 is not None and found != sha256.lower():
            raise DownloadError(
                f"{shown(url)} has the SHA-256 {found}, but {sha256.lower()} was expected; it was not used: the file "
                "or its checksum has changed"
            )
        partial.replace(path)
        return Fetched(etag=headers.get("ETag"), sha256=found, size=size)
    finally:
        stream.abandon()
        partial.unlink(missing_ok=True)


def check_url(url: str) -> None:
    """Check that a URL may be downloaded.

    Raises:
        DownloadError: It is not https.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise DownloadError(f"{url[:200]!r} is not a URL: {error}") from None
    if parts.scheme != "https" or not host:
        raise DownloadError(f"{shown(url)} is not an https URL; only https is downloaded")


def shown(url: str) -> str:
    """Return a URL for messages and files: without user name, password, query and fragment, which may be secret."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))[:500]


def _announced_size(url: str, headers: email.message.Message, max_bytes: int) -> int | None:
    encoding = headers.get("Content-Encoding", "identity").strip().lower()
    if encoding != "identity":
        raise DownloadError(f"{shown(url)} is sent with the content encoding {encoding!r}; only plain files are read")
    text = headers.get("Content-Length", "")
    announced = int(text) if text.isascii() and text.isdigit() else None
    if announced is not None and announced > max_bytes:
        raise DownloadError(f"{shown(url)} has {announced:,} bytes; at most {max_bytes:,} are downloaded")
    return announced


def _receive(
    stream: _Stream, file: IO[bytes], announced: int | None, max_bytes: int, progress: Progress | None
) -> tuple[int, str]:
    """Write a response to a file; return its size and hash."""
    hasher = hashlib.sha256()
    size = 0
    while piece := stream.read():
        size += len(piece)
        if size > max_bytes:
            raise DownloadError(f"{shown(stream.url)} has more than {max_bytes:,} bytes; it was abandoned")
        hasher.update(piece)
        file.write(piece)
        if progress is not None:
            progress(size, announced)
    return size, hasher.hexdigest()


class _Stream:
    """One response, read by a thread that is abandoned when it takes too long."""

    def __init__(self, url: str, etag: str | None, limits: DownloadLimits) -> None:
        self.url = url
        self._etag = etag
        self._limits = limits
        self._deadline = time.monotonic() + limits.total
        self._received: queue.Queue[email.message.Message | bytes | Exception | None] = queue.Queue(PIECES_AHEAD)
        self._is_abandoned = threading.Event()

    def open(self) -> email.message.Message | None:
        """Return the headers of the response; None if there is nothing newer than the ETag."""
        # A daemon: one that hangs in resolving a name must not keep the program from ending.
        threading.Thread(target=self._run, name="duologue-download", daemon=True).start()
        headers = self._next()
        return headers if isinstance(headers, email.message.Message) else None

    def read(self) -> bytes:
        """Return the next bytes; none at the end."""
        piece = self._next()
        return piece if isinstance(piece, bytes) else b""

    def abandon(self) -> None:
        """Let the thread end at its next byte."""
        self._is_abandoned.set()

    def _next(self) -> email.message.Message | bytes | None:
        left = self._deadline - time.monotonic()
        try:
            received = self._received.get(timeout=max(0.0, min(left, self._limits.silence)))
        except queue.Empty:
            seconds = self._limits.silence if left > self._limits.silence else self._limits.total
            what = "sent nothing for" if left > self._limits.silence else "was not received within"
            raise DownloadError(f"{shown(self.url)} {what} {seconds:g} seconds; try again later") from None
        if isinstance(received, Exception):
            raise DownloadError(_explain(self.url, received)) from None
        if left <= 0:
            raise DownloadError(f"{shown(self.url)} was not received within {self._limits.total:g} seconds")
        return received

    def _run(self) -> None:
        try:
            # `check_url` admits https only.
            request = urllib.request.Request(_without_credentials(self.url), headers={"User-Agent": "duologue"})  # noqa: S310
            if credentials := _credentials(self.url):
                request.add_unredirected_header("Authorization", credentials)
            if self._etag is not None:
                request.add_header("If-None-Match", self._etag)
            with _opener().open(request, timeout=self._limits.silence) as response:
                self._put(response.headers)
                while not self._is_abandoned.is_set() and (piece := response.read1(PIECE)):
                    self._put(piece)
            self._put(b"")
        except urllib.error.HTTPError as error:
            self._put(None if error.code == http.HTTPStatus.NOT_MODIFIED and self._etag is not None else error)
            error.close()
        except Exception as error:
            self._put(error)

    def _put(self, received: email.message.Message | bytes | Exception | None) -> None:
        while not self._is_abandoned.is_set():
            try:
                self._received.put(received, timeout=0.1)
            except queue.Full:
                continue
            break


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a few redirects, each only to a URL that could be downloaded itself."""

    max_redirections = MAX_REDIRECTS
    max_repeats = MAX_REDIRECTS

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        try:
            check_url(newurl)
        except DownloadError as error:
            raise DownloadError(f"{shown(req.full_url)} redirects to another URL: {error}") from None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener for http and https only: the ordinary one would also read files and FTP."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _CheckedRedirects(),
    ):
        opener.add_handler(handler)
    return opener


def _credentials(url: str) -> str | None:
    parts = urlsplit(url)
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(pair.encode()).decode()}"


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))


def _explain(url: str, error: Exception) -> str:
    match error:
        case DownloadError():
            return str(error)
        case urllib.error.HTTPError(code=code) if 300 <= code < 400:
            return f"{shown(url)} redirects more than {MAX_REDIRECTS} times, or in a circle"
        case urllib.error.HTTPError(code=code, reason=reason):
            return f"{shown(url)} cannot be downloaded: the server answered {code} {reason}"
        case TimeoutError():
            return f"{shown(url)} cannot be downloaded: the server sent nothing; try again later"
        case urllib.error.URLError(reason=reason):
            return f"{shown(url)} cannot be downloaded: {reason}"
        case _:
            return f"{shown(url)} cannot be downloaded: {str(error) or type(error).__name__}"
