"""Shared by the whole suite: the fault table, the hypothesis profiles, and the number of repetitions."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import hypothesis
import pytest

from tests.faults.table import FaultTable, carry_fault_ids

gc.disable()  # until the tests are collected: all that is made by then stays

# Quick enough for every run, and the same in every run on CI. Deadlines would only measure the machine's other work.
hypothesis.settings.register_profile(
    "default",
    max_examples=50,
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "chaos",
    hypothesis.settings.get_profile("default"),
    max_examples=5_000,
    derandomize=False,
    print_blob=True,
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


class UvloopFactory:
    """Plugin that makes the event loop of every test."""

    def pytest_asyncio_loop_factories(self) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
        return {"uvloop": import_module("uvloop").new_event_loop}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fault-table", metavar="PATH", help="write what this run says about each fault to this page")
    parser.addoption("--uvloop", action="store_true", help="run the tests on uvloop, which must be installed")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the workers of `-n auto`: two for each core, as many tests wait for processes, pipes and terminals."""
    return 2 * (os.cpu_count() or 1)


def pytest_configure(config: pytest.Config) -> None:
    path: str | None = config.getoption("--fault-table")
    is_worker = hasattr(config, "workerinput")
    if path is not None and not is_worker:
        config.pluginmanager.register(FaultTable(Path(path)), "fault-table")
    if config.getoption("--uvloop"):
        config.pluginmanager.register(UvloopFactory(), "uvloop-factory")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    carry_fault_ids(items)


def pytest_collection_finish() -> None:
    """Exempt what the collection made from garbage collection: it stays, and every collection would search it."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def chaos_factor() -> int:
    """How many times its usual count a repeating test runs: 1 in the suite, more in `make chaos`."""
    return int(os.environ.get("DUOLOGUE_CHAOS_FACTOR", "1"))


def do_nothing(number: int, frame: object) -> None:
    """Handle a signal."""


@pytest.fixture(scope="session", autouse=True)
def programs_get_signals() -> None:
    """Let no program that a test starts inherit an ignored signal, as under `nohup` or behind the `&` of a script.

    A signal that has a handler is ignored here all the same, and a program starts with the default.
    """
    for name in ("SIGHUP", "SIGINT", "SIGQUIT"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, do_nothing)
