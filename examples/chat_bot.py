"""A bot for a chat service: each thread is a session, and the people in the thread decide what the agent may do.

The service here is the terminal (`thread: text`, as in `ops: /write notes.md hello`, then `ops: yes`). For Slack,
Discord, Matrix or Teams, write the two methods of `ChatService` with the library of that service.
"""

import asyncio
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Protocol

from duologue import Permissions, Workspace, connect
from duologue.errors import DuologueError
from duologue.types import ClientSession, PermissionRequest, RemoteAgent, Restart

AGENT = "builtin"  # or "gemini --acp", or any other command


class ChatService(Protocol):
    async def next_message(self) -> tuple[str, str] | None:
        """Return the next message for the bot as (thread, text), or None at the end."""
        ...

    async def post(self, thread: str, text: str) -> None: ...


class Bot:
    def __init__(self, service: ChatService, directory: Path) -> None:
        self.service = service
        self.directory = directory
        self.sessions: dict[str, ClientSession] = {}
        self.locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.questions: dict[str, asyncio.Future[bool]] = {}

    async def run(self) -> None:
        rules = Permissions(read="allow", edit="ask", execute="ask", on_request=self.ask_thread, timeout=600)
        workspace = Workspace(self.directory)
        async with connect(AGENT, permissions=rules, workspace=workspace, restart=Restart(limit=3, within=60)) as agent:
            async with asyncio.TaskGroup() as tasks:
                while (message := await self.service.next_message()) is not None:
                    thread, text = message
                    question = self.questions.get(thread)
                    if question is not None and not question.done():
                        question.set_result(text.strip().lower() == "yes")  # anything else rejects it
                    else:
                        tasks.create_task(self.answer(agent, thread, text))

    async def answer(self, agent: RemoteAgent, thread: str, text: str) -> None:
        """Answer one message; those of a thread are answered one after the other, threads at the same time."""
        async with self.locks[thread]:
            try:
                if thread not in self.sessions:
                    self.sessions[thread] = await agent.new_session(self.directory)
                answer = await self.sessions[thread].ask(text, timeout=900)
            except DuologueError as error:  # refused, cut off, not permitted, too slow, the agent is gone
                answer = f"Sorry: {error}"
            await self.service.post(thread, answer)

    async def ask_thread(self, request: PermissionRequest) -> bool:
        """Ask the people of the thread; after ten minutes without an answer the request is rejected."""
        thread = next(name for name, session in self.sessions.items() if session.id == request.session_id)
        self.questions[thread] = asyncio.get_running_loop().create_future()
        try:
            await self.service.post(thread, f"May I? {'; '.join(request.action_lines)} (yes/no)")
            return await self.questions[thread]
        finally:
            del self.questions[thread]


class Console:
    """Threads in a terminal."""

    async def next_message(self) -> tuple[str, str] | None:
        line = await asyncio.to_thread(sys.stdin.readline)
        thread, _, text = line.strip().partition(": ")
        return (thread, text) if line else None

    async def post(self, thread: str, text: str) -> None:
        print(f"[{thread}] {text.strip()}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(Bot(Console(), Path(directory)).run())
