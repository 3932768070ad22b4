"""The rungs of ladders: what calls get, one after the other, in place of what they ask for.

::

    requested          what every call gets while all is well; not written
    elsewhere          the same model by another route
    MODEL, MODEL, …    other models, by their public names
    cache-only         an answer that is kept already, or none
    shed               a refusal that says when to come back

A ladder has any of these, in this order, so that each rung is a greater sacrifice than the last.
"""

from itertools import pairwise
from typing import Final

from slo.objective import Enforce, Objective

REQUESTED: Final = "requested"
ELSEWHERE: Final = "elsewhere"
CACHE_ONLY: Final = "cache-only"
SHED: Final = "shed"
#: The most rungs; a call should not fall for ever.
MOST: Final = 8

_LONGEST: Final = 256
_MODEL: Final = 1
_RANKS: Final = {ELSEWHERE: 0, CACHE_ONLY: 2, SHED: 3}
#: The rungs that are no model's name.
WORDS: Final = tuple(_RANKS)


def models(objective: Objective) -> tuple[str, ...]:
    """The rungs of its ladder that are models, by their public names."""
    return tuple(rung for rung in objective.ladder if is_model(rung))


def is_model(rung: str) -> bool:
    """True if a rung of this name is a model's."""
    return rung not in _RANKS


def is_name(rung: str) -> bool:
    """True if a rung can have this name."""
    return 0 < len(rung) <= _LONGEST and rung.isprintable() and rung == rung.strip()


def meant(enforce: Enforce, ladder: tuple[str, ...]) -> tuple[str, ...]:
    """The ladder as it is meant: to shed without one is a ladder of this rung."""
    return (SHED,) if enforce is Enforce.SHED and not ladder else ladder


def flaw(enforce: Enforce, ladder: tuple[str, ...]) -> tuple[str, str] | None:
    """What is wrong with a ladder, and how to mend it; None for a sound one."""
    if enforce in {Enforce.DEGRADE, Enforce.SHED} and not ladder:
        return "is missing, and there is nothing to degrade to", f'write ladder = ["{ELSEWHERE}"]'
    if enforce is Enforce.SHED and ladder[-1] != SHED:
        return "does not end in shed", f'end it in "{SHED}", or write enforce = "degrade"'
    if len(ladder) > MOST:
        return f"has over {MOST} rungs", "leave some out"
    return _disorder(ladder)


def _disorder(ladder: tuple[str, ...]) -> tuple[str, str] | None:
    if REQUESTED in ladder:
        return "names what is asked for, which is above it", f'leave "{REQUESTED}" out'
    if len(set(ladder)) < len(ladder):
        return "has a rung twice", "name each once"
    ranks = [_RANKS.get(rung, _MODEL) for rung in ladder]
    if any(above > below for above, below in pairwise(ranks)):
        return "is out of order", "write elsewhere, then models, then cache-only, then shed"
    return None
