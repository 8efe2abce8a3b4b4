"""Run cases of the catalogue that concern both ends at both ends."""

from __future__ import annotations

import pytest

from tests.faults.ends import SIDES, Side


@pytest.fixture(params=SIDES)
def side(request: pytest.FixtureRequest) -> Side:
    side: Side = request.param
    return side
