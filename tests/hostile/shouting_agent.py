"""An agent that puts terminal attacks into every text it may send; the first argument says what else it does.

Speaks raw lines, and imports nothing of ours. Each text begins with a label of its own, so that a test can tell that it
was shown, and not only that it did nothing.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

Json = dict[str, Any]

ACTS = (
    "\x1b]52;c;cHduZWQ=\x07"  # clipboard
    "\x1b]0;pwned\x07\x9d2;pwned\x9c"  # title
    "\x1b[2J\x1b[3J\x1b[H\x9b2J\x1bc"  # screen
    "\x1b]8;;https://evil.example\x1b\\here\x1b]8;;\x1b\\"  # link
    "\x1b[6n\x1b[c\x1bP+q544e\x1b\\"  # questions that the terminal would answer by typing
    "\x1b[?1049h\x1b[?1000h\x1b(0\x1b[53m\x1b[8m"  # other screen, mouse, characters, looks
    "\x07\x08\x00\x7f\x85\rOVERWRITTEN"
    "\u202e\u2066\u200f\u061c\u2028\u200b\ufeff\U000e0041"
)
DECODED = (
    " <https://evil.example/%1b%5d52;c;cHduZWQ=%07%1b%5b2J%c2%9b2J%e2%80%ae>"
    " &#x1b;]0;pwned&#7; &#27;[2J &#x9b;2J &#x202e;&#8294; &rlm;&lrm;&shy;&ZeroWidthSpace;"
    " [https://good.example](https://evil.example/%1b%5d0;pwned%07 '&#27;]0;pwned&#7;')"
    " ![&#27;[2J](https://evil.example/%9b2J) `&#27;` <b\x1b[2J> **&#155;2J**"
)
"""Text that only a parser of Markdown turns into an attack."""
BLOCKS = (
    f"\n\n```{ACTS}\n{ACTS}\n```\n\n# &#27;[2J {ACTS}"
    f"\n\n| a&#27;[2J | {ACTS.replace(chr(13), '')} |\n|---|---|\n| &#27;[2J | 2 |"
    f"\n\n1. <https://evil.example/%1b%5b2J>\n> &#x202e;{ACTS}"
    f"\n\n    {ACTS}\n\n[x]: https://evil.example/%1b%5b2J\n\nend of blocks\n\n"
)


def bad(label: str) -> str:
    return f"{label}{ACTS}{DECODED}"


def send(**message: Any) -> None:
    # As few escapes as JSON allows: what is above ASCII arrives as it is.
    line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False)
    sys.stdout.buffer.write(line.encode("utf-8", "surrogatepass") + b"\n")
    sys.stdout.flush()


def update(**fields: Any) -> None:
    send(method="session/update", params={"sessionId": SESSION, "update": fields})


def text(label: str, more: str = "") -> Json:
    return {"type": "text", "text": bad(label) + more}


SESSION = bad("L-session")


def send_updates() -> None:
    update(sessionUpdate="agent_thought_chunk", content=text("L-thought"))
    update(sessionUpdate="agent_message_chunk", content=text("L-message", BLOCKS))
    for piece in (*ACTS, *DECODED):
        update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": piece})
    update(sessionUpdate="user_message_chunk", content=text("L-user"))
    update(sessionUpdate="agent_message_chunk", content={"type": "image", "mimeType": bad("L-image"), "data": "AAAA"})
    link = {"type": "resource_link", "uri": bad("L-uri"), "name": bad("L-name"), "title": bad("L-link")}
    update(sessionUpdate="agent_message_chunk", content=link)
    entries = [{"content": bad("L-plan"), "priority": bad("p"), "status": bad("s")}]
    update(sessionUpdate="plan", entries=entries)
    update(sessionUpdate=bad("L-unknown"))
    update(sessionUpdate="current_mode_update", currentModeId=bad("L-mode"))
    update(sessionUpdate="session_info_update", title=bad("L-title"))
    update(sessionUpdate="usage_update", used=1, size=2, cost={"amount": 1.0, "currency": bad("L-currency")})
    update(sessionUpdate="notice", severity=bad("L-severity"), title=bad("L-notice"), description=bad("L-described"))
    tool()


def tool() -> None:
    diff = {"type": "diff", "path": bad("/tmp/L-path"), "oldText": bad("L-old\n"), "newText": bad("L-new\n")}
    content = [diff, {"type": "content", "content": text("L-output")}, {"type": "terminal", "terminalId": bad("t")}]
    call = {"toolCallId": bad("L-call"), "title": bad("L-tool"), "kind": "execute", "content": content}
    update(sessionUpdate="tool_call", status="pending", locations=[{"path": bad("/L-place"), "line": 3}], **call)
    update(sessionUpdate="tool_call_update", toolCallId=bad("L-call"), status="completed")
    update(sessionUpdate="tool_call", **{**call, "toolCallId": "second", "title": bad("L-failed"), "status": "failed"})


def ask(method: str, params: Json) -> None:
    send(id="ask", method=method, params={"sessionId": SESSION, **params})
    while "method" in (message := json.loads(sys.stdin.readline())):
        answer(message)


def questions() -> None:
    call = {
        "toolCallId": "asked",
        "title": bad("L-question"),
        "kind": "execute",
        "rawInput": {"command": bad("L-line")},
    }
    options = [{"optionId": kind, "name": bad("L-option"), "kind": kind} for kind in ("allow_once", "reject_once")]
    ask("session/request_permission", {"toolCall": call, "options": options})
    field = {"type": "string", "title": bad("L-field"), "description": bad("L-help"), "enum": [bad("L-choice")]}
    schema: Json = {"type": "object", "properties": {bad("x"): {**field, "default": bad("d")}}, "required": []}
    ask("elicitation/create", {"mode": "form", "message": bad("L-form"), "requestedSchema": schema})
    address = "https://evil.example/L-address%1b%5d52;c;cHduZWQ=%07%1b%5b2J"  # with raw characters it is refused
    ask("elicitation/create", {"mode": "url", "message": bad("L-visit"), "url": address, "elicitationId": "e"})


def prompt(number: Any) -> None:
    match KIND:
        case "asks":
            questions()
        case "fails":
            send(id=number, error={"code": -32603, "message": bad("L-error"), "data": {"details": bad("L-cause")}})
            return
        case "dies":
            sys.stderr.buffer.write(bad("L-last-words").encode() + b"\xff\n")
            sys.stderr.flush()
            os._exit(3)
        case _:
            send_updates()
    send(id=number, result={"stopReason": bad("L-stop") if KIND == "talks" else "end_turn"})


def opened() -> Json:
    option = {"value": bad("L-value"), "name": bad("n")}
    setting = {"id": bad("L-setting"), "name": bad("n"), "type": "select", "currentValue": bad("L-value")}
    mode = {"id": bad("L-mode"), "name": bad("L-modename")}
    return {
        "sessionId": SESSION,
        "modes": {"currentModeId": bad("L-mode"), "availableModes": [mode]},
        "configOptions": [{**setting, "options": [option], "description": bad("d")}],
    }


def commands() -> None:
    offered = [{"name": f"look{ACTS}", "description": bad("L-description")}, {"name": "plain", "description": bad("d")}]
    update(sessionUpdate="available_commands_update", availableCommands=offered)


def answer(message: Json) -> None:
    number = message.get("id")
    if number is None:
        return
    match message["method"]:
        case "initialize":
            capabilities: Json = {"loadSession": True, "sessionCapabilities": {"list": {}}}
            agent_info = {"name": bad("L-agent"), "title": bad("L-agent-title"), "version": bad("L-version")}
            methods = [{"id": bad("L-method"), "name": bad("L-login"), "description": bad("L-how")}]
            welcome: Json = {
                "protocolVersion": 1,
                "agentCapabilities": capabilities,
                "agentInfo": agent_info,
                "authMethods": methods,
            }
            send(id=number, result=welcome)
        case "session/new" if KIND == "locked":
            send(id=number, error={"code": -32000, "message": bad("L-locked"), "data": bad("L-cause")})
        case "session/new":
            send(id=number, result=opened())
            commands()
        case "session/list":
            info = {"sessionId": SESSION, "cwd": os.getcwd(), "title": bad("L-title"), "updatedAt": bad("L-when")}
            send(id=number, result={"sessions": [info]})
        case "session/load":
            send_updates()
            send(id=number, result=opened())
        case "session/prompt":
            prompt(number)
        case _:
            send(id=number, result={})


def main() -> None:
    sys.stderr.buffer.write(bad("L-stderr").encode() + b"\xff\n")
    sys.stderr.flush()
    sys.stdout.buffer.write((bad("L-banner").encode() + b"\xff\n") * (5000 if KIND == "noisy" else 1))
    sys.stdout.flush()
    if KIND == "exits":
        sys.exit(3)
    for line in sys.stdin:
        answer(json.loads(line))


KIND = sys.argv[1] if len(sys.argv) > 1 else ""

if __name__ == "__main__":
    main()
