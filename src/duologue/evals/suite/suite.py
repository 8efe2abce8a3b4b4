"""A suite as it was read, and the header of a suite file."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from duologue.evals.suite.case import Case, CaseDefaults

SUITE_FORMAT = 1
"""Version of suite files that is written; older ones are read."""


class SuiteFile(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The content of `suite.toml`.

    Attributes:
        format: Version of the format.
        name: Name of the suite; that of its file or directory otherwise.
        description: What it measures.
        trials: How often each case is run, unless the caller says otherwise.
        defaults: What all cases share.
        cases: The cases; further ones are in `cases/NAME/case.toml` next to the file.
    """

    format: Annotated[int, Meta(ge=1)] = SUITE_FORMAT
    name: Annotated[str, Meta(max_length=200)] = ""
    description: str = ""
    trials: Annotated[int, Meta(ge=1, le=100_000)] = 1
    defaults: CaseDefaults = CaseDefaults()
    cases: list[Case] = []


class Suite(Struct, frozen=True, kw_only=True):
    """A suite that was read and checked.

    Attributes:
        name: Its name.
        digest: SHA-256 of its cases and of the files that they name.
        cases: Its cases, with the defaults applied and the prompts complete; in the order of the file.
        description: What it measures.
        trials: How often each case is run, unless the caller says otherwise.
        path: The file or directory that it was read from.
        format: Version of the format.
    """

    name: str
    digest: str
    cases: tuple[Case, ...]
    description: str = ""
    trials: int = 1
    path: str = ""
    format: int = SUITE_FORMAT

    def select(self, *, ids: frozenset[str] = frozenset(), tags: frozenset[str] = frozenset()) -> tuple[Case, ...]:
        """Return the cases with one of these ids, or with one of these tags; all cases without either."""
        if not ids and not tags:
            return self.cases
        return tuple(case for case in self.cases if case.id in ids or tags.intersection(case.tags))
