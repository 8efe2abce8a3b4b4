"""The turns of the faulty agent."""

# Messages are JSON without types here.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from tests.conformance.faulty_agent import BIG, CHUNKS, Connection, Json, Refused, StoredSession, handles
from tests.conformance.faulty_agent_methods import known_session

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
REQUIRED = {"text": "text", "resource_link": "uri"}


class Turn:
    """One turn: what it sends, and how it ends."""

    def __init__(self, connection: Connection, session: StoredSession, number: int, words: list[str]) -> None:
        self.connection = connection
        self.session = session
        self.number = number
        self.words = words

    def faulty(self, *names: str) -> bool:
        return self.connection.faulty(*names)

    def say(self, text: str, *, keep: bool = True) -> None:
        content = {"type": "text", "text": text}
        message = f"answer-{self.number}"
        if self.faulty("whole messages repeat chunks"):
            self.connection.update(self.session, "agent_message_chunk", keep=False, messageId=message, content=content)
            self.connection.update(self.session, "agent_message", keep=keep, messageId=message, content=[content])
        else:
            self.connection.update(self.session, "agent_message_chunk", keep=keep, messageId=message, content=content)

    def tool(self, status: str, *, is_new: bool = False, **fields: object) -> None:
        kind = "tool_call" if is_new and self.connection.version == 1 else "tool_call_update"
        shown: Json = {"title": "A tool", **fields} if is_new else {**fields}
        self.connection.update(self.session, kind, toolCallId=self.tool_id, status=status, **shown)

    @property
    def tool_id(self) -> str:
        return f"tool-{self.number}"

    def client_has(self, *path: str) -> bool:
        value: object = self.connection.client
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value is True or isinstance(value, dict)

    async def ask(self, method: str, **params: object) -> Json:
        return await self.connection.ask(method, {"sessionId": self.session.id, **params})

    async def may(self) -> bool:
        """Return True if the client allows the tool call."""
        self.tool("pending", is_new=True)
        if self.connection.version == 1:
            subject: Json = {"toolCall": {"toolCallId": self.tool_id, "title": "A tool"}}
        else:
            call = {"toolCallId": self.tool_id, "title": "A tool"}
            subject = {"title": "A tool", "subject": {"type": "tool_call", "toolCall": call}}
        answer = await self.ask("session/request_permission", options=OPTIONS, **subject)
        outcome = answer.get("result", {}).get("outcome", {})
        option = outcome.get("optionId")
        is_allowed = bool(outcome.get("outcome") == "selected" and option == "yes")
        if self.faulty("runs rejected tools"):
            is_allowed = is_allowed or option == "no" or outcome.get("outcome") == "cancelled"
        elif self.faulty("unknown outcome allows"):
            is_allowed = is_allowed or (option != "no" and outcome.get("outcome") != "cancelled" and "result" in answer)
        if not is_allowed:
            self.tool("failed")
        return is_allowed


Act: TypeAlias = Callable[[Turn], Awaitable[None]]


async def answer(turn: Turn) -> None:
    turn.say("hello")


async def wait(turn: Turn) -> None:
    turn.say("working")
    try:
        await asyncio.Event().wait()
    finally:
        turn.say("stopped")


async def permission(turn: Turn) -> None:
    if await turn.may() and not turn.faulty("approved tool unfinished"):
        turn.tool("completed")
    turn.say("done")


def _read(path: str) -> str:
    return Path(path).read_text("utf-8")


def _write(path: str) -> None:
    Path(path).write_text("changed", "utf-8")


async def read_file(turn: Turn) -> None:
    is_asked = turn.client_has("fs", "readTextFile") and turn.connection.version == 1
    if turn.faulty("malformed capability used") and turn.connection.client.get("fs") == "x":
        is_asked = True
    if is_asked or turn.faulty("reads without capability"):
        result = await turn.ask("fs/read_text_file", path=turn.words[1])
        turn.say(str(result.get("result", {}).get("content", "")))
    else:
        turn.say(_read(turn.words[1]))


