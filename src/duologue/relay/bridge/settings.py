"""The settings of a session for both versions: modes and models as settings, and settings as modes and models.

| the agent has | the client is shown |
|---|---|
| a setting of category `mode` or `model` | the setting; as modes and models, too |
| modes or models and no such setting | both; setting that setting sets the mode or model |
"""

from __future__ import annotations

from msgspec import structs

from duologue.conversation.settings import ConfigOption, Mode, Modes
from duologue.conversation.updates import ModeUpdate, SettingsUpdate, Update
from duologue.errors import InvalidParams
from duologue.protocol.shared.agent_proxy import AgentProxy
from duologue.protocol.v2.settings import with_modes
from duologue.protocol.values import SessionOpened


class BridgedSettings:
    """The settings of one session.

    Args:
        session_id: The session.
    """

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._settings: list[ConfigOption] = []
        self._modes: Modes | None = None
        self._models: ConfigOption | None = None

    @property
    def current(self) -> list[ConfigOption]:
        """All settings of the session."""
        settings = with_modes(self._settings, self._modes)
        if self._models is None or _of_category(settings, "model") is not None:
            return settings
        return [*settings, self._models]

    @property
    def modes(self) -> Modes | None:
        """The modes, for clients that know no settings."""
        setting = _of_category(self.current, "mode")
        if setting is None:
            return self._modes
        available = [Mode(option.value, option.name, option.description, option.meta) for option in setting.choices]
        return Modes(str(setting.value), available, setting.meta)

    @property
    def _mode(self) -> str | None:
        return None if self.modes is None else self.modes.current

    def opened(self, opened: SessionOpened) -> SessionOpened:
        """Return an opened session with its settings in both forms."""
        self._settings, self._modes, self._models = opened.settings, opened.modes, opened.models
        models = opened.models or _of_category(self._settings, "model")
        return structs.replace(opened, settings=self.current, modes=self.modes, models=models)

    # --- changes by the agent

    def mode_changed(self, change: ModeUpdate) -> list[Update]:
        """Return the updates for a mode that the agent has changed."""
        self._record_mode(change.mode_id)
        updates: list[Update] = [change]
        return [*updates, SettingsUpdate(settings=self.current)] if self.current else updates

    def settings_changed(self, change: SettingsUpdate) -> list[Update]:
        """Return the updates for settings that the agent has changed."""
        before = self._mode
        self._settings = change.settings
        updates: list[Update] = [structs.replace(change, settings=self.current)]
        return updates if self._mode in (before, None) else [ModeUpdate(mode_id=str(self._mode)), *updates]

    def _record_mode(self, mode_id: str) -> None:
        if self._modes is not None:
            self._modes = structs.replace(self._modes, current=mode_id)
        self._settings = [
            setting.with_value(mode_id) if setting.category == "mode" else setting for setting in self._settings
        ]

    # --- changes by the client

    async def set(self, proxy: AgentProxy, setting_id: str, value: str | bool) -> list[Update]:
        """Change a setting; return the updates that a client with modes needs."""
        before = self._mode
        own = [setting.setting_id for setting in self._settings]
        setting = next((each for each in self.current if each.setting_id == setting_id), None)
        if setting_id not in own and setting is not None and setting.category == "mode":
            await proxy.set_mode(self._session_id, str(value))
            self._record_mode(str(value))
        elif setting_id not in own and setting is not None and self._models is not None:
            await proxy.set_model(self._session_id, str(value))
            self._models = self._models.with_value(value)
        else:
            self._settings = await proxy.set_setting(self._session_id, setting_id, value)
        return [] if self._mode in (before, None) else [ModeUpdate(mode_id=str(self._mode))]

    async def choose(self, proxy: AgentProxy, category: str, value: str) -> list[Update]:
        """Change the mode or model; return the updates that the client needs or expects.

        Raises:
            InvalidParams: The session has no such setting.
        """
        setting = _of_category(self.current, category)
        if setting is None:
            raise InvalidParams(f"this session has no {category}s")
        await self.set(proxy, setting.setting_id, value)
        updates: list[Update] = [SettingsUpdate(settings=self.current)]
        return [ModeUpdate(mode_id=value), *updates] if category == "mode" else updates


def _of_category(settings: list[ConfigOption], category: str) -> ConfigOption | None:
    return next((setting for setting in settings if setting.category == category), None)
