"""Finds the steps that nobody has taken yet in the figures of a period.

====================  ==========================================================================
step                  saving
====================  ==========================================================================
layout                expected by the proposal, on the calls of its family
equal calls           share of the newest calls that repeat, of what the feature cost
cache misses          known cost of what was not read from the cache, for a reason that developers
                      can change; where a layout waits, that is the step
compaction            share of tokens that dry runs would not have sent, of what the feature cost
cheaper model         same tokens at the list price of a model that a ladder names
all others            unknown: nothing was tried yet that could tell
====================  ==========================================================================
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypedDict
from urllib.parse import quote, urlencode

from sqlalchemy import Connection, select

from compaction.policy import CompactionMode
from dashboards.access import Action, Viewer
from dashboards.board import BudgetCounter
from dashboards.pages import HOME
from dashboards.savings_headline import SavingsSums
from dashboards.views.cache_health import MissReasonSums
from dashboards.views.steps import NextStep, month_saving, rank_steps
from proxy.catalog.catalog import Catalog
from proxy.prefix.explain.reasons import MissReason
from proxy.records.amounts import quantity
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.settings.layouts import UndecidedLayout, undecided_layouts
from proxy.store.sql.views.cache_health import misses
from proxy.store.sql.views.counted_savings import CountedSavings, SavingsScope, layout_scope
from proxy.store.sql.views.fast_path import FastPathRules
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.savings_sums import first_quarter
from proxy.store.sql.views.setup.cheaper_models import cheaper_model_steps, main_models
from proxy.store.sql.views.setup.compaction_dry_runs import DryRunTokens, dry_run_tokens
from proxy.store.sql.views.setup.repeated_calls import RepeatedCalls, repeated_calls
from slo.alert import single_line
from slo.policies.answer_cache import answer_cache_of
from slo.policies.fast_path_switches import SwitchedPart, split_switches

_DAY_S: Final = 86_400.0
_CALLS: Final = 1_000
#: Parts of their limit from which budgets are a step.
_FULL_BUDGET: Final = 0.75
#: The share of the cost without a feature from which on naming features is a step.
_MIN_UNNAMED_SHARE: Final = 0.01
#: Mean tokens of a prompt from which on compaction is a step, and calls that the mean needs.
_LONG_PROMPT_TOKENS: Final = 8_000
_MIN_LONG_CALLS: Final = 20
_MAX_REASONS: Final = 200
_MAX_DETAIL_CHARS: Final = 160
#: Reasons for misses that people can do something about.
_FIXABLE: Final = frozenset(
    {
        MissReason.DIVERGED,
        MissReason.PARAMETER_CHANGED,
        MissReason.ELSEWHERE,
        MissReason.EXPIRED,
        MissReason.BELOW_MINIMUM,
    }
)
#: Advice for the developers of a feature, who alone can follow it.
_ADVICE: Final[Mapping[str, str]] = {
    MissReason.DIVERGED: "put what varies behind what stays the same, and more is read from caches",
    MissReason.PARAMETER_CHANGED: "keep one set of parameters for a conversation's calls",
    MissReason.ELSEWHERE: "keep each conversation on one key and one upstream",
    MissReason.EXPIRED: "choose a longer lifetime of caches, or bring calls closer together",
    MissReason.BELOW_MINIMUM: "put more of what stays the same in front",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsQuestion:
    """A question for steps not taken yet.

    Attributes:
        rules: The fast path's rules in force.
        compaction: Compaction mode of features without a mode of their own.
        budgets: Counters of budgets that the viewer may see.
        now: Time, in seconds since the epoch.
    """

    viewer: Viewer
    scope: SavingsScope
    now: float
    rules: FastPathRules = field(default_factory=FastPathRules)
    compaction: CompactionMode = CompactionMode.OFF
    budgets: Sequence[BudgetCounter] = ()


class _PlaceNames(TypedDict):
    """The fields of a step that name a feature."""

    team: str
    team_name: str
    feature: str


class _Place(NamedTuple):
    """A feature of a team, with the team's name and its sums."""

    team: str
    team_name: str
    feature: str
    sums: SavingsSums

    @property
    def title(self) -> str:
        return self.feature or "calls without a feature"

    @property
    def names(self) -> "_PlaceNames":
        return {"team": self.team, "team_name": self.team_name, "feature": self.feature}

    @property
    def link(self) -> str:
        return f"{HOME}/layouts/{quote(self.team, safe='')}/{quote(self.feature or '-', safe='')}"


