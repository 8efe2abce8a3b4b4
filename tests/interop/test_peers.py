"""Foreign peers are named by the release that their lock files pin, and are absent with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import peers
from tests.interop.peers import CONDUCTOR, GO, JAVA, KOTLIN, PEERS, RUST, Absent, release
from tests.interop.peers.building import go_program, tool


@pytest.mark.parametrize(
    ("name", "pinned"),
    [
        (CONDUCTOR, ("conductor/Cargo.pins", 'name = "agent-client-protocol-conductor"\nversion = "{}"')),
        (RUST, ("rust/Cargo.pins", 'name = "agent-client-protocol"\nversion = "{}"')),
        (GO, ("go/go.mod", "github.com/coder/acp-go-sdk v{}\n")),
        (JAVA, ("java/pom.xml", "<version>{}</version>")),
        (KOTLIN, ("kotlin/pom.xml", "<version>{}</version>")),
    ],
)
def test_the_name_of_a_peer_has_the_release_that_is_built(name: str, pinned: tuple[str, str]) -> None:
    file, line = pinned
    assert line.format(release(name)) in (PEERS / file).read_text()


def test_a_tool_that_is_missing_is_named() -> None:
    with pytest.raises(Absent, match="no-such-tool is not installed here"):
        tool("no-such-tool")


def test_a_name_that_is_not_known_is_answered_with_those_that_are() -> None:
    with pytest.raises(Absent, match="expected one of typescript"):
        peers.install("cobol-1.0")


def test_a_registry_that_brings_nothing_is_a_reason_to_be_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "go"
    script.write_text("#!/bin/sh\necho 'no route to the registry' >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setenv("DUOLOGUE_BENCH_DIR", str(tmp_path / "cache"))
    with pytest.raises(Absent, match="no route to the registry"):
        go_program(PEERS / "go")
    assert not list((tmp_path / "cache").rglob("built-*"))
