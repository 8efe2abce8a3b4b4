"""An agent that does what its prompts say, good or bad. Speaks raw lines and imports nothing of ours: it starts fast.

Each line of a prompt is one step: `say TEXT`, `write PATH TEXT`, `env NAME`, `orphan MARK`, `cost N`, and so on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
ORPHAN = "import time; time.sleep(600)  # an orphan of a trial"


def orphan_script(mark: str) -> str:
    """Return a program that leaves a process of another session, without its environment, and ends before it."""
    command = f"[sys.executable, '-c', {ORPHAN!r}, {mark!r}]"
    return f"import subprocess, sys; subprocess.Popen({command}, env={{}}, start_new_session=True)"


class Agent:
    """One connection."""

    def __init__(self) -> None:
        self.cwd = ""
        self.stop: dict[str, Any] = {}
        self.cost = 0.0
        self.calls = 0

    def send(self, **message: Any) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def update(self, update: str, **fields: Any) -> None:
        self.send(method="session/update", params={"sessionId": "s", "update": {"sessionUpdate": update, **fields}})

    def say(self, text: str) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def request(self, method: str, **params: Any) -> Any:
        """Send a request and return the result; nothing else arrives meanwhile but a cancellation."""
        self.send(id="ours", method=method, params={"sessionId": "s", **params})
        while True:
            message = json.loads(sys.stdin.readline())
            if message.get("id") == "ours":
                return message.get("result") or message["error"]["message"]

    def serve(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "id" in message:
                self.answer(message["id"], message["method"], message.get("params") or {})

    def answer(self, number: Any, method: str, params: dict[str, Any]) -> None:
        if method == "initialize":
            prompt = {"image": True, "embeddedContext": True}
            info = {"name": "obedient", "version": "1.0", "title": "Obedient"}
            capabilities = {"promptCapabilities": prompt}
            self.send(id=number, result={"protocolVersion": 1, "agentInfo": info, "agentCapabilities": capabilities})
        elif method == "session/new":
            if "--login" in sys.argv:
                self.send(id=number, error={"code": -32000, "message": "log in first"})
                return
            self.cwd = params["cwd"]
            self.send(id=number, result={"sessionId": "s", "modes": MODES})
        elif method == "session/prompt":
            self.stop = {"stopReason": "end_turn"}
            if "--lines" in sys.argv:
                lines = Path(sys.argv[-1]).read_text().splitlines()
                self.say(lines[self.calls])
                self.calls += 1
                self.send(id=number, result=self.stop)
                return
            kinds = [block["type"] for block in params["prompt"]]
            for step in params["prompt"][0]["text"].splitlines():
                word, _, rest = step.strip().partition(" ")
                if word == "kinds":
                    self.say(" ".join(kinds))
                elif word:
                    getattr(self, f"do_{word}")(rest)
            self.send(id=number, result=self.stop)
        else:
            self.send(id=number, result={})

    # --- steps

    def do_say(self, rest: str) -> None:
        self.say(rest)

    def do_pieces(self, rest: str) -> None:
        """Say a text a few characters at a time."""
        text = os.path.expandvars(rest)
        for start in range(0, len(text), 3):
            self.say(text[start : start + 3])

    def do_stop(self, rest: str) -> None:
        self.stop = {"stopReason": rest}

    def do_disguise(self, rest: str) -> None:
        failure = {"id": "f", "severity": "error", "kind": "provider_error", "title": rest}
        self.stop = {
            "stopReason": "end_turn",
            "_meta": {"jetbrains": {"air": {"version": 1, "sessionFailure": failure}}},
        }

    def do_crash(self, rest: str) -> None:
        """Crash; with a file, only as long as it has fewer lines than the number after it."""
        path, _, most = rest.partition(" ")
        if path:
            with open(path, "a+") as file:
                file.write("x\n")
                file.seek(0)
                if len(file.readlines()) > int(most):
                    return
        sys.stderr.write("crashing on demand\n")
        sys.stderr.flush()
        os._exit(3)

    def do_hang(self, rest: str) -> None:
        """Wait until the turn is cancelled; make a file first, if one is named."""
        if rest:
            Path(rest).touch()
        for line in sys.stdin:
            if json.loads(line).get("method") == "session/cancel":
                self.stop = {"stopReason": "cancelled"}
                return

    def do_ignore(self, rest: str) -> None:
        """Do not even end when the turn is cancelled."""
        time.sleep(600)

    def do_env(self, rest: str) -> None:
        self.say(json.dumps({name: os.environ.get(name) for name in rest.split()}))

    def do_names(self, rest: str) -> None:
        self.say(json.dumps(sorted(os.environ)))

    def do_write(self, rest: str) -> None:
        name, _, text = rest.partition(" ")
        path = Path(os.path.expandvars(name))
        path = path if path.is_absolute() else Path(self.cwd) / path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(os.path.expandvars(text))
        except OSError as error:
            self.say(f"cannot write: {error.strerror}; ")

    def do_delete(self, rest: str) -> None:
        (Path(self.cwd) / rest).unlink()

    def do_read(self, rest: str) -> None:
        path = Path(os.path.expandvars(rest))
        self.say((path if path.is_absolute() else Path(self.cwd) / path).read_text())

    def do_list(self, rest: str) -> None:
        self.say(" ".join(sorted(os.listdir(self.cwd))))

    def do_shell(self, rest: str) -> None:
        done = subprocess.run(
            rest, shell=True, cwd=self.cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
        self.say(done.stdout + done.stderr)

    def do_orphan(self, rest: str) -> None:
        """Leave a process of another session, without our environment, whose parent has ended."""
        script = orphan_script(rest)
        subprocess.run([sys.executable, "-c", script], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def do_terminal(self, rest: str) -> None:
        """Run a command in a terminal of the client, and say its output and its exit code, or the error."""
        made = self.request("terminal/create", command=rest)
        if isinstance(made, str):
            self.say(made)
            return
        ended = self.request("terminal/wait_for_exit", terminalId=made["terminalId"])
        found = self.request("terminal/output", terminalId=made["terminalId"])
        self.say(f"{found['output']}{ended['exitCode']}")

    def do_cost(self, rest: str) -> None:
        amount, _, currency = rest.partition(" ")
        self.cost += float(amount)
        cost = {"amount": self.cost, "currency": currency or "USD"}
        self.update("usage_update", used=1000, size=200_000, cost=cost)

    def do_tool(self, rest: str) -> None:
        self.calls += 1
        self.update("tool_call", toolCallId=f"t{self.calls}", title=rest or "look", kind="read", status="completed")

    def do_ask(self, rest: str) -> None:
        kinds = ("allow_once", "reject_once")
        options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
        call = {
            "toolCallId": "asked",
            "title": f"edit {rest}",
            "kind": "edit",
            "locations": [{"path": f"{self.cwd}/{rest}"}],
        }
        found = self.request("session/request_permission", toolCall=call, options=options)
        self.say(str(found["outcome"].get("optionId") or found["outcome"]["outcome"]))

    def do_form(self, rest: str) -> None:
        schema = {"type": "object", "properties": {"color": {"type": "string"}}}
        found = self.request("elicitation/create", mode="form", message=rest, requestedSchema=schema)
        self.say(json.dumps(found))

    def do_garble(self, rest: str) -> None:
        self.stop = {"stop": "yes"}


if __name__ == "__main__":
    Agent().serve()
