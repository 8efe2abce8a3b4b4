"""JSN: every kind of text that is, is not, or only nearly is JSON, at both ends."""

from __future__ import annotations

import asyncio
import json
import time
import tracemalloc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from duologue.jsonrpc.codec import MAX_DEPTH
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Handlers
from duologue.transports.memory import memory_pair
from tests.faults.ends import ECHO, NOTE, Anything, End, Side, open_end
from tests.faults.json_texts import OPEN, READ, REFUSED
from tests.faults.naughty import NAUGHTY

MIB = 1024 * 1024


def is_stray_output(side: Side, text: bytes) -> bool:
    """At the client's side a line that does not begin like a message is not answered."""
    return side == "client" and text.lstrip(b" \t")[:1] not in (b"{", b"[")


async def codes_for(end: End, text: bytes) -> list[int]:
    answers = await end.responses_to(text)
    for answer in answers:
        if answer["id"] is not None:  # it happens to have one
            assert answer["id"] == json.loads(text)["id"]
            end.expect_response(answer["id"])
    return [answer["error"]["code"] for answer in answers]


@pytest.mark.fault("JSN-01", "JSN-14", "JSN-15")
async def test_invalid_json_is_a_parse_error(side: Side) -> None:
    async with open_end(side) as end:
        for text in REFUSED:
            assert await codes_for(end, text) == ([] if is_stray_output(side, text) else [-32700]), text[:60]


@pytest.mark.fault("JSN-02")
@pytest.mark.rule(11, 12)
async def test_valid_json_that_is_no_request_is_rejected_as_invalid(side: Side) -> None:
    async with open_end(side) as end:
        for text in READ:
            assert await codes_for(end, text) == ([] if is_stray_output(side, text) else [-32600]), text[:60]


@pytest.mark.fault("JSN-03")
async def test_implementation_defined_json_is_handled_as_documented(side: Side) -> None:
    """A text that is read is read inside of a request as well."""
    async with open_end(side) as end:
        for text, is_read in OPEN:
            if not is_stray_output(side, text):
                (code,) = await codes_for(end, text)
                assert code in ((-32600,) if is_read else (-32700, -32600)), text[:60]
            end.expect_response("open")
            before = len(end.calls)
            end.send(b'{"jsonrpc":"2.0","id":"open","method":"echo","params":{"rawInput":' + text + b"}}")
            answer = await end.next()
            if answer["id"] is None:
                assert not is_read
                end._asked[("str", "open")] -= 1
            else:
                assert ("result" in answer) == is_read, text[:60]
            assert (len(end.calls) > before) == is_read


@pytest.mark.fault("JSN-04")
async def test_nan_and_infinity_are_rejected_and_sent_as_null(side: Side) -> None:
    async with open_end(side) as end:
        for name in (b"NaN", b"Infinity", b"-Infinity", b"nan", b"+Infinity"):
            frame = b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"rawInput":' + name + b"}}"
            assert await end.error_for(frame) == (None, -32700)
        for number in (float("nan"), float("inf"), float("-inf")):
            await end.connection.notify(NOTE, Anything(raw_input=[number]))
            (written,) = await end.wire.receive()
            assert b'"rawInput":[null]' in written


