"""Two programs: agents that send or request far more than a client may store, and a client that reports its memory.

`python -m tests.hostile.growth client NAME DIRECTORY` starts the agent NAME, gives it one prompt and prints one line of
JSON: its own peak memory and how the turn ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.memory import peak_bytes

if TYPE_CHECKING:
    from duologue.client.agent import RemoteAgent

MB = 1000 * 1000
Json: TypeAlias = dict[str, Any]
Attack: TypeAlias = Callable[[str], Iterator[bytes]]

OPTIONS = [{"optionId": "no", "name": "no", "kind": "reject_once"}]


def frame(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"


def update(kind: str, **fields: Any) -> bytes:
    return frame(method="session/update", params={"sessionId": "s1", "update": {"sessionUpdate": kind, **fields}})


def with_json(template: bytes, value: bytes) -> bytes:
    """Put a value that is quicker written than encoded where the template says `"HERE"`."""
    return template.replace(b'"HERE"', value)


# --- the attacks: what each agent sends after its prompt


def parallel_reads(directory: str) -> Iterator[bytes]:
    """1,024 reads of 16 MB at once; it takes the first ten answers and ends the turn."""
    params = {"sessionId": "s1", "path": f"{directory}/large.txt"}
    for number in range(1024):
        yield frame(id=number, method="fs/read_text_file", params=params)


def parallel_writes(directory: str) -> Iterator[bytes]:
    """150 writes of 2 MB, each of which waits for its question."""
    params = {"sessionId": "s1", "path": f"{directory}/new.txt", "content": "HERE"}
    for number in range(150):
        yield with_json(frame(id=number, method="fs/write_text_file", params=params), b'"%s"' % (b"x" * 2 * MB))


def raw_inputs(directory: str) -> Iterator[bytes]:
    """60 tool calls, each with an input of 8 MB."""
    for number in range(60):
        call = update("tool_call", toolCallId=f"t{number}", title="t", rawInput={"text": "HERE"})
        yield with_json(call, b'"%s"' % (b"x" * 8 * MB))


def nested_inputs(directory: str) -> Iterator[bytes]:
    """16 tool calls whose input of 1.5 MB takes 20 times as much once it is read."""
    for number in range(16):
        call = update("tool_call", toolCallId=f"t{number}", title="t", rawInput="HERE")
        yield with_json(call, b"[" + b"[]," * (MB // 2) + b"0]")


def paused_reader(directory: str) -> Iterator[bytes]:
    """60 such tool calls, while the program that reads the turn does something else."""
    yield from list(nested_inputs(directory)) * 4


def one_nested_input(directory: str) -> Iterator[bytes]:
    """Yield one tool call whose input of 30 MB takes 20 times as much memory decoded."""
    call = update("tool_call", toolCallId="t", title="t", rawInput="HERE")
    yield with_json(call, b"[" + b'{"a":1},' * (30 * MB // 8) + b"0]")


def questions(directory: str) -> Iterator[bytes]:
    """16 questions of permission at once, each with an input of 1 MB that takes 20 times as much once it is read."""
    for number in range(16):
        tool = {"toolCallId": f"t{number}", "title": "t", "rawInput": "HERE"}
        params = {"sessionId": "s1", "toolCall": tool, "options": OPTIONS}
        ask = frame(id=number, method="session/request_permission", params=params)
        yield with_json(ask, b"[" + b"[]," * (MB // 3) + b"0]")


def one_message(directory: str) -> Iterator[bytes]:
    """Yield one message of 300 MB in chunks of 1 MB."""
    content = {"type": "text", "text": "x" * MB}
    yield from [update("agent_message_chunk", content=content)] * 300


def many_messages(directory: str) -> Iterator[bytes]:
    """75,000 messages of 4 KB."""
    for number in range(75):
        yield b"".join(
            update("agent_message_chunk", messageId=f"m{number}-{n}", content={"type": "text", "text": "x" * 4000})
            for n in range(1000)
        )


def tool_output(directory: str) -> Iterator[bytes]:
    """150 MB of results, twice in each of 150 tool calls."""
    for number in range(150):
        part = {"type": "content", "content": {"type": "text", "text": "HERE"}}
        change = update("tool_call_update", toolCallId=f"t{number}", content=[part], rawOutput="HERE")
        yield with_json(change, b'"%s"' % (b"x" * MB))


def plans(directory: str) -> Iterator[bytes]:
    """150 MB of plans, each of which takes the place of the one before."""
    entry = {"content": "x" * MB, "priority": "high", "status": "pending"}
    yield from [update("plan", entries=[entry])] * 150


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        *(parallel_reads, parallel_writes, raw_inputs, nested_inputs, paused_reader, one_nested_input, questions),
        *(one_message, many_messages, tool_output, plans),
    )
}


# --- the agent


def attack_with(name: str) -> None:
    """Answer as an agent does; on a prompt send the attack, and end the turn once every request of it is answered."""
    directory = ""
    send = sys.stdout.buffer
    for line in sys.stdin.buffer:
        message: Json = json.loads(line)
        match message.get("method"):
            case "initialize":
                send.write(frame(id=message["id"], result={"protocolVersion": 1, "agentCapabilities": {}}))
            case "session/new":
                directory = message["params"]["cwd"]
                send.write(frame(id=message["id"], result={"sessionId": "s1"}))
            case "session/prompt":
                answers = [0]
                writer = threading.Thread(target=write_all, args=(name, directory, answers))
                writer.start()
                count = read_answers(answers, writer, most=10 if name == "parallel_reads" else 10_000)
                if count:
                    print(json.dumps(count), file=sys.stderr, flush=True)
                send.write(frame(id=message["id"], result={"stopReason": "end_turn"}))
            case _:
                pass
        send.flush()


def write_all(name: str, directory: str, answers: list[int]) -> None:
    out = sys.stdout.buffer
    for piece in ATTACKS[name](directory):
        answers[0] += b'"id"' in piece[:40]
        out.write(piece)
    out.flush()


def read_answers(due: list[int], writer: threading.Thread, most: int) -> dict[str, int]:
    """Read an answer to each request of the attack; how many were results, and how many errors with which code."""
    count: dict[str, int] = {}
    seen = 0
    while seen < most and (writer.is_alive() or seen < due[0]):
        if seen >= due[0]:
            writer.join(0.01)
            continue
        line = sys.stdin.buffer.readline()
        if not line:
            os._exit(1)
        seen += 1
        tail = line[-300:]
        kind = "error" if b'"error":{"code"' in line[:100] else "result"
        if kind == "error":
            kind = tail.decode().split('"message":"')[-1][:30]
        count[kind] = count.get(kind, 0) + 1
    return count


# --- the client


async def until_nothing_comes(agent: RemoteAgent) -> None:
    """Wait until nothing is read for a second, at most a minute: then the memory is at its maximum."""
    before = -1
    for _ in range(60):
        if agent.connection.internals.unread.bytes == before:
            return
        before = agent.connection.internals.unread.bytes
        await asyncio.sleep(1)


async def run_turn(name: str, directory: str) -> None:
    """Run one turn with the agent of this name, with nothing but defaults, and say what it took."""
    from duologue.client.connect import connect
    from duologue.client.permissions.policy import Permissions
    from duologue.client.permissions.request import PermissionRequest
    from duologue.client.services.workspace import Workspace

    async def deny_later(question: PermissionRequest) -> bool:
        await asyncio.sleep(0.05)
        return False

    stderr: list[bytes] = []
    command = [sys.executable, "-m", "tests.hostile.growth", "agent", name]
    outcome = ""
    dropped = -1
    try:
        async with (
            connect(
                command, permissions=Permissions(on_request=deny_later), workspace=Workspace(), on_stderr=stderr.append
            ) as agent,
            agent.new_session(directory) as session,
        ):
            events = session.events()  # opened for one event, and never read again
            first = asyncio.ensure_future(anext(events, None))
            async with session.prompt("go") as turn:
                if name == "paused_reader":
                    await anext(aiter(turn))
                    await until_nothing_comes(agent)
                else:
                    await turn
            first.cancel()
            outcome = str(turn.stop_reason)
            dropped = getattr(session.transcript, "dropped", -1)
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"[:300]
    peak = peak_bytes()
    answers = b"".join(stderr).decode(errors="replace")
    print(json.dumps({"peak": peak, "outcome": outcome, "dropped": dropped, "answers": answers}))


if __name__ == "__main__":
    if sys.argv[1] == "agent":
        attack_with(sys.argv[2])
    else:
        asyncio.run(run_turn(sys.argv[2], sys.argv[3]))
