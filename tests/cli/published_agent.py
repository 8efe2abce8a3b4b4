"""Agents that send exactly what published agents were seen to send; the first argument says which.

Speaks raw lines, and imports nothing of ours. Each kind names the agent and the version whose frames it repeats.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

COMMAND = "echo one; echo two; exit 3"
OPTIONS = [
    {"optionId": "approved", "name": "Yes, proceed", "kind": "allow_once"},
    {"optionId": "abort", "name": "No, and tell Codex what to do differently", "kind": "reject_once"},
]
MODES = {
    "currentModeId": "https://example.com/session-modes#agent",
    "availableModes": [
        {"id": "https://example.com/session-modes#agent", "name": "Agent"},
        {"id": "https://example.com/session-modes#plan", "name": "Plan first"},
        {"id": "https://example.com/other#plan", "name": "Other"},
        {"id": "acceptEdits", "name": "Accept edits"},
    ],
}

NUMBERS = itertools.count(1)


def send(**message: Any) -> None:
    write(message)
    sys.stdout.flush()


def write(message: Json) -> None:
    """Leave a message to the next flush: both arrive together."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def update(tag: str, /, **fields: Any) -> None:
    send(method="session/update", params={"sessionId": "s", "update": {"sessionUpdate": tag, **fields}})


def send_text(text: str) -> None:
    update("agent_message_chunk", content={"type": "text", "text": text})


def read() -> Json:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: Json = json.loads(line)
    return message


def ask(method: str, **params: Any) -> Json:
    """Ask the client, and wait for the answer."""
    number = f"a{next(NUMBERS)}"
    send(id=number, method=method, params={"sessionId": "s", **params})
    while True:
        message = read()
        if message.get("id") == number and "method" not in message:
            return message


def is_allowed(answer: Json) -> bool:
    return bool(answer["result"]["outcome"].get("optionId") == "approved")


# --- turns, by kind: each returns the answer to the prompt


def zed_codex() -> Json:
    """codex-acp 0.16 of Zed: the question names the decisions there are, and a refusal cancels the turn."""
    call = {"toolCallId": "call_1", "title": COMMAND, "kind": "execute"}
    update("tool_call", **call, status="in_progress", rawInput={"command": ["/bin/bash", "-lc", COMMAND]})
    reason = "Proposed Amendment: exit\n3\nAvailable Decisions: Approved\nAbort"
    content = [{"type": "content", "content": {"type": "text", "text": reason}}]
    raw = {"command": ["/bin/bash", "-lc", COMMAND], "available_decisions": ["approved", "abort"]}
    answer = ask(
        "session/request_permission",
        toolCall={**call, "status": "pending", "content": content, "rawInput": raw},
        options=OPTIONS,
    )
    if not is_allowed(answer):
        return {"stopReason": "cancelled"}
    printed = {"stdout": "one\ntwo\n", "stderr": "", "aggregated_output": "one\ntwo\n", "exit_code": 3}
    update("tool_call_update", toolCallId="call_1", status="failed", rawOutput={**printed, "status": "failed"})
    send_text("done")
    return {"stopReason": "end_turn"}


def gemini_cli() -> Json:
    """gemini 0.61: it reads before it creates, and any error answer ends the tool; the diff comes with the question."""
    path = str(Path.cwd() / "new.txt")
    call = {"toolCallId": "write_file-1", "title": "Writing to new.txt", "kind": "edit", "locations": [{"path": path}]}
    before = ask("fs/read_text_file", path=path)
    if "error" in before:
        text = {"type": "content", "content": {"type": "text", "text": "[object Object]"}}
        update("tool_call_update", toolCallId="write_file-1", status="failed", content=[text], kind="edit")
        return {"stopReason": "end_turn"}
    diff = {"type": "diff", "path": path, "oldText": "", "newText": "made\n", "_meta": {"kind": "add"}}
    question = {**call, "status": "pending", "content": [diff]}
    if is_allowed(ask("session/request_permission", toolCall=question, options=OPTIONS)):
        ask("fs/write_text_file", path=path, content="made\n")
        update("tool_call_update", **call, status="completed", content=[])
    send_text("done")
    return {"stopReason": "end_turn"}


