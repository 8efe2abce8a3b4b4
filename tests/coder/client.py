"""An editor for the tests of the coding agent: our client, with files, terminals and a user who decides."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duologue import Permissions, Terminals, Workspace, connect
from duologue.client.agent import RemoteAgent
from duologue.client.permissions.request import PermissionRequest
from duologue.client.permissions.rules import Rule
from duologue.client.session import ClientSession
from duologue.coder.agent import CodeOptions, code_agent
from duologue.coder.models import ModelTable
from duologue.testing import ModelServer

MODEL = "openai:scripted"

_TABLES: list[ModelTable] = []
"""Models of the agents in this process, until their connections are closed."""


@dataclass
class User:
    """A user who answers permission requests with the ids of options, in order; without an answer left, by allowing."""

    answers: list[str] = field(default_factory=list[str])
    requests: list[PermissionRequest] = field(default_factory=list[PermissionRequest])
    on_request: Callable[[PermissionRequest], None] | None = None

    async def decide(self, request: PermissionRequest) -> None:
        self.requests.append(request)
        if self.on_request is not None:
            self.on_request(request)
        request.choose(self.answers.pop(0) if self.answers else "allow_once")

    @property
    def titles(self) -> list[str]:
        return [request.tool.title for request in self.requests]

    @property
    def methods(self) -> set[str]:
        return {request.method for request in self.requests}


@asynccontextmanager
async def open_client(
    root: Path, target: Any, user: User, *, edit: Rule = "allow", env: dict[str, str] | None = None, **options: Any
) -> AsyncGenerator[RemoteAgent]:
    """Connect an editor of a directory to an agent."""
    permissions = Permissions(edit=edit, execute="ask", on_request=user.decide)
    try:
        async with connect(
            target,
            permissions=permissions,
            workspace=Workspace(root),
            terminals=Terminals(),
            env=env,
            unstable=True,
            **options,
        ) as agent:
            yield agent
    finally:
        while _TABLES:
            for model in _TABLES.pop()._made.values():
                async with model:
                    pass  # leaving it closes the connections to its server


def coder(server: ModelServer, data: Path, models: Iterable[str] = (MODEL,), **options: Any) -> Any:
    """Return the agent, with the models of a scripted server."""
    os.environ["OPENAI_API_KEY"] = server.api_key  # the fixture `keys` restores it
    return code_agent(CodeOptions(models=model_table(models, server.openai_url), data=data, **options))


def model_table(names: Iterable[str], base_url: str) -> ModelTable:
    """Return models whose connections are closed when the client disconnects; those of a process end with it."""
    _TABLES.append(ModelTable(list(names), base_url))
    return _TABLES[-1]


@asynccontextmanager
async def coding(
    root: Path,
    server: ModelServer,
    user: User | None = None,
    data: Path | None = None,
    edit: Rule = "allow",
    **options: Any,
) -> AsyncGenerator[ClientSession]:
    """Open a session of the coding agent in a directory."""
    async with (
        open_client(root, coder(server, data or root.parent / "data", **options), user or User(), edit=edit) as agent,
        agent.new_session(root) as session,
    ):
        yield session
