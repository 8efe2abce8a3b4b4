"""An agent of version 2 that sends exactly what a test scripts, in raw messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from tests.client.scripted_agent import Json, ScriptedAgent

__all__ = ["IDLE", "OPTIONS", "RUNNING", "Script", "WireAgent", "chunk", "idle", "message", "state"]

OPTIONS = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("reject_once", "allow_once")]


def state(name: str, **rest: Any) -> Json:
    """Make an update of the session's state."""
    return {"sessionUpdate": "state_update", "state": name, **rest}


def idle(reason: str = "end_turn", **rest: Any) -> Json:
    """Make the update that ends a turn."""
    return state("idle", stopReason=reason, **rest)


RUNNING, IDLE = state("running"), idle()


def chunk(text: str, message_id: str = "a1", **rest: Any) -> Json:
    """Make an update with a chunk of an agent message."""
    content = {"type": "text", "text": text}
    return {"sessionUpdate": "agent_message_chunk", "messageId": message_id, "content": content, **rest}


def message(text: str, message_id: str = "a1", kind: str = "agent_message") -> Json:
    """Make an update with a whole message."""
    return {"sessionUpdate": kind, "messageId": message_id, "content": [{"type": "text", "text": text}]}


Script: TypeAlias = Callable[["WireAgent", "Prompted"], Awaitable[None]]


class Prompted:
    """A prompt that waits for its answer."""

    def __init__(self, agent: WireAgent, request: Json) -> None:
        self._agent = agent
        self._id = request["id"]
        self.params: Json = request["params"]

    def accept(self, message_id: str = "u1") -> None:
        """Accept the prompt."""
        self._agent.send({"id": self._id, "result": {"messageId": message_id}})

    def refuse(self, code: int, text: str = "no") -> None:
        """Reject the prompt."""
        self._agent.send({"id": self._id, "error": {"code": code, "message": text}})


async def behave(agent: WireAgent, prompted: Prompted) -> None:
    """Answer as a correct agent does."""
    prompted.accept()
    agent.update(message("hi", "u1", "user_message"), RUNNING, chunk("hel"), chunk("lo"), IDLE)


class WireAgent(ScriptedAgent):
    """Answers `initialize` in version 2, and each prompt by its script."""

    def __init__(self, script: Script = behave, capabilities: Json | None = None, **welcome: Any) -> None:
        super().__init__()
        session = {"session": {} if capabilities is None else capabilities}
        self.welcome = {
            "protocolVersion": 2,
            "info": {"name": "scripted", "version": "1"},
            "capabilities": session,
            **welcome,
        }
        self._script = script

    async def _answer(self, message: Json) -> None:
        if message["method"] == "session/prompt":
            await self._script(self, Prompted(self, message))
        else:
            await super()._answer(message)