def codex() -> Json:
    """codex-acp 2.6: the output and the end of a command are in the `_meta` of its tool call."""
    call = {"toolCallId": "call_1", "name": "exec_command", "kind": "execute", "title": COMMAND}
    shown = [{"type": "terminal", "terminalId": "call_1"}]
    info = {"terminal_info": {"cwd": str(Path.cwd()), "terminal_id": "call_1"}}
    update("tool_call", **call, status="in_progress", content=shown, rawInput={"command": COMMAND}, _meta=info)
    ended = {
        "terminal_output_delta": {"data": "one\ntwo\n", "terminal_id": "call_1"},
        "terminal_exit": {"exit_code": 3, "signal": None, "terminal_id": "call_1"},
    }
    update("tool_call_update", toolCallId="call_1", status="failed", _meta=ended)
    send_text("done")
    return {"stopReason": "end_turn"}


def codex_unshown() -> Json:
    """codex-acp 2.6: a command that only reads shows no terminal, and has one all the same."""
    update("tool_call", toolCallId="call_1", kind="read", title="Read file", status="in_progress")
    printed = {"terminal_output_delta": {"data": "cat: no such file\n", "terminal_id": "call_1"}}
    update("tool_call_update", toolCallId="call_1", status="failed", rawOutput={"exit_code": 1}, _meta=printed)
    send_text("done")
    return {"stopReason": "end_turn"}


def codex_failed() -> Json:
    """codex-acp 2.6: a failed call of the model is a message to the user, and the turn ends like any other."""
    for status in ("active", "systemError"):
        update("session_info_update", _meta={"codex": {"threadStatus": {"type": status}}})
    send_text('{"error": {"message": "the model exploded", "type": "invalid_request_error"}}\n\n')
    update("session_info_update", title="go")
    return {"stopReason": "end_turn", "_meta": {"quota": {"token_count": None, "model_usage": []}}}


def left_open() -> Json:
    """Never report how the tool call ended."""
    update("tool_call", toolCallId="t", kind="execute", title="make", status="in_progress")
    send_text("It is built.")
    return {"stopReason": "end_turn"}


def plain() -> Json:
    send_text("hello")
    return {"stopReason": "end_turn"}


def concurrent() -> Json:
    """Reject a prompt during another one with -32000, as the Java SDK does."""
    return {"code": -32000, "message": "There is already an active prompt execution"}


def cancelled() -> Json:
    return {"stopReason": "cancelled"}


TURNS = {
    "codex-failed": codex_failed,
    "codex": codex,
    "codex-unshown": codex_unshown,
    "left-open": left_open,
    "gemini-cli": gemini_cli,
    "cancelled": cancelled,
    "zed-codex": zed_codex,
    "concurrent": concurrent,
}


# --- everything else


def initialize(kind: str) -> Json:
    capabilities: Json = {}
    if kind == "resume-missing":
        capabilities = {"loadSession": True, "sessionCapabilities": {"list": {}, "resume": {}}}
    elif kind in ("gemini-cli", "replays-on"):
        capabilities = {"loadSession": True, "sessionCapabilities": {"list": {}}}
    info = {"name": kind, "title": kind.title(), "version": "1.0.0"}
    return {"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": info}


def new(kind: str, number: Any) -> None:
    if kind == "early":
        update("available_commands_update", availableCommands=[{"name": "plan", "description": "Plan."}])
        send_text("before the answer;")
    send(id=number, result={"sessionId": "s", **({"modes": MODES} if kind == "modes" else {})})


def answer(kind: str, message: Json) -> None:
    number = message["id"]
    match message["method"]:
        case "initialize":
            send(id=number, result=initialize(kind))
        case "session/new":
            new(kind, number)
        case "session/list":
            send(id=number, result={"sessions": [{"sessionId": "s", "cwd": message["params"]["cwd"]}]})
        case "session/resume" if kind == "resume-missing":
            send(id=number, error={"code": -32601, "message": '"Method not found": session/resume'})
        case "session/load" if kind == "gemini-cli":  # 0.61 repeats the session after its answer
            send(id=number, result={})
            for text in ("said ", "long ", "ago"):
                send_text(text)
        case "session/load":
            send_text("said long ago")
            if kind == "replays-on":  # in one write with what follows, so that no prompt can come between them
                write({"id": number, "result": {}})
                send_text("and this")
            else:
                send(id=number, result={})
        case "session/set_mode":
            send_text(message["params"]["modeId"])
            send(id=number, result={})
        case "session/prompt":
            ended = TURNS.get(kind, plain)()
            send(id=number, **({"error": ended} if "code" in ended else {"result": ended}))
        case _:
            send(id=number, result={})


def requests() -> Iterator[Json]:
    while True:
        message = read()
        if "method" in message and "id" in message:
            yield message


if __name__ == "__main__":
    for request in requests():
        answer(sys.argv[1], request)
