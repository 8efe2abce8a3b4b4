"""Addresses as people write them: what they mean, and what they must not carry."""

from __future__ import annotations

import logging
import ssl
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from duologue.errors import StartError
from duologue.transports.remote.cookies import MAX_COOKIE_BYTES, MAX_COOKIES, BoundedCookieJar
from duologue.transports.remote.factory import RemoteFactory
from duologue.transports.remote.http import HttpTransport
from duologue.transports.remote.url import RemoteEndpoint, is_remote
from duologue.transports.remote.websocket import WebSocketTransport

LOADED = {
    f"duologue.transports.remote.{name}"
    for name in (
        "websocket_connection",
        "websocket_connect",
        "http_client",
        "http_connect",
        "http_connection",
        "event_stream",
    )
}


@pytest.mark.parametrize(
    ("written", "url", "socket_url"),
    [
        ("ws://host:1/acp", "http://host:1/acp", "ws://host:1/acp"),
        ("wss://host/a?b=c", "https://host/a?b=c", "wss://host/a?b=c"),
        ("HTTPS://host", "https://host/acp", "wss://host/acp"),
        ("http://[::1]:8/", "http://[::1]:8/", "ws://[::1]:8/"),
        ("ws://h#token=abc", "http://h/acp", "ws://h/acp"),
    ],
)
def test_one_endpoint_has_an_address_for_each_way_of_speaking(written: str, url: str, socket_url: str) -> None:
    address = RemoteEndpoint.of(written)

    assert (address.url, address.socket_url) == (url, socket_url)


@pytest.mark.parametrize("written", ["ws://localhost#token=a.b-c_d~%2B", "ws://localhost#x=1&token=a.b-c_d~%2B"])
def test_a_token_in_the_fragment_becomes_a_header_and_is_shown_nowhere(written: str) -> None:
    address = RemoteEndpoint.of(written)

    assert address.headers == {"Authorization": "Bearer a.b-c_d~+"}
    assert "a.b-c_d" not in repr(address) + address.url + address.socket_url


@pytest.mark.parametrize(
    "written",
    [
        *("ws://", "ftp://host", "host:80", "ws://host:port", "ws://host:99999", "http://[::1", ""),
        *("ws://host?token=secret", "ws://user:secret@host", "ws://secret@host", "ws://host#token=two%20words"),
    ],
)
def test_an_address_that_makes_no_sense_or_shows_a_secret_is_refused_without_repeating_it(written: str) -> None:
    with pytest.raises(StartError) as caught:
        RemoteEndpoint.of(written)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("headers", [{"A": "b\r\nC: d"}, {"A\n": "b"}, {"A": "\0"}])
def test_a_header_is_one_line(headers: dict[str, str]) -> None:
    with pytest.raises(StartError, match="one line"):
        RemoteEndpoint.of("ws://localhost", headers=headers)


def test_a_token_without_tls_is_logged_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for url in ("ws://127.0.0.1", "http://localhost", "ws://[::1]", "wss://example.com"):
            RemoteEndpoint.of(url, token="t")
        assert caplog.records == []
        RemoteEndpoint.of("ws://example.com", token="t")
    assert [record.getMessage() for record in caplog.records] == [
        "the token for example.com leaves this machine unencrypted; use wss:// or https://"
    ]


def test_certificates_are_checked_unless_the_user_disables_it(tmp_path: Path) -> None:
    context = ssl.create_default_context()

    assert RemoteEndpoint.of("wss://h").tls().verify_mode is ssl.CERT_REQUIRED
    assert RemoteEndpoint.of("wss://h", trust=False).tls().verify_mode is ssl.CERT_NONE
    assert RemoteEndpoint.of("wss://h", trust=context).tls() is context
    for broken in (tmp_path / "missing.pem", tmp_path):
        with pytest.raises(StartError, match="cannot use the certificates"):
            RemoteEndpoint.of("wss://h", trust=broken).tls()


@pytest.mark.parametrize(
    ("target", "is_one"),
    [("ws://h", True), ("HTTPS://h", True), ("gemini --acp", False), ("run ws://h", False), ("ws:", False)],
)
def test_a_url_is_distinguished_from_a_command(target: str, is_one: bool) -> None:
    assert is_remote(target) is is_one


