"""The agents of a run: what they are, their labels, and how one is started for a trial, with variables of its own."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Unpack, cast
from urllib.parse import urlsplit

from msgspec import Struct, structs

from duologue.client.target import BUILTIN, AgentTarget, Target, TargetOptions, is_name
from duologue.evals.exceptions import EvalError
from duologue.named_agents import resolve_name
from duologue.transports.base import Transport
from duologue.transports.process.command import check_program, program_name, reaped
from duologue.transports.process.environment import OWNER, safe
from duologue.transports.process.transport import ProcessTransport
from duologue.transports.remote.url import is_remote

REPLAY = "replay:"

_LABELLED = re.compile(r"(?P<label>[A-Za-z0-9][\w.-]*)=(?P<rest>.+)", re.DOTALL)


class EvalAgent(Struct, frozen=True, kw_only=True):
    """An agent of a run.

    Attributes:
        label: Its name in the run; unique.
        target: What is connected to: a name, a command, a URL, an `Agent`, or the player of a recording.
        source: What it was made from, for people: the name, the command, the URL, or the recording.
    """

    label: str
    target: Target
    source: str = ""

    @property
    def env(self) -> dict[str, str]:
        """Variables that the configuration has for it."""
        target = self.target
        return dict(target.get("env") or {}) if isinstance(target, Mapping) and not is_url(target) else {}

    @property
    def is_local(self) -> bool:
        """A process of this machine is started for it."""
        return isinstance(self.target, str | Sequence | Mapping) and not is_url(self.target)


def is_url(target: object) -> bool:
    """Return True if a target is the URL or the configuration of a remote agent."""
    return (isinstance(target, str) and is_remote(target)) or (isinstance(target, Mapping) and "url" in target)


def eval_agents(given: Iterable[str | EvalAgent] | Mapping[str, Target]) -> list[EvalAgent]:
    """Return the agents of a run with unique labels.

    Args:
        given: `builtin`, a name, a command, a URL or `replay:FILE`, each perhaps as `LABEL=…`; or targets by their
            labels.

    Raises:
        EvalError: There are none, two have the same label, a label is a URL, or a recording cannot be read.
    """
    if isinstance(given, Mapping):
        targets = cast("Mapping[str, Target]", given)
        agents = [_agent(label, target) for label, target in targets.items()]
    else:
        agents = [each if isinstance(each, EvalAgent) else parse_agent(each) for each in given]
    if not agents:
        raise EvalError("there is no agent to evaluate: name one, such as builtin")
    labels = [agent.label for agent in agents]
    if any("://" in label for label in labels):
        # A URL may have a token, and labels are shown and recorded.
        raise EvalError("the label of an agent cannot be a URL: give it a name, as in one=URL")
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise EvalError(f"two agents have the label {twice!r}: give each its own, as in one={twice}")
    return agents


async def find_named(agent: EvalAgent) -> EvalAgent:
    """Return an agent with the command or the URL that its name means; one that has no name is returned as it is.

    Raises:
        StartError: Nothing has that name, or the configuration or the lock file cannot be used.
    """
    if not is_name(agent.target):
        return agent
    # A large program takes a moment to read.
    return structs.replace(agent, target=await asyncio.to_thread(resolve_name, str(agent.target), None))


def parse_agent(text: str) -> EvalAgent:
    """Return the agent that a word of the command line names: `SPEC` or `LABEL=SPEC`.

    Raises:
        EvalError: It is empty, or names a recording that cannot be read.
    """
    found = _LABELLED.fullmatch(text)
    label, spec = (found["label"], found["rest"]) if found else ("", text)
    if not spec.strip():
        raise EvalError(f"{text!r} names no agent: expected a name, a command, a URL or replay:FILE")
    return _agent(label or _label_of(spec), spec)


def _agent(label: str, target: Target) -> EvalAgent:
    if isinstance(target, str) and target.startswith(REPLAY):
        from duologue.testing.agent_replay import replay_agent

        file = target.removeprefix(REPLAY)
        try:
            return EvalAgent(label=label, target=replay_agent(file), source=target)
        except (OSError, ValueError) as error:
            raise EvalError(f"{target}: {error}") from None
    return EvalAgent(label=label, target=target, source=_described(target))


def _described(target: Target) -> str:
    if isinstance(target, str):
        return target
    if isinstance(target, Mapping):
        return str(target.get("command") or target.get("url") or "")
    return " ".join(target) if isinstance(target, Sequence) else type(target).__qualname__


def _label_of(spec: str) -> str:
    if spec.startswith(REPLAY):
        return Path(spec.removeprefix(REPLAY)).stem
    if spec == BUILTIN or is_name(spec):
        return spec
    if is_remote(spec):
        return _host_label(spec)
    try:
        return program_name(shlex.split(spec)).rpartition("/")[2]
    except ValueError as error:
        raise EvalError(f"the command {spec!r} cannot be split: {error}") from None


def _host_label(url: str) -> str:
    """Return the host and the port of a URL, without what may be secret; `LABEL=URL` has it before the `=`."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise EvalError(f"the URL of an agent is not valid: {error}") from None
    words = [re.sub(r"[^\w.-]", "-", host).strip("-"), "" if port is None else str(port)]
    return "-".join(word for word in words if word) or "remote"


class TrialTarget(AgentTarget):
    """An agent that is started for one trial: with the variables of the trial only, and with all its processes ended.

    Args:
        target: The agent.
        report: File for the names of the processes that it left behind.
        confine: Returns the words before its command that confine it.
        options: As for `AgentTarget`; `env` is everything but the safe minimum.

    Attributes:
        transport: The process, if one was started.
    """

    def __init__(
        self,
        target: Target,
        *,
        report: Path,
        confine: Callable[[Sequence[str]], list[str]] = lambda command: [],
        **options: Unpack[TargetOptions],
    ) -> None:
        super().__init__(target, **options)
        self.transport: ProcessTransport | None = None
        self._report = report
        self._confine = confine

    def open(self) -> Transport:
        """Start the agent, or connect to it.

        Raises:
            StartError: There is no such program.
        """
        command = self.command
        if command is None:
            return super().open()
        env = self._variables()
        check_program(command, safe(env), self.cwd)
        self.transport = self._process = ProcessTransport(
            [*reaped(self._report), *self._confine(command), *command],
            cwd=self.cwd,
            env=env,
            inherit_env=False,
            on_stderr=self._on_stderr,
        )
        return self.transport

    def _variables(self) -> dict[str, str]:
        # A process that started this one finds its descendants by the marker.
        marker = {OWNER: os.environ[OWNER]} if OWNER in os.environ else {}
        return {**self.env, **marker}
