"""Clients with the habits of published ones."""

from __future__ import annotations

from pathlib import Path

from duologue.testing.profiles.profile import ClientProfile, read_profile
from duologue.testing.scripted_client import ScriptedClient


class QuirkyClient(ScriptedClient):
    """A client with the habits of a published one: `await QuirkyClient("zed").run(my_agent)`.

    It opens a session and sends one prompt, as that client does, and fails with `ScenarioFailed` if the agent does not
    answer, or does what this client is known not to support.

    Args:
        profile: A name, such as `zed` or `jetbrains`, the path of a file, or a profile.
        prompt: Text of the prompt. Default: that of the profile.

    Attributes:
        profile: The habits.

    Raises:
        ValueError: Nothing has that name, or the file is not a profile.
        OSError: The file cannot be read.
    """

    def __init__(self, profile: str | Path | ClientProfile, *, prompt: str | None = None) -> None:
        self.profile = profile if isinstance(profile, ClientProfile) else read_profile(profile, ClientProfile)
        super().__init__(self.profile.script, {} if prompt is None else {"prompt": prompt})
