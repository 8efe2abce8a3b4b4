"""The pytest plugin: the fixtures `acp`, `acp_snapshot`, `model_server` and `virtual_time`.

pytest loads it by its entry point; import nothing of it yourself.

Every suite in an environment with duologue loads this module, so it imports the rest when a fixture is first used.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import FrameType

    from duologue.testing.agent_tester import AgentTester
    from duologue.testing.faults.clock import VirtualClock
    from duologue.testing.models.server import ModelServer
    from duologue.testing.transcript_lines import HasFrames, HasTranscript


FAULTS = "duologue.testing.faults.injector"

HIDDEN = "__tracebackhide__"
"""Variable of a module or function whose frames pytest does not show."""


@pytest.fixture
def acp(tmp_path: Path) -> Generator[AgentTester]:
    """Sessions with the agents under test; all are closed at the end of the test."""
    from duologue.testing.agent_tester import AgentTester

    tester = AgentTester(tmp_path)
    yield tester
    tester.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this plugin."""
    text = "write the transcripts of this run to the files that the fixture `acp_snapshot` compares them with"
    parser.getgroup("acp", "Agent Client Protocol").addoption("--acp-update-snapshots", action="store_true", help=text)


@pytest.fixture
def acp_snapshot(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return a function that compares a transcript with the snapshot of this test: `acp_snapshot(session)`.

    The file is `snapshots/MODULE/TEST.snap` next to the file of the test; a second argument is added to its name.
    """
    directory = request.path.parent / "snapshots" / request.path.stem
    test = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")[:150]

    def compare(source: HasTranscript | HasFrames, name: str = "") -> None:
        from duologue.testing.snapshot import assert_transcript

        path = directory / f"{test}{f'-{name}' if name else ''}.snap"
        assert_transcript(source, path, update=bool(request.config.getoption("--acp-update-snapshots")))

    return compare


@pytest.fixture
def virtual_time() -> VirtualClock:
    """Return a clock on which the timers of the test's event loop fire without waiting."""
    from duologue.testing.faults.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def model_server() -> Generator[Callable[..., ModelServer]]:
    """Start scripted model servers, `model_server(script)`; all are closed at the end of the test."""
    from duologue.testing.models.server import ModelServer

    with ExitStack() as servers:
        yield lambda *script, **options: servers.enter_context(ModelServer(*script, **options))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Start the clock and close what `acp` opened inside the test's own coroutine, whichever plugin runs it."""
    fixtures: dict[str, Any] = getattr(item, "funcargs", {})
    tester, clock = fixtures.get("acp"), fixtures.get("virtual_time")
    is_ours = (tester or clock) is not None
    if not is_ours or not isinstance(item, pytest.Function) or not inspect.iscoroutinefunction(item.obj):
        return (yield)
    test = item.obj

    @functools.wraps(test)
    async def test_and_close(**arguments: Any) -> None:
        with clock or nullcontext():
            try:
                await test(**arguments)
            finally:
                if tester is not None:
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
        return _with_sections(item, (yield))
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
    return _with_sections(item, report)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Forget the faults of the test before."""
    if injectors := sys.modules.get(FAULTS):
        injectors.RECENT.clear()


def _with_sections(item: pytest.Item, report: pytest.TestReport) -> pytest.TestReport:
    """Add to the report of a failed test the transcripts of its sessions, and the faults of its connections."""
    tester: AgentTester | None = getattr(item, "funcargs", {}).get("acp")
    if report.failed and report.when == "call" and tester is not None:
        report.sections += [("acp transcript", text) for text in tester.transcripts()]
    injectors = sys.modules.get(FAULTS)
    if report.failed and injectors is not None and injectors.RECENT:
        report.sections.append(("acp faults", "\n".join(map(str, injectors.RECENT))))
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
