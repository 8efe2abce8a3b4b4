"""Messages that two readers read differently. The promise of `docs/topics/remote.md`: no agent gets one.

A relay that reads the last of two `params` and an agent that reads the first would disagree about whose session a
message is for: with `--shared` that is another client's.
"""

from __future__ import annotations

import pytest

from duologue.relay.shared_process import SharedProcessRelay
from tests.relay.agents import process
from tests.transports.server.servers import Echo, http_client_to, running_server, socket_to

TWICE = [
    '{"jsonrpc":"2.0","method":"x","params":{"sessionId":"yours"},"params":{"sessionId":"mine"}}',
    '{"jsonrpc":"2.0","method":"x","params":{"sessionId":"yours"},"p\\u0061rams":{"sessionId":"mine"}}',
    '{"jsonrpc":"2.0","method":"x","params":{"sessionId":"yours","sessionId":"mine"}}',
    '{"jsonrpc":"2.0","method":"x","params":{"sessionId":"yours","sessionId":"mine","text":"\\ud800"}}',
    '{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}',
    '{"jsonrpc":"2.0","id":1,"method":"x","method":"y"}',
    '{"jsonrpc":"2.0","id":1,"result":{},"result":{}}',
    '{"jsonrpc":"2.0","id":1,"error":{},"error":{}}',
]

# It reads the first of two, as some parsers do.
FIRST = """
def first(pairs):
    found = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found

made = 0
for line in read():
    message = json.loads(line, object_pairs_hook=first)
    match message["method"]:
        case "session/new":
            made += 1
            answer(message, {"sessionId": f"s{made}"})
        case "initialize" | "last":
            answer(message, {})
        case "note":
            session = message["params"]["sessionId"]
            write({"jsonrpc": "2.0", "method": "noted", "params": {"sessionId": session}})
"""


@pytest.mark.fault("GWY-21", "JSN-11")
@pytest.mark.parametrize("message", TWICE)
async def test_a_message_with_a_duplicate_name_reaches_no_agent(message: str) -> None:
    async with running_server(echo := Echo()) as server, socket_to(server) as socket, http_client_to(server) as client:
        await socket.initialize()
        await socket.send(message)
        answer = await socket.next()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        await client.initialize()
        refused = await client.post(message, "mine")
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32600)
    assert len(echo.frames) == 2


@pytest.mark.fault("GWY-21")
async def test_a_client_of_a_shared_agent_reaches_no_session_of_another() -> None:
    async with (
        running_server(SharedProcessRelay(process(FIRST))) as server,
        socket_to(server) as victim,
        socket_to(server) as attacker,
    ):
        for socket in (victim, attacker):
            await socket.initialize()
        yours = (await victim.ask(1, "session/new", {}))["result"]["sessionId"]
        own = (await attacker.ask(1, "session/new", {}))["result"]["sessionId"]
        for params in (f'{{"sessionId":"{yours}"}},"params":{{"sessionId":"{own}"}}', f'{{"sessionId":"{yours}"}}'):
            await attacker.send(f'{{"jsonrpc":"2.0","method":"note","params":{params}}}')
        assert (await attacker.ask(2, "last", {}))["result"] == {}
        await victim.send({"jsonrpc": "2.0", "id": 3, "method": "last", "params": {"sessionId": yours}})
        assert (await victim.next())["id"] == 3


async def test_a_lone_surrogate_in_a_message_is_no_server_error() -> None:
    message = '{"jsonrpc":"2.0","id":1,"method":"x","params":{"text":"\\ud800"}}'
    async with running_server(echo := Echo()) as server, socket_to(server) as socket, http_client_to(server) as client:
        await socket.initialize()
        await socket.send(message)
        assert (await socket.next())["id"] == 1
        await client.initialize()
        assert (await client.post(message)).status_code == 202
        async with client.listen() as events:
            assert (await events.next())["id"] == 1
    assert echo.frames.count(message.encode()) == 2
