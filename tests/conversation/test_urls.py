"""The host shown to a user is the one that a browser would open."""

from __future__ import annotations

import pytest

from duologue.conversation.urls import host_of

pytestmark = pytest.mark.fault("PRM-19")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.com/login?x=1#y", "example.com"),
        ("HTTPS://Example.COM", "example.com"),
        ("http://localhost:8080/", "localhost"),
        ("https://good.example@evil.example/x", "evil.example"),
        ("https://good.example:pw@evil.example", "evil.example"),
        ("https://evil.example/@good.example", "evil.example"),
        ("https://evil.example?@good.example", "evil.example"),
        ("https://evil.example#@good.example", "evil.example"),
        ("https://ex\u0430mple.com", "xn--exmple-4nf.com"),  # a Cyrillic letter
        ("https://b\u00fccher.example", "xn--bcher-kva.example"),
        ("https://bu\u0308cher.example", "xn--bcher-kva.example"),  # the same, composed otherwise
        ("https://127.0.0.1:5/", "127.0.0.1"),
        ("http://[::1]:5/", "::1"),
        ("https://a_b.example.", "a_b.example."),
    ],
)
def test_the_host_is_the_one_that_a_browser_opens(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    "url",
    [
        *(
            "javascript:alert(1)",
            "javascript://github.com/%0aalert(1)",
            "JavaScript:x",
            "data:text/html,x",
            "file:///x",
        ),
        *("mailto:x", "vbscript:x", "ftp://example.com", "vscode://x", "about:blank", "blob:https://example.com/x"),
        *("", "example.com", "//example.com", "https:", "https://", "https:example.com", "https:/example.com"),
        *("https:///example.com", "https://?x", "https://@", "https://user@", "https://:80", "http://["),
        *("https://evil.example\\@github.com", "https://evil.example\\.github.com", "https:\\\\evil.example"),
        *("https://evil.example\t@github.com", "https://evil.example\n.github.com", " https://github.com"),
        *(
            "https://github.com ",
            "ht\ttps://github.com",
            "https://github.com\x00.evil.example",
            "\x01https://a.example",
        ),
        *("https://github.com%2eevil.example", "https://evil.example%2f@x%40", "https://github.com%00.evil.example"),
        *(
            "https://a@b@evil.example",
            "https://evil.example:80:90/",
            "https://evil.example:x/",
            "https://evil.example:",
        ),
        *("https://2130706433", "https://0x7f.1", "https://127.1", "https://0177.0.0.1", "https://1.2.3.4.5"),
        *("https://stra\u00dfe.example", "https://\u03b2\u03cc\u03bb\u03bf\u03c2.example"),  # mapped by old rules
        *(
            "https://evil\u3002example",
            "https://\uff45vil.example",
            "https://a\u200db.example",
            "https://a\u00adb.example",
        ),
        *("https://evil.example\uff0f@github.com\u2028", "https://evil..example", "https://.example", "https://[::1"),
        *("https://evil.example;github.com", "https://{evil}.example", "https://[::1%25eth0]/", "https://[v1.a]/"),
    ],
)
def test_a_url_that_programs_read_in_two_ways_is_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="the URL"):
        host_of(url)
