from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from duologue.conversation.content import (
    Annotations,
    AudioContent,
    Content,
    ImageContent,
    Resource,
    ResourceLink,
    TextContent,
    UnknownContent,
)
from duologue.conversation.session_setup import AcpMcpServer, UnknownMcpServer
from duologue.errors import McpBackendFailed, McpServerUnavailable
from duologue.mcp.servers import RESTART_PAUSES, McpServers
from tests.mcp.server_processes import real, small


async def test_a_server_made_with_the_sdk_is_started_listed_and_called() -> None:
    async with asyncio.timeout(60), McpServers([real()]) as servers:
        await servers.ready()
        tools = {tool.name: tool for tool in servers.tools}
        result = await tools["add"](a=1, b=2)

        assert (servers.states, servers.errors) == ({"real": "ready"}, {})
        assert tools["add"].description == "Add two numbers."
        assert set(tools["add"].input_schema["properties"]) == {"a", "b"}
        assert (result.text, result.structured_content, result.is_error) == ("3", {"result": 3}, False)

        shown = await tools["show"]()
        _assert_every_kind_came_through(shown.content)
        assert shown.structured_content == {"kinds": 5}
        assert (shown.meta or {})["seen"] is True

        failed = await tools["fail"](reason="because")
        assert failed.is_error

        steps: list[tuple[float, float | None, str | None]] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            steps.append((progress, total, message))

        counted = await servers.call("real", "count", {"to": 3}, on_progress=on_progress)
        assert counted.text == "counted to 3"
        assert steps == [(1, 3, "at 1"), (2, 3, "at 2"), (3, 3, "at 3")]

    assert servers.states == {"real": "closed"}


def _assert_every_kind_came_through(content: list[Content]) -> None:
    text, image, audio, link, resource = content
    assert text == TextContent("words", annotations=Annotations(audience=["user"], priority=0.5))
    assert isinstance(image, ImageContent)
    assert (image.mime_type, image.meta) == ("image/png", {"camera": "none"})
    assert isinstance(audio, AudioContent)
    assert link == ResourceLink("file:///a.txt", "a.txt", mime_type="text/plain", size=3)
    assert resource == Resource("file:///b.txt", text="inside")


async def test_content_of_an_unknown_kind_is_kept() -> None:
    async with asyncio.timeout(60), McpServers([small()]) as servers:
        result = await servers.call("small", "odd")

    assert result.content == [UnknownContent({"type": "hologram", "data": 7}), TextContent("t")]
    assert (result.raw["x"], result.raw["content"][1]["new"]) == (1, [1])


async def test_a_call_waits_for_a_server_that_is_still_starting() -> None:
    async with asyncio.timeout(60), McpServers([small()]) as servers:
        assert servers.states == {"small": "starting"}
        result = await servers.call("small", "echo", {"word": "hé\u2028llo"})

    assert json.loads(result.text) == {"word": "hé\u2028llo"}


async def test_a_list_of_tools_in_pages_is_read_to_its_end() -> None:
    async with asyncio.timeout(60), McpServers([small(name="whole"), small("paged", name="paged")]) as servers:
        await servers.ready()

        by_server = {name: [tool.name for tool in servers.tools if tool.server == name] for name in ("whole", "paged")}
        assert len(by_server["paged"]) > 3
        assert by_server["paged"] == by_server["whole"]


async def test_a_list_of_tools_that_never_ends_is_an_error_of_that_server() -> None:
    async with asyncio.timeout(60), McpServers([small("endless")]) as servers:
        await servers.ready()

        assert servers.errors == {"small": "its list of tools has more than 1000 pages"}


async def test_a_server_without_tools_is_ready_all_the_same() -> None:
    async with asyncio.timeout(60), McpServers([small("no-tools")]) as servers:
        await servers.ready()

        assert (servers.states, servers.tools) == ({"small": "ready"}, [])


async def test_a_server_that_does_not_list_its_tools_is_reported() -> None:
    async with asyncio.timeout(60), McpServers([small("mute")]) as servers:
        await servers.ready()

        assert servers.errors == {"small": "I do not tell"}


async def test_when_a_changed_list_cannot_be_had_the_old_one_stands(caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.timeout(60), McpServers([small()]) as servers:
        await servers.ready()
        before = [tool.fingerprint for tool in servers.tools]
        await servers.call("small", "rename", {"and": "hush"})
        while "MCP server 'small' failed to list its tools again: 'I do not tell'" not in caplog.text:
            await servers.call("small", "echo")

        assert [tool.fingerprint for tool in servers.tools] == before


async def test_without_the_sdk_every_server_is_reported_and_the_session_lives() -> None:
    program = """if True:
        import asyncio, sys
        sys.modules["mcp"] = None
        from duologue.conversation.session_setup import StdioMcpServer
        from duologue.mcp.servers import McpServers

        async def main():
            async with McpServers([StdioMcpServer(name="any", command="true")]) as servers:
                await servers.ready()
                print(servers.errors)

        asyncio.run(main())
    """
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=subprocess.PIPE)
    output, _ = await asyncio.wait_for(process.communicate(), 20)

    assert b"'any': 'MCP needs the official SDK; install duologue[mcp]" in output


