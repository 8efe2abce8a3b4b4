"""The engine that a word of the command line names."""

from __future__ import annotations

import re
from pathlib import Path

from duologue.evals.engines.cluster import LOST_SECONDS
from duologue.evals.engines.interface import Engine, EngineError
from duologue.evals.engines.local import LocalEngine

_ADDRESS = re.compile(r"(?P<kind>dask|dask\+tls|ray)://(?P<host>\[[0-9a-fA-F:.]+\]|[\w.-]+)(:(?P<port>\d{1,5}))?/?")
EXPECTED = "local, dask://HOST[:PORT], dask+tls://HOST[:PORT] or ray://HOST[:PORT]"


def open_engine(text: str, *, token_file: Path | None = None, timeout: float = LOST_SECONDS) -> Engine:
    """Return the engine of `local`, `dask://HOST[:PORT]`, `dask+tls://HOST[:PORT]` or `ray://HOST[:PORT]`.

    Args:
        text: The name.
        token_file: File with the token of a Ray cluster. Default: what Ray itself finds.
        timeout: Seconds without a scheduler, or without any worker, after which a run ends.

    Raises:
        EngineError: It is something else, or the extra for it is not installed.
    """
    if token_file is not None and not text.startswith("ray://"):
        raise EngineError(f"a token is for ray://HOST, not for {text}")
    if text == "local":
        return LocalEngine()
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"] or 1) not in range(1, 65536):
        raise EngineError(f"{text!r} is no engine: expected {EXPECTED}")
    kind, host, port = found["kind"], found["host"], found["port"]
    if kind == "ray":
        from duologue.evals.engines import ray_cluster

        address = f"ray://{host}:{port or ray_cluster.DEFAULT_PORT}"
        return ray_cluster.RayEngine(address, token_file=token_file, timeout=timeout)
    from duologue.evals.engines import dask_cluster

    scheme = "tls" if kind == "dask+tls" else "tcp"
    return dask_cluster.DaskEngine(f"{scheme}://{host}:{port or dask_cluster.DEFAULT_PORT}", timeout=timeout)
