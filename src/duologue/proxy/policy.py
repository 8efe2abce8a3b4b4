"""A proxy that enforces permission rules, and keeps the audit log, in front of any agent and any editor.

Permission requests that a rule decides are answered here; the others go to the editor, and what its user decides is
recorded. Requests for files and commands that no rule and no permitted tool call allows are blocked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.prompter import rejection
from duologue.client.permissions.request import PermissionRequest
from duologue.conversation.session_setup import SessionParams
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import StateUpdate, SubagentUpdate, Update
from duologue.errors import InvalidRequest
from duologue.protocol.client_requests import CreateTerminal, ReadFile, WriteFile
from duologue.proxy.params import PERMISSION, permission_outcome
from duologue.proxy.proxy import Block, Proxy
from duologue.proxy.values import PermissionQuestion, RequestAnswer, WireMessage
from duologue.runtime.tasks import TaskScope
from duologue.schema import v1, v2

MAX_SESSIONS = 1_000
"""Sessions, and requests that open one, that are remembered; the oldest are forgotten, and blocked from then on."""
TRANSCRIPT_BYTES = 4 << 20
"""Memory for the tool calls of one session."""
CLOSE_SECONDS = 1.0


class _PolicySession(NamedTuple):
    params: SessionParams
    transcript: Transcript


class _Question(NamedTuple):
    """A permission request that the user decides."""

    request: PermissionRequest
    decided: asyncio.Task[str | None]


class PolicyProxy(Proxy):
    """Decides by permission rules what the agent may do. It serves one connection.

    Args:
        rules: Files of rules, as of `Permissions.from_file`.
        agent: Name of the agent: decisions are remembered for one agent, and the audit log names it.
        options: Arguments of `Permissions`: rules such as `edit="ask"`, and `audit`, `memory`, `timeout`.

    Raises:
        ValueError: A rule is not valid, or other users can read or write one of the files.
        OSError: A file cannot be read.
    """

    def __init__(self, *rules: str | Path, agent: str = "", **options: Any) -> None:
        super().__init__("policy")
        made = Permissions.from_file(*rules, on_request=self._show, **options)
        self._permissions = made.for_agent(agent)
        self._sessions: dict[str, _PolicySession] = {}
        self._opening: dict[int | str, SessionParams] = {}
        self._prompts: dict[int | str, str] = {}
        self._questions: dict[int | str, _Question] = {}
        self._shown: dict[PermissionRequest, asyncio.Event] = {}
        self._tasks: TaskScope | None = None
        self.observe(self._end_requests)
        self.on_session(self._note_opening)
        self.on_response("session/new", "session/fork")(self._open_session)
        self.on_prompt(self._note_prompt)
        self.on_update(self._note_update)
        self.on_permission_request(self._decide)
        self.on_response(PERMISSION)(self._settle)
        self.on_request("fs/read_text_file")(self._check_read)
        self.on_request("fs/write_text_file")(self._check_write)
        self.on_request("terminal/create")(self._check_command)

    async def aclose(self) -> None:
        """Cancel the permission requests that are still open."""
        if self._tasks is not None:
            await self._tasks.cancel(CLOSE_SECONDS)
            self._tasks = None

    # --- sessions and turns

    async def _note_opening(self, params: SessionParams, message: WireMessage) -> None:
        if message.method in ("session/load", "session/resume"):
            self._add_session(str(message.session_id), params)
        elif message.id is not None:
            self._opening[message.id] = params
            _limit(self._opening)

    async def _open_session(self, result: Any, message: WireMessage) -> None:
        params = None if message.id is None else self._opening.pop(message.id, None)
        if params is None:
            raise Block("the request that opened this session is not known")
        self._add_session(result.session_id, params)

    def _add_session(self, session_id: str, params: SessionParams) -> None:
        self._sessions[session_id] = _PolicySession(params, Transcript(TRANSCRIPT_BYTES))
        _limit(self._sessions)

    async def _note_prompt(self, prompt: object, message: WireMessage) -> None:
        if message.id is not None:
            self._prompts[message.id] = str(message.session_id)
            _limit(self._prompts)

    async def _note_update(self, update: Update, message: WireMessage) -> None:
        session = self._sessions.get(str(message.session_id))
        if session is None:
            return
        session.transcript.apply(update)
        if isinstance(update, SubagentUpdate) and update.session_id not in self._sessions:
            self._add_session(update.session_id, session.params)
        if isinstance(update, StateUpdate) and update.state == "idle":
            self._permissions.cancel(str(message.session_id))

    async def _end_requests(self, message: WireMessage) -> None:
        """End what the error, or the response to a prompt, ends: the turn, and what was allowed in it."""
        if message.kind != "response" or message.id is None:
            return
        if message.direction == "to_client":
            session_id = self._prompts.pop(message.id, None) if message.method == "session/prompt" else None
            if session_id is not None and message.version == 1:
                self._permissions.cancel(session_id)
            if message.is_error:
                self._opening.pop(message.id, None)
        elif message.is_error and (question := self._questions.pop(message.id, None)) is not None:
            question.request.cancel()

    def _session(self, session_id: str) -> _PolicySession:
        session = self._sessions.get(session_id)
        if session is None:
            raise Block("the session is not known, and so its directories are not")
        return session

    # --- permission requests

    async def _decide(self, question: PermissionQuestion, message: WireMessage) -> RequestAnswer | None:
        """Answer by the rules; return None to ask the editor's user."""
        session = self._session(question.session_id)
        assert message.id is not None, "a request has an id"
        tool = question.tool
        if not tool.tool_call_id:  # the request is not about a tool call of the session
            tool = structs.replace(tool, tool_call_id=f"permission-{message.id}")
        session.transcript.apply(tool)
        known = session.transcript.tool_call(tool.tool_call_id)
        assert known is not None, "applying the update has added it"
        request = PermissionRequest(
            session_id=question.session_id,
            cwd=session.params.cwd,
            roots=session.params.roots,
            tool=known,
            options=question.options,
            raw=message.frame,
        )
        shown = self._shown[request] = asyncio.Event()
        tasks = self._tasks = self._tasks or TaskScope()
        decided = tasks.start(self._permissions.decide(request))
        waiting = tasks.start(_wait(shown))
        try:
            await asyncio.wait({decided, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            del self._shown[request]
        if decided.done():
            return self.answer(decided.result())
        self._questions[message.id] = _Question(request, decided)
        return None

    async def _show(self, request: PermissionRequest) -> None:
        """Have the editor ask its user; reject what is no permission request, because the editor would just do it."""
        shown = self._shown.get(request)
        if shown is None:
            request.resolve(rejection(request, "no user to ask"))
            return
        shown.set()
        await request.decided()

    async def _settle(self, result: Any, message: WireMessage) -> Any:
        """Record what the user has decided; change the response if it cannot be recorded, or came too late."""
        question = None if message.id is None else self._questions.pop(message.id, None)
        if question is None:
            raise Block("nothing was asked")
        selected = getattr(result.outcome, "option_id", None)
        if selected is None:
            question.request.cancel()
        elif question.request.is_open:
            question.request.choose(selected)
        chosen = await question.decided
        if chosen == selected:
            return None
        schema = v1 if message.version == 1 else v2
        return structs.replace(result, outcome=permission_outcome(schema, chosen))

    # --- files and commands

    async def _check_read(self, request: ReadFile) -> None:
        params = self._session(request.session_id).params
        with _blocking():
            await self._permissions.check_read(request.session_id, params.cwd, request.path, roots=params.roots)

    async def _check_write(self, request: WriteFile) -> None:
        params = self._session(request.session_id).params
        with _blocking():
            await self._permissions.check_write(request.session_id, params.cwd, request.path, roots=params.roots)

    async def _check_command(self, request: CreateTerminal) -> None:
        params = self._session(request.session_id).params
        directory = _resolved(params.cwd, request.cwd or "")
        argv = [request.command, *request.args]
        with _blocking():
            await self._permissions.check_command(
                request.session_id, params.cwd, argv, directory, env=request.env, roots=params.roots
            )


@contextmanager
def _blocking() -> Generator[None]:
    """Block what the rules do not permit."""
    try:
        yield
    except InvalidRequest:
        raise Block("not permitted by the rules") from None


def _resolved(*parts: str) -> str:
    return str(Path(*parts).resolve())


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


def _limit(remembered: dict[Any, Any]) -> None:
    if len(remembered) > MAX_SESSIONS:
        del remembered[next(iter(remembered))]
