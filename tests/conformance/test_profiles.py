"""Profiles: those that are included can be used, and a file that cannot be is rejected with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from duologue.conformance.profile import read_profile, shipped_profiles

EXAMPLES = ["go-sdk-example", "kotlin-sdk-example", "python-sdk-example", "rust-sdk-example", "typescript-sdk-example"]


def test_the_built_in_agent_and_the_examples_of_sdks_have_profiles() -> None:
    assert shipped_profiles() == ["builtin", *EXAMPLES]


@pytest.mark.parametrize("name", ["builtin", *EXAMPLES])
def test_an_included_profile_has_a_prompt_and_no_act_twice(name: str) -> None:
    profile = read_profile(name)

    assert profile.name
    assert "answer" in profile.prompts
    assert not set(profile.prompts) & set(profile.unsupported)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("format = 99", "its format 99 is newer than this version of duologue reads (1)"),
        ("[prompts]\nfly = 'Fly!'", "acts are answer, tool, permission"),
        ("more_prompts = 'one'", "more_prompts"),
        ("[prompts", "is not valid"),
    ],
)
def test_a_profile_that_cannot_be_used_is_rejected_with_the_reason(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text, "utf-8")

    with pytest.raises(ValueError, match=r"own\.toml") as caught:
        read_profile(str(path))
    assert problem in str(caught.value)