def test_the_sdk_is_not_loaded_before_a_server_is_started() -> None:
    code = (
        "import sys, duologue.mcp.servers, duologue.mcp.tool_server.server; "
        "print([m for m in sys.modules if m == 'mcp'])"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True).stdout == b"[]\n"


async def test_an_error_answer_names_the_server_and_keeps_its_code() -> None:
    async with asyncio.timeout(60), McpServers([small()]) as servers:
        with pytest.raises(McpBackendFailed, match="MCP server 'small': no such method") as caught:
            await servers.call("small", "refuse")

    assert caught.value.data == {"code": -32601, "message": "no such method", "data": None}


async def test_a_tool_that_does_not_answer_in_time_fails_and_the_server_lives_on() -> None:
    async with asyncio.timeout(60), McpServers([small()], call_timeout=0.1) as servers:
        with pytest.raises(McpBackendFailed, match=r"did not answer within 0\.1 s"):
            await servers.call("small", "wait")

        assert (await servers.call("small", "echo", timeout=10)).text == "{}"


async def test_a_cancelled_call_ends_and_the_server_lives_on() -> None:
    async with asyncio.timeout(60), McpServers([small()]) as servers:
        await servers.ready()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await servers.call("small", "wait")

        assert (await servers.call("small", "echo")).text == "{}"


async def test_many_calls_at_once_get_their_own_answers() -> None:
    async with asyncio.timeout(60), McpServers([small()]) as servers:
        results = await asyncio.gather(*(servers.call("small", "echo", {"n": n}) for n in range(100)))

    assert [json.loads(result.text)["n"] for result in results] == list(range(100))


async def test_a_server_that_was_not_named_is_unavailable() -> None:
    async with asyncio.timeout(60), McpServers([]) as servers:
        await servers.ready()
        with pytest.raises(McpServerUnavailable, match="no MCP server is called 'ghost'"):
            await servers.call("ghost", "echo")


async def test_servers_that_are_not_running_are_unavailable() -> None:
    servers = McpServers([small()])
    with pytest.raises(McpServerUnavailable, match="do not run"):
        await servers.call("small", "echo")

    async with servers:
        pass
    await servers.aclose()

    with pytest.raises(McpServerUnavailable, match="do not run"):
        await servers.call("small", "echo")


async def test_a_way_to_reach_a_server_that_is_not_known_is_an_error_of_that_server() -> None:
    strange = UnknownMcpServer(name="strange", fields={"type": "telepathy"})
    inside = AcpMcpServer(name="inside", server_id="s1")

    async with asyncio.timeout(60), McpServers([strange, inside]) as servers:
        await servers.ready()

        assert servers.errors == {
            "strange": "unknown type of MCP server",
            "inside": "the server runs in the client, which does not support MCP over ACP",
        }


@pytest.mark.fault("MCP-08")
async def test_a_server_that_gives_a_tool_another_meaning_has_a_new_tool() -> None:
    changes: asyncio.Queue[str] = asyncio.Queue()

    async with asyncio.timeout(60), McpServers([small()], on_change=changes.put_nowait) as servers:
        await servers.ready()
        assert await changes.get() == "small"
        approved = {tool.name: tool for tool in servers.tools}["echo"]
        await servers.call("small", "rename")
        assert await changes.get() == "small"

        now = {tool.name: tool for tool in servers.tools}["echo"]
        assert now.description == "does something else now"
        assert now.fingerprint != approved.fingerprint


async def test_a_server_of_the_newer_kind_reports_new_tools_to_subscribers() -> None:
    changes: asyncio.Queue[str] = asyncio.Queue()

    async with asyncio.timeout(60), McpServers([real()], on_change=changes.put_nowait) as servers:
        await changes.get()
        await servers.call("real", "grow")
        await changes.get()

        assert "grown" in {tool.name for tool in servers.tools}
        assert (await servers.call("real", "grown")).text == "new"


async def test_a_callback_that_fails_does_not_stop_the_servers(caplog: pytest.LogCaptureFixture) -> None:
    def on_change(name: str) -> None:
        raise ValueError(name)

    async with asyncio.timeout(60), McpServers([small()], on_change=on_change) as servers:
        assert (await servers.call("small", "echo")).text == "{}"

    assert "the callback for a changed MCP server failed" in caplog.text


def test_each_pause_before_a_restart_is_longer_than_the_one_before() -> None:
    assert len(RESTART_PAUSES) == 3
    assert list(RESTART_PAUSES) == sorted(set(RESTART_PAUSES))
