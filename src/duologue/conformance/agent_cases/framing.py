"""Cases about lines and bytes: large messages, pieces of messages, slow readers, what else is on stdout."""

from __future__ import annotations

import asyncio

import msgspec

from duologue.conformance.agent_process import RawProcessTransport
from duologue.conformance.case import CaseSkipped, CheckCase, case
from duologue.conformance.checked_agent import AgentRun
from duologue.conformance.profile import Act
from duologue.conformance.raw_peer import BARRIER, Json, ReceivedMessage

LARGE = 10_000_000
"""Bytes of a large message."""
STDOUT_ACTS: tuple[Act, ...] = ("print", "tool", "thought", "fail")
"""Acts during which an agent is most likely to write something else to stdout."""
MAX_SHOWN = 60


@case("stdout", 3, 4, transports=("stdio",))
async def stdout(run: AgentRun) -> None:
    """Let the agent do several things, also with line ends in the prompt: each line on stdout is a message."""
    async with run.session() as (agent, session):
        await agent.prompt(session, run.prompt("answer") + "\nwith a second line\r\nand a third\u2028line")
        for act in STDOUT_ACTS:
            if run.knows(act):
                await agent.prompt(session, run.prompt(act))
        await agent.peer.barrier()
        wrong = [each for each in agent.peer.received if not each.message and each.text.strip()]
        parts = [each for each in wrong if each.text.lstrip()[:1] in b'{["}],']
        noise = [each for each in wrong if each not in parts]
        run.expect(3, not parts, f"lines that are not whole messages: {_shown(parts)}", *parts)
        run.expect(4, not noise, f"lines that are no messages: {_shown(noise)}", *noise)


def _shown(received: list[ReceivedMessage]) -> str:
    return ", ".join(repr(each.text[:MAX_SHOWN].decode("utf-8", "replace")) for each in received[:5])


@case("large-messages", 180, is_passive=False)  # the log keeps no long messages
async def large_messages(run: AgentRun) -> None:
    """Send a request of 10 MB, and let the agent send a message of 10 MB."""
    async with run.session() as (agent, session):
        with run.judging(180):
            await agent.peer.request("_duologue/large", {"text": "x" * LARGE})
        run.expect(180, True, "")
        if run.knows("big"):
            with run.judging(180):
                end = await agent.prompt(session, run.prompt("big"))
            size = len(end.text)
            run.expect(180, size >= LARGE, f"the agent was to say {LARGE:,} characters, and said {size:,}", end.last)


@case("split-lines", 181, transports=("stdio",))
async def split_lines(run: AgentRun) -> None:
    """Send requests in pieces of a few bytes, several in one write, and with CR LF."""
    async with run.connect() as agent:
        transport = agent.peer.transport
        if not isinstance(transport, RawProcessTransport):
            raise CaseSkipped("the agent has no stdin")
        pieces = _request(agent.peer.next_id(), "é€😀" * 3)
        together = [_request(agent.peer.next_id(), "together") for _ in range(3)]
        ended = _request(agent.peer.next_id(), "carriage return")
        for frame, _ in (pieces, *together, ended):
            agent.peer.note_sent(frame)
        data = pieces[0] + b"\n"
        for start in range(0, len(data), 3):
            transport.send_bytes(data[start : start + 3])
            await asyncio.sleep(0)
        transport.send_bytes(b"".join(frame + b"\n" for frame, _ in together))
        transport.send_bytes(ended[0] + b"\r\n")
        for name, (_, id_) in zip(
            ("in pieces", *["with others"] * 3, "with CR LF"), (pieces, *together, ended), strict=True
        ):
            with run.judging(181):
                await agent.peer.response(id_, f"a request that was sent {name}")
        run.expect(181, True, "")


def _request(id_: int, text: str) -> tuple[bytes, int]:
    message: Json = {"jsonrpc": "2.0", "id": id_, "method": BARRIER, "params": {"text": text}}
    return msgspec.json.encode(message), id_


@case("slow-reader", 182)
async def slow_reader(run: AgentRun) -> None:
    """Read nothing while the agent sends many updates, then everything: nothing is lost."""
    text = run.prompt("stream")
    async with run.session() as (agent, session):
        with run.judging(182):
            expected = await agent.prompt(session, text)
        agent.peer.pause_reading()
        started = agent.start_prompt(session, text)
        await agent.peer.let_pile_up()
        agent.peer.resume_reading()
        with run.judging(182):
            end = await started.end()
        message = f"{len(expected.text):,} characters were expected, and {len(end.text):,} arrived"
        run.expect(182, end.text == expected.text, message, end.last)


CASES: tuple[CheckCase[AgentRun], ...] = (stdout, large_messages, split_lines, slow_reader)
