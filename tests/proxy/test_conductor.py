"""A proxy as a component: the conductor's envelopes are hidden from the rules, and each message finds its side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from duologue.proxy import Block, ComponentRelay, Prompt, Proxy, WireMessage
from duologue.transports.memory import memory_pair
from tests.proxy.chain import SECONDS, End, prompt


@asynccontextmanager
async def component(proxy: Proxy) -> AsyncGenerator[End]:
    """Serve a conductor; yield its end."""
    conductor, ours = memory_pair()
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
        serving = group.create_task(ComponentRelay(proxy).serve(ours))
        yield End(conductor)
        await conductor.aclose()
        await serving


def _wrapped(method: str, params: Any = None, **more: Any) -> dict[str, Any]:
    inner = {"method": method} if params is None else {"method": method, "params": params}
    return {"jsonrpc": "2.0", **more, "method": "proxy/successor", "params": inner}


async def test_a_whole_conversation_goes_through_the_envelopes() -> None:
    proxy, seen = Proxy(), list[tuple[str, str]]()

    @proxy.observe
    async def note(message: WireMessage) -> None:
        seen.append((message.direction, message.method))

    async with component(proxy) as conductor:
        conductor.send(id="i", method="proxy/initialize", params={"protocolVersion": 1, "_x": 1})
        assert await conductor.receive() == _wrapped("initialize", {"protocolVersion": 1, "_x": 1}, id="i")
        conductor.send(id="i", result={"protocolVersion": 1})
        assert await conductor.receive() == {"jsonrpc": "2.0", "id": "i", "result": {"protocolVersion": 1}}

        conductor.send(id="p", **prompt("hi"))
        assert await conductor.receive() == _wrapped("session/prompt", prompt("hi")["params"], id="p")
        conductor.send(**{key: value for key, value in _wrapped("session/update", {"sessionId": "s"}).items()
                          if key != "jsonrpc"})  # fmt: skip
        assert await conductor.receive() == {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s"}}
        conductor.send(id="a", method="proxy/successor", params={"method": "_ask", "_meta": {"hop": 1}})
        assert await conductor.receive() == {"jsonrpc": "2.0", "id": "a", "method": "_ask"}
        conductor.send(id="a", error={"code": -32042, "message": "custom", "data": None})
        answer = {"jsonrpc": "2.0", "id": "a", "error": {"code": -32042, "message": "custom", "data": None}}
        assert await conductor.receive() == answer
        conductor.send(id="p", result={"stopReason": "end_turn"})
        assert (await conductor.receive())["result"] == {"stopReason": "end_turn"}
    assert seen == [
        ("to_agent", "initialize"),
        ("to_client", "initialize"),
        ("to_agent", "session/prompt"),
        ("to_client", "session/update"),
        ("to_client", "_ask"),
        ("to_agent", "_ask"),
        ("to_client", "session/prompt"),
    ]


async def test_a_cancellation_goes_to_the_side_that_works_on_the_request_and_is_never_wrapped() -> None:
    proxy, seen = Proxy(), list[tuple[str, str]]()

    @proxy.observe
    async def note(message: WireMessage) -> None:
        seen.append((message.direction, message.method))

    async with component(proxy) as conductor:
        conductor.send(id="p", **prompt("hi"))
        await conductor.receive()
        conductor.send(id="a", method="proxy/successor", params={"method": "_ask"})
        await conductor.receive()
        for id in ("p", "a"):
            conductor.send(method="$/cancel_request", params={"requestId": id})
            got = await conductor.receive()
            assert got == {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}}
    assert seen[2:] == [("to_agent", "$/cancel_request"), ("to_client", "$/cancel_request")]


async def test_rules_apply_and_what_they_block_is_answered() -> None:
    proxy = Proxy()

    @proxy.on_prompt
    def no_prompts(prompt: Prompt) -> None:
        raise Block("none today")

    @proxy.on_request("_ask")
    def answer(params: object) -> object:
        return proxy.answer({"ok": True})

    async with component(proxy) as conductor:
        conductor.send(id="p", **prompt("hi"))
        assert "none today" in (await conductor.receive())["error"]["message"]
        conductor.send(id="a", method="proxy/successor", params={"method": "_ask"})
        assert await conductor.receive() == {"jsonrpc": "2.0", "id": "a", "result": {"ok": True}}


async def test_a_client_without_a_conductor_gets_an_error_that_says_what_is_missing() -> None:
    async with component(Proxy()) as conductor:
        conductor.send(id=1, method="initialize", params={"protocolVersion": 1})
        assert "this proxy has no agent" in (await conductor.receive())["error"]["message"]


async def test_a_response_to_nothing_and_a_broken_envelope_reach_no_rule_as_something_else() -> None:
    proxy, seen = Proxy(), list[str]()

    @proxy.observe
    async def note(message: WireMessage) -> None:
        seen.append(message.method)

    async with component(proxy) as conductor:
        conductor.send(id="unknown", result={})
        conductor.send(id=1, method="proxy/successor", params={"method": 7})
        got = await conductor.receive()
        assert got["method"] == "proxy/successor"
    assert seen == ["proxy/successor"]


async def test_a_side_that_is_not_read_stops_the_other_only_at_the_limit() -> None:
    proxy, release = Proxy(timeout=1_000), asyncio.Event()

    @proxy.on_prompt
    async def wait(prompt: Prompt) -> None:
        await release.wait()

    async with component(proxy) as conductor:
        conductor.send(id="p", **prompt("hi"))
        for _ in range(20):  # more than may wait for the client's side
            conductor.send(method="_big", params={"text": "x" * 1_000_000})
        conductor.send(method="proxy/successor", params={"method": "_last"})
        release.set()
        methods = [(await conductor.receive()) for _ in range(22)]
        names = [
            each["params"]["method"] if each["method"] == "proxy/successor" else each["method"] for each in methods
        ]
        assert sorted(names) == sorted(["session/prompt", *["_big"] * 20, "_last"])
