"""The registries of the configuration file, in the order in which they are asked.

registries = ["https://agents.example.com/registry.json", "/srv/agents/registry.json"]
"""

from __future__ import annotations

from msgspec import ValidationError, convert

from duologue.config.agents import config_file, read_config
from duologue.errors import StartError


def configured_registries() -> list[str]:
    """Return the URLs and files of the list `registries`; empty if there is none.

    Raises:
        StartError: The configuration file cannot be read, or has something else there.
    """
    path = config_file()
    try:
        return convert(read_config().get("registries", []), list[str])
    except ValidationError as error:
        raise StartError(f"{path}: `registries` must be a list of URLs and files: {error}") from None
    except (OSError, ValueError) as error:
        raise StartError(f"cannot read {path}: {error}") from None
