"""The target of `run --warm`: an agent of the daemon, or a new one if there is no daemon."""

from __future__ import annotations

import argparse
import sys
from typing import Unpack

import msgspec

import duologue
from duologue.client.target import AgentTarget, Target, TargetOptions
from duologue.daemon.client import AttachedTransport, DaemonClient
from duologue.daemon.messages import LOGIN_NEEDED
from duologue.errors import StartError
from duologue.transports.base import Transport


class WarmTarget(AgentTarget):
    """An agent that the daemon has started, if it can; the arguments are those of `AgentTarget`."""

    def __init__(self, target: Target, **options: Unpack[TargetOptions]) -> None:
        super().__init__(target, **options)
        self._attached: AttachedTransport | None = None

    async def prepare(self) -> None:
        """Attach to an agent of the daemon; print one line if that is not possible."""
        await super().prepare()
        command, env = self.command, self.env
        try:
            if command is None:
                raise StartError("a remote agent is not started here")
            self._attached = await DaemonClient(duologue.__version__).attach(command, env)
        except StartError as error:
            sys.stderr.write(f"duologue: without the daemon: {error}\n")
        else:
            if self._attached.needs_login:
                sys.stderr.write(f"duologue: --warm saves less with this agent: {LOGIN_NEEDED}\n")

    def open(self) -> Transport:
        """Return the transport of the daemon the first time; later, or without it, start the agent here."""
        attached, self._attached = self._attached, None
        return super().open() if attached is None else attached

    async def aclose(self) -> None:
        """Close what was not used."""
        if self._attached is not None:
            await self._attached.aclose()
        await super().aclose()


def job_input(arguments: argparse.Namespace, prompt: str) -> str:
    """Return what a job reads from stdin: the arguments of `run`, and the prompt, which its arguments do not show."""
    given = {**vars(arguments), "prompt": None, "prompt_file": None, "no_wait": False}
    return msgspec.json.encode({"arguments": given, "prompt": prompt}).decode()