async def write_file(turn: Turn) -> None:
    if not await turn.may():
        return
    if turn.client_has("fs", "writeTextFile") and turn.connection.version == 1:
        await turn.ask("fs/write_text_file", path=turn.words[1], content="changed")
    else:
        _write(turn.words[1])
    turn.tool("completed")


async def terminal(turn: Turn) -> None:
    if not turn.client_has("terminal") and not turn.faulty("terminal without capability"):
        turn.say("there is no terminal")
        return
    created = await turn.ask("terminal/create", command="echo", args=["hello"])
    name = created.get("result", {}).get("terminalId")
    turn.tool("in_progress", is_new=True, content=[{"type": "terminal", "terminalId": name}])
    await turn.ask("terminal/wait_for_exit", terminalId=name)
    if not turn.faulty("terminal not released"):
        await turn.ask("terminal/release", terminalId=name)
    turn.tool("completed")


async def _elicit(turn: Turn, mode: str, **fields: object) -> None:
    if not turn.client_has("elicitation", mode) and not turn.faulty("elicitation without capability"):
        turn.say("it cannot be asked")
        return
    response = await turn.ask("elicitation/create", mode=mode, message="A question", **fields)
    if turn.faulty("fails after decline") and response.get("result", {}).get("action") == "decline":
        raise Refused(-32603, "declined")
    if turn.faulty("turn fails with its form") and "error" in response:
        raise Refused(-32603, "the form failed")
    if turn.faulty("declined addresses are completed") and mode == "url":
        message = {"method": "elicitation/complete", "params": {"elicitationId": fields["elicitationId"]}}
        turn.connection.send(message)
    turn.say("asked")


async def form(turn: Turn) -> None:
    await _elicit(turn, "form", requestedSchema=FORM)


async def url(turn: Turn) -> None:
    await _elicit(turn, "url", elicitationId=f"url-{turn.session.id}-{turn.number}", url="https://example.com/")


async def notice(turn: Turn) -> None:
    if (
        turn.connection.version == 2
        or turn.client_has("session", "notices")
        or turn.faulty("notice without capability")
    ):
        is_stored = turn.faulty("notices replayed")
        turn.connection.update(turn.session, "notice", keep=is_stored, severity="info", title="A notice")


async def compaction(turn: Turn) -> None:
    if turn.connection.version == 2 or turn.client_has("session", "compaction"):
        for status in ("in_progress", "completed"):
            name = f"compaction-{turn.number}"
            turn.connection.update(turn.session, "compaction_update", compactionId=name, status=status)


async def cwd(turn: Turn) -> None:
    turn.say("/somewhere/else" if turn.faulty("own cwd") else turn.session.cwd)


async def roots(turn: Turn) -> None:
    turn.say(f"roots: {', '.join(turn.session.roots)}")


async def plan(turn: Turn) -> None:
    if turn.faulty("exits in a turn"):
        await turn.connection.transport.aclose()
    entries = [{"content": "one step", "priority": "medium", "status": "completed"}]
    if turn.connection.version == 1:
        turn.connection.update(turn.session, "plan", entries=entries)
    else:
        shown = {"type": "items", "planId": f"plan-{turn.number}", "entries": entries}
        turn.connection.update(turn.session, "plan_update", plan=shown)


async def big(turn: Turn) -> None:
    turn.say("x" * BIG, keep=False)


async def stream(turn: Turn) -> None:
    for number in range(CHUNKS):
        turn.say(f"{number:>400}", keep=False)
        await asyncio.sleep(0)  # a fast client reads meanwhile


ACTS: dict[str, Act] = {
    "answer": answer, "long": wait, "permission": permission, "read": read_file, "write": write_file,
    "terminal": terminal, "form": form, "url": url, "notice": notice, "compaction": compaction, "cwd": cwd,
    "roots": roots, "plan": plan, "big": big, "stream": stream,
}  # fmt: skip


