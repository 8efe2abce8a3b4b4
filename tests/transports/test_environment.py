"""The environment of a child process."""

from __future__ import annotations

import os

import pytest

from duologue.transports.process.environment import OWNER, inherited, owned_by, safe


@pytest.fixture(autouse=True)
def small_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"PATH": "/bin", "HOME": "/home/me", "LC_ALL": "C", "API_KEY": "secret", "LD_PRELOAD": "x.so"}
    monkeypatch.setattr("os.environ", ours)


def test_an_agent_inherits_everything_and_what_is_named() -> None:
    assert inherited({"HOME": "/elsewhere", "MODE": "fast"}) == {**os.environ, "HOME": "/elsewhere", "MODE": "fast"}
    assert inherited()["API_KEY"] == "secret"


def test_the_safe_environment_holds_no_keys_but_those_that_are_named() -> None:
    """Spec: terminals and MCP servers get a safe list plus what is named."""
    assert safe() == {"PATH": "/bin", "HOME": "/home/me", "LC_ALL": "C"}
    assert safe({"API_KEY": "meant"}) == {"PATH": "/bin", "HOME": "/home/me", "LC_ALL": "C", "API_KEY": "meant"}


def test_a_childs_child_keeps_the_marks_of_all_its_owners() -> None:
    assert owned_by("first", {}) == {OWNER: "first"}
    assert owned_by("second", owned_by("first", {"A": "1"})) == {"A": "1", OWNER: "first:second"}
