"""Savings of the fast path by its parts: answers given before, small models, drafts, and checks.

All are signed sums of receipts' ``fast_path_nanos``. Checks are the gateway's own calls, which
compare answers or read prompts ahead for replicas; they only cost. A small answer that failed a
check is a loss of the small models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from slo.alert import format_amount
from slo.budgets.budget import BudgetUnit

FastPathPart = Literal["cache", "small", "draft", "checks"]
"""The part that served a call; ``checks`` are the gateway's own calls."""

_TITLES: Final[Mapping[FastPathPart, str]] = {
    "cache": "answers given before",
    "small": "small models",
    "draft": "drafts",
    "checks": "checks of answers and prompts read ahead",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FastPathSaving:
    """The savings of one part of the fast path.

    Attributes:
        part: ``cache``, ``small``, ``draft`` or ``checks``.
        title: The part for people.
        nanos: Its savings, below 0 where it cost more.
    """

    part: FastPathPart
    title: str
    nanos: int


def fast_path_savings(parts: Mapping[FastPathPart, int]) -> list[FastPathSaving]:
    """The savings of the parts that have any, in the order of all parts.

    Args:
        parts: Savings in nano-dollars.
    """
    return [
        FastPathSaving(part=part, title=title, nanos=nanos)
        for part, title in _TITLES.items()
        if (nanos := parts.get(part, 0))
    ]


def fast_path_sentence(savings: Sequence[FastPathSaving]) -> str:
    """The savings of each part, exact to the last digit, without a full stop."""
    parts = ", ".join(f"{saving.title} {_exact(saving.nanos)}" for saving in savings)
    return f"Fast path: {parts}"


def _exact(nanos: int) -> str:
    return format_amount(BudgetUnit.USD, nanos)
