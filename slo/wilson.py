"""One-sided 95 percent Wilson bounds of the true share behind a counted one.

Three bad calls of twenty are reason to believe that more than 5 percent are bad; two are not. This
takes the place of a least number of calls below which nothing is decided. Source: Wilson, Probable
Inference, the Law of Succession, and Statistical Inference (JASA, 1927).
"""

from math import sqrt
from typing import Final

#: The 95th percentile of the standard normal distribution: 19 of 20 bounds hold.
Z: Final = 1.6448536269514722
_Z2: Final = Z * Z


def lower_bound(bad: float, n: float) -> float:
    """The share that the true one is hardly below; 0.0 where nothing was counted, or nothing bad.

    Args:
        bad: Number of bad ones, 0 to ``n``.
        n: Number counted, 0 or more. Neither has to be whole.

    Raises:
        ValueError: If there are more bad than were counted, or less than none.
    """
    if not 0 <= bad <= n:
        raise ValueError(f"{bad} of {n} is no share")
    if bad == 0:
        return 0.0
    spread = Z * sqrt(bad * (1 - bad / n) + _Z2 / 4)
    return max((bad + _Z2 / 2 - spread) / (n + _Z2), 0.0)


def upper_bound(bad: float, n: float) -> float:
    """The share that the true one is hardly above; 1.0 where nothing was counted, or all is bad.

    Raises:
        ValueError: If there are more bad than were counted, or less than none.
    """
    return 1.0 - lower_bound(n - bad, n)
