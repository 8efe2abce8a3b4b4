"""FRM: how both ends handle frames; the splitting into frames is tested in `tests/jsonrpc/test_framing.py`."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest

from duologue.errors import ConnectionLost, MessageTooLarge, NotAnAgent
from duologue.jsonrpc.framing import Oversized
from duologue.runtime.connection import Connection
from duologue.runtime.dispatcher import MAX_STRAY_BYTES, MAX_STRAY_LINES
from duologue.transports.stdio.socket import SocketTransport
from tests.faults.ends import ECHO, NOTE, Anything, Side, open_end


@pytest.mark.fault("FRM-04")
async def test_an_oversized_request_is_rejected_by_its_id_and_an_oversized_response_fails_its_call(side: Side) -> None:
    async with open_end(side) as end:
        end.expect_response(7)
        assert await end.error_for(Oversized(b'{"jsonrpc":"2.0","id":7,"method":"echo","params":{"te', 99)) == (
            7,
            -32600,
        )

        call = asyncio.ensure_future(end.connection.request(ECHO, Anything()))
        request = await end.next()
        end.send(Oversized(b'{"jsonrpc":"2.0","id":%d,"result":{"text":"aaa' % request["id"], 10**9))
        with pytest.raises(MessageTooLarge, match="1000000000 bytes"):
            await call


@pytest.mark.fault("FRM-04", "FRM-05")
async def test_an_oversized_line_without_a_readable_id_ends_the_connection_and_every_call(side: Side) -> None:
    async with open_end(side) as end:
        calls = [asyncio.ensure_future(end.connection.request(ECHO, Anything())) for _ in range(3)]
        await end.next_frames(3)
        end.send(Oversized(b'{"jsonrpc":"2.0","method":"note","params":{"text":"aaa', 10**9))
        for call in calls:
            with pytest.raises(ConnectionLost, match="does not show which"):
                await call
        assert end.connection.cause is not None
        assert isinstance(end.connection.cause.__cause__, MessageTooLarge)


@pytest.mark.fault("FRM-05")
async def test_an_endless_line_ends_the_connection_with_a_named_error() -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(60), Connection(SocketTransport(ours, max_message_bytes=65536)) as connection:
        call = asyncio.ensure_future(connection.request(ECHO, Anything()))
        with pytest.raises(OSError, match=r"Broken pipe|reset"):
            while True:
                await loop.sock_sendall(theirs, b"x" * 65536)
                if connection.is_closed:
                    await connection.aclose()
        with pytest.raises(ConnectionLost, match="the limit is 65536"):
            await call
    theirs.close()


@pytest.mark.fault("FRM-08", "FRM-12", "FRM-13", "FRM-18")
@pytest.mark.rule(10)
@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0"\r,"id":1,"method":"echo"}\r{}',
        b'{"jsonrpc":"2.0","id":1,"method":"echo"}{"jsonrpc":"2.0","id":2,"method":"echo"}',
        b'{"jsonrpc":"2.0","id":1,',
        b'{"jsonrpc":"2.0","id":1,"method":"ec\x00ho"}',
        b'{"jsonrpc":"2.0",\x00"id":1,"method":"echo"}',
    ],
)
async def test_a_line_that_is_not_one_json_text_is_one_parse_error_and_has_no_effect(side: Side, line: bytes) -> None:
    async with open_end(side) as end:
        assert await end.error_for(line) == (None, -32700)
        assert [params.text for _, params in end.calls] == ["probe 1"]


@pytest.mark.fault("FRM-13")
async def test_one_object_over_two_lines_is_two_invalid_lines(side: Side) -> None:
    """The second half begins like no JSON at all: at the client's side that is noise."""
    async with open_end(side) as end:
        answers = await end.responses_to(b'{"jsonrpc":"2.0",', b'"id":1,"method":"echo"}')
        assert [answer["error"]["code"] for answer in answers] == [-32700] * (2 if end.side == "agent" else 1)


@pytest.mark.fault("FRM-18")
async def test_a_line_of_nul_bytes_is_answered_by_an_agent_and_stray_output_for_a_client(side: Side) -> None:
    async with open_end(side) as end:
        answers = await end.responses_to(b"\x00\x00\x00")
        assert [answer["error"]["code"] for answer in answers] == ([-32700] if end.side == "agent" else [])


BANNERS = [
    b"Welcome to the agent!",
    b"\x1b[32mcoloured\x1b[0m",
    b"\x1b]0;window title\x07",
    b"bash: no job control in this shell",
    b"  \tindented",
    b"42",
]


@pytest.mark.fault("FRM-15")
async def test_banners_before_the_first_message_are_counted_and_shown_and_not_answered() -> None:
    async with open_end("client") as end:
        assert end.connection.stray_output == ""
        assert await end.responses_to(*BANNERS) == []
        assert end.connection.stray_output == (
            "6 lines that are not the protocol, beginning with b'Welcome to the agent!'"
        )


@pytest.mark.fault("FRM-15")
@pytest.mark.parametrize(
    ("line", "allowed"), [(b"usage: git", MAX_STRAY_LINES), (b"x" * 65536, MAX_STRAY_BYTES // 65536)]
)
async def test_more_stray_output_than_a_banner_fails_the_start_and_is_quoted(line: bytes, allowed: int) -> None:
    async with open_end("client") as end:
        call = asyncio.ensure_future(end.connection.request(ECHO, Anything()))
        await end.next()
        end.send(*[line] * (allowed + 1))
        with pytest.raises(NotAnAgent, match="is this command an ACP agent") as caught:
            await call
        assert line[:20].decode() in str(caught.value)
        assert len(str(caught.value)) < 400


@pytest.mark.fault("FRM-15", "FRM-17")
async def test_after_the_first_message_stray_output_has_no_limit() -> None:
    async with open_end("client") as end:
        await end.probe()
        assert await end.responses_to(*[b"DEBUG something"] * (MAX_STRAY_LINES + 1)) == []


@pytest.mark.fault("FRM-16")
async def test_an_escape_sequence_before_a_message_is_stray_output_and_is_quoted() -> None:
    async with open_end("client") as end:
        assert await end.responses_to(b'\x1b]0;agent\x07{"jsonrpc":"2.0","id":1,"method":"echo"}') == []
        assert end.connection.stray_output.startswith(
            r"1 line that is not the protocol, beginning with b'\x1b]0;agent\x07{"
        )


@pytest.mark.fault("FRM-17")
async def test_log_lines_between_messages_lose_no_message() -> None:
    async with open_end("client") as end:
        for number in range(50):
            end.send(json.dumps({"jsonrpc": "2.0", "method": "note", "params": {"text": str(number)}}).encode())
            end.send(b"2026-01-01 12:00:00 INFO thinking ...")
        assert await end.responses_to() == []
        assert [params.text for method, params in end.calls if method == "note"] == [str(n) for n in range(50)]


@pytest.mark.fault("FRM-19")
@pytest.mark.rule(1, 2, 3)
@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "\u2028\u2029\u0085\v", "\ud800 \udfff", "\x00\x1f\x7f", "🐟"])
async def test_every_text_is_sent_as_one_line_of_valid_utf_8(side: Side, text: str) -> None:
    async with open_end(side) as end:
        await end.connection.notify(NOTE, Anything(text=text, raw_input={text: text}))
        (frame,) = await end.wire.receive()

        assert b"\n" not in frame
        assert b"\r" not in frame
        message = json.loads(frame.decode())
        assert message["jsonrpc"] == "2.0"
        assert message["params"]["text"] == text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").replace(
            "\ufffd\ufffd\ufffd", "\ufffd"
        )
