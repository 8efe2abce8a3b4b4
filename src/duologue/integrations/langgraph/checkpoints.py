"""Checkpointers: whether a graph has and needs one, and the thread of a session in it."""

# LangGraph and LangChain are only partly typed.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import inspect
import logging
import warnings
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt

from duologue.agent.session import Session
from duologue.store.base import Store
from duologue.store.memory import MemoryStore

_log = logging.getLogger("duologue.integrations")

THREAD = "langgraph.thread"
"""Key in `session.state` of the id of the session's thread; in a fork it still names that of the original."""

NEEDS_CHECKPOINTER = (
    "only a checkpointer can continue it: compile it with `checkpointer=InMemorySaver()` or another one"
)


def has_checkpointer(graph: Any) -> bool:
    """Return True if the graph stores its own state."""
    return bool(getattr(graph, "checkpointer", None))


def warn_of_memory(graph: Any, store: Store | None) -> None:
    """Warn of sessions that outlive the history of their threads; called by the method that the author called."""
    if isinstance(getattr(graph, "checkpointer", None), InMemorySaver) and not isinstance(store, MemoryStore):
        warnings.warn(
            "sessions are stored on disk, but this graph's checkpointer keeps their history in memory and loses it "
            "when the agent ends; compile the graph with a checkpointer on disk, such as `AsyncSqliteSaver` "
            "(pip install langgraph-checkpoint-sqlite)",
            stacklevel=3,
        )


def is_sent_alone(state: Any, interrupt_id: str) -> bool:
    """Return True if an interrupt is of a task that a `Send` started, which runs one tool call and no other.

    Args:
        state: The state of the graph, with those of its subgraphs.
        interrupt_id: The id of the interrupt.
    """
    for task in state.tasks:
        if any(each.id == interrupt_id for each in task.interrupts):
            inner = getattr(task.state, "tasks", None)
            return is_sent_alone(task.state, interrupt_id) if inner else task.path[0] == "__pregel_push"
    return False


async def open_thread(graph: Any, session: Session[Any]) -> None:
    """Give a forked session a copy of the thread it was forked from; warn if a thread is gone."""
    source = session.state.get(THREAD)
    session.state[THREAD] = session.id
    if source is None or not has_checkpointer(graph):
        return
    saved = await graph.checkpointer.aget_tuple({"configurable": {"thread_id": source, "checkpoint_ns": ""}})
    if saved is None:
        _log.warning(
            "session %s: the checkpointer has no thread %s, so the graph starts without its history; a checkpointer "
            "that stores threads on disk keeps them",
            session.id,
            source,
        )
    elif source != session.id:
        target: Any = {"configurable": {"thread_id": session.id, "checkpoint_ns": ""}}
        await graph.checkpointer.aput(target, saved.checkpoint, saved.metadata, saved.checkpoint["channel_versions"])
        session.save()


def check_checkpointer(graph: Any) -> None:
    """Check that a graph that can be interrupted has a checkpointer, as far as its functions show that.

    Raises:
        TypeError: The graph is not compiled.
        ValueError: It has none.
    """
    if not hasattr(graph, "astream") and hasattr(graph, "compile"):
        raise TypeError("this graph is not compiled; write `acp_agent(graph.compile(), …)`")
    if has_checkpointer(graph) or not hasattr(graph, "get_subgraphs"):
        return
    for part in (graph, *(subgraph for _, subgraph in graph.get_subgraphs(recurse=True))):
        if part.interrupt_before_nodes or part.interrupt_after_nodes:
            raise ValueError(
                f"this graph has breakpoints (`interrupt_before` or `interrupt_after`), and {NEEDS_CHECKPOINTER}"
            )
        for name, node in getattr(part, "nodes", {}).items():
            if any(_can_interrupt(function, set()) for function in _functions_of(node.bound)):
                raise ValueError(f"the node {name!r} of this graph calls `interrupt()`, and {NEEDS_CHECKPOINTER}")


def _functions_of(runnable: Any) -> list[Any]:
    """Return the functions of a node; of a node that runs tools, those of the tools."""
    tools = getattr(runnable, "tools_by_name", {}).values()
    functions = [getattr(runnable, "func", None), getattr(runnable, "afunc", None)]
    return [*functions, *(getattr(tool, key, None) for tool in tools for key in ("func", "coroutine"))]


def _can_interrupt(function: Any, checked: set[int]) -> bool:
    """Return True if a function, or another function of its module that it uses, refers to `interrupt`."""
    function = inspect.unwrap(getattr(function, "__func__", getattr(function, "func", function)))
    if not inspect.isfunction(function) or id(function) in checked:
        return False
    checked.add(id(function))
    variables = inspect.getclosurevars(function)
    used = [*variables.globals.values(), *variables.nonlocals.values()]
    own = [each for each in used if getattr(each, "__module__", None) == function.__module__]
    return interrupt in used or any(_can_interrupt(each, checked) for each in own)
