"""The agent that is checked, and one run of a case against it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import msgspec

from duologue.client.target import AgentTarget, Target
from duologue.conformance.agent_driver import DrivenAgent, TurnEnd
from duologue.conformance.agent_process import RawProcessTransport
from duologue.conformance.case import CaseRun, CaseTransport, NotProvoked
from duologue.conformance.client_services import ClientServices
from duologue.conformance.profile import Act, Profile
from duologue.conformance.raw_peer import Json, PeerFailed, RawPeer, ReceivedMessage
from duologue.conformance.wait_limit import WaitLimit
from duologue.transports.base import Transport

LONGEST = 300
NO_SESSION = "duologue-check-barrier"
PROBE = {"type": "text", "text": "a prompt in a session that does not exist"}
MAX_STDERR = 16 * 1024
FILE_TEXT = "first line\nsecond line\n"
"""Content of the file that an agent reads and writes."""


class CheckedAgent:
    """How to reach the agent; every connection starts it, or connects to it, anew.

    Args:
        target: A command, a URL, an agent object or anything else that `duologue.connect` accepts.
        profile: How to bring it to do things.

    Attributes:
        answers_unknown: False if it leaves requests of unknown methods without a response, as no agent should.
    """

    def __init__(self, target: Target, profile: Profile) -> None:
        self._target = AgentTarget(target, env=profile.env)
        self.profile = profile
        self.answers_unknown = True

    @property
    def name(self) -> str:
        """Its command or URL."""
        return self._target.name

    @property
    def transport(self) -> CaseTransport:
        """How it is reached."""
        if self._target.command is not None:
            return "stdio"
        name = self._target.name
        return "websocket" if name.startswith("ws") else "http" if name.startswith("http") else "memory"

    async def prepare(self) -> None:
        """Find the agent that a name means.

        Raises:
            StartError: There is none.
        """
        await self._target.prepare()

    def open(self) -> Transport:
        """Return a transport to the agent, not yet entered."""
        command = self._target.command
        if command is None:
            return _raw(self._target.open()) if self.transport == "http" else self._target.open()
        return RawProcessTransport(command, env=self._target.env, max_stderr_bytes=MAX_STDERR)

    async def aclose(self) -> None:
        """Stop agent objects that run in this process."""
        await self._target.aclose()


class AgentRun(CaseRun):
    """One run of a case against an agent.

    Args:
        name: Name of the case.
        rules: Numbers of the rules that it judges.
        version: Version of the protocol.
        agent: The agent.
        directory: An empty directory for this run.
        limit: The limit of each wait for the agent.
        on_long_wait: Called when the agent has kept the case waiting for some seconds.
    """

    def __init__(
        self,
        name: str,
        rules: tuple[int, ...],
        version: int,
        agent: CheckedAgent,
        directory: Path,
        limit: WaitLimit,
        on_long_wait: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(name, rules, version, limit)
        self.agent = agent
        self.directory = directory
        self.stderr = ""
        self._on_long_wait = on_long_wait

    @contextlib.asynccontextmanager
    async def connect(
        self, capabilities: Json | None = None, *, initialize: bool = True
    ) -> AsyncGenerator[DrivenAgent]:
        """Start the agent, or connect to it, and initialize it.

        Args:
            capabilities: What the client advertises; by default everything.
            initialize: False to leave that to the case.
        """
        transport = self.agent.open()
        peer = RawPeer(transport, self.log.connect(), "to_agent", self.limit)
        peer.on_long_wait = self._on_long_wait
        try:
            async with peer:
                driven = DrivenAgent(peer, self.version, ClientServices(self.directory), self.directory)
                driven.login_method = self.agent.profile.login
                if not self.agent.answers_unknown:
                    peer.barrier_request = ("session/prompt", {"sessionId": NO_SESSION, "prompt": [PROBE]})
                if initialize:
                    await driven.initialize(capabilities)
                yield driven
        finally:
            if isinstance(transport, RawProcessTransport):
                self.stderr = transport.stderr_tail

    @contextlib.asynccontextmanager
    async def session(self, capabilities: Json | None = None) -> AsyncGenerator[tuple[DrivenAgent, str]]:
        """Connect to the agent and open a session."""
        async with self.connect(capabilities) as agent:
            yield agent, await agent.new_session()

    @property
    def file(self) -> Path:
        """The file that acts read and write."""
        return self.directory / "notes.txt"

    def knows(self, act: Act) -> bool:
        """Return True if the profile says how to bring the agent to do something."""
        return act in self.agent.profile.prompts

    def prompt(self, act: Act) -> str:
        """Return the prompt that makes the agent do something.

        Raises:
            NotProvoked: None is known.
        """
        if not self.file.exists():
            self.file.write_text(FILE_TEXT, "utf-8")
        return self.agent.profile.prompt(act, cwd=str(self.directory), file=str(self.file))

    def further_prompts(self) -> list[str]:
        """Return the prompts of the profile that stand for no act."""
        return self.agent.profile.further(cwd=str(self.directory), file=str(self.file))

    async def act(self, agent: DrivenAgent, session: str, act: Act) -> TurnEnd:
        """Bring the agent to do something and wait for the end of its turn.

        Raises:
            NotProvoked: No prompt is known for it, or the agent answers the prompt with an error.
            PeerFailed: The turn does not end in time.
        """
        end = await agent.prompt(session, self.prompt(act))
        if end.response.error:
            raise NotProvoked(f"the agent answered the prompt for {act!r} with an error: {end.response.error}")
        return end

    def expect_error(self, rule: int, response: ReceivedMessage, cause: str, *codes: int) -> bool:
        """Pass the rule if a response is an error, with one of these codes if any are given."""
        is_met = bool(response.error) if not codes else response.code in codes
        wanted = f"the error {' or '.join(map(str, codes))}" if codes else "an error"
        return self.expect(rule, is_met, f"{cause}: expected {wanted}, got {describe(response)}", response)

    def expect_result(self, rule: int, response: ReceivedMessage, cause: str) -> bool:
        """Pass the rule if a response is a result."""
        is_met = "result" in response.message
        return self.expect(rule, is_met, f"{cause}: expected a result, got {describe(response)}", response)

    async def expect_alive(self, rule: int, agent: DrivenAgent, cause: str) -> bool:
        """Pass the rule if the agent still answers requests."""
        try:
            await agent.peer.barrier()
        except PeerFailed as error:
            return self.expect(rule, False, f"{cause}: {error}")
        return self.expect(rule, True, "")


def describe(message: ReceivedMessage) -> str:
    """Return a message in short."""
    if message.error:
        return f"the error {message.code}: {message.error.get('message')!r}"
    text = msgspec.json.encode(message.message).decode() if message.message else message.text.decode("utf-8", "replace")
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def _raw(transport: Transport) -> Transport:
    from duologue.conformance.raw_http import RawHttpTransport
    from duologue.transports.remote.http import HttpTransport

    return RawHttpTransport(transport.address) if isinstance(transport, HttpTransport) else transport
