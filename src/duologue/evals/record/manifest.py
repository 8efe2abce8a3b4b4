"""The manifest of a run and that of a trial: what is run. Both are written before the first prompt."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from duologue.evals.record.key import TrialKey

RECORD_FORMAT = 1
"""Version of the files of a run that is written; older ones are read."""


class AgentIdentity(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent of a run: how it was reached, and what it says about itself.

    Attributes:
        label: Its name in this run, unique.
        command: Program and arguments, secrets removed; empty for a remote agent.
        url: URL of a remote agent, without credentials.
        name: Name that it reported.
        title: Title that it reported.
        version: Version that it reported; empty if it reported none.
        protocol_version: Version of the protocol that was agreed on.
        program_sha256: Hash of the program that was started, if it is a file.
        capabilities: The capabilities that it reported.
    """

    label: str
    command: list[str] = []
    url: str | None = None
    name: str = ""
    title: str = ""
    version: str = ""
    protocol_version: int | None = None
    program_sha256: str | None = None
    capabilities: dict[str, Any] = {}


class Machine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The machine and the programs of a run.

    Attributes:
        system: Name and release of the operating system.
        architecture: Architecture of the processor.
        cores: Number of cores.
        memory_bytes: Size of the memory.
        python: Version of Python.
        duologue: Version of duologue.
    """

    system: str = ""
    architecture: str = ""
    cores: int | None = None
    memory_bytes: int | None = None
    python: str = ""
    duologue: str = ""


class RunManifest(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """`run.json`: what a run consists of.

    Attributes:
        format: Version of the format.
        id: Id of the run.
        started: When it was made, in UTC (ISO 8601).
        suite: Name of the suite.
        suite_digest: Digest of the suite; a run is never continued with another one.
        cases: Ids of the cases that are run.
        agents: The agents, in the order in which they were given.
        trials: How often each agent runs each case.
        seed: Seed of everything random: the order of trials, and the bootstrap.
        machine: Where it runs.
        options: Options of the run that change results, such as limits; for people.
    """

    format: int = RECORD_FORMAT
    id: str
    started: str
    suite: str
    suite_digest: str
    cases: list[str]
    agents: list[AgentIdentity]
    trials: Annotated[int, Meta(ge=1)]
    seed: int = 0
    machine: Machine = Machine()
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def trial_keys(self) -> list[TrialKey]:
        """Return the keys of all trials, agents interleaved: the first trial of each case by each agent comes first."""
        return [
            TrialKey(self.suite_digest, case, trial, agent.label)
            for trial in range(1, self.trials + 1)
            for case in self.cases
            for agent in self.agents
        ]


class SettingsReadBack(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a session: those that were requested, and those that the agent reported afterwards.

    Attributes:
        requested: Settings of the case by their ids; the mode is `mode`, the model `model`.
        reported: What the agent reported after they were set; missing ids were not reported.
    """

    requested: dict[str, str | bool] = {}
    reported: dict[str, str | bool] = {}


class WorkspaceBase(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The workspace of a trial before the agent changed it.

    Attributes:
        isolation: How it was made: `archive`, `copy`, `worktree` or `empty`.
        source: Where it came from.
        commit: Commit of the source.
        base: Commit in the trial's own repository that the patch is taken against.
        sandbox: What confines the agent: `bwrap`, or `none`.
        is_watched: All writes outside of the workspace are prevented or listed; otherwise only HOME and TMPDIR are.
    """

    isolation: str = "empty"
    source: str = ""
    commit: str = ""
    base: str = ""
    sandbox: str = "none"
    is_watched: bool = False


class TrialManifest(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """`manifest.json` of a trial: what was run, as far as it is known before the first prompt.

    Attributes:
        format: Version of the format.
        key: The trial.
        attempt: Number of the attempt, from 1.
        started: When the attempt began, in UTC (ISO 8601).
        agent: The agent, as it reported itself.
        settings: Settings of the session.
        workspace: The workspace.
        env: Names of the environment variables that the agent got; no values.
        credentials: Names of credential files that were copied.
        seed: Seed of this trial.
        machine: Where it ran.
    """

    format: int = RECORD_FORMAT
    key: TrialKey
    attempt: Annotated[int, Meta(ge=1)] = 1
    started: str = ""
    agent: AgentIdentity
    settings: SettingsReadBack = SettingsReadBack()
    workspace: WorkspaceBase = WorkspaceBase()
    env: list[str] = field(default_factory=list[str])
    credentials: list[str] = field(default_factory=list[str])
    seed: int = 0
    machine: Machine = Machine()
