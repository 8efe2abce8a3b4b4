"""The requests that a model server received, without keys, and the failures that a test must see."""

from __future__ import annotations

import threading
from typing import Any

from starlette.types import Scope

from duologue.recording.redaction import MASK, MIN_SECRET_LENGTH
from duologue.testing.models.request import ModelRequest
from duologue.transports.server.auth import Headers

MAX_REQUESTS = 1000
"""Requests in memory; the oldest are forgotten."""

MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""The same in bytes of their bodies."""

MAX_FAILURES = 100

SECRET_HEADERS = (b"authorization", b"x-api-key", b"cookie", b"proxy-authorization")


class RequestLog:
    """The requests and failures of one server. A test reads it in another thread.

    Args:
        api_key: The key, which is removed from what is recorded.
    """

    def __init__(self, api_key: str) -> None:
        self.requests: list[ModelRequest] = []
        self.failures: list[str] = []
        self._key = api_key
        self._sizes: list[int] = []
        self._count = 0
        self._lock = threading.Lock()

    def add(self, request: ModelRequest, scope: Scope, size: int) -> None:
        """Record a request, whose body has this size, and give it its number."""
        self._count += 1
        request.number = self._count
        request.headers = self._headers(scope)
        with self._lock:
            self.requests.append(request)
            self._sizes.append(size)
            while len(self._sizes) > 1 and (len(self._sizes) > MAX_REQUESTS or sum(self._sizes) > MAX_REQUEST_BYTES):
                del self.requests[0], self._sizes[0]

    def fail(self, failure: str) -> None:
        """Record a failure."""
        if len(self.failures) < MAX_FAILURES:
            self.failures.append(failure)

    def without_key(self, data: bytes) -> bytes:
        """Return data with the key masked; a key that is a short word, which a test may choose, stays."""
        key = self._key.encode()
        return data if len(key) < MIN_SECRET_LENGTH else data.replace(key, MASK.encode())

    def _headers(self, scope: Scope) -> dict[str, str]:
        given: list[tuple[bytes, Any]] = scope["headers"]
        names = {name.lower() for name, _ in given} - set(SECRET_HEADERS)
        all_headers = Headers(scope)
        return {name.decode("latin-1"): ", ".join(all_headers.all(name)) for name in names}