def next_steps(
    readers: Readers, question: StepsQuestion, counted: CountedSavings, names: Mapping[str, str]
) -> list[NextStep]:
    """Steps that nobody has taken, the largest saving first; blocks."""
    places = [
        _Place(team, names.get(team, team), feature, sums)
        for (team, feature), sums in counted.features().items()
        if sums.calls
    ]
    scope = question.scope
    with read_transaction(readers.engine, is_snapshot=True) as connection:
        first = first_quarter(connection, scope.period.bounds, scope.only)
        reasons = misses(
            connection, scope.period.bounds, scope.only, names,
            places=("team", "feature"), limit=_MAX_REASONS,
        )  # fmt: skip
        dearest = _dearest_misses(reasons)
        details = {}
        if question.viewer.may(Action.SEE_CALLS):
            details = _miss_details(connection, [row.example for row in dearest.values()])
        repeated = repeated_calls(connection, scope.period.bounds, scope.only)
        dry_runs = dry_run_tokens(connection, scope.period.bounds, scope.only)
        uses = main_models(connection, scope.period.bounds, scope.only)
    days = 0.0 if first is None else (min(scope.period.bounds[1], question.now) - first) / _DAY_S
    layouts = list(_layout_steps(readers, question, counted, places))
    waiting = {(step.team, step.feature) for step in layouts}
    steps = [
        *layouts,
        *_miss_steps(dearest, details, places, waiting),
        *_equal_call_steps(question, places, repeated),
        *cheaper_model_steps(
            uses, question.rules, scope.catalog.value, names, scope.period.bounds[1]
        ),
        *_budget_steps(question.budgets),
        *_unnamed_steps(counted, places),
        *_unused_part_steps(readers, question, places, dry_runs),
    ]
    return rank_steps(
        replace(step, month_nanos=month_saving(step.saved_nanos, days)) for step in steps
    )


def _layout_steps(
    readers: Readers, question: StepsQuestion, counted: CountedSavings, places: Sequence[_Place]
) -> Iterator[NextStep]:
    """Layouts that wait for a decision and would save on the period's calls."""
    calls = _calls_by_scope(counted, question.scope.catalog.value)
    by_feature = {(place.team, place.feature): place for place in places}
    for layout in undecided_layouts(readers.layouts):
        place = by_feature.get((layout.place.team, layout.place.feature))
        if place is not None and layout.nanos > 0 and calls[layout.place]:
            yield _layout_step(layout, calls[layout.place], place, question.viewer)


def _layout_step(layout: UndecidedLayout, calls: int, place: _Place, viewer: Viewer) -> NextStep:
    family = f" on {layout.place.family}" if layout.place.family else ""
    mode = ", and its mode becomes apply" if layout.mode is PlanningMode.OBSERVE else ""
    approve = {
        "change": "approve",
        "version": str(layout.version),
        "family": layout.place.family,
    }
    may_apply = viewer.may(Action.CHANGE_TEAM_SETTINGS, place.team)
    return NextStep(
        kind="layout",
        title=f"Apply the layout of {place.title}{family}",
        effect=(
            f"Moves {quantity(layout.moves, 'text')} of its prompts behind what stays the same, so"
            f" that more is read from caches{mode}"
        ),
        basis=f"Estimated from {quantity(layout.calls, 'call')}",
        saved_nanos=layout.nanos * calls // _CALLS,
        nanos_per_1k_calls=layout.nanos,
        bound="at least" if layout.is_early else "",
        cost_nanos=place.sums.cost_nanos,
        **place.names,
        link=place.link,
        action="Apply" if may_apply else "See the layout",
        fields=approve if may_apply else {},
    )


def _calls_by_scope(counted: CountedSavings, catalog: Catalog) -> Counter[LayoutScope]:
    """Calls of each feature by the family of the model that answered, and of all together."""
    calls: Counter[LayoutScope] = Counter()
    for place, sums in counted.places.items():
        scope = layout_scope(place, catalog)
        for family_scope in {scope, scope.all_families}:
            calls[family_scope] += sums.calls
    return calls


