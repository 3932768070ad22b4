"""Renders the pages as HTML from values alone: reads nothing, and escapes every text.

Names of models, features, teams and users are callers' text. Templates escape all values; none
marks a text as safe.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib import resources
from inspect import isfunction
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from dashboards import formatting
from dashboards.access import Action, Viewer
from dashboards.cost_plot import cost_plot
from dashboards.fast_path_savings import fast_path_sentence
from dashboards.report_summary.savings_sentences import (
    fallback_sentence,
    quality_sentence,
    uncounted_sentence,
)
from dashboards.reports import ATTEMPTED_PARTS
from dashboards.views.code_words import code_words
from dashboards.views.comparisons import comparison_name, known_part
from dashboards.views.replay import CostCurves

#: The path of the pages.
HOME: Final = "/admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class NavigationEntry:
    """A page that the menu leads to.

    Attributes:
        section: Name by which a page says that it is part of it, and of its icon.
        path: Path below ``/admin``.
        action: Action that its page lets people do; those who may not do it do not see the link.
    """

    section: str
    path: str
    title: str
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class NavigationGroup:
    """Pages that stand together in the menu, below a title; "" for none."""

    title: str
    entries: tuple[NavigationEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInForm:
    """Contents of the page at which people sign in.

    Attributes:
        problem: Reason why the last attempt failed; "" for none.
        wanted: Path of the page that is to follow; "" for the first one.
        code: Code of a link that signs in once; "" for none.
        name: Name that was given last.
        takes_token: True if there is an admin token.
        provider: Name of the identity provider; "" for none.
    """

    problem: str = ""
    wanted: str = ""
    code: str = ""
    name: str = ""
    takes_token: bool = False
    provider: str = ""


def _group(title: str, *entries: tuple[str, str, Action]) -> NavigationGroup:
    """A group of the menu, of each page's section, title and action."""
    return NavigationGroup(
        title=title,
        entries=tuple(
            NavigationEntry(
                section=section,
                path="" if section == "overview" else f"/{section}",
                title=entry_title,
                action=action,
            )
            for section, entry_title, action in entries
        ),
    )


NAVIGATION: Final[tuple[NavigationGroup, ...]] = (
    _group("", ("overview", "Overview", Action.SEE_COSTS)),
    _group(
        "Spend",
        ("costs", "Costs", Action.SEE_COSTS),
        ("budgets", "Budgets and alerts", Action.SEE_COSTS),
        ("reports", "Reports", Action.SEE_COSTS),
    ),
    _group(
        "Savings",
        ("savings", "Savings", Action.SEE_COSTS),
        ("cache", "Cache health", Action.SEE_COSTS),
        ("layouts", "Layouts", Action.SEE_COSTS),
        ("fast-path", "Fast path", Action.SEE_COSTS),
        ("replay", "Replay a log", Action.SEE_COSTS),
    ),
    _group(
        "Reliability",
        ("now", "Now", Action.SEE_COSTS),
        ("calls", "Calls", Action.SEE_CALLS),
        ("latency", "Latency", Action.SEE_COSTS),
        ("objectives", "Objectives", Action.SEE_OPERATIONS),
        ("engines", "Engines", Action.SEE_OPERATIONS),
    ),
    _group(
        "Admin",
        ("teams", "Teams and keys", Action.SEE_COSTS),
        ("models", "Models and prices", Action.SEE_COSTS),
        ("people", "People", Action.CHANGE_USERS),
        ("audit", "Audit log", Action.SEE_AUDIT_LOG),
        ("settings", "Settings", Action.CHANGE_CONFIGURATION),
    ),
)
"""The menu, in order."""


def render(template: str, values: Mapping[str, object]) -> str:
    """A page for a person who is signed in.

    Args:
        values: Values it shows, with at least ``viewer``, ``now`` in seconds since the epoch, and
            ``section``, the menu's entry it belongs to.
    """
    viewer = values["viewer"]
    assert isinstance(viewer, Viewer)  # noqa: S101 - its caller's part
    menu = [
        (group.title, [entry for entry in group.entries if viewer.may(entry.action)])
        for group in NAVIGATION
    ]
    return _template_environment().get_template(template).render(menu=menu, **values)


def sign_in(form: SignInForm) -> str:
    """The page at which people sign in."""
    return _template_environment().get_template("sign_in.html").render(form=form)


def key_page(template: str, values: Mapping[str, object]) -> str:
    """A page for whoever holds a caller's key; it has no menu."""
    return _template_environment().get_template(template).render(values)


def problem(heading: str, message: str, back: str) -> str:
    """The page that says why something cannot be done; ``back`` is the path of the page before."""
    template = _template_environment().get_template("problem.html")
    return template.render(message=message, back=back, heading=heading)


def report_mail(values: Mapping[str, object]) -> str:
    """A cost report as the HTML of a mail; ``mail`` is a `dashboards.report_mail.MailContents`."""
    return _template_environment().get_template("report_mail.html").render(values)


def cost_curves(curves: CostCurves) -> str:
    """Cumulative costs as an SVG file."""
    template = _template_environment().get_template("cost_curves.svg")
    return template.render(plot=cost_plot(curves), is_file=True)


@lru_cache(maxsize=1)
def static_files() -> Mapping[str, str]:
    """Names of the files that pages load, each with a digest of its bytes."""
    folder = resources.files("dashboards").joinpath("static")
    return {
        file.name: sha256(file.read_bytes()).hexdigest()[:16]
        for file in folder.iterdir()
        if file.is_file()
    }


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
    for name, function in vars(formatting).items():
        is_own = isfunction(function) and function.__module__ == formatting.__name__
        if is_own and not name.startswith("_"):
            made.filters[name] = function
    made.filters["fast_path_sentence"] = fast_path_sentence
    made.filters["fallback_sentence"] = fallback_sentence
    made.filters["quality_sentence"] = quality_sentence
    made.filters["uncounted_sentence"] = uncounted_sentence
    made.filters["cost_plot"] = cost_plot
    made.filters["code_words"] = code_words
    made.filters["comparison_name"] = comparison_name
    made.filters["known_part"] = known_part
    made.globals |= {"home": HOME, "attempted_parts": ATTEMPTED_PARTS}
    return made
