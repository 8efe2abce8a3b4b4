"""The model server itself: access, limits, held answers, the record of requests, threads and processes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from duologue.errors import StartError
from duologue.testing import ModelServer, ModelTurn
from duologue.testing.models import app, request_log
from tests.testing.models.clients import CLIENTS, PROMPT, anthropic_client, openai_client
from tests.testing.test_plugin import ASYNCIO_AUTO, run_pytest

BODY: dict[str, Any] = {"model": "m", "messages": PROMPT}


async def post(server: ModelServer, path: str = "/chat/completions", **options: Any) -> httpx2.Response:
    """Send a request without a library of a provider."""
    headers = {"Authorization": f"Bearer {server.api_key}", **options.pop("headers", {})}
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        return await client.post(f"{server.openai_url}{path}", headers=headers, **options)


async def test_a_wrong_key_is_rejected_in_the_form_of_the_provider() -> None:
    async with asyncio.timeout(60), ModelServer(["text"]) as server:
        async with openai_client(server, api_key="wrong") as one:
            with pytest.raises(openai.AuthenticationError) as first:
                await one.chat.completions.create(model="m", messages=PROMPT)
        async with anthropic_client(server, api_key="wrong") as two:
            with pytest.raises(anthropic.AuthenticationError) as second:
                await two.messages.create(model="m", max_tokens=9, messages=PROMPT)
        assert first.value.code == "invalid_api_key"
        assert second.value.type == "authentication_error"
        assert server.requests == []


async def test_both_headers_for_a_key_are_accepted() -> None:
    body = {**BODY, "max_tokens": 9}
    async with asyncio.timeout(60), ModelServer(["one"]) as server:
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
            url = f"{server.anthropic_url}/v1/messages"
            missing = await client.post(url, json=body)
            twice = await client.post(url, json=body, headers=[("x-api-key", "wrong"), ("x-api-key", server.api_key)])
            accepted = await client.post(url, json=body, headers={"x-api-key": server.api_key})

    assert [answer.status_code for answer in (missing, twice, accepted)] == [401, 401, 200]


@pytest.mark.parametrize(
    "headers", [{"Host": "example.com"}, {"Origin": "http://example.com"}, {"Origin": "http://127.0.0.1:1"}]
)
async def test_another_host_or_a_web_page_is_rejected(headers: dict[str, str]) -> None:
    async with asyncio.timeout(60), ModelServer(["text"]) as server:
        answer = await post(server, json=BODY, headers=headers)

    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "permission_denied"


async def test_the_server_listens_on_loopback_only() -> None:
    async with asyncio.timeout(60), ModelServer() as server:
        address = httpx2.URL(server.openai_url)
        assert address.host == "127.0.0.1"
        # Another address of this machine: a server on all addresses would accept it.
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", address.port or 0))


@pytest.mark.parametrize(
    ("path", "options", "status"),
    [
        ("/chat/completions", {"content": b"{"}, 400),
        ("/chat/completions", {"content": b"[1]"}, 400),
        ("/chat/completions", {"content": b'{"a":' * 100_000}, 400),
        ("/chat/completions", {"content": b"\xff\xfe"}, 400),
        ("/chat/completions", {"content": b"", "headers": {"content-encoding": "gzip"}}, 415),
        ("/models", {"json": {}}, 405),
        ("/embeddings", {"json": {}}, 404),
    ],
)
async def test_a_request_that_is_not_understood_gets_an_error(path: str, options: dict[str, Any], status: int) -> None:
    async with asyncio.timeout(60), ModelServer(["text"]) as server:
        answer = await post(server, path, **options)
        assert answer.status_code == status
        assert answer.json()["error"]["message"]
        assert (await CLIENTS["chat"](server)).text == "text"


async def test_a_body_that_is_too_long_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duologue.testing.models.server.MAX_BODY_BYTES", 1000)
    async with asyncio.timeout(60), ModelServer(["text"]) as server:
        answer = await post(server, json={**BODY, "padding": "x" * 2000})
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "request_too_large"


async def test_one_request_more_than_the_limit_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MAX_ANSWERS", 2)
    async with asyncio.timeout(60), ModelServer([ModelTurn("text", hold_after=0, times=2)]) as server:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(CLIENTS["chat"](server)) for _ in range(2)]
            await server.held(2)
            with pytest.raises(openai.InternalServerError, match="at most 2 requests"):
                await CLIENTS["chat"](server)
            await server.release()
            assert [(await task).text for task in tasks] == ["text", "text"]


async def test_a_held_answer_goes_on_when_it_is_released() -> None:
    async with asyncio.timeout(60), ModelServer([ModelTurn(["one ", "two"], hold_after=1)]) as server:
        async with openai_client(server) as client:
            events = await client.chat.completions.create(model="m", messages=PROMPT, stream=True)
            request = await server.held()
            pieces = [(await anext(events)).choices[0].delta.content for _ in range(2)]
            assert (pieces, request.outcome) == (["", "one "], "answering")
            await server.release()
            rest = [chunk.choices[0].delta.content async for chunk in events]
            assert rest[0] == "two"
            assert await server.finished(request) == "answered"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("hold_after", [0, 1])
async def test_a_client_that_cancels_abandons_the_answer(client: str, hold_after: int) -> None:
    turn = ModelTurn("a text with several pieces", hold_after=hold_after)
    async with asyncio.timeout(60), ModelServer([turn, "next"]) as server:
        asking = asyncio.ensure_future(CLIENTS[client](server))
        request = await server.held()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

        assert await server.finished(request) == "abandoned"
        assert (await CLIENTS[client](server)).text == "next"


async def test_a_release_of_nothing_is_an_error() -> None:
    async with asyncio.timeout(60), ModelServer() as server:
        with pytest.raises(ValueError, match="no answer is held"):
            await server.release()
        with pytest.raises(TimeoutError, match="fewer than 1 answers were held within"):
            await server.held(timeout=0.01)


async def test_an_answer_that_is_never_released_ends_and_fails_the_test() -> None:
    script = [ModelTurn("text", hold_after=0)]
    async with asyncio.timeout(60), ModelServer(script, hold_seconds=0.05, raise_failures=False) as server:
        with pytest.raises(openai.APIConnectionError):
            await CLIENTS["chat"](server)
        await server.finished(server.requests[0])
        assert server.failures == ["request 1: the answer was held, and not released within 0.05 s"]


@pytest.mark.parametrize("turn", [ModelTurn(fault="timeout"), ModelTurn("x", hold_after=1), ModelTurn(delay=600)])
async def test_a_server_that_is_closed_ends_the_answers_that_wait(turn: ModelTurn) -> None:
    async with asyncio.timeout(60):
        server = ModelServer([turn])
        await asyncio.to_thread(server.start)
        asking = asyncio.ensure_future(CLIENTS["chat, streamed"](server))
        await server.received(1)
        await asyncio.to_thread(server.close)
        with pytest.raises(openai.APIConnectionError):
            await asking


async def test_requests_are_recorded_without_keys() -> None:
    async with asyncio.timeout(60), ModelServer(["one", "two"]) as server:
        async with openai_client(server) as client:
            await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": f"my key is {server.api_key}"}]
            )
        await CLIENTS["messages"](server)
        first, second = server.requests

        assert server.api_key not in repr([first, second])
        assert first.body["messages"][0]["content"] == "my key is •••"
        assert "authorization" not in first.headers
        assert first.headers["content-type"] == "application/json"
        assert (first.api, second.api, second.prompt, second.tools) == ("chat", "messages", "read the file", ["read"])


async def test_the_oldest_requests_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_log, "MAX_REQUESTS", 3)
    async with asyncio.timeout(60), ModelServer([ModelTurn("text", times=0)]) as server:
        for _ in range(5):
            await post(server, json=BODY)
        assert [request.number for request in server.requests] == [3, 4, 5]
        monkeypatch.setattr(request_log, "MAX_REQUEST_BYTES", 1000)
        await post(server, json={**BODY, "padding": "x" * 2000})
        assert [request.number for request in server.requests] == [6]


def test_a_blocking_client_works_without_an_event_loop() -> None:
    with ModelServer(["hello"]) as server:
        with openai.OpenAI(base_url=server.openai_url, api_key=server.api_key, timeout=60) as client:
            whole = client.chat.completions.create(model="m", messages=PROMPT)
        server.check()

    assert whole.choices[0].message.content == "hello"
    server.close()


def test_a_port_that_is_in_use_is_named() -> None:
    with ModelServer() as server:
        port = httpx2.URL(server.openai_url).port or 0
        with pytest.raises(StartError, match=f"cannot listen on 127.0.0.1:{port}"):
            ModelServer(port=port).start()


async def test_a_wait_of_a_server_that_does_not_run_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="the server does not run"):
        await ModelServer().held()


PROGRAM = """
import openai
client = openai.OpenAI(timeout=60)
whole = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
print(whole.choices[0].message.content)
"""


@pytest.mark.parametrize(("turns", "code"), [("[[turn]]\ntext = 'from a file'\n", 0), ("", 1)])
def test_the_command_serves_a_file_and_prints_variables(tmp_path: Path, turns: str, code: int) -> None:
    script = tmp_path / "script.toml"
    script.write_text(turns)
    command = [sys.executable, "-m", "duologue.testing.models", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline().removeprefix("export ").strip() for _ in range(5)]
            variables = dict(line.split("=", 1) for line in lines)
            assert set(variables) == set(ModelServer().environment)
            ended = subprocess.run(
                [sys.executable, "-c", PROGRAM],
                env={**os.environ, **variables},
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
            )
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()

    assert process.returncode == code
    if code == 0:
        assert (ended.stdout, errors) == ("from a file\n", "")
    else:
        assert "no turn for request 1" in ended.stderr
        assert "no turn for request 1" in errors


def test_the_command_rejects_a_file_that_is_not_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text("[[turn]]\nfault = 'nothing'")
    command = [sys.executable, "-m", "duologue.testing.models", str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "unknown fault `nothing`" in ended.stderr


def test_the_fixture_starts_servers_for_every_kind_of_test_and_reports_failures(tmp_path: Path) -> None:
    tests = textwrap.dedent("""
        import openai, pytest

        def test_blocking(model_server):
            server = model_server(["hello"])
            with openai.OpenAI(base_url=server.openai_url, api_key=server.api_key) as client:
                client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
            server.check()

        async def test_async(model_server):
            one, two = model_server(["hello"]), model_server()
            async with openai.AsyncOpenAI(base_url=one.openai_url, api_key=one.api_key) as client:
                await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])

        def test_unexpected(model_server):
            server = model_server()
            with openai.OpenAI(base_url=server.openai_url, api_key=server.api_key) as client:
                with pytest.raises(openai.BadRequestError):
                    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    """)
    code, output = run_pytest(tmp_path, tests, ASYNCIO_AUTO, "--assert=plain")

    assert code == 1
    assert "3 passed, 1 error" in output
    assert "ModelScriptFailed: the script has no turn for request 1" in output
