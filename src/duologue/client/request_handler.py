"""Where the agent's requests arrive: each goes to the part of the client that may answer it.

Nothing is done for an agent that was not advertised, and nothing without the permissions having a say.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duologue.client.permissions.policy import PermissionRequest, Permissions
from duologue.client.quirks import quirks_of
from duologue.client.services.byte_budget import ByteBudget
from duologue.client.services.elicitation import ElicitationHandler, Elicitations
from duologue.client.services.terminals import Terminals
from duologue.client.services.workspace import Workspace
from duologue.client.watchdog import ActivityTracker
from duologue.conversation.content import JsonObject
from duologue.conversation.items import ToolCall
from duologue.conversation.session_setup import Implementation
from duologue.conversation.updates import ToolCallUpdate, Update
from duologue.errors import MethodNotFound, ResourceNotFound
from duologue.mcp.tool_server.server import OfferedServers
from duologue.protocol.values import (
    AuthStatus,
    ClientCapabilities,
    Elicitation,
    ElicitationAnswer,
    PermissionOption,
    TerminalExit,
    TerminalOutputResult,
)

if TYPE_CHECKING:
    from duologue.client.session import ClientSession

__all__ = ["ClientCallbacks", "ClientRequestHandler", "ElicitationHandler"]

_log = logging.getLogger("duologue.client")


@dataclass(frozen=True)
class ClientCallbacks:
    """Who is asked and told what is nobody else's business.

    Attributes:
        on_elicit: Answers questions to the user.
        on_elicitation_complete: Told the id of a question at an address once the user is through with it there.
        on_login_status: Told of logins.
    """

    on_elicit: ElicitationHandler | None = None
    on_elicitation_complete: Callable[[str], None] | None = None
    on_login_status: Callable[[AuthStatus], None] | None = None


class ClientRequestHandler:
    """What one client does for one agent.

    Attributes:
        permissions: Who may do what.
        sessions: Those that are open, by id.
        lost_updates: Updates of sessions nobody knows.
        signs: When each session was last heard of.
        offered: The MCP servers the agent reaches over this connection.
    """

    def __init__(
        self,
        agent: str,
        permissions: Permissions | None,
        workspace: Workspace | None,
        terminals: Terminals | None,
        listeners: ClientCallbacks,
    ) -> None:
        self.permissions = (permissions if permissions is not None else Permissions()).for_agent(agent)
        # Agents choose the ids of their sessions: what one says must mean nothing to another.
        self.workspace = None if workspace is None else workspace.for_agent()
        self.terminals = None if terminals is None else terminals.for_agent()
        self.sessions: dict[str, ClientSession] = {}
        self.lost_updates = 0
        self.signs = ActivityTracker()
        self.offered = OfferedServers()
        self._answers = ByteBudget()
        self._listeners = listeners
        self._inquiries = Elicitations(listeners.on_elicit)

    @property
    def capabilities(self) -> ClientCapabilities:
        """What is advertised: what there is. Whether a terminal is there to log in with, the dialer knows."""
        return ClientCapabilities(
            reads_files=self.workspace is not None,
            writes_files=self.workspace is not None and not self.workspace.is_read_only,
            terminals=self.terminals is not None,
            boolean_settings=True,
            notices=True,
            compaction=True,
            named_plans=True,
            subagents=True,
            forms=self._inquiries.can_ask,
            urls=self._inquiries.can_ask,
        )

    def met(self, info: Implementation | None) -> None:
        """Take note of who the agent says it is, before any session is opened."""
        if self.workspace is not None:
            self.workspace.suit(quirks_of(info))

    # --- sessions

    def add(self, session: ClientSession) -> None:
        """A session is open from now on."""
        self.sessions[session.id] = session
        if self.workspace is not None:
            self.workspace.open_session(session.id, session.setup.roots)

    async def remove(self, session_id: str) -> None:
        """A session is over: its questions, terminals and handles end with it."""
        self.cancel_questions(session_id)
        self.sessions.pop(session_id, None)
        self.permissions.forget_session(session_id)
        self.signs.forget(session_id)
        if self.terminals is not None:
            await self.terminals.close_session(session_id)
        if self.workspace is not None:
            self.workspace.close_session(session_id)

    async def hang_up(self) -> None:
        """The agent is gone: end what was done for it."""
        if self.terminals is not None:
            await self.terminals.aclose()
        for session_id in self.sessions:
            self.cancel_questions(session_id)

    def fall_silent(self) -> None:
        """The agent does not come back: let everybody know who listens."""
        for session in self.sessions.values():
            session._close_subscribers()

    async def aclose(self) -> None:
        """We leave: nothing stays open."""
        await self.hang_up()
        self.fall_silent()
        for session_id in list(self.sessions):
            await self.remove(session_id)

    def cancel_questions(self, session_id: str) -> None:
        """Answer the open questions of a session with "cancelled"."""
        self.permissions.cancel(session_id)
        self._inquiries.cancel(session_id)

    def _session(self, session_id: str) -> ClientSession:
        session = self.sessions.get(session_id)
        if session is None:
            raise _no_session(session_id)
        return session

    # --- what the agent says and asks

    async def update(self, session_id: str, update: Update, raw: bytes) -> None:
        session = self.sessions.get(session_id)
        if session is None:
            self.lost_updates += 1
            _log.debug("an update for an unknown session was dropped")
            return
        self.signs.touch(session_id)
        session._on_update(update, raw)

    def asked_permission(self, session_id: str, tool: ToolCallUpdate, raw: bytes) -> ToolCall | None:
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
        session = self._session(session_id)
        if known is None:
            raise _no_session(session_id)  # it was opened after the agent had asked, so its past is not known
        if session.is_cancelling:
            return None  # asked before the agent heard of the end: nobody is to be bothered with it
        cwd, roots = session.setup.cwd, session.setup.roots
        question = PermissionRequest(session_id=session_id, cwd=cwd, roots=roots, tool=known, options=options, raw=raw)
        with self.signs.suspended(session_id):
            return await self.permissions.decide(question)

    async def read_file(self, session_id: str, path: str, line: int | None, limit: int | None) -> str:
        session = self._session(session_id)
        if self.workspace is None:
            raise MethodNotFound("this client offers no files")
        # What is judged is where the path leads, and that is what is opened.
        place = await self.workspace.resolve(session_id, path)
        cwd, roots = session.setup.cwd, session.setup.roots
        with self.signs.suspended(session_id):
            await self.permissions.check_read(session_id, cwd, path, resolved=place, roots=roots)
        return await self.workspace.read(
            session_id, path, line=line, limit=limit, resolved=place, allowance=self._answers
        )

    async def write_file(self, session_id: str, path: str, text: str) -> None:
        session = self._session(session_id)
        if self.workspace is None:
            raise MethodNotFound("this client offers no files")
        place = await self.workspace.resolve(session_id, path)
        cwd, roots = session.setup.cwd, session.setup.roots
        with self.signs.suspended(session_id):
            await self.permissions.check_write(session_id, cwd, path, resolved=place, roots=roots)
        await self.workspace.write(session_id, path, text, resolved=place, even_protected=True)

    # --- terminals

    async def create_terminal(
        self, session_id: str, command: str, args: list[str], env: dict[str, str], cwd: str | None, limit: int | None
    ) -> str:
        session, terminals = self._session(session_id), self._terminals()
        own, roots, argv = session.setup.cwd, session.setup.roots, [command, *args]

        async def judge(place: str) -> None:
            with self.signs.suspended(session_id):
                await self.permissions.check_command(session_id, own, argv, place, env=env, roots=roots)

        # What is judged is the directory that is open, and that is what the command starts in.
        return await terminals.create(
            session_id, command, args, env=env, cwd=cwd or own, roots=roots, limit=limit, judge=judge
        )

    async def terminal_output(self, session_id: str, terminal_id: str) -> TerminalOutputResult:
        return self._terminals().output(session_id, terminal_id)

    async def wait_for_exit(self, session_id: str, terminal_id: str) -> TerminalExit:
        with self.signs.suspended(session_id):
            return await self._terminals().wait(session_id, terminal_id)

    async def kill_terminal(self, session_id: str, terminal_id: str) -> None:
        await self._terminals().kill(session_id, terminal_id)

    async def release_terminal(self, session_id: str, terminal_id: str) -> None:
        await self._terminals().release(session_id, terminal_id)

    def _terminals(self) -> Terminals:
        if self.terminals is None:
            raise MethodNotFound("this client offers no terminals")
        return self.terminals

    # --- the rest

    async def elicit(self, question: Elicitation) -> ElicitationAnswer:
        with self.signs.suspended(question.session_id):
            return await self._inquiries.ask(question)

    async def elicitation_completed(self, elicitation_id: str) -> None:
        if self._listeners.on_elicitation_complete is not None:
            self._listeners.on_elicitation_complete(elicitation_id)

    async def login_status_changed(self, status: AuthStatus) -> None:
        if self._listeners.on_login_status is not None:
            self._listeners.on_login_status(status)

    async def mcp_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> JsonObject:
        return await self.offered.answer(server_id, request_id, method, params)


def _no_session(session_id: str) -> ResourceNotFound:
    return ResourceNotFound("no such session here", data={"sessionId": session_id})
