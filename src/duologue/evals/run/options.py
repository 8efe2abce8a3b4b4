"""The options of a run."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from duologue.evals.run.credentials import CredentialFile
from duologue.evals.suite.limits import Count, Seconds

SandboxKind: TypeAlias = Literal["auto", "bwrap", "none"]

RETRIES = 2
"""Further attempts at a trial that failed for reasons that are not the agent's."""
BACKOFF_SECONDS = 1.0
"""Pause before the second attempt; each further one is twice as long."""
LONGEST_BACKOFF = 60.0
OVERHEAD_SECONDS = 600.0
"""Time for the workspace of a trial, its patch and its record, with large repositories on slow disks."""
GIVE_UP_AFTER = 5
"""Trials of one agent in a row that are missing, after which no further one of it is started."""


class RunLimits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of a whole run. When one is reached, no further trial is started; those that run end as usual.

    Attributes:
        cost: Money, as the agents report it.
        currency: ISO 4217 code of the cost.
        seconds: Time.
        prompts: Number of prompts.
    """

    cost: Annotated[float, Meta(gt=0)] | None = None
    currency: Annotated[str, Meta(pattern=r"\A[A-Z]{3}\Z")] = "USD"
    seconds: Seconds | None = None
    prompts: Count | None = None


class TrialOptions(Struct, frozen=True, kw_only=True):
    """How trials are run.

    Attributes:
        jobs: Trials at the same time. Default: one, or as many as a cluster has slots.
        limits: Limits of the whole run.
        retries: Further attempts at a trial that failed for reasons that are not the agent's.
        backoff: Seconds before the second attempt; each further one is twice as long.
        overhead: Seconds that a trial may take beyond the limits of its case, before a worker of a cluster ends it.
        give_up_after: Missing trials of one agent in a row after which no further one of it is started.
        sandbox: `bwrap`: confine agents with bubblewrap; `auto`: if it is installed and works; `none`: do not.
        env: Names of environment variables that agents get, in addition to those that a case names.
        credentials: Files that are copied into the home directory of agents.
        reports_cost: Labels of agents of which you know that they report their cost.
        protocol_versions: Versions of the protocol that are offered.
        login: Id of the login method for agents that require one.
    """

    jobs: Count | None = None
    limits: RunLimits = RunLimits()
    retries: Annotated[int, Meta(ge=0)] = RETRIES
    backoff: Annotated[float, Meta(ge=0)] = BACKOFF_SECONDS
    overhead: Seconds = OVERHEAD_SECONDS
    give_up_after: Count = GIVE_UP_AFTER
    sandbox: SandboxKind = "auto"
    env: tuple[str, ...] = ()
    credentials: tuple[CredentialFile, ...] = ()
    reports_cost: frozenset[str] = frozenset()
    protocol_versions: tuple[int, ...] = (1,)
    login: str | None = None
