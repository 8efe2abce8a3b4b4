"""Handler of the agent's requests: passes each to files, terminals, permissions or elicitation.

Nothing is done that was not advertised, and nothing without asking the permission policy.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import structs

from duologue.client.quirks import quirks_of
from duologue.client.services.elicitation import ElicitationHandler, Elicitations
from duologue.client.watchdog import ActivityTracker
from duologue.conversation.content import Content, JsonObject
from duologue.conversation.items import ToolCall
from duologue.conversation.session_setup import Implementation
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import Role, ToolCallUpdate, Update
from duologue.conversation.work_state import TerminalExit
from duologue.errors import InvalidRequest, MethodNotFound, ResourceNotFound
from duologue.protocol.client_requests import (
    ClientRequest,
    CreateTerminal,
    GetTerminalOutput,
    KillTerminal,
    ReadFile,
    ReleaseTerminal,
    WaitForExit,
    WriteFile,
)
from duologue.protocol.values import (
    V2_CLIENT,
    AuthStatus,
    ClientCapabilities,
    Elicitation,
    ElicitationAnswer,
    PermissionOption,
    TerminalOutputResult,
)
from duologue.sanitize import escape_line, shorten

if TYPE_CHECKING:
    from duologue.client.permissions.policy import Permissions
    from duologue.client.services.byte_budget import ByteBudget
    from duologue.client.services.terminals import Terminals
    from duologue.client.services.workspace import Workspace
    from duologue.client.session import ClientSession
    from duologue.mcp.tool_server.server import OfferedServers

_log = logging.getLogger("duologue.client")

T = TypeVar("T")

MAX_CHILDREN = 64
"""Sessions of subagents that are kept; beyond that, the oldest that is idle makes room for a new one."""

CHILD_SHARE = 16
"""The transcript of a subagent's session may take this part of the memory that the one of any other session may."""


