"""Changing a session: its mode, its model, its config options and its title."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from duologue.client.session_state import SessionState
from duologue.client.supervisor import MODE, MODEL, UserSettings
from duologue.conversation.updates import SettingsUpdate
from duologue.errors import InvalidParams
from duologue.protocol.interfaces import AgentProxy

if TYPE_CHECKING:
    from duologue.client.agent import RemoteAgent

__all__ = ["SessionControls"]

T = TypeVar("T")


class SessionControls(SessionState):
    """Methods of a session that change its mode, model, config options and title."""

    id: str
    agent: RemoteAgent
    _user_settings: UserSettings

    @abstractmethod
    async def _request(self, send: Callable[[AgentProxy], Awaitable[T]]) -> T:
        """Send a request of this session to the agent."""

    async def set_mode(self, mode_id: str) -> None:
        """Switch the mode, by the config option of category `mode` if there is one."""
        setting = next((each for each in self.settings if each.category == "mode"), None)
        if setting is not None:
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
