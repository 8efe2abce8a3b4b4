"""Cases about lines: long ones, pieces of them, several at once, and a reader that takes its time."""

from __future__ import annotations

import asyncio
import itertools

import msgspec

from duologue.conformance.case import CheckCase, case
from duologue.conformance.client_cases.messages import go_on
from duologue.conformance.client_side.checked_client import ClientCaseRun
from duologue.conformance.client_side.endpoints import RawSocketTransport
from duologue.conformance.client_side.played_turn import CheckedTurn
from duologue.conformance.raw_peer import BARRIER, PeerFailed

LONG = 10 * 1000 * 1000
PIECE_SECONDS = 0.02
"""Between two pieces, so that the client mostly reads them one by one; the verdict does not depend on it."""
MANY = 2000
ID_CHARS = 1000
"""Together more bytes than all buffers between the client and the checker hold."""
SLOW_SECONDS = 0.5
"""How long nothing is read; the verdict does not depend on it."""


@case("long-lines", 180)
async def long_lines(run: ClientCaseRun) -> None:
    """Send a message of 10 MB."""
    async with run.turn() as turn:
        with run.judging(180):
            turn.update("agent_message_chunk", content={"type": "text", "text": "x" * LONG}, messageId="long")
            await go_on(turn)
            run.expect(180, True, "")


@case("split-lines", 181, transports=("stdio",))
async def split_lines(run: ClientCaseRun) -> None:
    """Send a message in pieces, some of them parts of a character, and several messages at once."""
    async with run.turn() as turn:
        peer, transport = turn.peer, turn.peer.transport
        assert isinstance(transport, RawSocketTransport)
        with run.judging(181):
            for piece in _pieces(_request(turn, "split", "thrée \N{GRINNING FACE}") + b"\n"):
                peer.send_with(transport.send_bytes, piece)
                await asyncio.sleep(PIECE_SECONDS)
            await peer.response("split", "a request in pieces")
            merged = [f"merged-{number}" for number in range(5)]
            peer.send_with(transport.send_bytes, b"".join(_request(turn, each, "x") + b"\n" for each in merged))
            for each in merged:
                await peer.response(each, "several requests at once")
            peer.send_with(transport.send_bytes, _request(turn, "with-cr", "x") + b"\r\n")
            await peer.response("with-cr", "a request that ends with CR and LF")
            run.expect(181, True, "")


def _request(turn: CheckedTurn, id_: str, text: str) -> bytes:
    """Return a request that is about to be sent."""
    request = {"jsonrpc": "2.0", "id": id_, "method": BARRIER, "params": {"text": text}}
    frame = msgspec.json.encode(request)
    turn.peer.note_sent(frame)
    return frame


def _pieces(data: bytes) -> list[bytes]:
    """Cut bytes into a few pieces, two of them inside a character."""
    letter, face = data.index("é".encode()) + 1, data.index("\N{GRINNING FACE}".encode()) + 2
    cuts = [0, 1, 20, letter, face, len(data) - 1, len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(cuts)]


@case("slow-reader", 182, transports=("stdio",))
async def slow_reader(run: ClientCaseRun) -> None:
    """Send many requests before their responses are read."""
    async with run.turn() as turn:
        with run.judging(182), turn.peer.unlogged():
            await _ask_many(turn)
        run.expect(182, True, "")
        await go_on(turn)


async def _ask_many(turn: CheckedTurn) -> None:
    peer = turn.peer
    wanted = {f"{number:05}" + "x" * ID_CHARS for number in range(MANY)}
    peer.pause_reading()
    begin = len(peer.received)
    for id_ in sorted(wanted):
        peer.send({"id": id_, "method": BARRIER, "params": {}})
    await asyncio.sleep(SLOW_SECONDS)
    peer.resume_reading()
    last = await peer.barrier()
    position = begin
    while wanted:
        while position < len(peer.received):
            wanted.discard(str(peer.received[position].message.get("id")))
            position += 1
        if not wanted:
            return
        try:
            await peer.wait_for(lambda each: each is not last, "all requests", after=position)
        except PeerFailed as error:
            raise PeerFailed(f"{len(wanted)} of {MANY} requests are not answered: {error}") from None


CASES: tuple[CheckCase[ClientCaseRun], ...] = (long_lines, split_lines, slow_reader)
