"""Services of the faulty client for the agent: permissions, files, terminals and forms, each with its faults."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from tests.conformance.faulty_client import FaultyClient

Json: TypeAlias = dict[str, Any]

INVALID_PARAMS, NOT_FOUND, METHOD_NOT_FOUND = -32602, -32002, -32601
READ_SIZE = 65536


class Refused(Exception):
    """A request is answered with an error."""

    def __init__(self, code: int) -> None:
        self.code = code


class Terminal:
    """A command that runs; its output is read when it is asked for, without threads."""

    def __init__(self, params: Json) -> None:
        self.limit: int | None = params.get("outputByteLimit")
        self._output = b""
        self.process = subprocess.Popen(
            [params["command"], *params["args"]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=params["cwd"],
        )

    def read(self, *, to_end: bool = False) -> bytes:
        """Return the output so far, at least the first piece of it."""
        assert self.process.stdout is not None
        fd = self.process.stdout.fileno()
        os.set_blocking(fd, to_end or not self._output)
        with contextlib.suppress(BlockingIOError):
            while data := os.read(fd, READ_SIZE):
                self._output += data
                os.set_blocking(fd, to_end)
        return self._output

    def kill(self) -> None:
        """End the command."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Free everything."""
        self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()


class FaultyServices:
    """Answers the requests of the agent."""

    def __init__(self, client: FaultyClient) -> None:
        self._client = client
        self._terminals: dict[str, Terminal] = {}
        self._methods = {
            "session/request_permission": self._decide,
            "fs/read_text_file": self._read,
            "fs/write_text_file": self._write,
            "terminal/create": self._create,
            "terminal/output": self._get_output,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
            "elicitation/create": self._fill_in,
        }
        if client.version == 2:
            for name in [name for name in self._methods if name.startswith(("fs/", "terminal/"))]:
                del self._methods[name]

    @property
    def _fault(self) -> str:
        return self._client.fault

    def close(self) -> None:
        """End all commands."""
        for terminal in self._terminals.values():
            terminal.close()

    def answer(self, method: str, params: Json, id_: object) -> Json | None:
        """Return the result of a request; None if it is not answered."""
        handler = self._methods.get(method)
        if handler is None:
            if self._fault == "unknown-method-accepted" and not method.startswith("_"):
                return {}
            raise Refused(METHOD_NOT_FOUND)
        is_form = method == "elicitation/create" and params.get("mode") == "form"
        if self._fault == "method-missing" and (is_form or method == "fs/write_text_file"):
            raise Refused(METHOD_NOT_FOUND)
        return handler(params)

    # Permissions

    def _decide(self, params: Json) -> Json:
        if self._fault == "meta-checked" and not isinstance(params.get("_meta", {}), dict):
            raise Refused(INVALID_PARAMS)
        if self._fault == "fields-checked" and "zzz" in params:
            raise Refused(INVALID_PARAMS)
        options = params.get("options")
        is_well_formed = isinstance(params.get("sessionId"), str) and isinstance(options, list)
        if not is_well_formed:
            if self._fault == "params-unchecked":
                return {"outcome": {"outcome": "cancelled"}}
            raise Refused(INVALID_PARAMS)
        self._check_subject(params.get("subject") or {})
        if self._client.is_cancelled:
            return {"outcome": {"outcome": "cancelled"}}
        if self._fault == "option-invented":
            return {"outcome": {"outcome": "selected", "optionId": "allow"}}
        offered: list[Json] = params["options"]
        chosen = next(each["optionId"] for each in offered if each["kind"] == "allow_once")
        return {"outcome": {"outcome": "selected", "optionId": chosen}}

    def _check_subject(self, subject: Json) -> None:
        kind = subject.get("type")
        if kind == "tool_call":
            is_right = isinstance(subject.get("toolCall"), dict)
        elif kind == "command":
            is_right = isinstance(subject.get("command"), str)
        else:
            is_right = kind is None or self._fault != "unknown-subject-refused"
        if not is_right and self._fault != "subject-unchecked":
            raise Refused(INVALID_PARAMS)

    # Files

    def _read(self, params: Json) -> Json:
        if not isinstance(params.get("path"), str):
            raise Refused(INVALID_PARAMS)
        path = Path(params["path"])
        if not path.is_file():
            if self._fault == "missing-file-empty":
                return {"content": ""}
            raise Refused(NOT_FOUND)
        lines = path.read_text("utf-8").splitlines(keepends=True)
        first = params.get("line", 1) - (0 if self._fault == "lines-from-zero" and "line" in params else 1)
        limit = params.get("limit", len(lines))
        return {"content": "".join(lines[first : first + limit])}

    def _write(self, params: Json) -> Json:
        path = Path(params["path"])
        if self._fault == "write-needs-file" and not path.exists():
            raise Refused(NOT_FOUND)
        path.write_text(params["content"], "utf-8")
        return {}

    # Terminals

    def _create(self, params: Json) -> Json | None:
        id_ = f"terminal-{len(self._terminals) + 1}"
        self._terminals[id_] = Terminal(params)
        return None if self._fault == "create-waits" else {"terminalId": id_}

    def _terminal(self, params: Json) -> Terminal:
        if not isinstance(params.get("terminalId"), str):
            raise Refused(INVALID_PARAMS)
        if params["terminalId"] not in self._terminals:
            raise Refused(NOT_FOUND)
        return self._terminals[params["terminalId"]]

    def _get_output(self, params: Json) -> Json:
        terminal = self._terminal(params)
        output, limit = terminal.read(), terminal.limit
        is_truncated = limit is not None and len(output) > limit
        if is_truncated:
            output = output[-(limit or 0) :]
            if self._fault != "cut-in-character":
                output = output.decode("utf-8", "ignore").encode()
        result: Json = {"output": output.decode("utf-8", "replace"), "truncated": is_truncated}
        code = terminal.process.poll()
        if code is not None or self._fault == "exit-status-early":
            result["exitStatus"] = self._status(code or 0)
        if self._fault == "exit-status-missing":
            result.pop("exitStatus", None)
        return result

    def _status(self, code: int) -> Json:
        if self._fault == "exit-code-and-signal":
            return {"exitCode": abs(code), "signal": "SIGKILL"}
        return {"exitCode": code, "signal": None} if code >= 0 else {"exitCode": None, "signal": str(-code)}

    def _wait(self, params: Json) -> Json:
        terminal = self._terminal(params)
        terminal.read(to_end=True)
        return self._status(terminal.process.wait())

    def _kill(self, params: Json) -> Json:
        self._terminal(params).kill()
        if self._fault == "kill-releases":
            self._terminals.pop(params["terminalId"]).close()
        return {}

    def _release(self, params: Json) -> Json:
        if self._fault == "release-keeps-process":
            self._terminals[f"released-{params['terminalId']}"] = self._terminals.pop(params["terminalId"])
        else:
            self._terminal(params).kill()
            if self._fault != "release-keeps-id":
                self._terminals.pop(params["terminalId"]).close()
        return {}

    # Forms

    def _fill_in(self, params: Json) -> Json:
        if params.get("mode") != "form":
            if self._fault == "mode-unchecked":
                return {"action": "cancel"}
            raise Refused(INVALID_PARAMS)
        properties: Json = params["requestedSchema"]["properties"]
        content = {name: each["default"] for name, each in properties.items() if "default" in each}
        if self._fault == "form-empty":
            content = {}
        if self._fault == "form-of-text":
            content = {name: str(value) for name, value in content.items()}
        return {"action": "accept", "content": content}
