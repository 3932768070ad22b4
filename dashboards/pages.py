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
from dashboards.board import (
    BudgetCounter,
    CallDetail,
    ObjectiveStatus,
    OpenAlert,
    Reroute,
    ReroutedCall,
)

#: Functions of ``formatting`` that templates call.
_FILTERS: Final = (
    *("call_ending", "call_price", "clock_time", "duration_text", "feature_name", "iso_time"),
    *("level_name", "money", "objective_reason", "share", "subject_name", "unit_amount"),
)
#: The path of the pages.
HOME: Final = "/admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The contents of the policies page; a part is None where it is not known just now."""

    objectives: Sequence[ObjectiveStatus] | None
    reroutes: Sequence[Reroute] | None
    rerouted_calls: Sequence[ReroutedCall] | None
    counters: Sequence[BudgetCounter] | None
    open_alerts: Sequence[OpenAlert] | None


def overview(shown: Overview, now: float) -> str:
    """The policies page, as it is at this time in seconds since the epoch."""
    return _render("overview.html", shown=shown, now=now)


def call(detail: CallDetail | None, now: float, *, is_late: bool = False) -> str:
    """The page of one call.

    Args:
        detail: The call; None where there is none, or nobody could say.
        now: Seconds since the epoch.
        is_late: True if nobody could say in time.
    """
    return _render("call.html", detail=detail, now=now, is_late=is_late)


def sign_in(problem: str = "") -> str:
    """The page that asks for the token; it says what was wrong with the last one."""
    return _render("sign_in.html", problem=problem)


def stylesheet() -> bytes:
    """The one stylesheet of all pages, as UTF-8."""
    return resources.files("dashboards").joinpath("static", "admin.css").read_bytes()


def _render(template: str, **values: object) -> str:
    return _template_environment().get_template(template).render(**values)


@lru_cache(maxsize=1)
def _template_environment() -> Environment:
    made = Environment(
        loader=PackageLoader("dashboards"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    for name in _FILTERS:
        made.filters[name] = getattr(formatting, name)
    made.globals["home"] = HOME
    return made
