"""Quantiles and probabilities of the distributions that intervals and tests need.

They are those of `scipy.stats`, whose import takes a second and more; `scipy.special`, which it uses itself, is enough.
"""

from __future__ import annotations

from duologue.evals.statistics.libraries import special


def normal_quantile(probability: float) -> float:
    """Return the value below which a standard normal variable is with this probability."""
    return float(special.ndtri(probability))


def normal_probability(value: float) -> float:
    """Return the probability that a standard normal variable is at most a value."""
    return float(special.ndtr(value))


def t_quantile(probability: float, degrees: int) -> float:
    """Return the value below which a variable with Student's distribution is with this probability."""
    return float(special.stdtrit(degrees, probability))


def fair_coin_p(heads: int, tosses: int) -> float:
    """Return the two-sided p-value of so many heads, if the coin is fair."""
    rarer = min(heads, tosses - heads)
    return 1.0 if 2 * rarer == tosses else min(1.0, 2 * float(special.bdtr(rarer, tosses, 0.5)))
