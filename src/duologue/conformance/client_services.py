"""The client that an agent under test sees: permission, files, terminals and forms, answered in a simple way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal, TypeAlias

from duologue.conformance.raw_peer import Json, RawPeer, ReceivedMessage, objects

PermissionAnswer: TypeAlias = Literal["allow", "reject", "cancelled", "hold"] | Json
"""Which kind of option is chosen, or a whole answer."""

NOT_FOUND = -32002
INVALID_PARAMS = -32602


class ClientServices:
    """Answers the requests of an agent, and remembers what it asked for.

    Args:
        root: Directory whose files are offered.

    Attributes:
        permission: How permission requests are answered; `hold` leaves them open until `release` is set.
        elicitation: How questions are answered.
        release: Ends the wait of requests that are held; they are answered with `cancelled`.
        terminals: Terminals by id; False after their release.
    """

    def __init__(self, root: Path) -> None:
        self.permission: PermissionAnswer = "allow"
        self.elicitation: Json = {"result": {"action": "decline"}}
        self.release = asyncio.Event()
        self.terminals: dict[str, bool] = {}
        self._root = root

    def attach(self, peer: RawPeer) -> None:
        """Answer the requests that arrive at a peer."""
        peer.responders |= {
            "session/request_permission": self._decide,
            "fs/read_text_file": self._read,
            "fs/write_text_file": self._write,
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._exit,
            "terminal/kill": self._known_terminal,
            "terminal/release": self._release,
            "elicitation/create": self._elicit,
        }

    async def _decide(self, request: ReceivedMessage) -> Json:
        if isinstance(self.permission, dict):
            return self.permission
        if self.permission == "hold":
            await self.release.wait()
        elif self.permission != "cancelled":
            for option in objects(request.params.get("options")):
                if str(option.get("kind", "")).startswith(self.permission):
                    return {"result": {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}}
        return {"result": {"outcome": {"outcome": "cancelled"}}}

    async def _read(self, request: ReceivedMessage) -> Json:
        try:
            text = self._path(request).read_text("utf-8")
        except (OSError, ValueError) as error:
            return _error(NOT_FOUND, str(error))
        lines = text.splitlines(keepends=True)
        first = (request.params.get("line") or 1) - 1
        limit = request.params.get("limit")
        return {"result": {"content": "".join(lines[first:] if limit is None else lines[first : first + limit])}}

    async def _write(self, request: ReceivedMessage) -> Json:
        try:
            self._path(request).write_text(str(request.params.get("content", "")), "utf-8")
        except (OSError, ValueError) as error:
            return _error(INVALID_PARAMS, str(error))
        return {"result": {}}

    def _path(self, request: ReceivedMessage) -> Path:
        path = Path(str(request.params.get("path", "")))
        if not path.resolve().is_relative_to(self._root.resolve()):
            raise ValueError(f"{path} is outside of {self._root}")
        return path

    async def _create(self, request: ReceivedMessage) -> Json:
        terminal = f"terminal-{len(self.terminals) + 1}"
        self.terminals[terminal] = True
        return {"result": {"terminalId": terminal}}

    async def _output(self, request: ReceivedMessage) -> Json:
        return self._of_terminal(
            request, {"output": "hello\n", "truncated": False, "exitStatus": {"exitCode": 0, "signal": None}}
        )

    async def _exit(self, request: ReceivedMessage) -> Json:
        return self._of_terminal(request, {"exitCode": 0, "signal": None})

    async def _known_terminal(self, request: ReceivedMessage) -> Json:
        return self._of_terminal(request, {})

    async def _release(self, request: ReceivedMessage) -> Json:
        answer = self._of_terminal(request, {})
        if "result" in answer:
            self.terminals[request.params["terminalId"]] = False
        return answer

    def _of_terminal(self, request: ReceivedMessage, result: Json) -> Json:
        terminal: Any = request.params.get("terminalId")
        if isinstance(terminal, str) and self.terminals.get(terminal):
            return {"result": result}
        return _error(NOT_FOUND, f"there is no terminal {terminal!r}")

    async def _elicit(self, request: ReceivedMessage) -> Json:
        return self.elicitation


def _error(code: int, message: str) -> Json:
    return {"error": {"code": code, "message": message}}
