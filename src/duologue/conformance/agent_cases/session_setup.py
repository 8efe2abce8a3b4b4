"""Cases about `session/new`: directories, MCP servers, system prompts."""

from __future__ import annotations

import sys

import msgspec

from duologue.conformance.agent_driver import DrivenAgent
from duologue.conformance.case import CaseSkipped, CheckCase, case
from duologue.conformance.checked_agent import AgentRun, describe
from duologue.conformance.raw_peer import Json, ReceivedMessage

INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND = -32602, -32600, -32601
MCP_SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    version = message.get("params", {}).get("protocolVersion", "2025-06-18")
    info = {"name": "duologue-check", "version": "1"}
    results = {
        "initialize": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info},
        "tools/list": {"tools": []},
    }
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": results.get(message["method"], {})}
    print(json.dumps(answer), flush=True)
"""
"""An MCP server without tools."""


async def _open(run: AgentRun, rule: int, agent: DrivenAgent, params: Json, what: str) -> ReceivedMessage:
    """Send `session/new` with parameters that may be wrong, and return the response."""
    id_ = agent.peer.next_id()
    agent.peer.send_invalid({"id": id_, "method": "session/new", "params": params})
    with run.judging(rule):
        return await agent.peer.response(id_, what)


@case("session-directory", 46, is_passive=False)
async def session_directory(run: AgentRun) -> None:
    """Open a session in a relative directory."""
    async with run.connect() as agent:
        await agent.new_session()
        response = await _open(run, 46, agent, agent.session_params(cwd="relative/path"), "a relative cwd")
        run.expect_error(46, response, "session/new with a relative cwd", INVALID_PARAMS)


@case("cwd-used", 48)
async def cwd_used(run: AgentRun) -> None:
    """Let the agent tell or use the directory of the session, which is not that of its process."""
    run.prompt("cwd")
    async with run.session() as (agent, session):
        with run.judging(48):
            end = await run.act(agent, session, "cwd")
        wire = b"".join(msgspec.json.encode(each.message) for each in agent.peer.received).decode()
        is_met = any(
            msgspec.json.encode(str(each)).decode()[1:-1] in wire for each in {run.directory, run.directory.resolve()}
        )
        run.expect(48, is_met, f"the cwd {run.directory} does not appear in the turn", end.response)


@case("mcp-servers", 50, 51, is_passive=False)
async def mcp_servers(run: AgentRun) -> None:
    """Open sessions with an MCP server without a type, with null for the list, and with a malformed server."""
    server: Json = {"name": "check", "command": sys.executable, "args": ["-c", MCP_SERVER], "env": []}
    async with run.connect() as agent:
        await agent.new_session()
        if run.version == 1:
            response = await _open(run, 50, agent, agent.session_params(mcpServers=[server]), "an MCP server")
            is_refused = response.code in (INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND)
            run.expect(50, not is_refused, f"an MCP server without `type`: got {describe(response)}", response)
        response = await _open(run, 51, agent, agent.session_params(mcpServers=None), "mcpServers: null")
        run.expect_result(51, response, "mcpServers: null")
        malformed = {"name": "check", "command": 5} if run.version == 1 else {"type": "stdio", "name": "check"}
        response = await _open(run, 51, agent, agent.session_params(mcpServers=[malformed]), "a malformed MCP server")
        run.expect_error(51, response, "a malformed MCP server", INVALID_PARAMS)


@case("new-session-order", 170)
async def new_session_order(run: AgentRun) -> None:
    """Open two sessions at the same time and look for messages about them before the responses."""
    async with run.connect() as agent:
        await agent.new_session()
        ids = [agent.peer.start_request("session/new", agent.session_params()) for _ in range(2)]
        for id_ in ids:
            with run.judging(170):
                response = await agent.peer.response(id_, "session/new")
            session = response.result.get("sessionId")
            position = agent.peer.received.index(response)
            early = [each for each in agent.peer.received[:position] if each.params.get("sessionId") == session]
            methods = ", ".join(each.update_kind or each.method for each in early)
            run.expect(170, not early, f"{methods} came before the response to session/new", *early)


@case("system-prompt", 155, is_passive=False)
async def system_prompt(run: AgentRun) -> None:
    """Open a session with a system prompt of an unknown mode."""
    async with run.connect() as agent:
        path = ("sessionCapabilities", "systemPrompt") if run.version == 1 else ("session", "systemPrompt")
        agent.require(*path)
        await agent.new_session()
        prompt = {"mode": "_duologue_unknown", "content": [{"type": "text", "text": "Answer in rhyme."}]}
        response = await _open(run, 155, agent, agent.session_params(systemPrompt=prompt), "a system prompt")
        run.expect_error(155, response, "a system prompt of an unknown mode")


@case("roots-not-restored", 54)
async def roots_not_restored(run: AgentRun) -> None:
    """Open a session with another root, then load or resume it without, and let the agent tell its roots."""
    text, root = run.prompt("roots"), run.directory / "another root"
    root.mkdir()
    async with run.connect() as agent:
        path = (
            ("sessionCapabilities", "additionalDirectories")
            if run.version == 1
            else ("session", "additionalDirectories")
        )
        agent.require(*path)
        method = "load" if agent.has_session_method("load") else "resume"
        agent.require_session_method(method, "close")
        session = await agent.new_session(additionalDirectories=[str(root)])
        before = await agent.prompt(session, text)
        if str(root) not in before.text:
            raise CaseSkipped(f"the agent does not tell its roots: it said {before.text!r}")
        await agent.peer.request("session/close", {"sessionId": session})
        with run.judging(54):
            await agent.peer.request(f"session/{method}", {"sessionId": session, **agent.session_params()})
            after = await agent.prompt(session, text)
        is_met = str(root) not in after.text
        run.expect(54, is_met, f"the session has the root {root} again, which the request did not name", after.last)


CASES: tuple[CheckCase[AgentRun], ...] = (
    session_directory,
    cwd_used,
    mcp_servers,
    new_session_order,
    system_prompt,
    roots_not_restored,
)
