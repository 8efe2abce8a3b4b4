"""The dependencies of a run, and of the runs of its subagents: the turn, its files and its policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.workspaces import Workspace
from pydantic_ai_harness.planning import InMemoryPlanStore, PlanItem

from duologue.agent.turn import Turn
from duologue.conversation.updates import PlanEntry

PLAN = "code.plan"
"""Key in `session.state` of the steps of the plan."""

COST = "code.cost"
"""Key in `session.state` of the cost of the session so far, in USD."""


@dataclass
class CodeTurn:
    """One turn of the coding agent.

    Attributes:
        turn: The turn that shows what happens.
        workspace: Files and commands, guarded.
        context_window: Size of the model's context, if the user knows better than the library.
        plan: The steps of the plan.
        run_id: The id of the turn's own run; other runs are those of subagents.
    """

    turn: Turn[Any]
    workspace: Workspace
    context_window: int | None = None
    plan: InMemoryPlanStore = field(default_factory=InMemoryPlanStore)
    run_id: str | None = None

    @property
    def mode(self) -> str:
        """The current mode."""
        return str(self.turn.settings.mode)

    def is_subagent(self, ctx: RunContext[Any]) -> bool:
        """Return True if a run is that of a subagent."""
        return self.run_id is not None and ctx.run_id != self.run_id

    async def load_plan(self) -> None:
        """Restore the plan of the turns before."""
        saved = self.turn.session.state.get(PLAN, [])
        await self.plan.set_items([PlanItem.model_validate(item) for item in saved])

    async def show_plan(self) -> None:
        """Send the plan, and save it for the next turn."""
        items = await self.plan.get_items()
        self.turn.session.state[PLAN] = [item.model_dump(mode="json") for item in items]
        await self.turn.plan(*(PlanEntry(item.content, item.status.value) for item in items))
