"""The libraries of the extra `evals`, or a sentence that says how to install them."""

from __future__ import annotations

try:
    import numpy as np
    from scipy import special
except ImportError as error:
    raise ImportError(
        f"the statistics of evaluations need {error.name}: pip install 'duologue[evals]'", name=error.name
    ) from error

__all__ = ["np", "special"]
