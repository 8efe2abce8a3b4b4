"""The suite of pydantic-ai for workspaces, against the editor as a workspace: with our client and a scripted one."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.client.services.terminals import Terminals
from duologue.integrations.pydantic_ai import EditorWorkspace
from tests.integrations.open_turns import our_turn, scripted_turn


class _Workspaces(WorkspaceBackendSuite):
    """The suite with what its rules about other environments need: one to attach to, and one to destroy."""

    @pytest.fixture(params=["pipes", "pseudo-terminals", "scripted"])
    async def turns(self, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[list[Turn[Settings]]]:
        """Hold two turns in two directories: one of our client with pipes or pseudo-terminals, or of a scripted one."""
        async with AsyncExitStack() as stack:
            turns: list[Turn[Settings]] = []
            for name in ("first", "second"):
                (tmp_path / name).mkdir()
                opened = (
                    scripted_turn(tmp_path / name)
                    if request.param == "scripted"
                    else our_turn(tmp_path / name, terminals=Terminals(pty=request.param == "pseudo-terminals"))
                )
                turns.append(await stack.enter_async_context(opened))
            yield turns

    @pytest.fixture
    def backend(self, turns: list[Turn[Settings]]) -> WorkspaceBackend:
        return _allowed(turns[0])

    @pytest.fixture
    def attach_backend(self, turns: list[Turn[Settings]]) -> Callable[[WorkspaceRef], WorkspaceBackend]:
        return lambda ref: next(found for turn in turns if (found := _allowed(turn)).ref == ref)

    @pytest.fixture
    def destructive_backend(self, turns: list[Turn[Settings]]) -> Callable[[], WorkspaceBackend]:
        return lambda: _allowed(turns[1])

    @pytest.fixture
    def destroy_environment(self) -> Callable[[WorkspaceBackend], Awaitable[None]]:
        async def destroy(backend: WorkspaceBackend) -> None:
            assert backend.ref is not None
            shutil.rmtree(backend.ref.id)

        return destroy


def _allowed(turn: Turn[Settings]) -> EditorWorkspace:
    return EditorWorkspace(turn, policy=lambda request: "allow")


class TestEditorWorkspace(_Workspaces):
    """Collects the rules of the suite."""
