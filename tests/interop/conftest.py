"""Every test here runs once with each SDK; they are installed when the first test needs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.interop import peers
from tests.interop.sdks import Player, Sdk, SdkClient, install


@pytest.fixture(scope="session", params=peers.ALL)
def sdk(request: pytest.FixtureRequest) -> Sdk:
    return install(request.param)


@pytest.fixture(scope="session")
def player(sdk: Sdk) -> Iterator[Player]:
    with closing(Player(sdk)) as made:
        yield made


@pytest.fixture
def sdk_client(sdk: Sdk, player: Player, tmp_path: Path) -> SdkClient:
    made = SdkClient(sdk, player, tmp_path)
    made.cwd.mkdir()
    return made
