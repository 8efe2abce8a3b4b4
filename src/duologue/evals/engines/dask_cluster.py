"""The engine of a Dask cluster: its scheduler distributes tasks to workers on any number of machines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from duologue.evals.engines.cluster import LOST_SECONDS, WATCH_SECONDS, ClusterEngine, ClusterLost, TaskLost
from duologue.evals.engines.interface import EngineError
from duologue.evals.engines.worker import run_task, stop_tasks
from duologue.evals.exceptions import EvalError

DEFAULT_PORT = 8786
CONNECT_SECONDS = 10.0
"""Time for one try to connect, and for one answer of the scheduler."""
STOP_SECONDS = 20.0
"""Time for workers to end trials, which remove their directories."""
CLOSE_SECONDS = 10.0
"""Time to close a connection; Dask itself waits up to two seconds for its last message."""


class DaskEngine(ClusterEngine):
    """Carries out tasks on a Dask cluster; each thread of a worker is a slot.

    Args:
        address: Address of the scheduler: `tcp://HOST:PORT` or `tls://HOST:PORT`. Certificates for TLS come from
            Dask's configuration.
        function: What a worker calls for each message.
        timeout: Seconds without a scheduler, or without any worker, after which the run ends.

    Raises:
        EngineError: Dask is not installed.
    """

    # Dask itself tries other workers first: `distributed.scheduler.allowed-failures`, three unless it was changed.
    most_losses = 2

    def __init__(
        self, address: str, *, function: Callable[[bytes], bytes] = run_task, timeout: float = LOST_SECONDS
    ) -> None:
        super().__init__(timeout)
        try:
            import distributed
        except ImportError as error:
            raise EngineError(f"Dask is not installed: pip install duologue[dask] ({error})") from None
        self._dask: Any = distributed
        self._address = address
        self._function = function
        self._client: Any = None
        self.name = f"dask at {address}"

    async def _connect(self) -> None:
        # Its loops and comms are those of this event loop.
        client = self._dask.Client(
            self._address,
            asynchronous=True,
            timeout=min(CONNECT_SECONDS, self._timeout),
            set_as_default=False,
            name="duologue",
        )
        try:
            self._client = await client
        except BaseException:
            with suppress(Exception):
                await client.close(timeout=CLOSE_SECONDS)
            raise

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                await client.close(timeout=CLOSE_SECONDS)

    async def _call(self, name: str, message: bytes, unfit: frozenset[str]) -> bytes:
        client = self._client
        if client is None or client.status != "running":
            raise ClusterLost
        fit = [worker for worker in self._workers if worker not in unfit] if unfit else []
        # Not `allow_other_workers`: those have nothing to do, so Dask would move most tasks to them.
        location = {"workers": fit} if fit else {}
        try:
            future = client.submit(self._function, message, key=name, pure=False, **location)
        except Exception as error:
            raise ClusterLost from error
        try:
            return await self._result(future, fit)
        except TaskLost:
            raise
        except (Exception, CancelledError) as error:
            raise self._explained(error, future, client) from error
        finally:
            # A future that is held makes the scheduler compute it again when the worker with its result dies.
            future.release()

    async def _result(self, future: Any, fit: list[str]) -> bytes:
        """Wait for the result of a task; if it may run on some workers only, then until all of them are gone."""
        while fit:
            limit = asyncio.timeout(WATCH_SECONDS)
            try:
                async with limit:
                    return bytes(await future.result())
            except TimeoutError:
                if not limit.expired():
                    raise
            if self._workers.keys().isdisjoint(fit):
                raise TaskLost("all workers that can start the agent are gone")
        return bytes(await future.result())

    def _explained(self, error: BaseException, future: Any, client: Any) -> Exception:
        """Return what an error of Dask means for a task."""
        if isinstance(error, self._dask.KilledWorker):
            return TaskLost(f"its worker {_address_of(error)} died")
        if future.status == "error":
            return EvalError(f"a worker could not begin it: {type(error).__name__}: {error}")
        if isinstance(error, CancelledError) and client.status == "running" and "lost" not in str(error):
            return TaskLost(f"the scheduler has cancelled it: {error}")
        return ClusterLost()

    async def _stop(self, ids: list[str]) -> None:
        client = self._client
        if client is not None and client.status == "running":
            async with asyncio.timeout(STOP_SECONDS):
                await client.run(stop_tasks, ids, on_error="ignore")

    async def _find_workers(self) -> dict[str, int]:
        client = self._client
        if client is None or client.status != "running":
            raise ClusterLost
        async with asyncio.timeout(CONNECT_SECONDS):
            found: dict[str, int] = await client.nthreads()
        return dict(found)


def _address_of(error: BaseException) -> str:
    last = getattr(error, "last_worker", None)
    return str(getattr(last, "address", last) or "")