def _dearest_misses(reasons: Sequence[MissReasonSums]) -> dict[tuple[str, str], MissReasonSums]:
    """The dearest reason for misses of each feature that developers can change."""
    dearest: dict[tuple[str, str], MissReasonSums] = {}
    for row in reasons:
        if row.reason in _FIXABLE and row.nanos > 0:
            dearest.setdefault((row.team, row.feature), row)
    return dearest


def _miss_details(connection: Connection, call_ids: Sequence[str]) -> dict[str, str]:
    """The evidence of calls that missed, by id; it may quote prompts."""
    calls = schema.calls.c
    query = select(calls.call_id, calls.miss_detail).where(
        calls.call_id.in_(call_ids), calls.miss.is_not(None)
    )
    return {call_id: detail or "" for call_id, detail in connection.execute(query)}


def _miss_steps(
    dearest: Mapping[tuple[str, str], MissReasonSums],
    details: Mapping[str, str],
    places: Sequence[_Place],
    waiting: set[tuple[str, str]],
) -> Iterator[NextStep]:
    """Advice for developers on the dearest reason for misses of each feature.

    Args:
        details: Evidence of calls that the viewer may see, by id.
        waiting: Features with a layout that waits, which would fix the same.
    """
    for place in places:
        sums = dearest.get((place.team, place.feature))
        if sums is not None and (place.team, place.feature) not in waiting:
            yield _miss_step(sums, place, details.get(sums.example))


def _miss_step(row: MissReasonSums, place: _Place, detail: str | None) -> NextStep:
    filters = urlencode({"team": place.team, "feature": place.feature or "(none)"})
    example = f"{HOME}/cache/{quote(row.example, safe='')}"
    newest = f". The newest call: {single_line(detail, _MAX_DETAIL_CHARS)}" if detail else ""
    return NextStep(
        kind="cache_misses",
        title=f"Advice to developers: change the calls of {place.title}",
        effect=f"They can {_ADVICE[row.reason]}{newest}",
        basis=f"Cost of what {quantity(row.attempts, 'attempt')} did not read for that reason",
        saved_nanos=row.nanos,
        nanos_per_1k_calls=row.nanos * _CALLS // place.sums.calls,
        bound="at most",
        cost_nanos=place.sums.cost_nanos,
        **place.names,
        link=f"{HOME}/cache?{filters}" if detail is None else example,
        action="See its misses" if detail is None else "See what differs",
    )


def _equal_call_steps(
    question: StepsQuestion,
    places: Sequence[_Place],
    repeated: Mapping[tuple[str, str], RepeatedCalls],
) -> Iterator[NextStep]:
    """Features whose equal calls are each answered anew."""
    rules, switched_off = split_switches(question.rules.answer_cache)
    for place in places:
        calls = repeated.get((place.team, place.feature), RepeatedCalls())
        is_off = (place.team_name, place.feature) in switched_off
        has_rule = answer_cache_of(rules, place.team_name, place.feature) is not None
        if calls.repeated and calls.cost_nanos and (is_off or not has_rule):
            yield _equal_call_step(question.viewer, place, calls, is_off=is_off and has_rule)


def _equal_call_step(
    viewer: Viewer, place: _Place, calls: RepeatedCalls, *, is_off: bool
) -> NextStep:
    saved = place.sums.cost_nanos * calls.repeated_nanos // calls.cost_nanos
    part = SwitchedPart.ANSWER_CACHE.value
    fields = {"team": place.team, "feature": place.feature, "part": part}
    may_enable = is_off and viewer.may(Action.CHANGE_TEAM_SETTINGS, place.team)
    rule = "" if is_off else ", by a table [[answer_cache]] of the policies file"
    return NextStep(
        kind="equal_calls",
        title=f"Answer equal calls of {place.title} from memory",
        effect=f"A call that was asked before costs nothing{rule}",
        basis=f"{calls.repeated:,} of its last {quantity(calls.calls, 'call')} repeat earlier ones",
        saved_nanos=saved,
        nanos_per_1k_calls=saved * _CALLS // place.sums.calls,
        bound="at most",
        cost_nanos=place.sums.cost_nanos,
        **place.names,
        link=f"{HOME}/fast-path",
        action="Enable" if may_enable else "See the fast path",
        fields={**fields, "is_on": "true"} if may_enable else {},
    )


