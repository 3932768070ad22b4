"""The pages as HTML, of values alone: nothing is asked here, and every text is escaped.

Names of models, features, teams and users are callers' text. Templates escape whatever they are
given; none of them marks a text as safe.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from dashboards import formatting
from dashboards.board import Counter, Moved, Notice, Promise, Stay, Told

#: What templates call of ``formatting``.
_WORDS: Final = (
    *("clock", "ending", "feature", "machine", "money", "paid"),
    *("rung", "share", "span", "standing", "used", "whose"),
)
#: Where the pages are.
HOME: Final = "/admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What the page of promises shows; a part is None where it is not known just now."""

    promises: Sequence[Promise] | None
    stays: Sequence[Stay] | None
    moved: Sequence[Moved] | None
    counters: Sequence[Counter] | None
    notices: Sequence[Notice] | None


def overview(shown: Overview, now: float) -> str:
    """The page of promises, as it is at this time in seconds since the epoch."""
    return _rendered("overview.html", shown=shown, now=now)


def call(told: Told | None, now: float, *, is_late: bool = False) -> str:
    """The page of one call.

    Args:
        told: The call; None where there is none, or nobody could say.
        now: Seconds since the epoch.
        is_late: Whether nobody could say.
    """
    return _rendered("call.html", told=told, now=now, is_late=is_late)


def sign_in(problem: str = "") -> str:
    """The page that asks for the token; it says what was wrong with the last one."""
    return _rendered("sign_in.html", problem=problem)


def stylesheet() -> bytes:
    """The one stylesheet of all pages, as UTF-8."""
    return resources.files("dashboards").joinpath("static", "admin.css").read_bytes()


def _rendered(template: str, **values: object) -> str:
    return _environment().get_template(template).render(**values)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("dashboards"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    for name in _WORDS:
        made.filters[name] = getattr(formatting, name)
    made.globals["home"] = HOME
    return made
