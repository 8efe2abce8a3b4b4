"""Downloads are complete, checked and bounded, or refused with a reason and nothing left behind."""

from __future__ import annotations

import gzip
import hashlib
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from duologue.registry.download import DownloadError, DownloadLimits, Fetched, fetch, shown
from tests.registry.https_server import Answer, HttpsServer, redirect, response

BODY = b"an archive, say" * 1000
SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpsServer]:
    with HttpsServer(tmp_path_factory.mktemp("tls")) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))
        yield server


def refused(
    url: str, folder: Path, match: str, limits: DownloadLimits | None = None, sha256: str | None = None
) -> None:
    """Check that a download is refused, and neither a new file nor a change of the old one is left."""
    (folder / "file").write_bytes(b"old")

    with pytest.raises(DownloadError, match=match):
        fetch(url, folder / "file", max_bytes=1 << 20, limits=limits, sha256=sha256)

    assert [path.name for path in folder.iterdir()] == ["file"]
    assert (folder / "file").read_bytes() == b"old"


def test_a_download_is_hashed_and_replaces_the_file(server: HttpsServer, tmp_path: Path) -> None:
    url = server.add("/a.zip", BODY, {"ETag": '"1"'})
    seen: list[tuple[int, int | None]] = []

    found = fetch(
        url, tmp_path / "a", max_bytes=1 << 20, sha256=SHA256.upper(), progress=lambda size, of: seen.append((size, of))
    )

    assert found == Fetched(etag='"1"', sha256=SHA256, size=len(BODY))
    assert (tmp_path / "a").read_bytes() == BODY
    assert seen[-1] == (len(BODY), len(BODY))
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_etag_that_still_holds_downloads_nothing(server: HttpsServer, tmp_path: Path) -> None:
    url = server.add_raw("/i", lambda peer: peer.sendall(response(b"", {}, "304 Not Modified")))

    found = fetch(url, tmp_path / "i", max_bytes=100, etag='"7"')

    assert found == Fetched(is_unchanged=True, etag='"7"')
    assert 'If-None-Match: "7"' in server.requests[0]
    assert list(tmp_path.iterdir()) == []


