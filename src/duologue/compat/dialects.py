"""The dialects that can be spoken as well as understood; cheap to import for all who only pass the name on."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

__all__ = ["DIALECTS", "Dialect", "check_dialect"]

Dialect: TypeAlias = Literal["seed-003", "seed-004"]
"""What a peer speaks that was built from an older document."""

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)


def check_dialect(dialect: Dialect | None) -> Dialect | None:
    """The same dialect, if there is one of that name.

    Raises:
        ValueError: There is none.
    """
    if dialect is not None and dialect not in DIALECTS:
        raise ValueError(f"there is no dialect {dialect!r}: give one of {', '.join(DIALECTS)}, or None")
    return dialect
