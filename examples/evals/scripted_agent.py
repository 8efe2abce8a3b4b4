"""An agent without a model that plays the solution of a task of `suite.toml` as a scenario, message by message.

    python scripted_agent.py             solves each task
    python scripted_agent.py --skip 3    answers each third task without changing anything

It is for trying an evaluation, and for testing one in CI. It recognises a task by the files of its workspace.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tomllib
from pathlib import Path
from typing import Any

from duologue.testing.scenario import AGENT
from duologue.testing.script import Script, Step
from duologue.testing.script_player import ScriptPlayer
from duologue.transports.base import Transport
from duologue.transports.stdio.stdio import StdioTransport

SUITE = Path(__file__).with_name("suite.toml")
INITIALIZED = {"protocolVersion": 1, "agentInfo": {"name": "scripted", "version": "1"}}


class ScriptedAgent:
    """Plays the tasks of the suite; each connection has one session.

    Args:
        skip: Leave each task with a number that it divides unsolved; 0 solves all.
    """

    def __init__(self, skip: int = 0) -> None:
        self._skip = skip
        self._cases: list[dict[str, Any]] = tomllib.loads(SUITE.read_text("utf-8"))["cases"]

    async def serve(self, transport: Transport) -> None:
        """Answer until a session is opened; then play the task whose files are in its directory."""
        async with transport:
            while frames := await transport.receive():
                message = json.loads(frames[0])  # a client waits for the answer before it sends the next request
                is_session = message["method"] == "session/new"
                result = {"sessionId": "scripted"} if is_session else INITIALIZED
                transport.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())
                if is_session:
                    cwd = Path(message["params"]["cwd"])
                    number = self._task_of(cwd)
                    is_solved = not self._skip or (number + 1) % self._skip != 0
                    script = script_of(self._cases[number], cwd, is_solved=is_solved)
                    await ScriptPlayer(script, transport, AGENT).run()
                    return

    def _task_of(self, workspace: Path) -> int:
        """Return the number of the task whose files are in a workspace."""
        for number, case in enumerate(self._cases):
            texts = [(workspace / file["path"], file["text"]) for file in case["files"]]
            if all(path.is_file() and path.read_text("utf-8") == text for path, text in texts):
                return number
        raise ValueError(f"{workspace} has the files of no task")


def script_of(case: dict[str, Any], cwd: Path, *, is_solved: bool) -> Script:
    """Return the script of a turn: read each file that is there, ask, write the solution, and answer."""
    steps = [Step(expect="session/prompt")]
    present = {file["path"] for file in case["files"]}
    for number, file in enumerate(case["solution"] if is_solved else []):
        path, title, call = str(cwd / file["path"]), f"Write {file['path']}", f"call-{number}"
        if file["path"] in present:
            steps += request(f"read-{number}", "fs/read_text_file", path=path)
        steps.append(update(sessionUpdate="tool_call", toolCallId=call, title=title, kind="edit"))
        steps += request(
            f"ask-{number}",
            "session/request_permission",
            toolCall={"toolCallId": call, "title": title, "kind": "edit", "locations": [{"path": path}]},
            options=[{"optionId": "yes", "name": "Allow", "kind": "allow_once"}],
        )
        steps += request(f"write-{number}", "fs/write_text_file", path=path, content=file["text"])
        steps.append(update(sessionUpdate="tool_call_update", toolCallId=call, status="completed"))
    text = "Done." if is_solved else "I would rather not."
    steps.append(update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text}))
    return Script(step=[*steps, Step(reply={"result": {"stopReason": "end_turn"}}, to="session/prompt")])


def request(name: str, method: str, **params: Any) -> list[Step]:
    """Return the steps that send a request and wait for its result."""
    sent = {"id": name, "method": method, "params": {"sessionId": "scripted", **params}}
    return [Step(send=sent), Step(expect={"id": name, "result": "*"})]


def update(**fields: Any) -> Step:
    """Return the step that sends an update."""
    return Step(send={"method": "session/update", "params": {"sessionId": "scripted", "update": fields}})


def main() -> None:
    """Play one task on stdio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skip", type=int, default=0, metavar="N")
    asyncio.run(ScriptedAgent(parser.parse_args().skip).serve(StdioTransport()))


if __name__ == "__main__":
    main()
