"""Check after every test that no process, descriptor, thread or task is left."""

from __future__ import annotations

from tests.transports.conftest import nothing_left

__all__ = ["nothing_left"]