@pytest.mark.fault("JSN-05")
async def test_numbers_beyond_a_double_are_refused(side: Side) -> None:
    async with open_end(side) as end:
        for number in (b"1e999", b"-1e999", b"1E400"):
            end.expect_response(1)
            frame = b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"rawInput":[' + number + b"]}}"
            assert await end.error_for(frame) == (1, -32602)
            frame = b'{"jsonrpc":"2.0","id":' + number + b',"method":"echo"}'
            assert await end.error_for(frame) == (None, -32600)


@pytest.mark.fault("JSN-06")
async def test_an_integer_of_five_thousand_digits_is_refused_by_the_limit(side: Side) -> None:
    async with open_end(side) as end:
        digits = b"1" * 5000
        (answer,) = await end.responses_to(b'{"jsonrpc":"2.0","id":' + digits + b',"method":"echo"}')
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        assert "400 characters" in answer["error"]["message"]
        for prefix in (b'"rawInput":', b'"count":', b'"_meta":{"x":'):
            end.expect_response(1)
            params = prefix + digits + (b"}" if b"{" in prefix else b"")
            (answer,) = await end.responses_to(b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{' + params + b"}}")
            assert (answer["id"], answer["error"]["code"]) == (1, -32600)
            assert "400 characters" in answer["error"]["message"]


@pytest.mark.fault("JSN-07")
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")], ids=["arrays", "objects"])
async def test_a_hundred_thousand_levels_are_refused_by_the_limit(side: Side, opening: bytes, closing: bytes) -> None:
    async with open_end(side) as end:
        deep = opening * 100_000 + b"1" + closing * 100_000
        for text in (deep, b'{"jsonrpc":"2.0","id":1,"method":"echo","params":' + deep + b"}", opening * 100_000):
            (answer,) = await end.responses_to(text)
            assert (answer["id"], answer["error"]["code"]) == (None, -32700)
            assert "200 levels" in answer["error"]["message"]


@pytest.mark.fault("JSN-08")
@pytest.mark.parametrize("field", ["_meta", "rawInput"])
async def test_nesting_in_free_fields_goes_to_the_limit_of_the_whole_message(side: Side, field: str) -> None:
    async with open_end(side) as end:
        for depth in (MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1):
            inner = depth - 2  # the message and its params are the first two levels
            value = "[" * (inner - 1) + "]" * (inner - 1)
            frame = f'{{"jsonrpc":"2.0","id":1,"method":"echo","params":{{"{field}":{{"x":{value}}}}}}}'
            end.send(frame.encode())
            answer = await end.next()
            if depth > MAX_DEPTH:
                assert (answer["id"], answer["error"]["code"]) == (None, -32700)
            else:
                end.expect_response(1)
                assert answer["result"] == json.loads(frame)["params"]


@pytest.mark.fault("JSN-09")
@pytest.mark.parametrize(
    "sequence",
    [
        *(b"\xc0\xaf", b"\xe0\x80\xaf", b"\xf0\x80\x80\xaf", b"\xc1\xbf"),
        *(b"\x80", b"\xbf", b"\x80\xbf\x80"),
        *(b"\xf8\x88\x80\x80\x80", b"\xfc\x84\x80\x80\x80\x80"),
        *(b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0\xbd\xed\xb8\x80"),
        *(b"\xe2\x82", b"\xf0\x9f\x90", b"\xc3"),
        *(b"\xf4\x90\x80\x80", b"\xff", b"\xfe\xff"),
    ],
)
async def test_invalid_utf_8_anywhere_is_a_parse_error(side: Side, sequence: bytes) -> None:
    async with open_end(side) as end:
        for frame in (
            b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":"' + sequence + b'"}}',
            b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"rawInput":{"' + sequence + b'":1}}}',
            b'{"jsonrpc":"2.0","id":"' + sequence + b'","method":"echo"}',
            b'{"jsonrpc":"2.0","id":1,"method":"' + sequence + b'"}',
            b'{"jsonrpc":"2.0","id":1,"method":"echo","ignored":"' + sequence + b'"}',
            b'{"jsonrpc":"2.0","id":1,"method":"echo"}' + sequence,
        ):
            assert await end.error_for(frame) == (None, -32700)
        assert [method for method, _ in end.calls] == ["echo"] * 6  # the probes


@pytest.mark.fault("JSN-10")
@pytest.mark.parametrize("escape", [r"\ud800", r"\udfff", r"\ude00\ud83d", r"\uD800x"])
async def test_lone_surrogate_escapes_are_accepted_and_sent_as_valid_utf_8(side: Side, escape: str) -> None:
    mended = json.loads(f'"{escape}"').encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    async with open_end(side) as end:
        end.expect_response(mended)
        end.send(f'{{"jsonrpc":"2.0","id":"{escape}","method":"echo","params":{{"text":"{escape}"}}}}'.encode())
        (answer,) = [json.loads(frame.decode("utf-8", "strict")) for frame in await end.wire.receive()]
        end.received.append(answer)
        assert answer == {"jsonrpc": "2.0", "id": mended, "result": {"text": mended}}
        end.expect_response(2)
        assert await end.error_for(f'{{"jsonrpc":"2.0","id":2,"method":"{escape}"}}'.encode()) == (2, -32601)


@pytest.mark.fault("JSN-11")
async def test_the_last_of_duplicate_keys_counts_everywhere(side: Side) -> None:
    """In the envelope, in typed fields, in free ones, and on the slow way through the parser."""
    async with open_end(side) as end:
        for extra in (b"", rb'"zzz":"\ud800",'):
            end.expect_response(2)
            end.send(
                b'{"jsonrpc":"2.0","id":1,"id":2,"method":"nope","method":"echo",' + extra + b'"params":{"text":"x"},'
                b'"params":{"text":"a","text":"b","sessionId":"a","sessionId":"b","rawInput":{"k":1,"k":2}}}'
            )
            answer = await end.next()
            assert answer["id"] == 2
            assert answer["result"] == {"text": "b", "sessionId": "b", "rawInput": {"k": 2}}
        assert {method for method, _ in end.calls} == {"echo"}
        assert await end.error_for(b'{"jsonrpc":"2.0","id":1,"id":null,"method":"echo"}') == (None, -32600)


@pytest.mark.fault("JSN-12")
async def test_a_great_many_keys_cost_linear_time(side: Side, chaos_factor: int, record_property: Any) -> None:
    """Python's own hashes are seeded at random, so colliding keys cannot be chosen; equal ones can."""
    count = min(1_000_000, 50_000 * chaos_factor)
    record_property("count", count)
    async with open_end(side) as end:
        took: list[float] = []
        for keys in (count // 4, count):
            members = ",".join(f'"k{n}":{n}' for n in range(keys))
            same = ",".join('"k":1' for _ in range(keys))
            began = time.process_time()
            end.ask_raw("many", f'{{"rawInput":{{{members}}},"_meta":{{{same}}}}}')
            answer = await end.next()
            took.append(time.process_time() - began)
            assert len(answer["result"]["rawInput"]) == keys
            assert answer["result"]["_meta"] == {"k": 1}
        assert took[1] < 12 * took[0] + 0.1  # four times the keys; squared it would be sixteen times


@contextmanager
def bounded(growth: int) -> Generator[None]:
    """Check that memory never grows by more than this."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before <= growth, f"{(peak - before) / MIB:.0f} MiB"


@pytest.mark.fault("JSN-13")
@pytest.mark.parametrize(
    ("unit", "factor"), [(b"x", 5), (b"\\u0000", 5), ("🐟".encode(), 12)], ids=["plain", "escaped", "beyond U+FFFF"]
)
async def test_a_string_of_31_mebibytes_is_handled_in_bounded_memory(side: Side, unit: bytes, factor: int) -> None:
    size = 31 * MIB
    head, tail = b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":"', b'"}}'
    async with open_end(side) as end:
        frame = head + unit * ((size - len(head) - len(tail)) // len(unit)) + tail
        with bounded(16 * MIB + factor * size):
            end.expect_response(1)
            end.send(frame)
            (answer,) = await end.wire.receive()
            assert len(answer) > 0.9 * size
        end.received.append({"id": 1})
        end.calls.clear()


@pytest.mark.fault("JSN-16")
@pytest.mark.parametrize("number", ["1.0", "1e2", "1.5", "-0.0", "true", '"1"'])
async def test_only_an_integer_is_accepted_as_an_integer(side: Side, number: str) -> None:
    async with open_end(side) as end:
        end.ask_raw(1, f'{{"count":{number}}}')
        answer = await end.next()
        assert answer["error"]["code"] == -32602
        assert "$.count" in answer["error"]["message"]


@pytest.mark.fault("JSN-16")
@pytest.mark.parametrize(("number", "read"), [("-0", 0), ("18446744073709551615", 2**64 - 1), ("-1", -1)])
async def test_integers_are_exact(side: Side, number: str, read: int) -> None:
    async with open_end(side) as end:
        end.ask_raw(1, f'{{"count":{number},"rawInput":{number}}}')
        await end.next()
        assert (end.calls[0][1].count, end.calls[0][1].raw_input) == (read, read)


@pytest.mark.fault("JSN-17")
async def test_naughty_strings_are_returned_unchanged(side: Side) -> None:
    async with open_end(side) as end:
        for number, text in enumerate(NAUGHTY):
            end.ask(number, text=text, rawInput={text: [text]}, _meta={text: text}, sessionId=text)
            answer = await end.next()
            assert answer["result"].get("text", "") == text
            assert answer["result"]["rawInput"] == {text: [text]}
            assert answer["result"]["_meta"] == {text: text}
            assert answer["result"]["sessionId"] == text


@pytest.mark.fault("JSN-17")
async def test_naughty_strings_are_sent_and_received_unchanged() -> None:
    near, far = memory_pair()
    handlers = Handlers()
    End("agent", far, handlers)
    async with asyncio.timeout(60), Connection(near) as client, Connection(far, handlers):
        for text in NAUGHTY:
            sent = Anything(text=text, raw_input={text: [text]}, session_id=text, meta={text: text})
            assert await client.request(ECHO, sent) == sent
