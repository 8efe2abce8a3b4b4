"""Clients of other SDKs with bounds that an agent can hit: what happens then, as docs/topics/limits.md says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.interop.peers import GO
from tests.interop.sdks import Player, SdkClient, install

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]


@pytest.fixture
def sdk_client(tmp_path: Path) -> Iterator[SdkClient]:
    sdk = install(GO)
    with closing(Player(sdk)) as player:
        made = SdkClient(sdk, player, tmp_path)
        made.cwd.mkdir()
        yield made


def test_a_go_client_closes_the_connection_once_1024_updates_wait_for_its_handler(sdk_client: SdkClient) -> None:
    few, many = (sdk_client.play(["prompt", f"/stream {count}", {"isStuck": count > 1024}]) for count in (1000, 3000))
    assert len(few.last.of("agent_message_chunk")) == 1000
    assert many.last.error is not None
    assert "disconnected" in str(many.last.error)
