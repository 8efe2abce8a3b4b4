"""Strings that break things, one or more of every kind."""

from __future__ import annotations

NAUGHTY: list[str] = [
    # nothing, words with a meaning elsewhere, numbers that are text
    *("", " ", "undefined", "undef", "null", "NULL", "nil", "None", "true", "False", "then", "hasOwnProperty", "\\"),
    *("0", "1", "1.00", "$1.00", "1/2", "1E2", "-1", "1/0", "0/0", "NaN", "Infinity", "-Infinity", "0x0", "1#INF"),
    *("0xffffffffffffffff", "123456789012345678901234567890", "1,000.00", "1'000", "08", "0b1", "٣", "௩", "½"),
    # punctuation, quotes, brackets
    *(",./;'[]\\-=", '<>?:"{}|_+', "!@#$%^&*()`~", "'", '"', "''", '""', "'\"'", '"\'"', "\\'", '\\"', "{{7*7}}"),
    *("${jndi:x}", "%s%n%d", "{0}", "$(true)", "`true`", "; true", "| true", "--", "/* */", "<!--", "]]>"),
    # control characters and white space
    *("\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f", "\x10\x1f\x7f", "\x00", "a\x00b", "\t", "\n", "\r", "\r\n", "\v\f"),
    *("\x80\x81\x84\x86\x9f", "\u0085", "\u00a0", "\u1680", "\u2000\u200a", "\u2028", "\u2029", "\u3000", "\ufeff"),
    *("\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x1b[2J", "\x1bc"),
    # marks that change the order, join, or hide
    *("\u200b\u200c\u200d\u2060", "\u202a\u202b\u202c\u202d\u202e", "\u2066\u2067\u2068\u2069", "\u00ad", "\u061c"),
    *("\ufff9\ufffa\ufffb", "\ufffe", "\uffff", "\U0010ffff", "\U000e0001\U000e0041", "\ue000", "\U000f0000"),
    # letters: accents, scripts, cases, look-alikes, what grows when its case changes
    *(
        "Ω≈ç√∫˜µ≤≥÷",
        "ÅÍÎÏ˝ÓÔ\uf8ffÒÚÆ☃",
        "ЁЂЃЄЅІЇЈЉЊЋЌЍЎЏ",
        "田中さんにあげて下さい",
        "表ポあA鷗ŒéＢ逍Üßªąñ丂㐀𠀀",
        "사회과학원",
    ),
    *("בְּרֵאשִׁית", "هָيְתָהtestالصفحات", "﷽", "ﷺ", "test\u2060", "ก็็็็็", "İıſß", "ǅ", "ﬁ", "Å", "A\u030a", "é", "e\u0301"),
    *("Ⱥ", "pаypal", "ＦＵＬＬ", "𝐓𝐡𝐞", "⒯⒣⒠", "˙ɐnbᴉlɐ"),
    # emoji: beyond U+FFFF, joined, flags, skin tones
    *("😍", "👩🏽", "👨‍🦰 👨🏿‍🦰", "🐵 🙈 🙉", "❤️ 💔", "🚾 🆒", "0️⃣ 🔟", "🇺🇸🇷🇺🇸", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "👩‍👩‍👧‍👦", "✋🏿"),
    # paths, addresses, markup, queries, formats of others
    *("../../etc/passwd", "/dev/null; touch x", "C:\\con\\con", "CON", "file:///etc", "~", "-rf", "\\\\server\\share"),
    *("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&lt;", "javascript:alert(1)", "' OR 1=1 --"),
    *(
        '{"jsonrpc":"2.0","id":1,"method":"echo"}',
        "data: x\n\nevent: y",
        "Content-Length: 5\r\n\r\n",
        "\\ud800",
        "\\u0000",
    ),
    # long ones
    *("a" * 100_000, "🐟" * 10_000, "\\" * 5_000, '"' * 5_000, "\u0301" * 5_000, "[" * 1_000, "{" * 1_000),
]
