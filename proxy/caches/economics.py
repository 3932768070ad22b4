"""When writing a prefix to a paid cache costs less than sending it fresh, in exact fractions.

A price is a multiple of the price of a fresh token: a write of 5/4 costs a quarter more.
"""

from fractions import Fraction


def cost(uses: int, write: Fraction, read: Fraction) -> Fraction:
    """What a token costs that is written once and then read by all further uses, one at least."""
    return write + (uses - 1) * read


def least_uses(write: Fraction, read: Fraction) -> int | None:
    """How many uses within a lifetime make a write cost less than none; None if none do.

    Source: OpenAI, prompt caching guide (2026-09): 1.25 and 0.1 pay from the second use, 2.5 and
    0.1 from the third. Anthropic, prompt caching (2026-08): 5m from the second, 1h from the third.
    """
    if write < 1:
        return 1
    if read >= 1:
        return None
    return (write - read) // (1 - read) + 1


def least_shared(marked: int, uses: int, write: Fraction, read: Fraction) -> Fraction:
    """How many of ``marked`` tokens must have been shared anyway for marking them all to pay.

    A prefix of L tokens that all uses share is drawn out to M and marked there; that pays when
    L > M * (r + (w - r) / N), which is what comes back.

    Source: OpenAI, prompt caching guide, expanding a short shared prefix (2026-09).
    """
    return marked * (read + (write - read) / uses)


def pays(shared: int, marked: int, uses: int, write: Fraction, read: Fraction) -> bool:
    """Whether drawing ``shared`` tokens out to ``marked`` and marking them costs less."""
    return shared > least_shared(marked, uses, write, read)