@pytest.mark.parametrize(
    ("target", "kind", "url"),
    [
        ("ws://h", "websocket", "ws://h/acp"),
        ("https://h", "http", "https://h/acp"),
        ({"url": "https://h", "transport": "websocket"}, "websocket", "wss://h/acp"),
        ({"url": "ws://h", "transport": "http"}, "http", "http://h/acp"),
    ],
)
def test_a_configuration_says_how_to_speak_or_the_address_does(target: object, kind: str, url: str) -> None:
    remote = RemoteFactory.of(target)

    assert remote is not None
    assert (remote.kind, remote.url) == (kind, url)


@pytest.mark.parametrize(("url", "missing"), [("ws://h", "websockets"), ("http://h", "httptools")])
def test_an_extra_that_is_not_installed_is_named(url: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("websocket", "http"):
        monkeypatch.delitem(sys.modules, f"duologue.transports.remote.{module}", raising=False)
    for module in list(sys.modules):
        if module.partition(".")[0] == missing or module in LOADED:
            monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    remote = RemoteFactory.of(url)

    assert remote is not None
    with pytest.raises(StartError, match=r"pip install 'duologue\[remote\]'"):
        remote.open()


async def test_an_address_opens_the_transport_for_it() -> None:
    for url, kind in (("ws://h", WebSocketTransport), ("http://h", HttpTransport)):
        remote = RemoteFactory.of(url)
        assert remote is not None
        assert isinstance(remote.open(), kind)


@pytest.mark.parametrize(
    "target", ["gemini --acp", ["gemini"], {"command": "gemini"}, {"command": "g", "transport": "stdio"}, object()]
)
def test_a_target_that_is_not_remote_has_no_remote_factory(target: object) -> None:
    assert RemoteFactory.of(target) is None


@pytest.mark.parametrize("config", [{"transport": "http"}, {"url": 5}, {"url": "ws://h", "transport": "pigeon"}])
def test_a_configuration_that_makes_no_sense_is_refused(config: object) -> None:
    with pytest.raises(StartError):
        RemoteFactory.of(config)


def test_arguments_of_the_caller_win_over_the_configuration() -> None:
    config = {"url": "ws://localhost#token=a", "token": "b", "headers": {"X-Team": "blue", "X-Room": 5}}
    remote, other = RemoteFactory.of(config), RemoteFactory.of(config, token="c", headers={"X-Team": "red"})

    assert remote is not None
    assert other is not None
    assert remote.address.headers == {"X-Team": "blue", "X-Room": "5", "Authorization": "Bearer b"}
    assert other.address.headers == {"X-Team": "red", "X-Room": "5", "Authorization": "Bearer c"}


@pytest.mark.fault("HTT-19")
def test_a_jar_keeps_a_few_small_cookies_of_its_own_host() -> None:
    jar = BoundedCookieJar()
    url = "http://agents.example.com/acp"
    jar.store(url, ["node=7; Path=/", "huge=" + "x" * MAX_COOKIE_BYTES, "other=1; Domain=evil.example"])
    assert jar.header_for(url) == "node=7"
    assert jar.header_for("http://evil.example/acp") is None
    assert jar.header_for("http://agents.example.org/acp") is None

    jar.store(url, [f"c{number}=1; Path=/" for number in range(1000)])
    assert len(jar) == MAX_COOKIES
    jar.store(url, ["node=8; Path=/"])
    assert "node=8" in (jar.header_for(url) or "")


@pytest.mark.fault("HTT-19")
def test_a_secure_cookie_is_not_sent_in_the_clear() -> None:
    jar = BoundedCookieJar()
    jar.store("https://localhost/acp", ["node=7; Secure"])

    assert jar.header_for("https://localhost/acp") == "node=7"
    assert jar.header_for("http://localhost/acp") is None


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("wss://faß.example", "xn--fa-hia.example"),  # another host than `fass.example`
        ("https://BÜCHER.example:8443/x", "xn--bcher-kva.example:8443"),
        ("ws://例え.example", "xn--r8jz45g.example"),
    ],
)
def test_a_host_name_is_looked_up_as_in_a_browser(url: str, host: str) -> None:
    assert urlsplit(RemoteEndpoint.of(url).url).netloc == host
    assert urlsplit(RemoteEndpoint.of(url).socket_url).netloc == host


def test_a_name_that_no_host_can_have_is_an_error() -> None:
    with pytest.raises(StartError, match="cannot be the name of a host"):
        RemoteEndpoint.of("wss://ü..example")
