"""Serve running trials over ACP: a client lists them as sessions and loads one to watch it.

A watcher changes nothing, unless the run allows it. Permission requests and forms stay with the run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec import Raw, UnsetType

from duologue.conversation.content import TextContent
from duologue.conversation.downgrade import chunks_of
from duologue.conversation.updates import MessageUpdate, Update
from duologue.errors import ConnectionLost, DuologueError, InvalidRequest, ResourceNotFound
from duologue.evals.run.watched_trial import Follower, TrialWatch, WatchedTrial
from duologue.protocol.v1.content import blocks_from_wire
from duologue.protocol.v1.updates import update_to_wire
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.schema import v1
from duologue.transports.base import Transport

NAME = "duologue-eval"
READ_ONLY = "the trials of this run can only be watched; `--attach-control` of `eval run` allows to change them"


class TrialAgent:
    """Plays the agent for one watcher after the other: its sessions are the trials that run.

    Args:
        watch: The trials.
        may_control: Prompts and cancellations reach the trial.
    """

    def __init__(self, watch: TrialWatch, *, may_control: bool = False) -> None:
        self._watch = watch
        self._may_control = may_control

    async def serve(self, transport: Transport) -> None:
        """Serve one watcher until it disconnects."""
        async with Connection(transport, self._handlers(), first_method="initialize") as connection:
            await connection.wait_closed()

    def _handlers(self) -> Handlers:
        handlers = Handlers()
        handlers.on(v1.INITIALIZE)(self._initialize)
        handlers.on(v1.SESSION_LIST)(self._list)
        handlers.on(v1.SESSION_LOAD)(self._load)
        handlers.on(v1.SESSION_CLOSE)(self._close)
        handlers.on(v1.SESSION_PROMPT)(self._prompt)
        handlers.on(v1.SESSION_CANCEL)(self._cancel)
        handlers.other_requests = self._refuse
        return handlers

    # --- watching

    async def _initialize(self, context: Context, request: v1.InitializeRequest) -> v1.InitializeResponse:
        sessions = v1.SessionCapabilities(list=v1.SessionListCapabilities(), close=v1.SessionCloseCapabilities())
        return v1.InitializeResponse(
            protocol_version=1,
            agent_capabilities=v1.AgentCapabilities(load_session=True, session_capabilities=sessions),
            agent_info=v1.Implementation(name=NAME, version="1", title="Trials of a running evaluation"),
        )

    async def _list(self, context: Context, request: v1.ListSessionsRequest) -> v1.ListSessionsResponse:
        sessions = [
            v1.SessionInfo(session_id=trial.id, cwd=trial.cwd, title=_title(trial), updated_at=trial.changed_at)
            for trial in self._watch.running
            if request.cwd in (None, trial.cwd)
        ]
        return v1.ListSessionsResponse(sessions=sessions)

    async def _load(self, context: Context, request: v1.LoadSessionRequest) -> v1.LoadSessionResponse:
        """Replay a trial; what follows is sent after the response, until the trial ends."""
        trial = self._trial(request.session_id)
        follower = Follower(trial)
        await self._send_all(context, trial, follower)

        async def go_on() -> None:
            with suppress(ConnectionLost):
                while await follower.wait():
                    await self._send_all(context, trial, follower)

        context.after_response(go_on)
        return v1.LoadSessionResponse()

    async def _close(self, context: Context, request: v1.CloseSessionRequest) -> v1.CloseSessionResponse:
        """Do nothing: a watcher that has enough disconnects, and the trial goes on."""
        return v1.CloseSessionResponse()

    async def _send_all(self, context: Context, trial: WatchedTrial, follower: Follower) -> None:
        while (update := follower.take()) is not None:
            await self._send(context, trial, update)

    async def _send(self, context: Context, trial: WatchedTrial, update: Update) -> None:
        for each in chunks_of(update) if isinstance(update, MessageUpdate) else [update]:
            wire = update_to_wire(each)
            if wire is not None:
                notification = v1.SessionNotification(session_id=trial.id, update=wire)
                await context.connection.notify(v1.SESSION_UPDATE, notification)

    # --- control

    async def _prompt(self, context: Context, request: v1.PromptRequest) -> v1.PromptResponse:
        """Send text into the running turn; the trial then does not count."""
        trial = self._controlled(request.session_id)
        blocks = blocks_from_wire(request.prompt)
        text = "\n".join(block.text for block in blocks if isinstance(block, TextContent))
        assert trial.conversation is not None, "checked by `_controlled`"
        try:
            await trial.conversation.say(text)
        except DuologueError as error:
            raise InvalidRequest(f"the agent did not take the text: {error}") from None
        return v1.PromptResponse(stop_reason="end_turn")

    async def _cancel(self, context: Context, request: v1.CancelNotification) -> None:
        """Cancel the running turn, which ends the trial; without control, nothing happens."""
        trial = self._watch.get(request.session_id)
        if self._may_control and trial is not None and trial.conversation is not None:
            await trial.conversation.interrupt()

    async def _refuse(self, context: Context, params: Raw | UnsetType) -> Any:
        raise InvalidRequest(f"{context.method}: a run has no such request; list its trials and load one to watch it")

    def _controlled(self, id: str) -> WatchedTrial:
        """Return a trial that this watcher may change.

        Raises:
            InvalidRequest: It may not, or the trial has not begun.
        """
        if not self._may_control:
            raise InvalidRequest(READ_ONLY)
        trial = self._trial(id)
        if trial.conversation is None:
            raise InvalidRequest("the trial has not begun")
        return trial

    def _trial(self, id: str) -> WatchedTrial:
        trial = self._watch.get(id)
        if trial is None:
            raise ResourceNotFound(f"no trial with the id {id!r} is running", data={"sessionId": id})
        return trial


def _title(trial: WatchedTrial) -> str:
    return f"{trial.key.agent}: {trial.key.case}, trial {trial.key.trial}"


@asynccontextmanager
async def serve_trials(watch: TrialWatch, *, may_control: bool = False, port: int = 0) -> AsyncGenerator[str]:
    """Serve trials on loopback as long as the context lasts; yield the URL, with the token that clients need.

    Raises:
        ImportError: The extra `remote` is not installed.
        StartError: The port is in use.
    """
    from duologue.transports.server.app import ServerApp
    from duologue.transports.server.auth import AccessControl
    from duologue.transports.server.limits import Limits
    from duologue.transports.server.run import ServerAddress, new_token, serve
    from duologue.transports.server.tokens import single_token

    token, limits, address = new_token(), Limits(), ServerAddress(port=port)
    access = AccessControl(single_token(token), limits, hosts=address.hostnames)
    agent = TrialAgent(watch, may_control=may_control)
    async with serve(ServerApp(lambda caller: agent, access, limits), address) as listening:
        yield address.url(listening, "ws", token)