def _budget_steps(budgets: Sequence[BudgetCounter]) -> Iterator[NextStep]:
    """The budgets that are nearly spent, each with its fullest counter."""
    fullest: dict[str, tuple[float, BudgetCounter]] = {}
    for counter in budgets:
        part = (counter.spent or 0) / counter.limit if counter.limit > 0 else 0.0
        if part >= max(_FULL_BUDGET, fullest.get(counter.budget, (0.0, counter))[0]):
            fullest[counter.budget] = (part, counter)
    for name, (part, counter) in fullest.items():
        whose = "" if counter.whose == "*" else f" of {counter.whose}"
        then = "calls are refused" if counter.is_hard else "people are notified, and calls go on"
        yield NextStep(
            kind="budget",
            title=f"Budget {name}{whose} is at {part:.0%}".replace("%", " %"),
            effect=f"Raise it, or spend less: once it is spent, {then}",
            basis="A budget saves nothing by itself",
            link=f"{HOME}/budgets",
            action="Change the budget",
        )


def _unnamed_steps(counted: CountedSavings, places: Sequence[_Place]) -> Iterator[NextStep]:
    """Calls of which too little is known: no price, or no feature."""
    if unpriced := counted.headline.unpriced_attempts:
        yield NextStep(
            kind="unpriced",
            title=f"Set the price of {quantity(unpriced, 'attempt')}",
            effect="Their cost comes into budgets, reports and savings, which leave it out",
            basis="Without a price nobody can tell what they cost",
            link=f"{HOME}/models?unpriced=true",
            action="See the models",
        )
    unnamed = [place.sums for place in places if not place.feature]
    cost = sum(sums.cost_nanos for sums in unnamed)
    if cost and cost >= _MIN_UNNAMED_SHARE * counted.headline.paid_nanos:
        yield NextStep(
            kind="no_feature",
            title=f"Name the feature of {quantity(sum(sums.calls for sums in unnamed), 'call')}",
            effect="Layouts, compaction and budgets work by feature: give keys one, or send it",
            basis="Known once the calls are told apart",
            cost_nanos=cost,
            link=f"{HOME}/costs?{urlencode({'feature': '(none)', 'by': 'key'})}",
            action="See whose calls",
        )


def _unused_part_steps(
    readers: Readers,
    question: StepsQuestion,
    places: Sequence[_Place],
    dry_runs: Mapping[tuple[str, str], DryRunTokens],
) -> Iterator[NextStep]:
    """Features without planning, and those with long prompts without compaction."""
    states, settings = readers.layouts.states(), readers.compactions.all_settings()
    for place in places:
        scope = LayoutScope(place.team, place.feature)
        if (states.of(scope).mode or states.mode) is PlanningMode.OFF:
            yield NextStep(
                kind="planning",
                title=f"Send cache marks for {place.title}",
                effect="Its prompts go unmodified: in mode observe the gateway marks what repeats",
                basis="Planning is off, so nothing was measured",
                cost_nanos=place.sums.cost_nanos,
                **place.names,
                link=place.link,
                action="Choose its mode",
            )
        mode = settings.of(place.team, place.feature).effective_mode(question.compaction)
        mean = place.sums.prompt_tokens // place.sums.calls
        is_long = place.sums.calls >= _MIN_LONG_CALLS and mean >= _LONG_PROMPT_TOKENS
        if is_long and mode is CompactionMode.OFF:
            dry = dry_runs.get((place.team, place.feature), DryRunTokens())
            saved = dry.saved_nanos(place.sums.cost_nanos)
            yield NextStep(
                kind="compaction",
                title=f"Shorten the long conversations of {place.title}",
                effect=f"Compaction is off, and a call has {mean:,} prompt tokens on average",
                basis=dry.basis,
                saved_nanos=saved,
                nanos_per_1k_calls=None if saved is None else saved * _CALLS // place.sums.calls,
                bound="" if saved is None else "at most",
                cost_nanos=place.sums.cost_nanos,
                **place.names,
                link=f"{place.link}#compaction-title",
                action="Choose its mode",
            )
