"""The pytest plugin: the fixture `acp`. pytest loads it by its entry point; import nothing of it yourself.

Every suite in an environment with duologue loads this module, so it imports the rest when the fixture is first used.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import FrameType

    from duologue.testing.agent_tester import AgentTester


HIDDEN = "__tracebackhide__"
"""Variable of a module or function whose frames pytest does not show."""


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Leave out the frames of libraries from the report of a failed test that uses `acp`, unless `--full-trace`."""
    is_ours = call.excinfo is not None and "acp" in getattr(item, "fixturenames", ())
    if not is_ours or item.config.getoption("fulltrace"):
        return (yield)
    from duologue.traceback_filter import is_library, trim_tracebacks

    assert call.excinfo is not None
    frames = [frame for frame in _frames(call.excinfo.value) if is_library(frame.f_code.co_filename)]
    modules = {id(frame.f_globals): frame.f_globals for frame in frames if HIDDEN not in frame.f_globals}
    for variables in modules.values():
        variables[HIDDEN] = True
    try:
        report = yield
    finally:
        for variables in modules.values():
            del variables[HIDDEN]
    report.sections = [(name, trim_tracebacks(text)) for name, text in report.sections]
    return report


def _frames(error: BaseException | None) -> Iterator[FrameType]:
    """Yield the frames of an exception and of those that led to it."""
    checked: set[int] = set()
    while error is not None and id(error) not in checked:
        checked.add(id(error))
        traceback = error.__traceback__
        while traceback is not None:
            yield traceback.tb_frame
            traceback = traceback.tb_next
        error = error.__cause__ or error.__context__
