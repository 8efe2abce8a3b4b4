"""The engine of a Ray cluster, reached through the Ray Client server of its head."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from duologue.evals.engines.cluster import LOST_SECONDS, ClusterEngine, ClusterLost, TaskLost
from duologue.evals.engines.interface import EngineError
from duologue.evals.engines.worker import run_task
from duologue.evals.exceptions import EvalError
from duologue.evals.run.scratch import finish

DEFAULT_PORT = 10001
QUIET = {"configure_logging": False, "log_to_driver": False}
"""Options against the output of workers, which would break the progress of a run."""


class RayEngine(ClusterEngine):
    """Carries out tasks on a Ray cluster; each CPU of a node is a slot.

    Args:
        address: Address of the Ray Client server: `ray://HOST:PORT`.
        token_file: File with the token of the cluster. Default: what Ray itself finds (`RAY_AUTH_TOKEN`,
            `RAY_AUTH_TOKEN_PATH`, `~/.ray/auth_token`).
        function: What a worker calls for each message.
        timeout: Seconds without the cluster, or without any node, after which the run ends.

    Raises:
        EngineError: Ray is not installed, or there is no such file.
    """

    def __init__(
        self,
        address: str,
        *,
        token_file: Path | None = None,
        function: Callable[[bytes], bytes] = run_task,
        timeout: float = LOST_SECONDS,
    ) -> None:
        super().__init__(timeout)
        if token_file is not None:
            if not token_file.is_file():
                raise EngineError(f"there is no file {str(token_file)!r} with the token of the Ray cluster")
            # Ray reads them when it is imported.
            os.environ["RAY_AUTH_MODE"] = "token"
            os.environ["RAY_AUTH_TOKEN_PATH"] = str(token_file.absolute())
            os.environ.pop("RAY_AUTH_TOKEN", None)
        try:
            ray = importlib.import_module("ray")
        except ImportError as error:
            raise EngineError(f"Ray is not installed: pip install duologue[ray] ({error})") from None
        logging.getLogger("ray").setLevel(logging.ERROR)
        self._ray: Any = ray
        self._address = address
        self._function = function
        self._remote: Any = None
        self._held: dict[str, Any] = {}
        self.name = f"ray at {address}"

    async def _connect(self) -> None:
        await finish(self._init)
        # Lost tasks are submitted again here, with a bound; Ray's own retries would not count them.
        self._remote = self._ray.remote(num_cpus=1, max_retries=0)(self._function)

    def _init(self) -> None:
        with warnings.catch_warnings():
            # What it warns of is the error that it raises as well.
            warnings.simplefilter("ignore")
            self._ray.init(self._address, **QUIET)

    async def _disconnect(self) -> None:
        self._remote = None
        self._held.clear()
        with suppress(Exception):
            await finish(self._ray.shutdown)

    async def _call(self, name: str, message: bytes, unfit: frozenset[str]) -> bytes:
        remote = self._remote
        if remote is None or not self._ray.is_initialized():
            raise ClusterLost
        try:
            reference = self._held[name] = remote.options(name=name).remote(message)
            waiting = asyncio.wrap_future(reference.future())
            waiting.add_done_callback(_take_error)
            # Ray does not expect that its future is cancelled.
            answer = bytes(await asyncio.shield(waiting))
        except Exception as error:
            self._held.pop(name, None)
            raise await self._explained(error) from error
        # One that is cancelled stays until it is stopped.
        self._held.pop(name, None)
        return answer

    async def _explained(self, error: Exception) -> Exception:
        """Return what an error of Ray means for a task."""
        errors = self._ray.exceptions
        match error:
            case errors.RayTaskError():
                return EvalError(f"a worker could not begin it: {_last_line(error)}")
            case errors.AuthenticationError():
                return EngineError(f"{self.name} rejects the token: {_last_line(error)}")
            case ConnectionError() | errors.LocalRayletDiedError():
                return ClusterLost()
            case errors.RayError():
                return TaskLost(f"its worker died ({type(error).__name__})")
            case _ if await self._is_there():
                return EvalError(f"Ray failed: {type(error).__name__}: {_last_line(error)}")
            case _:
                return ClusterLost()

    async def _is_there(self) -> bool:
        try:
            return bool(await self._find_workers())
        except Exception:
            return False

    async def _stop(self, ids: list[str]) -> None:
        for name in ids:
            reference = self._held.pop(name, None)
            if reference is not None:
                await finish(self._ray.cancel, reference)

    async def _find_workers(self) -> dict[str, int]:
        if self._remote is None:
            raise ClusterLost
        nodes: list[dict[str, Any]] = await finish(self._ray.nodes)
        return {
            f"{node['NodeManagerAddress']} ({node['NodeID'][:8]})": int(node["Resources"].get("CPU", 0))
            for node in nodes
            if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
        }


def _take_error(future: asyncio.Future[Any]) -> None:
    """Look at the error of a future whose task may be cancelled, so that asyncio does not report it."""
    if not future.cancelled():
        future.exception()


def _last_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
