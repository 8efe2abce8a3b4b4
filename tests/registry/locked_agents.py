"""Locked agents for tests."""

from __future__ import annotations

from typing import Any

import msgspec

from duologue.registry.index import platform_name
from duologue.registry.lock_file import LockedAgent


def binary(**changes: Any) -> dict[str, Any]:
    """Return the JSON of a locked agent of the kind `binary`."""
    return {
        "id": "sample",
        "version": "1.2.3",
        "name": "Sample",
        "kind": "binary",
        "platform": platform_name(),
        "registry": "https://registry.example/registry.json",
        "resolved_at": "2026-11-16T12:00:00Z",
        "url": "https://downloads.example/sample.tar.gz",
        "archive_sha256": "a" * 64,
        "program": "bin/sample",
        "programs": {"bin/sample": "b" * 64},
        "tree_sha256": "c" * 64,
        **changes,
    }


def locked(**changes: Any) -> LockedAgent:
    """Return a locked agent of the kind `binary`."""
    return msgspec.convert(binary(**changes), LockedAgent)
