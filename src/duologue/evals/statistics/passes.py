"""pass@k and pass^k of one case: unbiased estimates from n trials of which c passed.

pass@k is the probability that at least one of k trials passes, pass^k that all of k do. Both are the share of all
selections of k of the n trials for which that is so. For n < k there is no such selection, and no estimate.
"""

from __future__ import annotations

from math import comb


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Return the probability that at least one of k trials passes: 1 - C(n-c, k) / C(n, k).

    Args:
        n: Number of trials.
        c: How many of them passed.
        k: Number of trials that the estimate is for.

    Returns:
        The unbiased estimate; None for n < k, where none exists.

    Raises:
        ValueError: k is not positive, or c is not between 0 and n.
    """
    total = _selections(n, c, k)
    # One division of exact integers: the result is the nearest float.
    return None if total is None else (total - comb(n - c, k)) / total


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """Return the probability that all of k trials pass: C(c, k) / C(n, k).

    Args:
        n: Number of trials.
        c: How many of them passed.
        k: Number of trials that the estimate is for.

    Returns:
        The unbiased estimate; None for n < k, where none exists.

    Raises:
        ValueError: k is not positive, or c is not between 0 and n.
    """
    total = _selections(n, c, k)
    return None if total is None else comb(c, k) / total


def _selections(n: int, c: int, k: int) -> int | None:
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if not 0 <= c <= n:
        raise ValueError(f"{c} of {n} trials cannot have passed")
    return comb(n, k) if n >= k else None
