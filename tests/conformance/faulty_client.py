"""A small client, written by hand, that does everything right except for one fault of `client_faults.FAULTS`.

Run it as a program with `python faulty_client.py VERSION FAULT AGENT`, or in a test with any stream of bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

if __name__ == "__main__":  # as a program, without this package
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.conformance.faulty_services import FaultyServices, Refused

Json: TypeAlias = dict[str, Any]
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect: TypeAlias = Callable[[list[str], dict[str, str]], Awaitable[Streams]]
"""Starts the agent with these arguments and environment variables."""

KNOWN_CODES = (-32700, -32600, -32601, -32602, -32603, -32800, -32000, -32002)
READ_SIZE = 65536
WRITE_LIMIT = 128 * 1024
PROMPT = [{"type": "text", "text": "hello"}]


class Disconnect(Exception):
    """The client ends its connection."""


class FaultyClient:
    """A client that opens a session, sends one prompt, serves the agent meanwhile, and closes the session.

    Args:
        version: Version of the protocol.
        fault: Name of the fault; empty for none.
        connect: Starts the agent.
        cwd: Working directory of the session.
        cancels: It leaves permission requests open until its user cancels the turn.
    """

    def __init__(self, version: int, fault: str, connect: Connect, cwd: str, *, cancels: bool = False) -> None:
        self.version = version
        self.fault = fault
        self.cwd = cwd
        self.leaves_open = cancels
        self.is_cancelled = False
        self.session = ""
        self._connect = connect
        self._services = FaultyServices(self)
        self._pending: dict[int, asyncio.Future[Json]] = {}
        self._next_id = 0
        self._prompt_id = 0
        self._open_permissions: list[object] = []
        self._withheld: Json | None = None
        self._deferred: list[Json] = []
        self._turn_ended = asyncio.Event()
        self._hangs = False
        self._has_moved = False
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    # The life of the client

    async def run(self) -> int:
        """Run until the turn has ended; return the exit code."""
        try:
            return await self._run_connection([])
        except (Disconnect, ConnectionError):
            return 1

    async def _run_connection(self, arguments: list[str]) -> int:
        self._reader, self._writer = await self._connect(arguments, {})
        serving = asyncio.ensure_future(self._serve())
        working = asyncio.ensure_future(self._work())
        try:
            await asyncio.wait((serving, working), return_when=asyncio.FIRST_COMPLETED)
            if not working.done() and not self._has_moved:
                serving.result()
                return 1
            return await working
        finally:
            serving.cancel()
            working.cancel()
            self._services.close()
            self._writer.close()

    async def _work(self) -> int:
        initialized = await self.request("initialize", self._initialize_params())
        result = initialized.get("result", {})
        if result.get("protocolVersion") != self.version and self.fault != "any-version":
            return 1
        self._check_capabilities(result)
        opened = await self.request("session/new", self._session_params())
        if "error" in opened:
            return await self._log_in(result.get("authMethods") or [])
        self._check_settings(opened["result"].get("configOptions") or [])
        self.session = opened["result"]["sessionId"]
        answer = await self._prompt()
        if "error" in answer:
            return await self._fail(answer["error"])
        await self._turn_ended.wait()
        offered = result.get("agentCapabilities", {}).get("sessionCapabilities", {})
        if self.version == 2 or "close" in offered or self.fault == "close-unadvertised":
            await self._close()
        return 0

    def _initialize_params(self) -> Json:
        info = {"name": "faulty-client", "version": "1"}
        elicitation: Json = {"elicitation": {"form": {}}}
        if self.version == 2:
            return {"protocolVersion": 2, "info": info, "capabilities": {**elicitation, "auth": {"terminal": {}}}}
        files = {"readTextFile": True, "writeTextFile": True}
        offered = {"fs": files, "terminal": True, "auth": {"terminal": True}, **elicitation}
        return {"protocolVersion": 1, "clientInfo": info, "clientCapabilities": offered}

    def _session_params(self) -> Json:
        return {"cwd": self.cwd, "mcpServers": []} if self.version == 1 else {"cwd": self.cwd}

    def _check_capabilities(self, result: Json) -> None:
        if self.fault == "needs-capabilities":
            name = "agentCapabilities" if self.version == 1 else "capabilities"
            offered = json.dumps(result.get(name))
            if '"delete": {}' not in offered:
                raise Disconnect

    def _check_settings(self, options: list[Json]) -> None:
        if self.fault == "settings-closed" and any(each.get("type") not in ("select", "boolean") for each in options):
            raise Disconnect

    async def _prompt(self) -> Json:
        params = {"sessionId": self.session, "prompt": PROMPT}
        self._prompt_id = self._next_id + 1
        answer = await self.request("session/prompt", params)
        if self.version == 1:
            self._turn_ended.set()
            self._answer_deferred()
        return answer

    async def _fail(self, error: Json) -> int:
        is_unknown = error["code"] not in KNOWN_CODES
        if (self.fault == "unknown-code-hangs" and is_unknown) or (
            self.fault == "login-lost-hangs" and error["code"] == -32000
        ):
            self._hangs = True
            await asyncio.Event().wait()
        return 1

    async def _close(self) -> None:
        answer = await self.request("session/close", {"sessionId": self.session})
        if "error" in answer and self.fault == "close-must-succeed":
            raise Disconnect

    async def _log_in(self, methods: list[Json]) -> int:
        if not methods:
            if self.fault == "login-anyway":
                await self.request("auth/login", {"methodId": "default"})
            return 1
        method = methods[0]
        if self.fault == "terminal-method-sent":
            name = "authenticate" if self.version == 1 else "auth/login"
            await self.request(name, {"methodId": method.get("id") or method.get("methodId")})
        env = method["env"] if self.version == 1 else {each["name"]: each["value"] for each in method["env"]}
        reader, writer = await self._connect(method["args"], {} if self.fault == "login-without-env" else env)
        await reader.read()
        writer.close()
        self._has_moved = True
        self._writer.close()
        again = FaultyClient(self.version, self.fault, self._connect, self.cwd)
        return 1 if self.fault == "login-not-followed" else await again.run()

    def cancel(self) -> None:
        """Cancel the turn, as the user wants."""
        self.is_cancelled = True
        self.notify("session/cancel", {"sessionId": self.session})
        for id_ in self._open_permissions:
            if self.fault != "permission-left-open":
                self.respond(id_, {"result": {"outcome": self._outcome_after_cancel()}})
        self._open_permissions.clear()
        if self.fault == "leaves-after-cancel":
            self._writer.close()
            self._hangs = True

    def _outcome_after_cancel(self) -> Json:
        if self.fault == "permission-after-cancel":
            return {"outcome": "selected", "optionId": "yes-1"}
        return {"outcome": "cancelled"}

    # Sending

    def send(self, message: Json) -> None:
        """Write a message."""
        text = json.dumps({"jsonrpc": "2.0", **message})
        if self.fault == "newline-unescaped" and message.get("id") == "line\nbreak":
            text = text.replace("\\n", "\n")
        if self.fault == "drops-output" and self._writer.transport.get_write_buffer_size() > WRITE_LIMIT:
            return
        self._writer.write(text.encode() + b"\n")

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self.send({"method": method, "params": params})

    async def request(self, method: str, params: Json) -> Json:
        """Send a request and wait for its response."""
        self._next_id += 1
        self._pending[self._next_id] = asyncio.get_running_loop().create_future()
        self.send({"id": self._next_id, "method": method, "params": params})
        return await self._pending[self._next_id]

    def respond(self, id_: object, answer: Json) -> None:
        """Answer a request."""
        if self.fault == "falsy-id-lost" and not id_:
            id_ = None
        self.send({"id": id_, **answer})

    def refuse(self, id_: object, code: int, message: str = "refused") -> None:
        """Answer a request with an error."""
        self.respond(id_, {"error": {"code": code, "message": message}})

    # Receiving

    async def _serve(self) -> None:
        rest = b""
        while data := await self._reader.read(READ_SIZE):
            if self.fault == "decodes-reads":
                data.decode()
            rest += data
            if self.fault == "short-lines" and len(rest) > 4 * READ_SIZE:
                raise Disconnect
            if b"\n" not in data:
                continue
            *lines, rest = rest.split(b"\n")
            for line in lines:
                if not self._hangs:
                    self._take_line(line)
            if self.fault != "drops-output":
                with contextlib.suppress(ConnectionError):
                    await self._writer.drain()

    def _take_line(self, line: bytes) -> None:
        if line.lstrip()[:1] not in (b"{", b"["):
            return  # noise
        try:
            message = json.loads(line)
        except ValueError:
            if self.fault == "garbage-fatal":
                raise Disconnect from None
            if self.fault != "garbage-ignored":
                self.refuse(None, -32700)
            return
        self._take(message)

    def _take(self, message: Any) -> None:
        if isinstance(message, list):
            if self.fault == "batch-run":
                for each in message:  # pyright: ignore[reportUnknownVariableType]
                    self._take(each)
            else:
                self.refuse(None, -32600)
        elif "method" in message and "id" in message:
            self._take_request(message)
        elif "method" in message:
            self._take_notification(message)
        elif "id" in message and ("result" in message or "error" in message):
            self._take_response(message)
        elif self.fault != "empty-object-ignored":
            self.refuse(None, -32600)

    def _take_response(self, message: Json) -> None:
        waiting = self._pending.pop(message["id"], None) if isinstance(message["id"], int) else None
        if waiting is not None:
            waiting.set_result(message)
        elif self.fault == "stray-response-fatal":
            raise Disconnect

    def _take_notification(self, message: Json) -> None:
        method, given = message["method"], message.get("params")
        params: Json = given if isinstance(given, dict) else {}  # pyright: ignore[reportUnknownVariableType]
        is_update = method == "session/update"
        if is_update and isinstance(params.get("sessionId"), str):
            self._take_update(params["update"])
        elif is_update and self.fault == "notification-answered":
            self.refuse(None, -32602)
        elif method == "$/cancel_request":
            self._take_cancellation(params)
        elif method == "elicitation/complete":
            if self.fault == "unknown-elicitation-answered":
                self.refuse(None, -32002)
        elif not is_update and self.fault == "unknown-notification-fatal":
            raise Disconnect

    def _take_update(self, update: Json) -> None:
        kind, state = update.get("sessionUpdate"), update.get("state")
        if kind == "state_update" and (
            state == "idle" or (self.fault == "any-state-is-idle" and state not in ("running", "requires_action"))
        ):
            self._turn_ended.set()
            self._answer_deferred()
        if kind == "config_option_update":
            self._check_settings(update["configOptions"])

    def _take_cancellation(self, params: Json) -> None:
        requested = params.get("requestId")
        if requested == self._prompt_id and self.fault == "cancels-own-prompt":
            self.notify("session/cancel", {"sessionId": self.session})
        if self._withheld is not None and self._withheld["id"] == requested:
            self._withheld = None
        is_unknown = requested in ("never-asked", 987_654_321)
        if is_unknown and self.fault == "unknown-cancel-answered":
            self.refuse(None, -32602)

    def _withhold(self, request: Json) -> None:
        """Answer a request a moment later, unless it is cancelled before."""
        self._withheld = request
        asyncio.get_running_loop().call_later(0.01, self._answer_withheld)

    def _answer_withheld(self) -> None:
        request, self._withheld = self._withheld, None
        if request is not None:
            self._answer(request)

    def _take_request(self, message: Json) -> None:
        if self.fault == "serial" and self._prompt_id and not self._turn_ended.is_set():
            self._deferred.append(message)
        elif self.fault == "cancelled-request-forgotten" and message["method"] == "session/request_permission":
            self._withhold(message)
        else:
            self._answer(message)

    def _answer_deferred(self) -> None:
        for message in self._deferred:
            self._answer(message)
        self._deferred.clear()

    def _answer(self, message: Json) -> None:
        id_, method = message["id"], message["method"]
        if not isinstance(method, str):
            self.refuse(None, -32600)
            return
        if method == "session/request_permission" and self.leaves_open and not self.is_cancelled:
            self._open_permissions.append(id_)
            return
        try:
            result = self._services.answer(method, message.get("params") or {}, id_)
        except Refused as error:
            self.refuse(id_, error.code)
            return
        if result is not None:
            self.respond(id_, {"result": result})


async def start_agent(program: str, arguments: list[str], env: dict[str, str]) -> Streams:
    """Start a program as the agent."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        program, *arguments, stdin=pipe, stdout=pipe, env={**os.environ, **env}
    )
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdout, process.stdin


async def main(version: str, fault: str, program: str) -> int:
    """Run the client as a program."""
    client = FaultyClient(
        int(version),
        fault.removeprefix("none"),
        lambda arguments, env: start_agent(program, arguments, env),
        str(Path.cwd()),
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, client.cancel)
    return await client.run()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:4])))
