"""Remember which agents of projects' lock files the user has approved.

A lock file that comes with a project must not choose what is started. An approval is for the content of an entry, so a
changed entry needs a new one; the file of approvals is readable and writable for its owner only.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from duologue.private_files import PrivateFile, user_directory
from duologue.registry.index import RegistryError
from duologue.registry.lock_file import LockedAgent


class Approval(Struct, frozen=True, kw_only=True):
    """One line of the file.

    Attributes:
        digest: Digest of what is started.
        id: Id of the agent, for people who read the file.
        version: Its version.
        lock: The lock file that had the entry.
        approved_at: When, in UTC (ISO 8601).
    """

    digest: str
    id: str
    version: str
    lock: str
    approved_at: str


def approvals_file() -> Path:
    """Return the path of the file of approvals."""
    return user_directory("XDG_DATA_HOME", ".local/share") / "approvals.jsonl"


def unapproved(agents: Iterable[LockedAgent]) -> list[LockedAgent]:
    """Return the agents that are not approved.

    Raises:
        RegistryError: The file of approvals cannot be used.
    """
    try:
        lines = PrivateFile(approvals_file()).read().splitlines()
    except (OSError, ValueError) as error:
        raise RegistryError(f"the approvals cannot be read: {error}") from None
    approved: set[str] = set()
    for line in lines:
        try:
            approved.add(msgspec.json.decode(line, type=Approval).digest)
        except msgspec.DecodeError:
            continue  # a line that is not whole approves nothing
    return [agent for agent in agents if agent.start_digest() not in approved]


def approve(agents: Iterable[LockedAgent], lock: Path) -> None:
    """Permit starting these agents of a lock file.

    Raises:
        RegistryError: The file of approvals cannot be written.
    """
    now, path = datetime.now(UTC).isoformat(timespec="seconds"), str(lock.resolve())
    try:
        file = PrivateFile(approvals_file())
        for agent in unapproved(agents):
            digest = agent.start_digest()
            line = Approval(digest=digest, id=agent.id, version=agent.version, lock=path, approved_at=now)
            file.append(msgspec.json.encode(line).decode())
    except (OSError, ValueError) as error:
        raise RegistryError(f"the approval cannot be saved: {error}") from None
