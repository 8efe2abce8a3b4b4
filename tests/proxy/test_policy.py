"""The policy proxy: rules answer, the editor's user decides the rest, and everything is in the audit log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from duologue.proxy.policy import PolicyProxy
from tests.proxy.chain import Chain, chained, prompt

VERSIONS = pytest.mark.parametrize("version", [1, 2])
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def _question(version: int, cwd: Path, command: str) -> dict[str, Any]:
    tool = {"toolCallId": "t", "title": command, "kind": "execute", "rawInput": {"command": command}}
    if version == 1:
        return {"sessionId": "s", "toolCall": tool, "options": OPTIONS}
    subject = {"type": "tool_call", "toolCall": tool}
    return {"sessionId": "s", "title": command, "subject": subject, "options": OPTIONS}


def _decisions(audit: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(each["method"], each["decision"], each["by"]) for each in audit]


async def _ask(chain: Chain, id: str, params: dict[str, Any]) -> None:
    chain.agent.send(id=id, method="session/request_permission", params=params)


def _selected(option: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


@VERSIONS
async def test_rules_answer_permission_requests_and_the_user_decides_the_others(version: int, tmp_path: Path) -> None:
    audit: list[dict[str, Any]] = []
    rules = {"git status": "allow", "rm x": "reject", "*": "ask"}
    async with chained(PolicyProxy(agent="a", execute=rules, audit=audit.append)) as chain:
        await chain.initialize(version)
        await chain.open_session(str(tmp_path))
        await _ask(chain, "1", _question(version, tmp_path, "git status"))
        assert (await chain.agent.receive())["result"] == _selected("yes")
        await _ask(chain, "2", _question(version, tmp_path, "rm x"))
        assert (await chain.agent.receive())["result"] == _selected("no")

        asked = _question(version, tmp_path, "make")
        await _ask(chain, "3", asked)
        assert (await chain.client.receive())["params"] == asked
        chain.client.send(id="3", result=_selected("yes"))
        assert (await chain.agent.receive())["result"] == _selected("yes")
    method = "session/request_permission"
    assert _decisions(audit) == [(method, "allow", "rule"), (method, "reject", "rule"), (method, "allow", "user")]


async def test_files_and_commands_need_a_rule_or_a_tool_call_that_was_allowed(tmp_path: Path) -> None:
    audit: list[dict[str, Any]] = []
    async with chained(PolicyProxy(agent="a", audit=audit.append)) as chain:
        await chain.open_session(str(tmp_path))
        chain.client.send(id="p", **prompt("hi"))
        await chain.agent.receive()
        inside, outside = str(tmp_path / "a.txt"), "/etc/passwd"
        chain.agent.send(id="1", method="fs/read_text_file", params={"sessionId": "s", "path": inside})
        assert (await chain.client.receive())["method"] == "fs/read_text_file"
        chain.client.send(id="1", result={"content": ""})
        await chain.agent.receive()
        chain.agent.send(id="2", method="fs/read_text_file", params={"sessionId": "s", "path": outside})
        assert "not permitted by the rules" in (await chain.agent.receive())["error"]["message"]
        write = {"sessionId": "s", "path": inside, "content": "x"}
        chain.agent.send(id="3", method="fs/write_text_file", params=write)
        assert "not permitted by the rules" in (await chain.agent.receive())["error"]["message"]
        run: dict[str, Any] = {"sessionId": "s", "command": "make", "args": []}
        chain.agent.send(id="4", method="terminal/create", params=run)
        assert "not permitted by the rules" in (await chain.agent.receive())["error"]["message"]

        await _ask(chain, "5", _question(1, tmp_path, "make"))
        await chain.client.receive()
        chain.client.send(id="5", result=_selected("yes"))
        await chain.agent.receive()
        chain.agent.send(id="6", method="terminal/create", params=run)
        assert (await chain.client.receive())["method"] == "terminal/create"
        chain.agent.send(id="7", method="terminal/create", params=run)  # it was allowed once
        assert "not permitted" in (await chain.agent.receive())["error"]["message"]
    assert [each["decision"] for each in audit] == ["allow", "reject", "reject", "reject", "allow", "allow", "reject"]


async def test_a_permission_ends_with_its_turn(tmp_path: Path) -> None:
    async with chained(PolicyProxy(agent="a")) as chain:
        await chain.open_session(str(tmp_path))
        chain.client.send(id="p", **prompt("hi"))
        await chain.agent.receive()
        await _ask(chain, "1", _question(1, tmp_path, "make"))
        await chain.client.receive()
        chain.client.send(id="1", result=_selected("yes"))
        await chain.agent.receive()
        chain.agent.send(id="p", result={"stopReason": "end_turn"})
        await chain.client.receive()
        chain.agent.send(id="2", method="terminal/create", params={"sessionId": "s", "command": "make", "args": []})
        assert "not permitted" in (await chain.agent.receive())["error"]["message"]


async def test_an_earlier_update_counts_as_part_of_the_tool_call(tmp_path: Path) -> None:
    async with chained(PolicyProxy(agent="a", edit="reject")) as chain:
        await chain.open_session(str(tmp_path))
        change = {"type": "diff", "path": str(tmp_path / "a"), "oldText": "a", "newText": "b"}
        update = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "look", "kind": "read", "content": [change]}
        chain.agent.send(method="session/update", params={"sessionId": "s", "update": update})
        await chain.client.receive()
        await _ask(chain, "1", {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": OPTIONS})
        assert (await chain.agent.receive())["result"] == _selected("no")


async def test_a_request_about_an_unknown_session_is_blocked() -> None:
    async with chained(PolicyProxy(agent="a")) as chain:
        chain.agent.send(id="1", method="fs/read_text_file", params={"sessionId": "other", "path": "/x"})
        assert "the session is not known" in (await chain.agent.receive())["error"]["message"]


async def test_the_agent_cannot_open_a_session_itself(tmp_path: Path) -> None:
    async with chained(PolicyProxy(agent="a")) as chain:
        chain.agent.send(id="1", method="session/load", params={"sessionId": "s", "cwd": "/", "mcpServers": []})
        assert (await chain.client.receive())["method"] == "session/load"
        chain.agent.send(id="2", method="fs/read_text_file", params={"sessionId": "s", "path": "/etc/passwd"})
        assert "the session is not known" in (await chain.agent.receive())["error"]["message"]


async def test_a_loaded_session_and_its_subagents_have_its_directories(tmp_path: Path) -> None:
    async with chained(PolicyProxy(agent="a")) as chain:
        load: dict[str, Any] = {"sessionId": "s", "cwd": str(tmp_path), "mcpServers": []}
        chain.client.send(id="1", method="session/load", params=load)
        await chain.agent.receive()
        update = {"sessionUpdate": "subagent_update", "sessionId": "child", "title": "c"}
        chain.agent.send(method="session/update", params={"sessionId": "s", "update": update})
        await chain.client.receive()
        for session in ("s", "child"):
            path = str(tmp_path / "a")
            chain.agent.send(id=session, method="fs/read_text_file", params={"sessionId": session, "path": path})
            assert (await chain.client.receive())["method"] == "fs/read_text_file"


async def test_a_decision_that_cannot_be_recorded_is_none(tmp_path: Path) -> None:
    def fail(record: dict[str, Any]) -> None:
        raise OSError("the disk is full")

    async with chained(PolicyProxy(agent="a", audit=fail)) as chain:
        await chain.open_session(str(tmp_path))
        await _ask(chain, "1", _question(1, tmp_path, "make"))
        await chain.client.receive()
        chain.client.send(id="1", result={**_selected("yes"), "_meta": {"stays": 1}})
        assert (await chain.agent.receive())["result"] == {**_selected("no"), "_meta": {"stays": 1}}


@pytest.mark.parametrize("answer", [{"result": {"outcome": {"outcome": "cancelled"}}}, {"error": {"code": 1}}])
async def test_a_question_that_the_editor_cancels_or_fails_is_recorded_as_cancelled(
    answer: dict[str, Any], tmp_path: Path
) -> None:
    audit: list[dict[str, Any]] = []
    async with chained(PolicyProxy(agent="a", audit=audit.append)) as chain:
        await chain.open_session(str(tmp_path))
        await _ask(chain, "1", _question(1, tmp_path, "make"))
        await chain.client.receive()
        chain.client.send(id="1", **answer)
        await chain.agent.receive()
        await _ask(chain, "2", _question(1, tmp_path, "make"))
        await chain.client.receive()
        assert audit[0]["decision"] == "cancelled"


async def test_an_option_that_was_not_offered_is_blocked(tmp_path: Path) -> None:
    async with chained(PolicyProxy(agent="a")) as chain:
        await chain.open_session(str(tmp_path))
        await _ask(chain, "1", _question(1, tmp_path, "make"))
        await chain.client.receive()
        chain.client.send(id="1", result=_selected("everything"))
        assert "blocked" in (await chain.agent.receive())["error"]["message"]


async def test_rules_come_from_files(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[permissions]\nread = "reject"\n')
    rules.chmod(0o600)
    work = tmp_path / "work"
    work.mkdir()
    async with chained(PolicyProxy(rules, agent="a", audit=tmp_path / "audit.jsonl")) as chain:
        await chain.open_session(str(work))
        chain.agent.send(id="1", method="fs/read_text_file", params={"sessionId": "s", "path": str(work / "a")})
        assert "not permitted" in (await chain.agent.receive())["error"]["message"]
    record = json.loads((tmp_path / "audit.jsonl").read_text())
    assert (record["agent"], record["decision"], record["rule"]) == ("a", "reject", "read: *")
