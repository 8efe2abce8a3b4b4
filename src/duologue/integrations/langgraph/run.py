"""One turn: one run of a graph from the prompt to its end, with the questions in between."""

# LangGraph and LangChain are only partly typed.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, messages_from_dict, messages_to_dict
from langchain_core.messages.ai import UsageMetadata, add_usage
from langchain_core.outputs import LLMResult
from langchain_core.runnables.config import merge_configs
from langgraph.errors import GraphDrained, GraphInterrupt, GraphRecursionError
from langgraph.runtime import RunControl
from langgraph.types import Command

from duologue.agent.turn import Turn
from duologue.conversation.content import Content
from duologue.conversation.work_state import TokenUsage, ToolKind
from duologue.errors import InternalError
from duologue.integrations.langgraph.checkpoints import NEEDS_CHECKPOINTER, has_checkpointer, is_sent_alone
from duologue.integrations.langgraph.display import GraphDisplay
from duologue.integrations.langgraph.messages import messages_in, missing_results, open_calls, prompt_message
from duologue.integrations.langgraph.questions import OnInterrupt, Questions

STEERED = "langgraph.steered"
"""Key in `session.state` of messages that were sent into a turn which ended before the graph had them."""

STATE = "langgraph.messages"
"""Key in `session.state` of the messages of a graph without a checkpointer."""

OnCustom: TypeAlias = Callable[[Turn[Any], Any], Awaitable[None]]
"""Shows a value of the custom stream."""


@dataclass(frozen=True)
class GraphOptions:
    """Arguments of `acp_agent` that all runs share."""

    kinds: Mapping[str, ToolKind]
    on_interrupt: OnInterrupt | None
    on_custom: OnCustom | None
    config: Mapping[str, Any]


class _Callbacks(BaseCallbackHandler):
    """Collector of what the stream of a run leaves out: tokens of every model call, and the tool calls of interrupts.

    Attributes:
        usage: Tokens of all model calls so far.
        raised: The interrupts that tools raised, by the ids of the tool calls.
    """

    run_inline = True

    def __init__(self) -> None:
        self.usage: UsageMetadata | None = None
        self.raised: dict[str, Any] = {}

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        for generation in response.generations[0] if response.generations else []:
            message = getattr(generation, "message", None)
            if isinstance(message, AIMessage) and message.usage_metadata:
                self.usage = add_usage(self.usage, message.usage_metadata)

    def on_tool_error(self, error: BaseException, *, tool_call_id: str | None = None, **_: Any) -> None:
        if isinstance(error, GraphInterrupt) and tool_call_id is not None and error.args[0]:
            self.raised[tool_call_id] = error.args[0][0]