class ClientRequestHandler:
    """Handler of the requests of one agent.

    Attributes:
        workspace: Files offered to the agent; `None`: none.
        terminals: Commands the agent may run; `None`: none.
        sessions: Open sessions, by id.
        lost_updates: Number of updates for sessions that are not open.
        activity: When each session was last active.
    """

    def __init__(
        self,
        agent: str,
        permissions: Permissions | None,
        workspace: Workspace | None,
        terminals: Terminals | None,
        on_elicit: ElicitationHandler | None,
        on_elicitation_complete: Callable[[str], None] | None,
        on_login_status: Callable[[AuthStatus], None] | None,
    ) -> None:
        self._agent = agent
        _check_service(permissions, "Permissions", 'edit="allow"')
        _check_service(workspace, "Workspace", '"."')
        _check_service(terminals, "Terminals", "")
        self._policy = None if permissions is None else permissions.for_agent(agent)
        # Agents choose the ids of their sessions, so two of them may use the same one.
        self.workspace = None if workspace is None else workspace.for_agent()
        self.terminals = None if terminals is None else terminals.for_agent()
        self.sessions: dict[str, ClientSession] = {}
        self.lost_updates = 0
        self.activity = ActivityTracker()
        self._elicitations = Elicitations(on_elicit)
        self._on_elicitation_complete = on_elicitation_complete
        self._on_auth_status = on_login_status
        self._answers: dict[type[ClientRequest[Any]], Callable[[Any], Awaitable[Any]]] = {
            ReadFile: self._read_file,
            WriteFile: self._write_file,
            CreateTerminal: self._create_terminal,
            GetTerminalOutput: self._terminal_output,
            WaitForExit: self._wait_for_exit,
            KillTerminal: self._kill_terminal,
            ReleaseTerminal: self._release_terminal,
        }

    # Loaded when an agent first needs them: most of the time before the first prompt was for what many never use.

    @property
    def permissions(self) -> Permissions:
        """Policy that decides the agent's permission requests."""
        if self._policy is None:
            from duologue.client.permissions.policy import Permissions

            self._policy = Permissions().for_agent(self._agent)
        return self._policy

    @cached_property
    def offered(self) -> OfferedServers:
        """MCP servers that the agent reaches over this connection."""
        from duologue.mcp.tool_server.server import OfferedServers

        return OfferedServers()

    @cached_property
    def _budget(self) -> ByteBudget:
        from duologue.client.services.byte_budget import ByteBudget

        return ByteBudget()

    @property
    def capabilities(self) -> ClientCapabilities:
        """Capabilities to advertise; the connector adds `terminal_login`."""
        return structs.replace(
            V2_CLIENT,
            reads_files=self.workspace is not None,
            writes_files=self.workspace is not None and not self.workspace.is_read_only,
            terminals=self.terminals is not None,
            forms=self._elicitations.can_ask,
            urls=self._elicitations.can_ask,
        )

    def on_initialized(self, info: Implementation | None) -> None:
        """Adapt to the quirks of a known agent, before any session is opened."""
        if self.workspace is not None:
            self.workspace.adapt_to(quirks_of(info))

    # --- sessions

    def add(self, session: ClientSession) -> None:
        """Accept requests and updates of this session from now on."""
        self.sessions[session.id] = session
        if self.workspace is not None:
            self.workspace.open_session(session.id, session._params.roots)

    def add_child(self, parent: ClientSession, session_id: str) -> None:
        """Accept requests and updates of a subagent's session, within the directories of the session that it serves."""
        if session_id in self.sessions or not parent.is_open:
            return
        children = [each for each in self.sessions.values() if each._parent is not None]
        if len(children) >= MAX_CHILDREN:
            idle = next((each for each in children if _is_idle(each)), None)
            if idle is None:
                return
            del self.sessions[idle.id]
            parent.agent._tasks.start(idle._end())
        child = type(parent)(parent.agent, session_id, parent._params)
        child._parent = parent
        limit = parent.agent._max_transcript_bytes
        child.transcript = Transcript(None if limit is None else limit // CHILD_SHARE)
        self.add(child)
        if parent.agent.on_subagent is not None:
            parent.agent.on_subagent(child)

    async def remove(self, session_id: str) -> None:
        """Close a session with its pending requests, terminals and files."""
        self.cancel_pending(session_id)
        self.sessions.pop(session_id, None)
        if self._policy is not None:
            self._policy.forget_session(session_id)
        self.activity.forget(session_id)
        if self.terminals is not None:
            await self.terminals.close_session(session_id)
        if self.workspace is not None:
            self.workspace.close_session(session_id)

    async def end_agent_work(self) -> None:
        """End the terminals and the pending requests of an agent that is gone."""
        if self.terminals is not None:
            await self.terminals.aclose()
        for session_id in self.sessions:
            self.cancel_pending(session_id)

    def close_subscribers(self) -> None:
        """End the event streams of all sessions, because the agent will not be started again."""
        for session in self.sessions.values():
            session._close_subscribers()

    async def aclose(self) -> None:
        """Close everything."""
        await self.end_agent_work()
        self.close_subscribers()
        for session_id in list(self.sessions):
            await self.remove(session_id)

    def cancel_pending(self, session_id: str) -> None:
        """Answer the pending permission requests and elicitations of a session with "cancelled"."""
        if self._policy is not None:
            self._policy.cancel(session_id)
        self._elicitations.cancel(session_id)

    def _session(self, session_id: str) -> ClientSession:
        session = self.sessions.get(session_id)
        if session is None:
            raise _no_session(session_id)
        return session

    async def _used_session(self, session_id: str) -> ClientSession:
        """Return a session once it is used: requests about one that was opened in advance wait until then."""
        session = self._session(session_id)
        if session._buffered is not None:
            await session._buffered.wait_released()
            session = self._session(session_id)
        return session

    # --- updates, permissions and files

    def text(self, session_id: str, role: Role, message_id: str | None, text: str, raw: bytes) -> None:
        session = self.sessions.get(session_id)
        if session is None:
            self._drop_update()
            return
        if self.activity.is_used:
            self.activity.touch(session_id)
        session._on_text(role, message_id, text, raw)

    async def update(self, session_id: str, update: Update, raw: bytes) -> None:
        session = self.sessions.get(session_id)
        if session is None:
            self._drop_update()
            return
        self.activity.touch(session_id)
        session._on_update(update, raw)

    def _drop_update(self) -> None:
        self.lost_updates += 1
        _log.debug("an update for an unknown session was dropped")

    def note_permission_request(self, session_id: str, tool: ToolCallUpdate, raw: bytes) -> ToolCall | None:
        session = self.sessions.get(session_id)
        return None if session is None else session._apply_permission_request(tool, raw)

    async def ask_permission(
        self,
        session_id: str,
        tool: ToolCallUpdate,
        known: ToolCall | None,
        options: list[PermissionOption],
        raw: bytes,
    ) -> str | None:
        session = await self._used_session(session_id)
        if known is None and session._parent is None:
            raise _no_session(session_id)  # it was opened after the request, so the tool call is not known
        if known is None:  # a subagent's session, which was announced right before the request
            known = session._apply_permission_request(tool, raw)
        if session.is_cancelling:
            return None  # the request crossed the cancellation: the user is not asked
        from duologue.client.permissions.request import ALLOWING, PermissionRequest

        cwd, roots = session._params.cwd, session._params.roots
        request = PermissionRequest(session_id=session_id, cwd=cwd, roots=roots, tool=known, options=options, raw=raw)
        with self.activity.suspended(session_id):
            chosen = await self.permissions.decide(request)
        is_allowed = any(each.option_id == chosen and each.kind in ALLOWING for each in options)
        if not is_allowed and not session.is_cancelling:
            session._note_denied(f"{request.title} ({known.kind})")
        return chosen

    @contextmanager
    def _noting_denial(self, session: ClientSession, what: str) -> Generator[None]:
        """Note an action that is not permitted; the time until it is decided is no inactivity of the agent."""
        try:
            with self.activity.suspended(session.id):
                yield
        except InvalidRequest:
            session._note_denied(escape_line(what))
            raise

    def take_steering(self, session_id: str) -> tuple[list[list[Content]], bool]:
        session = self._session(session_id)
        return session._pulled_steering.take(session), session._prompts.is_waiting

    async def answer(self, request: ClientRequest[T]) -> T:
        result: T = await self._answers[type(request)](request)
        return result

    async def _read_file(self, request: ReadFile) -> str:
        session_id, path = request.session_id, request.path
        session, workspace = await self._used_session(session_id), self._workspace()
        # The policy sees where the path leads, and exactly that is opened.
        resolved = await workspace.resolve(session_id, path)
        cwd, roots = session._params.cwd, session._params.roots
        with self._noting_denial(session, f"read {path}"):
            await self.permissions.check_read(session_id, cwd, path, resolved=resolved, roots=roots)
        return await workspace.read(
            session_id, path, line=request.line, limit=request.limit, resolved=resolved, budget=self._budget
        )

    async def _write_file(self, request: WriteFile) -> None:
        session_id, path = request.session_id, request.path
        session, workspace = await self._used_session(session_id), self._workspace()
        resolved = await workspace.resolve(session_id, path)
        cwd, roots = session._params.cwd, session._params.roots
        with self._noting_denial(session, f"write {path}"):
            change = partial(workspace.change_to, session_id, path, resolved, request.content)
            await self.permissions.check_write(session_id, cwd, path, resolved=resolved, roots=roots, preview=change)
        await workspace.write(session_id, path, request.content, resolved=resolved, even_protected=True)

    def _workspace(self) -> Workspace:
        if self.workspace is None:
            raise MethodNotFound("this client offers no files")
        return self.workspace

    # --- terminals

    async def _create_terminal(self, request: CreateTerminal) -> str:
        session_id, env, command, args = request.session_id, request.env, request.command, request.args
        session, terminals = await self._used_session(session_id), self._terminals()
        own, roots, limit = session._params.cwd, session._params.roots, request.output_byte_limit

        async def check(directory: str) -> None:
            with self._noting_denial(session, f"run {' '.join([command, *args])}"):
                await self.permissions.check_command(session_id, own, [command, *args], directory, env=env, roots=roots)

        # The policy sees the directory that is open, and the command starts in exactly that.
        return await terminals.create(
            session_id, command, args, env=env, cwd=request.cwd or own, roots=roots, limit=limit, check=check
        )

    async def _terminal_output(self, request: GetTerminalOutput) -> TerminalOutputResult:
        return self._terminals().output(request.session_id, request.terminal_id)

    async def _wait_for_exit(self, request: WaitForExit) -> TerminalExit:
        with self.activity.suspended(request.session_id):
            return await self._terminals().wait(request.session_id, request.terminal_id)

    async def _kill_terminal(self, request: KillTerminal) -> None:
        await self._terminals().kill(request.session_id, request.terminal_id)

    async def _release_terminal(self, request: ReleaseTerminal) -> None:
        await self._terminals().release(request.session_id, request.terminal_id)

    def _terminals(self) -> Terminals:
        if self.terminals is None:
            raise MethodNotFound("this client offers no terminals")
        return self.terminals

    # --- elicitation, authentication and MCP

    async def elicit(self, elicitation: Elicitation) -> ElicitationAnswer:
        if elicitation.session_id in self.sessions:
            await self._used_session(elicitation.session_id)
        with self.activity.suspended(elicitation.session_id):
            return await self._elicitations.ask(elicitation)

    async def elicitation_completed(self, elicitation_id: str) -> None:
        if self._on_elicitation_complete is not None:
            self._on_elicitation_complete(elicitation_id)

    async def auth_status_changed(self, status: AuthStatus) -> None:
        if self._on_auth_status is not None:
            self._on_auth_status(status)

    async def mcp_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> JsonObject:
        return await self.offered.answer(server_id, request_id, method, params)


def _is_idle(child: ClientSession) -> bool:
    """Return True if a subagent has ended its work, as far as the session that it serves knows."""
    known = None if child._parent is None else child._parent.transcript.subagents.get(child.id)
    return known is None or known.is_idle


def _no_session(session_id: str) -> ResourceNotFound:
    return ResourceNotFound("no such session", data={"sessionId": session_id})


def _check_service(given: object, name: str, arguments: str) -> None:
    """Check what a caller passes to `connect` and `ask`, without loading the class that it should be of."""
    if given is not None and not hasattr(given, "for_agent"):
        role = name.lower()
        raise TypeError(
            f"`{role}` must be a `duologue.{name}`, got {shorten(repr(given), 60)}; write `{role}={name}({arguments})`"
        )
