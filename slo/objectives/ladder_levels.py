"""The fallback levels of ladders: the alternatives that calls get, one after the other.

::

    requested          what every call gets while all is well; not written
    elsewhere          the same model by another route
    MODEL, MODEL, …    other models, by their public names
    cache-only         an answer that is kept already, or none
    shed               a refusal that says when to come back

A ladder has any of these, in this order, so that each level costs callers more than the last.
"""

from itertools import pairwise
from typing import Final

from slo.objectives.objective import Enforce, Objective

REQUESTED: Final = "requested"
ELSEWHERE: Final = "elsewhere"
CACHE_ONLY: Final = "cache-only"
SHED: Final = "shed"
#: The most levels of a ladder, so that a call's fallback sequence stays bounded.
MAX_LEVELS: Final = 8

_MAX_NAME_CHARS: Final = 256
_MODEL: Final = 1
_RANKS: Final = {ELSEWHERE: 0, CACHE_ONLY: 2, SHED: 3}
#: The levels that are no model's name.
RESERVED_LEVELS: Final = tuple(_RANKS)


def model_levels(objective: Objective) -> tuple[str, ...]:
    """The levels of its ladder that are models, by their public names."""
    return tuple(level for level in objective.ladder if is_model(level))


def is_model(level: str) -> bool:
    """True if the level of this name is a model."""
    return level not in _RANKS


def is_name(level: str) -> bool:
    """True if a level can have this name."""
    return 0 < len(level) <= _MAX_NAME_CHARS and level.isprintable() and level == level.strip()


def effective_ladder(enforce: Enforce, ladder: tuple[str, ...]) -> tuple[str, ...]:
    """The ladder in effect: ``enforce = "shed"`` without one is a ladder of ``shed`` alone."""
    return (SHED,) if enforce is Enforce.SHED and not ladder else ladder


def ladder_problem(enforce: Enforce, ladder: tuple[str, ...]) -> tuple[str, str] | None:
    """The problem of a ladder, and its fix; None for a valid one."""
    if enforce in {Enforce.DEGRADE, Enforce.SHED} and not ladder:
        return "is missing, and there is nothing to degrade to", f'write ladder = ["{ELSEWHERE}"]'
    if enforce is Enforce.SHED and ladder[-1] != SHED:
        return "does not end in shed", f'end it in "{SHED}", or write enforce = "degrade"'
    if len(ladder) > MAX_LEVELS:
        return f"has over {MAX_LEVELS} levels", "leave some out"
    return _order_problem(ladder)


def _order_problem(ladder: tuple[str, ...]) -> tuple[str, str] | None:
    if REQUESTED in ladder:
        return "names what is asked for, which is above it", f'leave "{REQUESTED}" out'
    if len(set(ladder)) < len(ladder):
        return "has a level twice", "name each once"
    ranks = [_RANKS.get(level, _MODEL) for level in ladder]
    if any(above > below for above, below in pairwise(ranks)):
        return "is out of order", "write elsewhere, then models, then cache-only, then shed"
    return None
