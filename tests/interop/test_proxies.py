"""Our proxy among programs of other people: a client in front of it, and a conductor around it."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.cli.program import PROGRAM, duologue, environment
from tests.cli.test_serve import BUILTIN
from tests.interop import peers

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]

SECONDS = 120.0

RULES = """
from duologue.proxy import Block, Prompt, Proxy

proxy = Proxy("rules")

@proxy.on_prompt
def check(prompt: Prompt):
    if "secret" in prompt.text:
        raise Block("no secrets")
    return None if prompt.text.startswith("/") else prompt.with_prefix("Be brief.")
"""

T = TypeVar("T")


def _installed(install: Callable[[], T], name: str) -> T:
    try:
        return install()
    except peers.Absent as reason:
        pytest.skip(f"{name}: {reason}")


@pytest.fixture(scope="session")
def conductor() -> str:
    return str(_installed(peers.conductor, peers.CONDUCTOR))


@pytest.fixture(scope="session")
def acpx() -> list[str]:
    return _installed(peers.acpx, peers.ACPX)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "rules.py").write_text(RULES)
    rules = tmp_path / "team.toml"
    rules.write_text('[permissions]\nedit = "reject"\n')
    rules.chmod(0o600)
    (tmp_path / "work").mkdir()
    return tmp_path


def _policy(home: Path) -> list[str]:
    return [*PROGRAM, "proxy", "policy", "--rules", str(home / "team.toml"), "--audit", str(home / "audit.jsonl")]


def _rules(home: Path) -> list[str]:
    return [*PROGRAM, "proxy", str(home / "rules.py")]


def _audit(home: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (home / "audit.jsonl").read_text().splitlines()]


def _acpx(acpx: list[str], home: Path, agent: list[str], prompt: str) -> subprocess.CompletedProcess[str]:
    command = [*acpx, "--approve-all", "--agent", shlex.join(agent), "exec", prompt]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=home / "work", env=environment(home)
    )


def test_acpx_reaches_the_agent_through_rules(acpx: list[str], home: Path) -> None:
    ended = _acpx(acpx, home, [*_rules(home), "--", *BUILTIN], "hello")
    assert "Be brief.\n\nhello" in ended.stdout, ended.stderr
    ended = _acpx(acpx, home, [*_rules(home), "--", *BUILTIN], "a secret")
    assert "no secrets" in ended.stdout + ended.stderr


def test_acpx_allows_everything_and_the_policy_does_not(acpx: list[str], home: Path) -> None:
    ended = _acpx(acpx, home, [*_policy(home), "--", *BUILTIN], "/edit")
    assert "I left" in ended.stdout, ended.stderr
    assert not list((home / "work").iterdir())
    assert _audit(home)[-1]["decision"] == "reject"


@pytest.mark.parametrize("options", [[], ["--v2"]])
def test_the_conductor_has_our_proxies_in_its_chain(conductor: str, home: Path, options: list[str]) -> None:
    chain = [conductor, "agent", *map(shlex.join, (_policy(home), _rules(home), [*BUILTIN, *options]))]
    work = home / "work"
    ended = duologue(home, "run", "hello", *options, "--", *chain, cwd=work)
    assert "Be brief.\n\nhello" in ended.stdout, ended.stderr
    ended = duologue(home, "run", "a secret", *options, "--", *chain, cwd=work)
    assert "blocked by the rule check of rules: no secrets" in ended.stderr
    ended = duologue(home, "run", "/edit", "--yes", *options, "--", *chain, cwd=work)
    assert "I left" in ended.stdout, ended.stderr
    assert not list(work.iterdir())
    assert _audit(home)[-1]["decision"] == "reject"


def test_a_turn_is_cancelled_through_the_conductor(conductor: str, home: Path) -> None:
    chain = [conductor, "agent", shlex.join(_rules(home)), shlex.join(BUILTIN)]
    ended = duologue(home, "run", "/slow 60", "--timeout", "3", "--", *chain, cwd=home / "work")
    assert ended.returncode == 6, ended.stderr
