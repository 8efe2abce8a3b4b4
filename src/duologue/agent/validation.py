"""Check the parameters of a client's requests (paths, prompt content, instructions) and the name of its dialect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from duologue.conversation.content import AudioContent, Content, ImageContent, Resource, TextContent, UnknownContent
from duologue.conversation.session_setup import SessionParams
from duologue.errors import InvalidParams

if TYPE_CHECKING:
    from duologue.agent.agent import Agent
    from duologue.compat.dialects import Dialect
    from duologue.store.pagination import Archived


def check_setup(setup: SessionParams, agent: Agent[Any]) -> None:
    """Check the parameters of a new session.

    Raises:
        InvalidParams: A field is invalid; the message names it.
    """
    _check_directory("cwd", setup.cwd)
    for index, directory in enumerate(setup.additional_directories):
        _check_directory(f"additionalDirectories[{index}]", directory)
    prompt = setup.system_prompt
    if prompt is None:
        return
    if agent._system_prompt is None:
        raise InvalidParams("$.systemPrompt: this agent does not accept a system prompt")
    if prompt.mode != "append" and prompt.mode != agent._system_prompt:
        raise InvalidParams(f"$.systemPrompt.mode: {prompt.mode[:200]!r} is not supported")
    if not prompt.content:
        raise InvalidParams("$.systemPrompt.content: must not be empty")
    for index, block in enumerate(prompt.content):
        if not isinstance(block, TextContent):
            raise InvalidParams(f"$.systemPrompt.content[{index}]: must be text")


def check_absolute(field: str, path: str) -> None:
    """Check that a path is absolute.

    Raises:
        InvalidParams: The path is not absolute; the message names the field.
    """
    if "\0" in path or not Path(path).is_absolute():
        raise InvalidParams(f"$.{field}: must be an absolute path, not {path[:200]!r}")


def _check_directory(field: str, path: str) -> None:
    check_absolute(field, path)
    try:
        is_directory = Path(path).is_dir()
    except OSError:
        is_directory = False
    if not is_directory:
        raise InvalidParams(f"$.{field}: no such directory: {path[:200]!r}")


def check_archived(which: str) -> Archived:
    """Return the filter of archived sessions.

    Raises:
        InvalidParams: The filter is unknown; the message names the known ones.
    """
    known: tuple[Archived, ...] = ("exclude", "include", "only")
    for one in known:
        if which == one:
            return one
    raise InvalidParams(f"$.archived: {which[:200]!r} is not one of {', '.join(known)}")


def check_prompt(prompt: list[Content], agent: Agent[Any]) -> None:
    """Check that the agent accepts the content of a prompt.

    Raises:
        InvalidParams: The prompt is empty, or has a block that the agent does not accept; the message names it.
    """
    if not prompt:
        raise InvalidParams("$.prompt: must not be empty")
    for index, block in enumerate(prompt):
        needed = _needed_for(block)
        if needed is not None and needed not in agent._accepts:
            raise InvalidParams(f"$.prompt[{index}]: this agent does not accept content of type {needed}")


def _needed_for(block: Content) -> str | None:
    match block:
        case ImageContent():
            return "image"
        case AudioContent():
            return "audio"
        case Resource():
            return "resource"
        case UnknownContent():
            return str(block.fields.get("type"))[:200]
        case _:
            return None


def checked_dialect(dialect: Dialect | None) -> Dialect | None:
    """Return the dialect if there is one of that name; raises `ValueError` if there is none."""
    if dialect is None:
        return None
    from duologue.compat.dialects import check_dialect

    return check_dialect(dialect)
