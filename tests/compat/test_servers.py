"""MCP servers in the dialects of older documents."""

from __future__ import annotations

from duologue.compat.servers import write_transport


def test_a_server_that_names_its_transport_already_stays_as_it_is() -> None:
    server = {"name": "x", "transport": "sse"}
    assert not write_transport(server)
    assert server == {"name": "x", "transport": "sse"}
