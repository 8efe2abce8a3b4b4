"""The simulated user of a trial: another agent that reads what the agent says, and writes the next prompt."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from duologue.client.session import ClientSession
from duologue.errors import DuologueError
from duologue.evals.exceptions import EvalError
from duologue.evals.run.targets import TrialTarget
from duologue.evals.suite.case import SimulatedUser
from duologue.named_agents import connect
from duologue.recording.recorder import Recorder
from duologue.usage.amounts import SessionUsage

INSTRUCTION = """\
You play the user of an assistant that works for you. {persona}

Write only what this user would say next, in the first person, without explanation. When you have what you wanted, or it
cannot be had, write only: DONE

The assistant said:

{message}"""


class UserAgent:
    """The agent that plays the user."""

    def __init__(self, session: ClientSession, simulated: SimulatedUser, seconds: float) -> None:
        self._session = session
        self._simulated = simulated
        self._seconds = seconds
        self._is_first = True

    @property
    def usage(self) -> SessionUsage:
        """Tokens and cost of the simulated user."""
        return self._session.usage

    async def reply(self, message: str) -> str:
        """Return what the user says after the assistant has said this.

        Raises:
            EvalError: The agent that plays the user failed.
        """
        prompt = INSTRUCTION.format(persona=self._simulated.persona, message=message) if self._is_first else message
        self._is_first = False
        try:
            return await self._session.ask(prompt or "(nothing)", timeout=self._seconds)
        except DuologueError as error:
            raise EvalError(f"the simulated user {self._simulated.agent!r} failed: {error}") from error


@asynccontextmanager
async def connected_user(
    target: TrialTarget, simulated: SimulatedUser, recorder: Recorder, *, cwd: str, start: float, turn: float
) -> AsyncGenerator[UserAgent]:
    """Start the agent that plays the user.

    Raises:
        EvalError: It cannot be started.
    """
    try:
        async with (
            connect(target, observers=(recorder,), startup_timeout=start) as agent,
            agent.new_session(cwd) as session,
        ):
            yield UserAgent(session, simulated, turn)
    except DuologueError as error:
        if isinstance(error, EvalError):
            raise
        raise EvalError(f"the simulated user {simulated.agent!r} cannot be used: {error}") from error