@handles("session/prompt")
async def prompt(connection: Connection, id_: object, params: Json) -> None:
    if connection.faulty("prompt is missing"):
        raise Refused(-32601, "session/prompt")
    name = params.get("sessionId")
    if connection.faulty("unknown session prompted") and name and name not in connection.agent.sessions:
        connection.respond(id_, error={"code": -32603, "message": "what session?"})
        return
    session = known_session(connection, params)
    blocks = params.get("prompt") or []
    for block in blocks:
        field = REQUIRED.get(str(block.get("type")), "type")
        if field not in block and not connection.faulty("malformed blocks accepted"):
            raise Refused(-32602, field)
        if connection.faulty("links refused") and block.get("type") == "resource_link":
            raise Refused(-32602, "no links")
    if session.turns and connection.faulty("second prompt lost"):
        return
    connection.agent.turns += 1
    words = str(blocks[0].get("text", "")).split(maxsplit=1) if blocks else []
    turn = Turn(connection, session, connection.agent.turns, words)
    before = list(session.turns)
    task = asyncio.current_task()
    assert task is not None
    session.turns.append(task)
    connection.prompts[id_] = task
    try:
        if connection.version == 1:
            await _run_v1(turn, id_, blocks, before)
        else:
            await _run_v2(turn, id_, blocks, before)
    finally:
        session.turns.remove(task)
        connection.prompts.pop(id_, None)


async def _act(turn: Turn, before: list[asyncio.Task[None]]) -> str:
    """Do what the prompt says after the turns before it; return the stop reason."""
    try:
        if turn.session.options.pop("cancelled", False):
            return "cancelled"
        await asyncio.gather(*before, return_exceptions=True)
        await ACTS.get(turn.words[0] if turn.words else "", answer)(turn)
    except asyncio.CancelledError:
        if turn.faulty("cancelled turn fails"):
            raise Refused(-32603, "cancelled") from None
        return "end_turn" if turn.faulty("wrong reason after cancel") else "cancelled"
    return "done" if turn.faulty("unknown stop reason") else "end_turn"


async def _run_v1(turn: Turn, id_: object, blocks: list[Json], before: list[asyncio.Task[None]]) -> None:
    connection = turn.connection
    for block in blocks:
        turn.session.history.append({"sessionUpdate": "user_message_chunk", "content": _plain(block)})
    reason = await _act(turn, before)
    if connection.faulty("cancelled request unanswered") and reason == "cancelled":
        return
    connection.respond(id_, result={"stopReason": reason})
    if connection.faulty("late update") or (connection.faulty("late update after cancel") and reason == "cancelled"):
        turn.say("one more thing")


async def _run_v2(turn: Turn, id_: object, blocks: list[Json], before: list[asyncio.Task[None]]) -> None:
    connection, session = turn.connection, turn.session
    message = f"message-{turn.number}"
    if connection.faulty("late ready state") and not session.history:
        connection.update(session, "state_update", keep=False, state="idle")
    connection.respond(id_, result={} if connection.faulty("no message id") else {"messageId": message})
    shown = "other" if connection.faulty("other message id") else message
    connection.update(session, "user_message", messageId=shown, content=[_plain(each) for each in blocks])
    if not connection.faulty("no running state"):
        connection.update(session, "state_update", keep=False, state="running")
    try:
        reason = await _act(turn, before)
    except Refused as error:
        failed = {"state": "idle", "stopReason": "error", "error": error.error}
        connection.update(session, "state_update", keep=False, **failed)
        return
    if connection.faulty("never idle") and reason == "end_turn":
        return
    connection.update(session, "state_update", keep=False, state="idle", stopReason=reason)
    if connection.faulty("late update after cancel") and reason == "cancelled":
        turn.say("one more thing")


def _plain(block: Json) -> Json:
    """Return a block without what the client should not have sent."""
    known = ("type", "text", "uri", "name")
    return {name: value for name, value in block.items() if name in known}