def test_a_response_without_length_is_read_to_its_end(server: HttpsServer, tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"

    fetch(server.add_raw("/a", lambda peer: peer.sendall(head + BODY)), tmp_path / "a", max_bytes=1 << 20)
    fetch(server.add_raw("/b", lambda peer: peer.sendall(chunked)), tmp_path / "b", max_bytes=1 << 20)

    assert (tmp_path / "a").read_bytes() == BODY
    assert (tmp_path / "b").read_bytes() == b"hello"


def test_redirects_are_followed_and_credentials_are_not_passed_on(server: HttpsServer, tmp_path: Path) -> None:
    target = server.add("/file", BODY)
    url = server.add_raw("/latest", lambda peer: peer.sendall(redirect(target)))

    fetch(url.replace("https://", "https://me:se%20cret@"), tmp_path / "a", max_bytes=1 << 20)

    first, second = server.requests
    assert "Authorization: Basic bWU6c2UgY3JldA==" in first
    assert "Authorization" not in second


@pytest.mark.parametrize(
    ("to", "match"),
    [
        ("http://127.0.0.1/file", "http://127.0.0.1/file is not an https URL"),
        ("ftp://127.0.0.1/file", "is not an https URL|redirects"),
        ("file:///etc/passwd", "is not an https URL|redirects"),
        ("https://", "in a circle"),
        ("https://[::1/file", "cannot be downloaded|is not a URL"),
    ],
)
def test_a_redirect_away_from_https_is_refused(server: HttpsServer, tmp_path: Path, to: str, match: str) -> None:
    refused(server.add_raw("/x", lambda peer: peer.sendall(redirect(to))), tmp_path, match)


def test_a_redirect_in_a_circle_is_refused(server: HttpsServer, tmp_path: Path) -> None:
    url = server.add_raw("/x", lambda peer: peer.sendall(redirect(f"{server.url}/x")))

    refused(url, tmp_path, "redirects more than 5 times, or in a circle")
    assert len(server.requests) <= 6


def test_an_endless_chain_of_redirects_is_refused(server: HttpsServer, tmp_path: Path) -> None:
    def next_one(number: int) -> Answer:
        return lambda peer: peer.sendall(redirect(f"{server.url}/{number + 1}"))

    for number in range(20):
        server.add_raw(f"/{number}", next_one(number))

    refused(f"{server.url}/0", tmp_path, "redirects more than 5 times")


def test_another_hash_is_refused(server: HttpsServer, tmp_path: Path) -> None:
    refused(server.add("/x", BODY), tmp_path, f"has the SHA-256 {SHA256}, but 0000", sha256="0" * 64)


def test_a_truncated_download_is_refused(server: HttpsServer, tmp_path: Path) -> None:
    refused(server.add("/x", BODY, {"Content-Length": "20000"}), tmp_path, r"ended after 15,000 of 20,000 bytes")


def test_a_truncated_chunk_is_refused(server: HttpsServer, tmp_path: Path) -> None:
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\nhello"

    refused(server.add_raw("/x", lambda peer: peer.sendall(start)), tmp_path, "cannot be downloaded")


def test_a_length_that_is_too_short_cuts_the_file_and_its_hash_is_refused(server: HttpsServer, tmp_path: Path) -> None:
    refused(server.add("/x", BODY, {"Content-Length": "10"}), tmp_path, "has the SHA-256", sha256=SHA256)


def test_an_announced_size_over_the_limit_is_refused_before_a_byte_is_read(server: HttpsServer, tmp_path: Path) -> None:
    refused(server.add("/x", b"", {"Content-Length": "9999999"}), tmp_path, "has 9,999,999 bytes; at most 1,048,576")


def test_an_endless_download_is_abandoned(server: HttpsServer, tmp_path: Path) -> None:
    def endless(peer: ssl.SSLSocket) -> None:
        peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not server.ended.is_set():
            peer.sendall(b"x" * 65536)

    refused(server.add_raw("/x", endless), tmp_path, "has more than 1,048,576 bytes; it was abandoned")


def test_endless_headers_are_refused(server: HttpsServer, tmp_path: Path) -> None:
    def endless(peer: ssl.SSLSocket) -> None:
        peer.sendall(b"HTTP/1.1 200 OK\r\n")
        while not server.ended.is_set():
            peer.sendall(b"X-More: 1\r\n" * 100)

    refused(server.add_raw("/x", endless), tmp_path, "cannot be downloaded: got more than 100 headers")


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"])
def test_a_server_that_falls_silent_is_abandoned(server: HttpsServer, tmp_path: Path, start: bytes) -> None:
    def silent(peer: ssl.SSLSocket) -> None:
        peer.sendall(start)
        server.ended.wait(60)

    refused(
        server.add_raw("/x", silent),
        tmp_path,
        "sent nothing|timed out|try again",
        DownloadLimits(silence=0.5, total=60),
    )
    server.ended.set()


def test_a_server_that_sends_a_byte_now_and_then_is_abandoned_in_the_end(server: HttpsServer, tmp_path: Path) -> None:
    def slow(peer: ssl.SSLSocket) -> None:
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not server.ended.wait(0.05):
            peer.sendall(b"x")

    limits = DownloadLimits(silence=60, total=1)
    refused(server.add_raw("/x", slow), tmp_path, "was not received within 1 seconds", limits)


def test_headers_that_arrive_byte_by_byte_are_abandoned_in_the_end(server: HttpsServer, tmp_path: Path) -> None:
    def slow(peer: ssl.SSLSocket) -> None:
        peer.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
        while not server.ended.wait(0.05):
            peer.sendall(b"x")

    refused(
        server.add_raw("/x", slow), tmp_path, "was not received within 1 seconds", DownloadLimits(silence=60, total=1)
    )


def test_a_compressed_response_is_refused_instead_of_expanded(server: HttpsServer, tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(50 << 20))

    refused(server.add("/x", bomb, {"Content-Encoding": "gzip"}), tmp_path, "content encoding 'gzip'; only plain files")


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (response(b"", {}, "404 Not Found"), "answered 404 Not Found"),
        (response(b"", {}, "500 Oops"), "answered 500 Oops"),
        (response(b"", {}, "304 Not Modified"), "redirects|answered 304"),
        (b"SSH-2.0-OpenSSH\r\n", "cannot be downloaded"),
        (b"", "cannot be downloaded"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 100_000 + b"\r\n\r\n", "cannot be downloaded"),
    ],
)
def test_an_error_response_or_none_is_reported(server: HttpsServer, tmp_path: Path, answer: bytes, match: str) -> None:
    refused(server.add_raw("/x", lambda peer: peer.sendall(answer)), tmp_path, match)


def test_a_certificate_of_an_unknown_authority_is_refused(
    server: HttpsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")

    refused(server.add("/x", BODY), tmp_path, "certificate verify failed")


def test_a_host_that_does_not_answer_is_reported(tmp_path: Path) -> None:
    refused("https://127.0.0.1:1/x", tmp_path, "cannot be downloaded: .*refused")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/x",
        "http://example.com/x",
        "file:///etc/passwd",
        "ftp://h/x",
        "x",
        "https:///x",
        "https://h:x/",
    ],
)
def test_only_https_is_downloaded(url: str, tmp_path: Path) -> None:
    refused(url, tmp_path, "is not an https URL|is not a URL")


def test_messages_show_neither_credentials_nor_queries(tmp_path: Path) -> None:
    assert shown("https://me:secret@host:1/x?token=secret#secret") == "https://host:1/x"

    with pytest.raises(DownloadError) as caught:
        fetch("https://me:secret@127.0.0.1:1/x?token=secret", tmp_path / "x", max_bytes=1)
    assert "secret" not in str(caught.value)


def test_a_full_disk_leaves_the_old_file(server: HttpsServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")

    def stop(received: int, _: int | None) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        fetch(server.add("/x", BODY), tmp_path / "file", max_bytes=1 << 20, progress=stop)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]


def test_an_abandoned_download_ends_its_thread(server: HttpsServer, tmp_path: Path) -> None:
    def endless(peer: ssl.SSLSocket) -> None:
        peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not server.ended.is_set():
            peer.sendall(b"x" * 65536)

    refused(server.add_raw("/x", endless), tmp_path, "abandoned")
    for thread in threading.enumerate():
        if thread.name == "duologue-download":
            thread.join(30)
            assert not thread.is_alive()
