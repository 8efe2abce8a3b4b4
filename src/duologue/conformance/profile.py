"""Profiles: how to bring an agent to do what a case is about, such as calling a tool or asking for permission."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from duologue.conformance.case import NotProvoked
from duologue.suggestion import suggestion

FORMAT = 1
"""Version of the file format; newer files are rejected."""

Act: TypeAlias = Literal[
    "answer", "tool", "permission", "long", "read_file", "write_file", "terminal", "plan", "usage", "form", "url",
    "refusal", "mode", "setting", "compaction", "notice", "print", "cwd", "fail", "background", "subagent", "thought",
    "roots", "big", "stream", "process",
]  # fmt: skip
"""An act that an agent can be brought to: answer in text, call a tool, ask for permission, work until cancelled, …"""


class Profile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prompts that make an agent do something.

    Attributes:
        format: Version of the file format.
        name: Name of the agent.
        prompts: Text of the prompt for each act; `{cwd}` is the directory of the session, `{file}` a text file in it.
        env: Variables that the agent's process gets.
        login: Id of a login method that succeeds without a person; none is called otherwise.
        unsupported: Acts that the agent does not have, with the reason: rules about them are skipped.
        more_prompts: Further prompts, for what no act names; each is sent once, and the traffic is judged.
    """

    format: int = FORMAT
    name: str = ""
    prompts: dict[Act, str] = {}
    env: dict[str, str] = {}
    login: str = ""
    unsupported: dict[Act, str] = {}
    more_prompts: tuple[str, ...] = ()

    def prompt(self, act: Act, **values: str) -> str:
        """Return the prompt for an act.

        Raises:
            NotProvoked: The profile has none.
        """
        text = self.prompts.get(act)
        if text is None:
            reason = self.unsupported.get(act)
            raise NotProvoked(
                f"the agent does not do this: {reason}" if reason
                else f"no prompt is known that makes the agent do this; give one in a profile: prompts.{act}"
            )  # fmt: skip
        return _filled(text, values)

    def further(self, **values: str) -> list[str]:
        """Return the further prompts."""
        return [_filled(text, values) for text in self.more_prompts]


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


DEFAULT = Profile(name="unknown", prompts={"answer": "Answer with one short sentence."})
"""The profile of an agent of which nothing is known."""


def shipped_profiles() -> list[str]:
    """Return the names of the profiles that belong to this package."""
    folder = resources.files("duologue.conformance") / "profiles"
    return sorted(each.name.removesuffix(".toml") for each in folder.iterdir() if each.name.endswith(".toml"))


def read_profile(name: str) -> Profile:
    """Return a profile by its name, or by the path of its file.

    Raises:
        ValueError: There is no such profile, or the file is not one; the message says what is wrong.
    """
    names = shipped_profiles()
    if name in names:
        text = (resources.files("duologue.conformance") / "profiles" / f"{name}.toml").read_text("utf-8")
    elif name.endswith(".toml") or "/" in name:
        try:
            text = Path(name).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"the profile {name} cannot be read: {error}") from None
    else:
        raise ValueError(f"there is no profile {name!r}{suggestion(name, names)}; the profiles are {', '.join(names)}")
    try:
        content = tomllib.loads(text)
        version = content.get("format", FORMAT)
        if isinstance(version, int) and version > FORMAT:
            raise ValueError(f"its format {version} is newer than this version of duologue reads ({FORMAT})")
        return msgspec.convert(content, Profile)
    except (ValueError, msgspec.ValidationError) as error:
        raise ValueError(f"the profile {name} is not valid: {error}; acts are {', '.join(get_args(Act))}") from None
