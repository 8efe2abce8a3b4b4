"""The names of the dialects; cheap to import for code that only passes the name on."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Dialect: TypeAlias = Literal["seed-003", "seed-004"]
"""The dialect of a peer that was built from an older document."""

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)


def check_dialect(dialect: Dialect | None) -> Dialect | None:
    """Return the dialect if there is one of that name.

    Raises:
        ValueError: There is none.
    """
    if dialect is not None and dialect not in DIALECTS:
        raise ValueError(f"unknown dialect {dialect!r}; use one of {', '.join(DIALECTS)}, or None")
    return dialect
