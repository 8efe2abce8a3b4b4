"""Agents without manners, as processes."""

from __future__ import annotations

import sys
import textwrap

from duologue.relay.pump import OpenProcess
from duologue.transports.process.transport import ProcessTransport

_BEGIN = """
import json, sys, time

def read():
    for line in sys.stdin.buffer:
        yield line

def write(message):
    sys.stdout.write(json.dumps(message) + "\\n")
    sys.stdout.flush()

def answer(message, result):
    write({"jsonrpc": "2.0", "id": message["id"], "result": result})
"""


def process(code: str) -> OpenProcess:
    """Return a function that opens a new process with this program."""
    program = _BEGIN + textwrap.dedent(code)
    return lambda: ProcessTransport([sys.executable, "-c", program])


ECHO = """
for line in read():
    message = json.loads(line)
    if "method" in message and "id" in message:
        answer(message, {"line": line.decode().rstrip("\\n")})
"""

SESSIONS = """
made = 0
for line in read():
    message = json.loads(line)
    params = message.get("params") or {}
    match message.get("method"):
        case "session/new":
            made += 1
            write({"jsonrpc": "2.0", "method": "early", "params": {"sessionId": f"s{made}"}})
            answer(message, {"sessionId": f"s{made}", "mark": params.get("mark")})
        case "tell":
            write({"jsonrpc": "2.0", "method": "update", "params": {"sessionId": params["to"], "text": params["text"]}})
            answer(message, {})
        case "ask":
            write({"jsonrpc": "2.0", "id": 1, "method": "question", "params": {"sessionId": params["sessionId"]}})
            answer(message, {})
        case "steal":
            answer(message, {"sessionId": params["whose"]})
        case "never" | "session/cancel" | "$/cancel_request":
            write({"jsonrpc": "2.0", "method": "noted", "params": {"of": message["method"], "params": params}})
        case "end":
            sys.exit(3)
        case None:
            write({"jsonrpc": "2.0", "method": "noted", "params": {"of": "answer", "params": message}})
        case _ if "id" in message:
            answer(message, {"mark": params.get("mark"), "id": message["id"]})
"""
