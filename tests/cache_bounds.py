"""Tells how many results a function remembers."""

from collections.abc import Callable


def remembers_latest(result_of: Callable[[int], object], most: int) -> bool:
    """True if a result is remembered among so many, and forgotten after as many others."""

    def is_remembered(others: int) -> bool:
        first = result_of(0)
        for number in range(1, 1 + others):
            result_of(number)
        return result_of(0) is first

    return is_remembered(most - 1) and not is_remembered(most)
