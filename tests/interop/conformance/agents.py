"""The agents that are checked: how each is started, with which profile, and which of its findings are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from duologue.conformance.agent_check import AgentCheck
from duologue.conformance.baseline import Baseline, apply_baseline, read_baseline
from duologue.conformance.profile import read_profile
from duologue.conformance.report import Report
from tests.interop import peers

FOLDER = Path(__file__).parent
KNOWN = FOLDER / "known"
SUITE = "the agent of this project's interop suite"
JOBS = 3
"""Cases at the same time."""
SECONDS = 10.0
"""Limit of a single wait; a case that waits longer is repeated with more time."""


@dataclass(frozen=True)
class AgentProcess:
    """A program that is ready to be started."""

    command: list[str]
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class SdkAgent:
    """One agent that is checked.

    Attributes:
        sdk: Name and version of the SDK, as in `peers`.
        program: What it is.
        profile: Name of a profile that is included, or path of one.
        versions: Versions of the protocol that are checked.
        start: Makes it ready; raises `peers.Absent` if it cannot be had here.
        shared: Name of the baseline that it shares with others; empty for none.
    """

    sdk: str
    program: str
    profile: str
    versions: tuple[int, ...]
    start: Callable[[], AgentProcess]
    shared: str = ""

    @property
    def name(self) -> str:
        """Its name in ids of tests and names of files."""
        return self.sdk if self.shared else f"{self.sdk}-{Path(self.program.split()[0]).stem}"

    async def check(self) -> Report:
        """Check it and mark the findings that are known.

        Raises:
            peers.Absent: It cannot be had here.
        """
        process = self.start()
        target = {"command": process.command[0], "args": process.command[1:], "env": dict(process.variables)}
        profile = read_profile(self.profile)
        check = AgentCheck(target, profile=profile, versions=self.versions, jobs=JOBS, limit=SECONDS)
        report = await check.run()
        apply_baseline(report, self.known)
        return report

    @property
    def known(self) -> Baseline:
        """The findings that are known: its own, and those that it shares with others."""
        return Baseline(known=(*self.own_known.known, *_read(self.shared).known))

    @property
    def own_known(self) -> Baseline:
        """The findings that are known of it alone."""
        return _read(self.name)


def _read(name: str) -> Baseline:
    path = KNOWN / f"{name}.toml"
    return read_baseline(path) if name and path.exists() else Baseline()


def _suite_agent(sdk: str) -> Callable[[], AgentProcess]:
    def start() -> AgentProcess:
        peer = peers.install(sdk)
        return AgentProcess(peer.program("agent"), peer.variables)

    return start


def _python_example(sdk: str, name: str) -> Callable[[], AgentProcess]:
    def start() -> AgentProcess:
        return AgentProcess([peers.official_python(sdk), str(peers.official_python_examples(sdk) / name)])

    return start


def _suite(sdk: str) -> SdkAgent:
    return SdkAgent(sdk, SUITE, str(FOLDER / "suite.toml"), (1,), _suite_agent(sdk), shared="suite")


AGENTS: tuple[SdkAgent, ...] = (
    *map(_suite, peers.ALL),
    *(
        SdkAgent(sdk, f"{name} of its examples", "python-sdk-example", (1,), _python_example(sdk, name))
        for sdk, name in (
            (peers.OFFICIAL, "agent.py"),
            (peers.OFFICIAL_NEXT, "agent.py"),
            (peers.OFFICIAL_NEXT, "echo_agent.py"),
        )
    ),
    SdkAgent(
        peers.RUST,
        "simple_agent_v2 of its examples",
        "rust-sdk-example",
        (2,),
        lambda: AgentProcess([str(peers.rust_examples() / "simple_agent_v2")]),
    ),
    SdkAgent(
        peers.GO,
        "example/agent of its examples",
        "go-sdk-example",
        (1,),
        lambda: AgentProcess([str(peers.go_example())]),
    ),
)
"""All of them."""
