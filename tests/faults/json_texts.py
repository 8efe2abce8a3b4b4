"""JSON texts written by hand, of every class of JSONTestSuite: invalid, valid, and implementation-defined.

Bytes, not text: what matters about many of them are bytes that are no text.
"""

from __future__ import annotations

# To be refused. (Empty and blank lines are no texts at all; framing skips them.)
REFUSED: list[bytes] = [
    # arrays
    *(b"[7 true]", b"[q\xe5]", b'["a":7]', b'["a"],', b"[,7]", b"[7,,8]", b'["b",,]', b'["b"]]', b'["b",]', b'["b"'),
    *(b"[q", b"[4[5]]", b"[\xff]", b"[7;8]", b"[,]", b"[-]", b"[ , 1]", b'["c",\n5\n,1,', b"[7,]", b"[7,,]"),
    *(b'["\x0bc"\\f]', b"[*]", b'["b', b"[7,", b"[7,\n1\n,7", b"[{}"),
    # literals
    *(b"[fals]", b"[nul]", b"[tru]", b"[True]", b"[truefalse]", b"TRUE", b"nil"),
    # numbers
    *(b"234 00", b"[++12]", b"[+2]", b"[+Inf]", b"[-02]", b"[-2.0.]", b"[-3.]", b"[-NaN]", b"[.-2]", b"[.3e-2]"),
    *(b"[0.2.3]", b"[0.4e+]", b"[0.4e]", b"[0.e2]", b"[0E+]", b"[0E]", b"[0e+]", b"[0e]", b"[2.0e+]", b"[2.0e-]"),
    *(b"[2.0e]", b"[2 000.0]", b"[2eE3]", b"[3.e+4]", b"[3.e-4]", b"[3.e4]", b"[8.e+]", b"[Inf]", b"[NaN]"),
    *("[１]".encode(), b"[2+3]", b"[0x2]", b"[0x43]", b"[Infinity]", b"[0e+-2]", b"[-124.124foo]", b"[124\xe5]"),
    *(b"[2e2\xe5]", b"[0\xe5]", b"[-Infinity]", b"[-foo]", b"[- 2]", b"[-013]", b"[-.124]", b"[-2x]", b"[2eb]"),
    *(b"[2e\xe5]", b"[2.]", b"[.124]", b"[2.3b-]", b"[2.8011670033376514H-308]", b"[013]", b"[1_000]"),
    # objects
    *(b'["y", truth]', b'{[: "y"}', b'{"y", null}', b'{"y"::"c"}', "{🇨🇭}".encode(), b'{"b":"b" 124}', b"{'b':0}"),
    *(b'{"\xb9":"0",}', b'{"b" c}', b'{:"c"}', b'{"b" "c"}', b'{"b":', b'{"b"', b"{2:2}", b"{9999E9999:2}"),
    *(b"{null:null,null:null}", b'{"id":0,,,,,}', b"{'b':0}", b'{"id":0,}', b'{"b":"c"}/**/', b'{"b":"c"}/**//'),
    *(b'{"b":"c"}//', b'{"b":"c"}/', b'{"b":"c",,"d":"e"}', b'{b: "c"}', b'{"b":"b', b'{ "bar" : "foo", "b" }'),
    *(b'{"b":"c"}#', b'{"b":true} "y"', b'{"b":/*comment*/"c"}', b"{'b':'c'}"),
    # strings
    *(b'["\\uD800\\"]', b'["\\uD800\\u"]', b'["\\uD800\\u2"]', b'["\\uD800\\u2y"]', "[é]".encode(), b'["\\\x00"]'),
    *(b'["\\x01"]', b'["\\\\\\"]', b'["\\\t"]', '["\\🌀"]'.encode(), b'["\\"]', b'["\\u00B"]', b'["\\uD834\\uDd"]'),
    *(b'["\\uD800\\uD800\\y"]', b'["\\u\xe5"]', b'["\\b\\y"]', b'["\\uqqqq"]', b'["\\\xe5"]', b'[\\u0020"sd"]'),
    *(b"[\\n]", b'"', b"['single quote']", b"bcd", b'["\\', b'["b\x00b"]', b'["new\nline"]', b'["\t"]', b'"\\UA66D"'),
    *(b'""y', b'"\x1f"', b'["\x01"]'),
    # structures
    *(
        b"[" * 100_000,
        b"[\xe2\x81\xa0]",
        b"\xef\xbb\xbf",
        b"<.>",
        b"[<null>]",
        b"[2]y",
        b"[2]]",
        b'["bsd]',
        b"a\xc3\xa5",
    ),
    *(b"[False]", b"2]", b'{"y": true,', b"[][]", b"]", b"\xef\xbb{}", b"\xe5", b"[", b"[\x00]", b"3@", b"{}}"),
    *(b'{"":', b'{"b":/*comment*/"c"}', b'{"b": true} "y"', b"['", b"[,", b'[{"":' * 50_000, b"[{", b'["b', b'["b"'),
    *(b"{", b"{]", b"{,", b"{[", b'{"b', b"{'b'", b"{}[{}", b"\xc3\xa9", b"*", b'{"b":"c"}#{}', b'[\\u000A""]', b"[2"),
    *(b"[ false, nul", b"[ true, fals", b"[ false, tru", b'{"asd":"asd"', "å".encode(), b"\xe2\x81\xa0", b"[\x0c]"),
    # other encodings, with and without a mark
    *('{"a":"b"}'.encode(encoding) for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le")),
    *("[1]".encode(encoding) for encoding in ("utf-16-le", "utf-16-be", "utf-32-be", "utf-7")[:3]),
]

# To be read, and then refused because none of it is a request.
READ: list[bytes] = [
    # arrays
    *(b"[[]   ]", b'[""]', b"[]", b'["b"]', b"[false]", b'[null, 2, "2", {}]', b"[null]", b"[2\n]", b" [2]"),
    *(b"[2,null,null,null,3]", b"[3] ", b"[true]", b" [] ", b'["b"]\n'),
    # numbers
    *(b"[124e66]", b"[0e+2]", b"[0e2]", b"[ 5]", b"[-0.00000000000000000000000000000000000000000000000000000002]"),
    *(b"[30e2]", b"[-0]", b"[-124]", b"[-2]", b"[-0.0]", b"[2E23]", b"[2E-3]", b"[2E+3]", b"[124e46]", b"[124.457e79]"),
    *(b"[2e-3]", b"[2e+3]", b"[124]", b"[124.456780]"),
    # objects
    *(b'{"bsd":"teg", "egh":"ghi"}', b'{"bsd":"teg"}', b'{"b":"c","b":"d"}', b'{"b":"c","b":"c"}', b"{}", b'{"":0}'),
    *(b'{"foo\\u0000bar": 43}', b'{ "min": -1.0e+27, "max": 1.0e+27 }', b'{"b":[]}', b'{\n"b": "c"\n}'),
    *(b'{"y":[{"id": "%s"}], "id2": "y"}' % (b"y" * 40), rb'{"title":"\u041f\u043e\u043b\u0442\u043e\u0440\u0430"}'),
    # strings
    *(rb'["\u0060\u012b\u12AC"]', rb'["\uD801\udc38"]', rb'["\ud83d\ude3a\ud83d\udc7e"]', rb'["\"\\\/\b\f\n\r\t"]'),
    *(
        rb'["\\u0001"]',
        rb'["\""]',
        b'["b/*c*/d//e"]',
        rb'["\\b"]',
        rb'["\\m"]',
        rb'["\u0013"]',
        rb'["\uFFFE"]',
        b'["bsd"]',
    ),
    *(b'[ "bsd"]', rb'["\uDBFE\uDFFF"]', rb'["new\u00A0line"]', '["\U0010ffff"]'.encode(), '["\uffff"]'.encode()),
    *(rb'["\u0001"]', rb'["\u002d"]', '["π"]'.encode(), '["\U0001bfff"]'.encode(), b'["bsd "]', b'" "'),
    *(rb'["\uD835\uDd1f"]', rb'["\u0822"]', rb'["\u0124"]', '["\u2028"]'.encode(), '["\u2029"]'.encode()),
    *(
        rb'["\u0062\u31ea1cFG"]',
        rb'["new\u000Bline"]',
        b'["\x7f"]',
        rb'["\uA66E"]',
        '["⍂㈴⍂"]'.encode(),
        rb'["\u005D"]',
    ),
    *(rb'["\uDBFF\uDFFD"]', rb'["\uD83F\uDFFD"]', rb'["\u200C"]', rb'["\u2063"]', rb'["\uFDD1"]', rb'["\uFFFC"]'),
    *(rb'["\u0023"]', '["€𝄟"]'.encode(), b'["b\x7fb"]'),
    # structures
    *(b"false", b"43", b"-0.2", b"null", b'"bsd"', b"true", b'""', b'["b"]\n', b" \n[] "),
]

# Open: (text, whether it is read). The choice is ours, and written down in docs/topics/limits.md.
OPEN: list[tuple[bytes, bool]] = [
    # numbers: below a double is zero, beyond a double is refused, integers are exact
    (b"[124.457e-789]", True),
    (b"[0.5e00669999999999999999999999999999999999999999999999999999999999]", False),
    (b"[-2e+9999]", False),
    (b"[2.5e+9999]", False),
    (b"[-124124e100000]", False),
    (b"[124124e100000]", False),
    (b"[124e-10000000]", True),
    (b"[-124124124124124124124124124124]", True),
    (b"[200000000000000000000]", True),
    (b"[-337462374673276894279832749832423479823246327846]", True),
    # lone surrogate escapes read as U+FFFD
    (rb'{"\uDFAB":0}', True),
    (rb'["\uDADB"]', True),
    (rb'["\uD888\u1235"]', True),
    (rb'["\uD800\n"]', True),
    (rb'["\uDd1f\ua"]', False),
    (rb'["\uD800\uD800\n"]', True),
    (rb'["\ud801"]', True),
    (rb'["\ud801bcd"]', True),
    (rb'["\uDd1f\uD835"]', True),
    (rb'["\uDFAB"]', True),
    # bytes that are not UTF-8
    (b'\xff\xfe[\x00"\x00\xea\x00"\x00]\x00', False),
    (b'["\xe6\x97\xa5\xd1\x88\xfb"]', False),
    (b'["\xed\xa0\x81"]', False),
    (b'["\xfe"]', False),
    (b'["\xea"]', False),
    (b'["\x82"]', False),
    (b'["\xf4\xbf\xbf\xbe"]', False),
    (b'["\xc0\xae"]', False),
    (b'["\xfc\x83\xbf\xbf\xbf\xbe"]', False),
    (b'["\xfc\x80\x80\x80\x80\x81"]', False),
    (b'["\xe0\xfe"]', False),
    (b'\x00[\x00"\x00\xea\x00"\x00]', False),
    (b'[\x00"\x00\xea\x00"\x00]\x00', False),
    # 500 levels are too deep; a mark in mid-stream is no JSON
    (b"[" * 500 + b"]" * 500, False),
    (b"\xef\xbb\xbf{}", False),
]
