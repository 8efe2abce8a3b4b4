"""The `_meta` that both sides attach, custom methods in both directions, and providers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.errors import InvalidParams, MethodNotFound, RequestError
from duologue.protocol.meta import RequestMeta, attach_meta, current_request
from duologue.runtime.handlers import Context
from duologue.schema import v1
from duologue.schema.base import Method, Model, Notification
from duologue.store.memory import MemoryStore
from tests.agent.complete import ClientServices, SampleSettings, complete_agent, everything
from tests.agent.test_every_method import CALLS, SENT
from tests.agent.wire_client import EVERYTHING, agent_with, client_for, raw_client


@pytest.mark.rule(21)
@pytest.mark.parametrize("name", CALLS)
async def test_meta_of_a_request_can_be_read_and_its_response_can_carry_meta(tmp_path: Path, name: str) -> None:
    agent, _ = complete_agent()
    seen: list[Any] = []

    @agent.on_request
    def watch(request: RequestMeta) -> None:
        if request.received is not None:
            seen.append((request.method, request.received))
            request.answer["example.com/answer"] = [1]

    method, fields = CALLS[name]
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True, **EVERYTHING) as client:
        await client.ask(v1.AUTHENTICATE, method_id="key")
        substitutes = {"CWD": str(tmp_path), "OPEN": await client.new(), "CLOSED": await client.new()}
        await client.close(substitutes["CLOSED"])
        params = {
            key: substitutes.get(value, value) if isinstance(value, str) else value for key, value in fields.items()
        }
        answer = await client.ask(method, **params, meta={"example.com/asked": name})

        assert seen == [(name, {"example.com/asked": name})]
        assert answer.meta == {"example.com/answer": [1]}


async def test_meta_of_initialize_and_of_notifications_can_be_read(tmp_path: Path) -> None:
    agent = agent_with()
    seen: list[Any] = []
    agent.on_request(lambda request: seen.append((request.method, request.received)))
    async with asyncio.timeout(60), raw_client(agent) as client:
        await client.initialize(_meta={"a": 1})
        client.send(method="session/cancel", params={"sessionId": "s", "_meta": {"b": 2}})
        await client.ask(1, "authenticate", {"methodId": "x"})

        assert seen == [("initialize", {"a": 1}), ("session/cancel", {"b": 2}), ("authenticate", None)]


async def test_author_code_finds_the_request_it_answers_and_is_alone_with_it(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        assert turn.meta == current_request().received
        await asyncio.sleep(0)
        current_request().answer.update(turn.meta or {})

    with pytest.raises(LookupError):
        current_request()
    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path, validate=True) as client:
        sessions = [await client.new() for _ in range(5)]
        prompts = [client.prompt(session, "go", meta={"n": n}) for n, session in enumerate(sessions)]
        assert [response.meta for response in await asyncio.gather(*prompts)] == [{"n": n} for n in range(5)]


async def test_everything_an_agent_sends_can_have_something_attached_and_answers_can_be_read(tmp_path: Path) -> None:
    agent, _ = complete_agent()
    received: list[Any] = []

    @agent.on_prompt
    async def traced(turn: Turn[SampleSettings]) -> None:
        with attach_meta({"traceparent": "00-a"}), attach_meta({"baggage": "b"}):
            await everything(turn)
        with attach_meta({"x": 1}) as attached:
            await turn.files.read("a.txt")
        received.append(attached.received)

    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True, **EVERYTHING) as client:
        services = ClientServices(client)

        @client.handlers.on(v1.FS_READ_TEXT_FILE)
        async def read(context: Context, params: v1.ReadTextFileRequest) -> v1.ReadTextFileResponse:
            return v1.ReadTextFileResponse(content=services.files[params.path], meta={"unsaved": True})

        await client.ask(v1.AUTHENTICATE, method_id="key")
        await client.prompt(await client.new(), "go")
        for method in sorted(SENT - {"auth/status_update"}):
            calls = [call["params"].get("_meta") for call in client.validator.calls(method)]
            assert {"traceparent": "00-a", "baggage": "b"} in calls, method
        # What an update itself carries stays apart from what is attached to the message around it.
        updates = [call["params"] for call in client.validator.calls("session/update")]
        assert not any("traceparent" in (params["update"].get("_meta") or {}) for params in updates)
        assert received == [{"unsaved": True}]


# --- custom methods


@dataclass
class Query:
    since: int = 0


@dataclass
class Found:
    notes: list[str]


class Pinged(Model, frozen=True, kw_only=True):
    sent_by: str
    meta: dict[str, Any] | None = None


@pytest.mark.rule(13, 14, 19)
async def test_custom_methods_are_typed_in_both_directions(tmp_path: Path) -> None:
    queries: list[Query] = []

    async def answer(turn: Turn[Settings]) -> None:
        session = turn.session
        found: Found = await session.call_extension("_editor/find", Query(7), Found)
        await turn.say(",".join(found.notes))
        with attach_meta({"t": 1}):
            await session.notify_extension("_editor/pinged", Pinged(sent_by="me"))
            await session.notify_extension("_editor/pinged", {"by": "me", "_meta": {"own": 1}})
            await session.notify_extension("_editor/pinged", Query(1))
        with pytest.raises(MethodNotFound):
            await session.call_extension("_editor/unknown", Query(), Found)
        for name in ("editor/find", "session/update"):
            with pytest.raises(MethodNotFound, match="underscore"):
                await session.call_extension(name, Query(), Found)
            with pytest.raises(MethodNotFound, match="underscore"):
                await session.notify_extension(name, Query())

    agent = agent_with(answer)

    @agent.extension("_notes/find")
    async def find(query: Query) -> Found:
        if query.since < 0:
            raise RequestError("there was nothing then", code=77)
        queries.append(query)
        return Found([str(query.since)])

    @agent.extension("_notes/forget")
    async def forget(query: Query) -> None:
        queries.append(query)

    with pytest.raises(ValueError, match="underscore"):
        agent.extension("notes/find")
    with pytest.raises(TypeError, match="one parameter"):
        agent.extension("_x")(lambda: None)
    ask: Method[Any, Any] = Method("_notes/find", Query, Found)
    drop: Method[Any, Any] = Method("_notes/forget", Query, dict[str, Any])
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        pinged: list[Any] = []

        @client.handlers.on(Method("_editor/find", Query, Found, side="client"))
        async def find_here(context: Context, params: Query) -> Found:
            return Found([str(params.since)])

        @client.handlers.on(Notification("_editor/pinged", dict[str, Any]))
        async def ping(context: Context, params: dict[str, Any]) -> None:
            pinged.append(params)

        assert await client.connection.request(ask, Query(3)) == Found(["3"])
        assert await client.connection.request(drop, Query(4)) == {}
        await client.connection.notify(Notification("_notes/forget", Query), Query(5))
        for bad in ({"since": "x"}, [1]):
            wrong: Method[Any, Any] = Method("_notes/find", object, Found)
            with pytest.raises(InvalidParams, match=r"since|object"):
                await client.connection.request(wrong, bad)
        with pytest.raises(RequestError) as caught:
            await client.connection.request(ask, Query(-1))
        assert caught.value.code == 77

        await client.prompt(await client.new(), "go")
        assert client.text == "7"
        assert queries == [Query(3), Query(4), Query(5)]
        assert pinged == [
            {"sentBy": "me", "_meta": {"t": 1}},
            {"by": "me", "_meta": {"own": 1, "t": 1}},
            {"since": 1},
        ]


# --- providers


async def test_providers_are_listed_set_and_disabled_and_headers_are_never_sent(tmp_path: Path) -> None:
    agent, providers = complete_agent()
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:

        async def listed() -> dict[str, Any]:
            found = (await client.ask(v1.PROVIDERS_LIST)).providers
            return {each.provider_id: (each.required, each.current) for each in found}

        assert await listed() == {"main": (True, None), "spare": (False, None)}
        await client.ask(
            v1.PROVIDERS_SET, provider_id="main", api_type="anthropic", base_url="https://x", headers={"key": "secret"}
        )
        current = v1.ProviderCurrentConfig(api_type="anthropic", base_url="https://x")
        assert await listed() == {"main": (True, current), "spare": (False, None)}
        assert providers.headers == {"main": {"key": "secret"}}
        assert "secret" not in str(client.validator.received)

        await client.ask(v1.PROVIDERS_SET, provider_id="main", api_type="anthropic", base_url="https://y")
        assert providers.known["main"].base_url == "https://y"
        assert providers.headers == {"main": {}}

        for provider_id, api_type in [("other", "openai"), ("main", "openai")]:
            with pytest.raises(InvalidParams):
                await client.ask(v1.PROVIDERS_SET, provider_id=provider_id, api_type=api_type, base_url="https://x")
        with pytest.raises(InvalidParams, match="required"):
            await client.ask(v1.PROVIDERS_DISABLE, provider_id="main")
        await client.ask(v1.PROVIDERS_SET, provider_id="spare", api_type="azure", base_url="https://z")
        await client.ask(v1.PROVIDERS_DISABLE, provider_id="spare")
        await client.ask(v1.PROVIDERS_DISABLE, provider_id="unknown")
        assert (await listed())["spare"] == (False, None)
        assert "spare" not in providers.headers


async def test_an_entry_of_the_list_carries_what_is_attached_to_it(tmp_path: Path) -> None:
    agent = agent_with()
    store = MemoryStore()
    agent.persist_sessions(store)
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        session = await client.new()
        await store.update_info(session, meta={"example.com/pinned": True})
        assert (await client.sessions_page()).sessions[0].meta == {"example.com/pinned": True}
