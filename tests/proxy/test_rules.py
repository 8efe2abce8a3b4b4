"""Rules change, answer and block messages; what they do not change arrives as it was sent."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from duologue.jsonrpc.framing import Oversized
from duologue.proxy import (
    Block,
    CreateTerminal,
    PermissionQuestion,
    Prompt,
    Proxy,
    ReadFile,
    RequestAnswer,
    SessionParams,
    WireMessage,
    WriteFile,
)
from duologue.types import MessageChunk, StdioMcpServer, TextContent, Update
from tests.proxy.chain import Chain, chained, prompt, text_chunk


def passed(params: object) -> None:
    """Pass every message on."""


def answered(params: object) -> RequestAnswer:
    return Proxy.answer({})


def nothing() -> None: ...


def twice(message: object, more: object) -> None: ...


def prefixed(text: str) -> Callable[[Prompt], Prompt]:
    def add(prompt: Prompt) -> Prompt:
        return prompt.with_prefix(text)

    return add


VERSIONS = pytest.mark.parametrize("version", [1, 2])


@VERSIONS
async def test_a_prefix_is_put_before_the_prompt_and_everything_unknown_stays(version: int) -> None:
    proxy = Proxy()

    @proxy.on_prompt
    def add_prefix(prompt: Prompt) -> Prompt:
        return prompt.with_prefix("Be brief.")

    async with chained(proxy) as chain:
        await chain.initialize(version)
        odd = {"type": "text", "text": "hi", "_meta": {"k": [1, None]}, "unknown": 1.50}
        params = {"sessionId": "s", "prompt": [odd], "_meta": {"trace": "t"}, "future": {"a": 1e2}}
        chain.client.send(id=1, method="session/prompt", params=params, envelope="kept")
        got = await chain.agent.receive()

        before = {"type": "text", "text": "Be brief.\n\n"}
        assert got == {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "session/prompt",
            "params": {**params, "prompt": [before, odd]},
            "envelope": "kept",
        }


async def test_members_that_are_not_changed_keep_their_bytes() -> None:
    proxy = Proxy()
    proxy.on_prompt(prefixed("x"))
    async with chained(proxy) as chain:
        frame = (
            b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":'
            b'{"_meta":{"n": 12345678901234567890.10},"sessionId":"\\u0073","prompt":[]}}'
        )
        chain.client.transport.send(frame)
        got = await chain.agent.receive_frame()
        assert b'"_meta":{"n": 12345678901234567890.10},"sessionId":"\\u0073"' in got


async def test_a_message_that_a_rule_passes_keeps_every_byte() -> None:
    proxy = Proxy()
    proxy.on_request("*")(passed)
    proxy.on_notification("*")(passed)
    frames = [
        b'{ "id" : 7, "jsonrpc":"2.0","method":"session/list","params":{"cursor":null} }',
        b'{"method":"_odd/one","params":["\\ud800",1.0E2],"jsonrpc":"2.0"}',
        b'{"jsonrpc":"2.0","method":"no/params"}',
    ]
    async with chained(proxy) as chain:
        for frame in frames:
            chain.client.transport.send(frame)
        assert [await chain.agent.receive_frame() for _ in frames] == frames


@VERSIONS
async def test_an_update_is_changed_as_a_type_of_the_library(version: int) -> None:
    proxy = Proxy()

    @proxy.on_update
    async def shout(update: Update) -> Update | None:
        if isinstance(update, MessageChunk) and isinstance(update.content, TextContent):
            return structs.replace(update, content=TextContent(update.content.text.upper()))
        return None

    async with chained(proxy) as chain:
        await chain.initialize(version)
        sent = text_chunk("hello", version)
        sent["params"]["update"]["_meta"] = {"kept": True}
        chain.agent.send(**sent)
        got = await chain.client.receive()
        assert got["params"]["update"]["content"] == {"type": "text", "text": "HELLO"}
        assert got["params"]["update"]["_meta"] == {"kept": True}


@VERSIONS
async def test_a_server_of_mcp_is_added_once(version: int) -> None:
    proxy = Proxy()
    proxy.add_mcp_server(StdioMcpServer(name="git", command="mcp-git"))
    async with chained(proxy) as chain:
        await chain.initialize(version)
        own: dict[str, Any] = {"name": "own", "command": "x", "args": [], "env": [], "unknown": 1}
        if version == 2:
            own["type"] = "stdio"
        chain.client.send(id=1, method="session/new", params={"cwd": "/w", "mcpServers": [own]})
        servers = (await chain.agent.receive())["params"]["mcpServers"]
        assert [each["name"] for each in servers] == ["own", "git"]
        assert servers[0] == own

        chain.client.send(id=2, method="session/new", params={"cwd": "/w", "mcpServers": [servers[1]]})
        assert (await chain.agent.receive())["params"]["mcpServers"] == [servers[1]]


async def test_requests_have_the_types_of_the_library() -> None:
    proxy, seen = Proxy(), list[object]()
    proxy.on_request("*")(seen.append)
    async with chained(proxy) as chain:
        chain.client.send(id=1, method="session/load", params={"sessionId": "s", "cwd": "/w", "mcpServers": []})
        await chain.agent.receive()
        terminal = {"sessionId": "s", "command": "ls", "env": [{"name": "A", "value": "1"}]}
        tool = {"toolCallId": "t", "title": "T"}
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        asked = {"sessionId": "s", "toolCall": tool, "options": options}
        chain.agent.send(id=1, method="fs/read_text_file", params={"sessionId": "s", "path": "/w/a"})
        chain.agent.send(id=2, method="fs/write_text_file", params={"sessionId": "s", "path": "/w/a", "content": "c"})
        chain.agent.send(id=3, method="terminal/create", params=terminal)
        chain.agent.send(id=4, method="session/request_permission", params=asked)
        chain.agent.send(id=5, method="_own/method", params={"any": "thing"})
        for _ in range(5):
            await chain.client.receive()
        types = [type(each) for each in seen]
        assert types == [SessionParams, ReadFile, WriteFile, CreateTerminal, PermissionQuestion, dict]
        assert seen[3] == CreateTerminal(session_id="s", command="ls", args=[], env={"A": "1"})


@pytest.mark.parametrize(
    ("method", "params", "answer", "result"),
    [
        ("fs/read_text_file", {"path": "/a"}, "text", {"content": "text"}),
        ("fs/write_text_file", {"path": "/a", "content": ""}, None, {}),
        ("terminal/create", {"command": "ls"}, "t1", {"terminalId": "t1"}),
        (
            "session/request_permission",
            {"toolCall": {"toolCallId": "t"}, "options": []},
            "no",
            {"outcome": {"outcome": "selected", "optionId": "no"}},
        ),
        (
            "session/request_permission",
            {"toolCall": {"toolCallId": "t"}, "options": []},
            None,
            {"outcome": {"outcome": "cancelled"}},
        ),
        ("_own/method", {}, {"any": 1}, {"any": 1}),
        ("_own/method", {}, None, {}),
    ],
)
async def test_a_request_is_answered_in_place_of_its_receiver(
    method: str, params: dict[str, Any], answer: Any, result: dict[str, Any]
) -> None:
    proxy = Proxy()

    @proxy.on_request(method)
    async def reply(params: object) -> RequestAnswer:
        return proxy.answer(answer)

    async with chained(proxy) as chain:
        chain.agent.send(id="q", method=method, params={"sessionId": "s", **params})
        assert await chain.agent.receive() == {"jsonrpc": "2.0", "id": "q", "result": result}
        chain.agent.send(method="next")
        assert (await chain.client.receive())["method"] == "next"  # and nothing before it


async def test_a_response_is_changed() -> None:
    proxy = Proxy()

    @proxy.on_response("session/list")
    def drop_titles(result: Any) -> Any:
        return structs.replace(result, sessions=[])

    async with chained(proxy) as chain:
        chain.client.send(id=1, method="session/list", params={})
        await chain.agent.receive()
        listed = {"sessions": [{"sessionId": "s", "cwd": "/"}], "nextCursor": "c", "unknown": 1}
        chain.agent.send(id=1, result=listed)
        assert (await chain.client.receive())["result"] == {**listed, "sessions": []}


async def test_rules_are_called_in_order_and_each_gets_what_the_one_before_made() -> None:
    proxy = Proxy()
    proxy.on_prompt(prefixed("one"))
    proxy.on_prompt(prefixed("two"))
    async with chained(proxy) as chain:
        chain.client.send(id=1, **prompt("three"))
        blocks = (await chain.agent.receive())["params"]["prompt"]
        assert [each["text"].strip() for each in blocks] == ["two", "one", "three"]


async def _blocked(chain: Chain, **request: Any) -> dict[str, Any]:
    """Send a request that is blocked; return the error. The agent gets what follows it, and not the request."""
    chain.client.send(id=1, **request)
    error: dict[str, Any] = (await chain.client.receive())["error"]
    chain.client.send(method="next")
    assert (await chain.agent.receive())["method"] == "next"
    return error


async def test_a_blocked_request_is_answered_with_the_rule_the_reason_and_a_reference(
    caplog: pytest.LogCaptureFixture,
) -> None:
    proxy = Proxy("team")

    @proxy.on_prompt
    def no_secrets(prompt: Prompt) -> None:
        raise Block("the prompt has a secret")

    async with chained(proxy) as chain:
        error = await _blocked(chain, **prompt("hi"))
    reference = error["data"]["reference"]
    assert error["code"] == -32600
    assert error["message"] == (
        f"blocked by the rule no_secrets of team: the prompt has a secret (reference {reference})"
    )
    assert error["data"] == {"proxy": "team", "rule": "no_secrets", "reference": reference}
    assert f"no_secrets blocked 'session/prompt' to the agent: the prompt has a secret (reference {reference})" in (
        caplog.text
    )


async def _raise(prompt: Prompt) -> None:
    raise ZeroDivisionError("with a secret text")


async def _hang(prompt: Prompt) -> None:
    await asyncio.Event().wait()


async def _hang_on(prompt: Prompt) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await asyncio.Event().wait()  # it ignores that it was cancelled, once


def _block_thread(prompt: Prompt) -> None:
    _released.wait()


_released = threading.Event()


async def _cancel_itself(prompt: Prompt) -> None:
    raise asyncio.CancelledError


def _nonsense(prompt: Prompt) -> str:
    return "a text"


def _other_type(prompt: Prompt) -> MessageChunk:
    return MessageChunk(role="agent", content=TextContent("x"))


def _no_json(prompt: Prompt) -> RequestAnswer:
    return Proxy.answer({"result": object()})


def _wrong_result(prompt: Prompt) -> RequestAnswer:
    return Proxy.answer({"stopReason": 7})


@pytest.mark.parametrize(
    "rule",
    [
        _raise,
        _hang,
        _hang_on,
        _block_thread,
        _cancel_itself,
        _nonsense,
        _other_type,
        _no_json,
        _wrong_result,
    ],
)
async def test_a_rule_that_fails_blocks_the_message_and_its_text_stays_here(rule: Any) -> None:
    proxy = Proxy(timeout=0.2)
    proxy.on_prompt(rule)
    _released.clear()
    try:
        async with chained(proxy) as chain:
            error = await _blocked(chain, **prompt("hi"))
    finally:
        _released.set()
    assert error["code"] == -32603
    assert rule.__name__ in error["message"]
    assert "secret" not in error["message"]


async def test_a_blocked_notification_is_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    proxy = Proxy()

    @proxy.on_update
    def quiet(update: Update) -> None:
        raise Block("no chatter")

    async with chained(proxy) as chain:
        chain.agent.send(**text_chunk("hello"))
        chain.agent.send(method="next")
        assert (await chain.client.receive())["method"] == "next"
    assert "quiet blocked 'session/update' to the client: no chatter" in caplog.text


async def test_a_notification_cannot_be_answered() -> None:
    proxy = Proxy()
    proxy.on_update(answered)
    async with chained(proxy) as chain:
        chain.agent.send(**text_chunk("hello"))
        chain.agent.send(method="next")
        assert (await chain.client.receive())["method"] == "next"


async def test_a_blocked_response_fails_the_request() -> None:
    proxy = Proxy()

    @proxy.on_response("session/list")
    def no_list(result: object) -> None:
        raise Block("not for you")

    async with chained(proxy) as chain:
        chain.client.send(id=1, method="session/list", params={})
        await chain.agent.receive()
        chain.agent.send(id=1, result={"sessions": []})
        assert "blocked by the rule no_list" in (await chain.client.receive())["error"]["message"]


@pytest.mark.parametrize(
    "params",
    [
        {"sessionId": 7, "prompt": []},
        {"prompt": []},
        [],
    ],
)
async def test_params_that_no_rule_can_check_are_blocked(params: Any) -> None:
    proxy = Proxy()
    proxy.on_prompt(passed)
    async with chained(proxy) as chain:
        error = await _blocked(chain, method="session/prompt", params=params)
        assert "cannot be checked" in error["message"]


@pytest.mark.parametrize(
    "frame",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"other","method":"session/prompt","params":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[],"prompt":[]}}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","type":"x"}]}}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[' + b"[" * 300,
        b"{",
        b"not JSON",
        b'[{"jsonrpc":"2.0","method":"x"}]',
        b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":"\xff"}',
    ],
)
async def test_an_ambiguous_message_does_not_pass(frame: bytes) -> None:
    proxy = Proxy()
    proxy.on_prompt(passed)
    async with chained(proxy) as chain:
        chain.client.transport.send(frame)
        assert "error" in await chain.client.receive()
        chain.client.send(method="next")
        assert (await chain.agent.receive())["method"] == "next"


async def test_a_malformed_response_fails_the_request_that_it_answers() -> None:
    proxy = Proxy()
    proxy.on_prompt(passed)
    async with chained(proxy) as chain:
        chain.client.send(id=1, **prompt("hi"))
        await chain.agent.receive()
        chain.agent.transport.send(b'{"jsonrpc":"1.0","id":1,"result":{}}')
        got = await chain.client.receive()
        assert (got["id"], got["error"]["message"]) == (1, 'jsonrpc must be "2.0"')


async def test_a_message_over_the_size_limit_is_blocked() -> None:
    proxy = Proxy()
    proxy.on_prompt(passed)
    async with chained(proxy) as chain:
        head = b'{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{"x":"'
        chain.client.transport.send(Oversized(head, 1 << 30))
        got = await chain.client.receive()
        assert got["id"] == 5
        assert "over the size limit" in got["error"]["message"]
        chain.client.transport.send(Oversized(b'{"params":{"x":"', 1 << 30))  # it could be any request
        assert await chain.agent.transport.receive() == []


async def test_a_slow_rule_delays_what_follows_and_order_is_kept() -> None:
    proxy, release = Proxy(), asyncio.Event()

    @proxy.on_prompt
    async def wait(prompt: Prompt) -> None:
        await release.wait()

    async with chained(proxy) as chain:
        chain.client.send(method="before")
        chain.client.send(id=1, **prompt("hi"))
        chain.client.send(method="after")
        assert (await chain.agent.receive())["method"] == "before"
        release.set()
        assert (await chain.agent.receive())["method"] == "session/prompt"
        assert (await chain.agent.receive())["method"] == "after"


async def test_a_slow_rule_does_not_delay_the_other_direction() -> None:
    proxy, release = Proxy(), asyncio.Event()

    @proxy.on_prompt
    async def wait(prompt: Prompt) -> None:
        await release.wait()

    async with chained(proxy) as chain:
        chain.client.send(id=1, **prompt("hi"))
        chain.agent.send(**text_chunk("hello"))
        assert (await chain.client.receive())["method"] == "session/update"
        release.set()


async def test_a_rule_that_waits_is_cancelled_when_the_agent_ends() -> None:
    proxy, cancelled = Proxy(timeout=1_000), asyncio.Event()

    @proxy.on_prompt
    async def wait(prompt: Prompt) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with chained(proxy) as chain:
        chain.client.send(method="first")
        await chain.agent.receive()
        chain.client.send(id=1, **prompt("hi"))
        await chain.agent.transport.aclose()
        await cancelled.wait()


async def test_a_method_of_the_other_side_is_none_of_a_rules() -> None:
    proxy = Proxy()

    @proxy.on_prompt
    def never(prompt: Prompt) -> None:
        raise Block("a prompt")

    async with chained(proxy) as chain:
        chain.agent.send(id=1, **prompt("from the agent"))
        assert (await chain.client.receive())["method"] == "session/prompt"


async def test_observers_see_everything_as_it_was_sent_and_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    proxy, seen = Proxy(), list[tuple[str, str, str, int]]()

    @proxy.observe
    def note(message: WireMessage) -> str:
        seen.append((message.direction, message.kind, message.method, message.version))
        return "nothing"

    @proxy.observe
    async def fail(message: WireMessage) -> None:
        raise ValueError("broken")

    async with chained(proxy) as chain:
        await chain.initialize(2)
        chain.client.transport.send(b"not JSON")
        assert await chain.agent.receive_frame() == b"not JSON"
    assert seen == [
        ("to_agent", "request", "initialize", 1),
        ("to_client", "response", "initialize", 2),
        ("to_agent", "invalid", "", 1),
    ]
    assert "the observer fail failed" in caplog.text


def test_a_rule_needs_a_method_and_a_parameter() -> None:
    proxy = Proxy()
    with pytest.raises(TypeError, match="name the methods"):
        proxy.on_request()(passed)
    with pytest.raises(TypeError, match="name the methods"):
        proxy.on_request(passed)(passed)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="must take the params"):
        proxy.on_prompt(nothing)
    with pytest.raises(TypeError, match="must take the message"):
        proxy.observe(twice)
    with pytest.raises(TypeError, match="expected a function"):
        proxy.on_prompt(7)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
    assert proxy.is_passive


def test_the_log_has_the_traceback_of_a_rule(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        proxy = Proxy()
        proxy.on_prompt(_raise)
        async with chained(proxy) as chain:
            await _blocked(chain, **prompt("hi"))

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert "ZeroDivisionError: with a secret text" in caplog.text
