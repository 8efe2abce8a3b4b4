"""The process that makes clusters ends with the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.evals.engines.dask_processes import close_common_server


@pytest.fixture(scope="session", autouse=True)
def no_server_stays() -> Iterator[None]:
    """End the process that makes clusters."""
    yield
    close_common_server()
