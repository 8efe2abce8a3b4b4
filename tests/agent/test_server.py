"""An agent on the network: as a web application, as a program, and for several people who never meet."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import sys
import textwrap
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from duologue import Agent, Turn, connect
from duologue.agent.hosting.tenants import OWN, SHARED, PerCallerAgents
from duologue.builtin.agent import builtin_agent
from duologue.protocol.values import Provider
from duologue.store.base import Store
from duologue.store.memory import MemoryStore
from duologue.store.sqlite.store import SqliteStore
from duologue.transports.server.run import ServerAddress, serve
from tests.transports.server.servers import Json, RawHttpClient, RunningServer, Socket, http_client_to, socket_to

USERS = {"ann-token": "ann", "bob-token": "bob"}
PROMPT = [{"type": "text", "text": "hello"}]


@asynccontextmanager
async def online(agent: Agent[Any], **options: Any) -> AsyncGenerator[RunningServer]:
    app = agent.asgi(**options)
    async with serve(app, ServerAddress()) as port:
        yield RunningServer(app, port)


async def new_session(socket: Socket) -> str:
    await socket.initialize()
    answer = await socket.ask(1, "session/new", {"cwd": "/", "mcpServers": []})
    session: str = answer["result"]["sessionId"]
    return session


async def test_our_client_talks_to_it_over_both_transports() -> None:
    async with online(builtin_agent(), token="secret") as server:
        for url in (server.ws, server.http):
            async with connect(url, token="secret") as agent:
                turn = await (await agent.new_session("/")).prompt("hello")

                assert turn.stop_reason == "end_turn"


@pytest.mark.fault("GWY-01")
@pytest.mark.parametrize("keeps", [True, False])
async def test_the_sessions_of_others_do_not_exist(keeps: bool, tmp_path: Path) -> None:
    agent = builtin_agent(tmp_path / "kept" if keeps else None, unstable=True)
    async with (
        online(agent, authenticate=USERS.get) as server,
        socket_to(server, "ann-token") as ann,
        socket_to(server, "bob-token") as bob,
    ):
        of_ann = await new_session(ann)
        await ann.ask(2, "session/prompt", {"sessionId": of_ann, "prompt": PROMPT})
        of_bob = await new_session(bob)
        setup: Json = {"cwd": "/", "mcpServers": []}
        tried: list[tuple[str, Json]] = [
            ("session/load", setup),
            ("session/resume", setup),
            ("session/fork", setup),
            ("session/prompt", {"prompt": PROMPT}),
            ("session/close", {}),
            ("session/set_mode", {"modeId": "code"}),
            ("session/status", {}),
            ("session/archive", {}),
            ("session/set_title", {"title": "mine"}),
        ]
        for number, (method, params) in enumerate(tried, 10):
            foreign = await bob.ask(number, method, {"sessionId": of_ann, **params})
            unknown = await bob.ask(number, method, {"sessionId": "sess_" + "0" * 32, **params})

            assert foreign["error"]["code"] == -32002, method
            assert foreign["error"]["message"].replace(of_ann, "") == unknown["error"]["message"].replace(
                "sess_" + "0" * 32, ""
            )
        await bob.ask(50, "session/delete", {"sessionId": of_ann})
        await bob.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": of_ann}})
        listed = await bob.ask(51, "session/list", {})
        still = await ann.ask(3, "session/list", {})
        answer = await ann.ask(4, "session/prompt", {"sessionId": of_ann, "prompt": PROMPT})

    assert [session["sessionId"] for session in listed["result"]["sessions"]] in ([of_bob], [])
    assert [session["sessionId"] for session in still["result"]["sessions"]] == [of_ann]
    assert answer["result"]["stopReason"] == "end_turn"


async def test_an_agent_speaks_the_dialect_of_its_clients_on_the_network_too() -> None:
    agent: Agent[Any] = Agent("old", dialect="seed-004")

    @agent.on_prompt
    async def answer(turn: Turn[Any]) -> None:
        await turn.say(turn.text)

    async with (
        online(agent, token="secret") as server,
        socket_to(server, "secret") as socket,
        http_client_to(server, "secret") as client,
    ):
        for welcome in (await socket.initialize(), await client.initialize()):
            assert (welcome["authenticationMethods"], "authMethods" in welcome) == ([], False)
        for url in (server.ws, server.http):
            async with connect(url, token="secret", dialect="seed-004") as remote, remote.new_session("/") as session:
                assert await session.ask("hello") == "hello"


@pytest.mark.fault("GWY-03")
async def test_an_id_is_no_proof_of_identity() -> None:
    async with (
        online(builtin_agent(), authenticate=USERS.get) as server,
        http_client_to(server, "ann-token") as ann,
        http_client_to(server, "bob-token") as bob,
        http_client_to(server, None) as anonymous,
        socket_to(server, "bob-token") as socket,
    ):
        await ann.initialize({"duologue/resume": {"version": 1}})
        statuses: list[int] = []
        for thief in (bob, anonymous):
            thief.id = ann.id
            statuses += [await _listen(thief), (await thief.post(b"{}")).status_code, await thief.delete()]
        await socket.send(
            {"jsonrpc": "2.0", "method": "_duologue/resume", "params": {"connectionId": ann.id, "received": 0}}
        )

        assert statuses == [404, 400, 404, 401, 401, 401]
        assert (await socket.next())["method"] == "_duologue/lost"


async def _listen(client: RawHttpClient) -> int:
    async with client.listen() as events:
        return events.status


async def test_a_caller_finds_the_sessions_of_yesterday(tmp_path: Path) -> None:
    listed: list[Json] = []
    for _ in range(2):
        async with (
            online(builtin_agent(tmp_path), authenticate=USERS.get) as server,
            socket_to(server, "ann-token") as ann,
        ):
            await ann.ask(2, "session/prompt", {"sessionId": await new_session(ann), "prompt": PROMPT})
            listed = (await ann.ask(3, "session/list", {}))["result"]["sessions"]

    assert len(listed) == 2


def test_names_of_callers_are_never_paths(tmp_path: Path) -> None:
    agent = builtin_agent(tmp_path)
    callers = PerCallerAgents(agent)
    directories: set[Path] = set()
    for name in ("..", ".", "a/b", "a", "", "ä"):
        store = callers(name).store
        assert isinstance(store, SqliteStore)
        directories.add(store.directory)

    assert {directory.parent for directory in directories} == {tmp_path / "callers"}
    assert len({directory.resolve() for directory in directories}) == 6


def test_callers_share_only_the_listed_attributes_of_an_agent() -> None:
    """A new attribute of `Agent` must be listed in `tenants`, so that callers share nothing by accident."""
    agent: Agent[Any] = Agent("x", store=MemoryStore())
    agent.use_providers(Provider(provider_id="main", supported=["openai"]))
    ann, bob = PerCallerAgents(agent), PerCallerAgents(agent)
    tenants = [agent, ann("ann"), ann("bob"), bob("ann")]

    assert set(vars(agent)) == set(SHARED) | set(OWN)
    for tenant in tenants:
        assert set(vars(tenant)) == set(vars(agent))
        assert {name: getattr(tenant, name) for name in SHARED} == {name: getattr(agent, name) for name in SHARED}
    for name in ("store", "_open_sessions"):
        assert len({id(getattr(tenant, name)) for tenant in tenants}) == len(tenants)
    assert [tenant._providers for tenant in tenants[1:]] == [None, None, None]


@pytest.mark.parametrize("name", SHARED)
def test_callers_share_only_configuration_and_registries_of_handlers(name: str) -> None:
    """Registries are filled by the author before the agent serves; nothing else that is shared can change."""
    value = vars(Agent[Any]("x"))[name]
    registries = ("_request_hooks", "_open_hooks", "_commands", "_extensions", "_auth_methods", "_meta")

    assert isinstance(value, list | dict | set) == (name in registries)


def test_an_own_store_class_needs_a_store_for_each_caller() -> None:
    class Own(MemoryStore): ...

    agent = Agent[Any]("x")
    agent.store = cast("Store", object())
    with pytest.raises(ValueError, match="store_for"):
        agent.asgi(authenticate=USERS.get)
    store = Own()

    assert PerCallerAgents(agent, lambda caller: store)("ann").store is store


def test_an_agent_without_a_store_has_none_for_any_caller() -> None:
    assert PerCallerAgents(Agent[Any]("x"))("ann").store is None


def test_a_registered_handler_serves_every_caller() -> None:
    agent = Agent[Any]("x")

    @agent.on_prompt
    async def answer(turn: Turn[Any]) -> None: ...

    callers = PerCallerAgents(agent)

    assert callers("ann")._prompt_handler is answer
    assert callers("ann") is callers("ann")
    assert callers("ann") is not callers("bob")


def test_a_token_is_made_and_printed_if_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    Agent[Any]("x").asgi()

    assert re.search(r"token [\w-]{43}$", capsys.readouterr().err)


@pytest.mark.parametrize("option", ["--ws", "--http"])
async def test_a_program_serves_on_the_network_with_the_option(option: str, tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(
        textwrap.dedent("""
        from duologue import Agent
        agent = Agent("echo")

        @agent.on_prompt
        async def answer(turn):
            await turn.say(turn.text)

        agent.cli()
        """)
    )
    process = await asyncio.create_subprocess_exec(sys.executable, str(program), option, "0", stderr=PIPE)
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            line = (await process.stderr.readline()).decode()
            found = re.fullmatch(r"echo is at ((?:ws|http)://127\.0\.0\.1:\d+/acp#token=[\w-]{43})\n", line)
            assert found, line
            async with connect(found[1]) as agent:
                turn = await (await agent.new_session("/")).prompt("hi")
            process.send_signal(signal.SIGTERM)
            code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()

    assert (turn.text, code) == ("hi", 0)


async def test_it_can_be_part_of_a_larger_application() -> None:
    """Mounted somewhere below the root of an application that runs on a web server of its own."""
    agent = builtin_agent()
    whole = Starlette(routes=[Mount("/agents/builtin", agent.asgi(token="secret"))])
    config = uvicorn.Config(whole, port=0, log_config=None, log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        for scheme in ("ws", "http"):
            async with connect(f"{scheme}://127.0.0.1:{port}/agents/builtin/acp", token="secret") as remote:
                turn = await (await remote.new_session("/")).prompt("hello")

                assert turn.stop_reason == "end_turn"
    finally:
        await server.shutdown()


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_an_invalid_port_is_an_error_of_the_command_line(
    port: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["agent.py", f"--ws={port}"])

    with pytest.raises(SystemExit, match="2"):
        Agent[Any]("echo").cli()
    assert f"argument --ws: '{port}' is not a port" in capsys.readouterr().err


def test_a_program_that_cannot_listen_says_so_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(sys, "argv", ["agent.py", "--ws", str(port)])

        with pytest.raises(SystemExit, match=f"echo: cannot listen on 127.0.0.1:{port}: Address already in use"):
            Agent[Any]("echo").cli()


def test_without_the_extra_a_program_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "duologue.agent.hosting.server"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "duologue.transports.server.auth", None)
    monkeypatch.setattr(sys, "argv", ["agent.py", "--http", "0"])

    with pytest.raises(SystemExit, match=re.escape("pip install 'duologue[remote]'")):
        Agent[Any]("echo").cli()
