"""The key of a trial, by which it has one result, and its directory."""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePosixPath
from typing import Annotated

from msgspec import Meta, Struct

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class TrialKey(Struct, frozen=True, order=True):
    """The identity of a trial.

    Attributes:
        suite: Digest of the suite.
        case: Id of the case.
        trial: Number of the trial, from 1.
        agent: Label of the agent, unique in a run.
    """

    suite: str
    case: str
    trial: Annotated[int, Meta(ge=1)]
    agent: str

    @property
    def directory(self) -> PurePosixPath:
        """Its directory below `trials`: `AGENT/CASE/NUMBER`."""
        return PurePosixPath(directory_name(self.agent), directory_name(self.case), str(self.trial))


def directory_name(label: str) -> str:
    """Return a label as the name of a directory; one that is not safe is changed and gets a part of its hash."""
    if _SAFE.fullmatch(label):
        return label
    digest = hashlib.sha256(label.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    readable = _UNSAFE.sub("-", label)[:40].strip("-.")
    return f"{readable or 'agent'}-{digest}"