class GraphRun:
    """One turn: runs the graph from the prompt to its end."""

    def __init__(self, graph: Any, turn: Turn[Any], options: GraphOptions) -> None:
        self._graph = graph
        self._turn = turn
        self._options = options
        self._display = GraphDisplay(turn, options.kinds)
        self._callbacks = _Callbacks()
        self._questions = Questions(turn, self._display, options.on_interrupt, self._callbacks.raised)
        self._messages: list[BaseMessage] = []
        self._steered: list[BaseMessage] = []
        """Messages that were sent into the turn and that the graph does not have yet."""
        self._is_draining = True
        self._drained_at: list[str | None] | None = None
        """Tool calls that were open when the run last stopped between two steps."""

    async def run(self, prompt: list[Content]) -> str:
        """Answer a prompt and return the stop reason."""
        is_stored = has_checkpointer(self._graph)
        config = await self._run_config()
        history = await self._history(config if is_stored else None)
        self._display.earlier_ids = {message.id for message in history if message.id is not None}
        late = messages_from_dict(self._turn.session.state.pop(STEERED, []))
        added = [*missing_results(history), *late, prompt_message(prompt)]
        try:
            async with self._display.tools:
                await self._run_to_end({"messages": added if is_stored else [*history, *added]}, config)
        except GraphRecursionError:
            return "max_turn_requests"
        finally:
            self._report_tokens()
            if self._steered:
                self._turn.session.state[STEERED] = messages_to_dict(self._steered)
            if self._messages and not is_stored:
                self._turn.session.state[STATE] = messages_to_dict(self._messages)
        return "end_turn"

    async def _history(self, config: Any) -> list[BaseMessage]:
        """Return the messages of the turns before; `config` names the thread of a graph with a checkpointer."""
        if config is None:
            return messages_from_dict(self._turn.session.state.get(STATE, []))
        return messages_in((await self._graph.aget_state(config)).values)

    async def _run_config(self) -> Any:
        session = self._turn.session
        own: dict[str, Any] = {**session.settings.values, "thread_id": session.id}
        if session.has_mcp:
            await session.mcp.ready()
            own["mcp_tools"] = session.mcp.tools
        return merge_configs(cast("Any", self._options.config), {"configurable": own, "callbacks": [self._callbacks]})

    async def _run_to_end(self, graph_input: Any, config: Any) -> None:
        is_stored = has_checkpointer(self._graph)
        while True:
            try:
                interrupts = await self._run_once(graph_input, config)
            except GraphDrained:
                graph_input = await self._steered_input(config)
                continue
            if interrupts is None:
                if not is_stored or not await self._take_steering():
                    return
                graph_input = {"messages": [*missing_results(self._messages), *self._pop_steered()]}
            elif not is_stored:
                raise InternalError(f"the graph was interrupted, and {NEEDS_CHECKPOINTER}")
            elif interrupts:
                answers = await self._answers(interrupts, config)
                if answers is None:
                    return
                graph_input = Command(resume=answers if len(answers) > 1 else next(iter(answers.values())))
            else:
                state = await self._graph.aget_state(config)
                if not state.next or not await self._questions.may_continue(state.next, open_calls(self._messages)):
                    return
                graph_input = None

    async def _take_steering(self) -> bool:
        """Take what the user sent into the turn; return True if the graph does not have some of it yet."""
        self._steered += [prompt_message(message.content) for message in await self._turn.take_steering()]
        return bool(self._steered)

    async def _steered_input(self, config: Any) -> Any:
        """Return the input that continues a graph between two steps with what the user sent.

        Results of tool calls come first, as model providers require: while some are missing, the graph runs one step.
        """
        messages = messages_in((await self._graph.aget_state(config)).values)
        if not (calls := open_calls(messages)):
            return Command(update={"messages": self._pop_steered()})
        opened = [call["id"] for call in calls]
        self._is_draining = opened != self._drained_at  # a graph that never answers them goes on to its end
        self._drained_at = opened
        return None

    def _pop_steered(self) -> list[BaseMessage]:
        steered, self._steered = self._steered, []
        self._is_draining, self._drained_at = True, None
        return steered

    async def _answers(self, interrupts: dict[str, Any], config: Any) -> dict[str, Any] | None:
        """Return what to resume the interrupts with, by their ids, or `None` to stop here."""
        if any(self._questions.shares_step(each) for each in interrupts.values()):
            state = await self._graph.aget_state(config, subgraphs=True)
            if not all(is_sent_alone(state, each) for each in interrupts):
                return dict.fromkeys(interrupts, True) if await self._questions.approve_step() else None
        return {key: await self._questions.answer(each) for key, each in interrupts.items()}

    async def _run_once(self, graph_input: Any, config: Any) -> dict[str, Any] | None:
        """Run to the end, to the next interrupts or to a breakpoint.

        Returns:
            `None` at the end, the interrupts by their ids, or nothing in it at a breakpoint.

        Raises:
            GraphDrained: The run stopped between two steps, because the user sent something into the turn.
        """
        interrupts: dict[str, Any] | None = None
        on_custom = self._options.on_custom or self._display.show_custom
        control = RunControl()
        options: dict[str, Any] = {"control": control} if has_checkpointer(self._graph) else {}
        options |= {"stream_mode": ["messages", "updates", "custom", "values"], "subgraphs": True}
        async for namespace, mode, event in self._graph.astream(graph_input, config, **options):
            if mode == "messages":
                await self._display.show_message(event[0])
            elif mode == "custom":
                await on_custom(self._turn, event)
            elif mode == "updates":
                for node, change in event.items():
                    if node == "__interrupt__":  # from a subgraph it arrives once per level; a breakpoint names none
                        interrupts = (interrupts or {}) | {each.id: each for each in change}
                    else:
                        await self._display.show_change(change)
                if "control" in options and not namespace and await self._take_steering() and self._is_draining:
                    control.request_drain("steering")
            elif not namespace:
                self._messages = messages_in(event)
        return interrupts

    def _report_tokens(self) -> None:
        if (usage := self._callbacks.usage) is None:
            return
        read, written = usage.get("input_token_details", {}), usage.get("output_token_details", {})
        self._turn.tokens = TokenUsage(
            total=usage["total_tokens"],
            input=usage["input_tokens"],
            output=usage["output_tokens"],
            thought=written.get("reasoning"),
            cached_read=read.get("cache_read"),
            cached_write=read.get("cache_creation"),
        )
