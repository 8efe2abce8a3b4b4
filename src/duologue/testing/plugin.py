"""The pytest plugin: the fixture `acp`. pytest loads it by its entry point; import nothing of it yourself.

Every suite in an environment with duologue loads this module, so it imports the rest when the fixture is first used.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from duologue.testing.agent_tester import AgentTester


@pytest.fixture
def acp(tmp_path: Path) -> Generator[AgentTester]:
    """Sessions with the agents under test; all are closed at the end of the test."""
    from duologue.testing.agent_tester import AgentTester

    tester = AgentTester(tmp_path)
    yield tester
    tester.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Close what `acp` opened inside the test's own coroutine, whichever plugin runs it."""
    tester = getattr(item, "funcargs", {}).get("acp")
    if tester is None or not isinstance(item, pytest.Function) or not inspect.iscoroutinefunction(item.obj):
        return (yield)
    test = item.obj

    @functools.wraps(test)
    async def test_and_close(**arguments: Any) -> None:
        try:
            await test(**arguments)
        finally:
            await tester.aclose()

    item.obj = test_and_close
    try:
        return (yield)
    finally:
        item.obj = test
