"""Commands of a chat that show or change settings: `:mode`, `:model`, `:set`."""

from __future__ import annotations

from duologue.cli.arguments import change_mode, change_model, change_setting
from duologue.cli.chat.local_commands import settings_text
from duologue.client.session import ClientSession
from duologue.sanitize import escape_line


async def run_setting_command(session: ClientSession, name: str, argument: str) -> str:
    """Change what the command names, if it has an argument; return the text that shows the current values.

    Raises:
        UsageError: The agent has no such mode, setting or value.
    """
    if name == "mode" and argument:
        await change_mode(session, argument)
    elif name == "model" and argument:
        await change_model(session, argument)
    elif name == "set" and argument:
        setting, _, value = argument.partition(" ")
        await change_setting(session, setting, value.strip())
    if name == "mode" and session.modes is not None:
        known = ", ".join(escape_line(mode.mode_id) for mode in session.modes.available)
        return f"  mode = {escape_line(session.modes.current)}  ({known})\n"
    if name == "model" and session.models is not None:
        known = ", ".join(escape_line(option.value) for option in session.models.choices)
        return f"  model = {escape_line(str(session.models.value))}  ({known})\n"
    return settings_text(session)
