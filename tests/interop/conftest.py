"""Every test here runs once with each SDK; they are installed when the first test needs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.sdks import OFFICIAL, OFFICIAL_NEXT, TYPESCRIPT, Sdk, Stage, install


@pytest.fixture(scope="session", params=[TYPESCRIPT, OFFICIAL, OFFICIAL_NEXT])
def sdk(request: pytest.FixtureRequest) -> Sdk:
    return install(request.param)


@pytest.fixture
def stage(sdk: Sdk, tmp_path: Path) -> Stage:
    made = Stage(sdk, tmp_path)
    made.cwd.mkdir()
    return made
