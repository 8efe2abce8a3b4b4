"""Options of a session, its state that needs no request, and its mode, model, config options and title."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from msgspec import structs

from duologue.client.supervisor import MODE, MODEL, UserSettings
from duologue.conversation.content import JsonObject, TextContent
from duologue.conversation.items import BackgroundTask, Terminal, ToolCall
from duologue.conversation.session_setup import McpServer, SystemPrompt
from duologue.conversation.settings import ConfigOption, Modes
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import AvailableCommand, SettingsUpdate
from duologue.conversation.work_state import BackgroundWork
from duologue.errors import InvalidParams, MethodNotFound
from duologue.protocol.shared.agent_proxy import AgentProxy
from duologue.usage.amounts import SessionUsage
from duologue.usage.counter import UsageCounter, UsageState
from duologue.usage.habits import habit_of

if TYPE_CHECKING:
    from duologue.client.agent import RemoteAgent

T = TypeVar("T")


class SessionOptions(TypedDict, total=False):
    """Options of a session, which every method that opens one takes as keywords.

    Attributes:
        additional_directories: Further directories that the agent may work in.
        mcp_servers: MCP servers for the agent to connect to.
        system_prompt: Instructions for the agent (unstable).
        meta: Sent to the agent in `_meta`.
        settings: Config options by id, and `mode` and `model`: set after the session is opened, and checked.
    """

    additional_directories: Sequence[str | Path]
    mcp_servers: Sequence[McpServer]
    system_prompt: SystemPrompt | None
    meta: JsonObject | None
    settings: Mapping[str, str | bool]


class SessionControls:
    """State of a session as the agent has reported it, and methods that change it.

    Attributes:
        transcript: Messages, tool calls and plans so far, limited by `connect(max_transcript_bytes=…)`.
    """

    id: str
    agent: RemoteAgent
    _user_settings: UserSettings

    def __init__(self, max_transcript_bytes: int | None) -> None:
        self.transcript = Transcript(max_transcript_bytes)
        self._max_transcript_bytes = max_transcript_bytes
        self._models: ConfigOption | None = None
        self._usage_counter = UsageCounter(habit_of(self.agent.info))

    @abstractmethod
    def _request(self, send: Callable[[AgentProxy], Awaitable[T]]) -> Coroutine[Any, Any, T]:
        """Send a request of this session to the agent."""

    @property
    def title(self) -> str | None:
        """Title of the session."""
        return self.transcript.title

    @property
    def commands(self) -> list[AvailableCommand]:
        """Slash commands that the agent offers."""
        return self.transcript.commands

    @property
    def usage(self) -> SessionUsage:
        """Tokens and cost of the session so far and the size of its context, each as far as the agent reports it."""
        return self._usage_counter.usage

    @property
    def usage_state(self) -> UsageState:
        """State of counting the usage, to be saved for `restore_usage`; JSON can hold it (`msgspec.json.encode`)."""
        return structs.replace(self._usage_counter.state)

    def restore_usage(self, state: UsageState) -> None:
        """Count on from the usage that an earlier program has saved, in a session that was just loaded or resumed."""
        self._usage_counter = UsageCounter(habit_of(self.agent.info), structs.replace(state))

    @property
    def settings(self) -> list[ConfigOption]:
        """Config options with their values."""
        return self.transcript.settings

    @property
    def modes(self) -> Modes | None:
        """Modes: the config option of category `mode`, or else the modes of the session."""
        return self.transcript.modes_shown

    @property
    def models(self) -> ConfigOption | None:
        """Models: the config option of category `model`, or else the models that older agents send."""
        found = next((each for each in self.settings if each.category == "model"), None)
        return found or self._models

    @property
    def background(self) -> list[BackgroundWork]:
        """Work that goes on in addition to the turn, which only agents of version 2 report."""
        reported = self.transcript.state
        return [] if reported is None else reported.background or []

    @property
    def background_tasks(self) -> list[BackgroundTask]:
        """Work that goes on between turns, and such work that has ended, oldest first, if the agent reports it."""
        return list(self.transcript.background_tasks.values())

    async def cancel_tool_call(self, tool_call_id: str) -> None:
        """Cancel one tool call of the running turn.

        Raises:
            MethodNotFound: The agent does not offer to cancel this one (`tool_call.can_cancel`).
        """
        _check_can_cancel("tool call", tool_call_id, self.transcript.tool_call(tool_call_id))
        await self._request(lambda proxy: proxy.cancel_tool_call(self.id, tool_call_id))

    async def cancel_terminal(self, terminal_id: str) -> None:
        """Cancel one command that the agent runs.

        Raises:
            MethodNotFound: The agent does not offer to cancel this one (`terminal.can_cancel`).
        """
        _check_can_cancel("terminal", terminal_id, self.transcript.terminal(terminal_id))
        await self._request(lambda proxy: proxy.cancel_terminal(self.id, terminal_id))

    async def stop_task(self, task_id: str) -> bool:
        """Stop one background task (unstable); return False if it has already ended, or the agent did not stop it.

        The event of its end arrives like any other, before or after the response.

        Raises:
            MethodNotFound: The agent does not offer to stop this one (`task.can_stop`).
        """
        task = self.transcript.background_tasks.get(task_id)
        if task is None or not task.can_stop:
            raise MethodNotFound(f"the agent does not offer to stop a background task {task_id!r}")
        return not task.is_over and await self._request(lambda proxy: proxy.stop_task(self.id, task_id))

    def _apply_model(self, model_id: str) -> None:
        """Store the model that was set at an agent that has models and no config options."""
        self._models = None if self._models is None else self._models.with_value(model_id)

    def last_message_text(self) -> str:
        """Return the last message of the agent as plain text."""
        sent = [message for message in self.transcript.messages if message.role == "agent"]
        return "".join(block.text for block in sent[-1].content if isinstance(block, TextContent)) if sent else ""

    async def set_mode(self, mode_id: str) -> None:
        """Switch the mode, by the config option of category `mode` if there is one."""
        for setting in self.transcript.settings:
            if setting.category == "mode":
                await self.set_option(setting.setting_id, mode_id)
                return
        await self._request(lambda proxy: proxy.set_mode(self.id, mode_id))
        self._user_settings.add(MODE)
        self.transcript.set_mode(mode_id)

    async def set_model(self, model_id: str) -> None:
        """Switch the model, by the config option of category `model` if there is one.

        Raises:
            InvalidParams: The agent offers no models.
        """
        setting = next((each for each in self.settings if each.category == "model"), None)
        if setting is not None:
            await self.set_option(setting.setting_id, model_id)
        elif self._models is not None:
            await self._request(lambda proxy: proxy.set_model(self.id, model_id))
            self._user_settings.add(MODEL)
            self._apply_model(model_id)
        else:
            raise InvalidParams("this agent has no models to choose from")

    async def set_option(self, setting_id: str, value: str | bool) -> None:
        """Set a config option; the agent responds with the values of all of them."""
        settings = await self._request(lambda proxy: proxy.set_setting(self.id, setting_id, value))
        self._user_settings.add(setting_id)
        if settings != self.transcript.settings:
            self.transcript.apply(SettingsUpdate(settings=settings))

    async def set_title(self, title: str) -> str:
        """Set the title of the session and return it as the agent stored it (unstable)."""
        self.agent._require("title", "give sessions a title")
        self.transcript.title = await self._request(lambda proxy: proxy.set_title(self.id, title))
        return self.transcript.title

    async def status(self) -> str:
        """Return the status of the session at the agent: `open`, `saved` (unstable)."""
        self.agent._require("status", "tell the status of a session")
        return await self._request(lambda proxy: proxy.session_status(self.id))


def _check_can_cancel(what: str, part_id: str, part: ToolCall | Terminal | None) -> None:
    """Check that the agent offers to cancel one tool call or terminal alone.

    Raises:
        MethodNotFound: It does not.
    """
    # protocol/v2, capabilities of tool calls and terminals: a client MUST NOT cancel what does not advertise `cancel`.
    if part is None or not part.can_cancel:
        raise MethodNotFound(f"the agent does not offer to cancel the {what} {part_id!r} alone; cancel the turn")
