"""MCP servers of the user: from the configuration file, and from files that editors share."""

from __future__ import annotations

from pathlib import Path

import pytest

from duologue.config.agents import KNOWN_KEYS
from duologue.config.servers import ServerConfig, named_servers, read_servers
from duologue.conversation.session_setup import HttpMcpServer, SseMcpServer, StdioMcpServer


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "duologue").mkdir()
    return tmp_path / "duologue" / "config.toml"


def test_servers_of_the_configuration_have_names(config: Path) -> None:
    config.write_text(
        '[mcp_servers.git]\ncommand = "git-server"\nargs = ["-v"]\nenv = { A = "1" }\n'
        '[mcp_servers.docs]\nurl = "https://h/mcp"\nheaders = { K = "v" }\n'
        '[mcp_servers.old]\nurl = "https://h/sse"\ntype = "sse"\n'
        '[agents.mine]\ncommand = "x"\n'
    )

    assert named_servers() == {
        "git": StdioMcpServer(name="git", command="git-server", args=["-v"], env={"A": "1"}),
        "docs": HttpMcpServer(name="docs", url="https://h/mcp", headers={"K": "v"}),
        "old": SseMcpServer(name="old", url="https://h/sse"),
    }


def test_without_a_file_there_are_none(config: Path) -> None:
    assert named_servers() == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[mcp_servers.x]\n", "'x' needs a `command` or a `url`"),
        ("[mcp_servers.x]\ncommand = 5\n", "Expected `str | null`"),
        ("mcp_servers = 5\n", "Expected `object`"),
        ("mcp_servers = ", "Invalid value"),
    ],
)
def test_an_invalid_server_is_rejected_with_the_name_of_the_file(config: Path, text: str, why: str) -> None:
    config.write_text(text)

    with pytest.raises(ValueError, match=f"config.toml: .*{why}"):
        named_servers()


def test_servers_of_a_shared_file(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(
        '{"mcpServers": {"a": {"command": "x", "disabled": false}, "b": {"url": "http://h", "type": "http"}}}'
    )

    assert read_servers(file) == [StdioMcpServer(name="a", command="x"), HttpMcpServer(name="b", url="http://h")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "truncated"),
        ("[]", "Expected `object`"),
        ("{}", "missing required field `mcpServers`"),
        ('{"mcpServers": {"a": {}}}', "'a' needs a `command` or a `url`"),
    ],
)
def test_a_file_without_servers_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "mcp.json").write_text(text)

    with pytest.raises(ValueError, match=why):
        read_servers(tmp_path / "mcp.json")


def test_the_keys_of_a_server_are_those_that_the_configuration_accepts() -> None:
    assert KNOWN_KEYS["mcp_servers"] == ServerConfig.__struct_fields__
