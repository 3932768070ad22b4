"""``thriftgate savings`` and ``thriftgate misses``: what was saved, and what is still lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from dashboards.reports import latest_days
from proxy.cli.terminal import AsJson, Days, Terminal, empty_table, feature_name
from proxy.records.amounts import cell, column, quantity
from slo.alert import format_rough_duration

if TYPE_CHECKING:
    from dashboards.reports import ReportPeriod
    from proxy.catalog.catalog import Catalog
    from proxy.cli.compaction_tables import FeatureCompaction
    from proxy.prefix.guard import ArmTotals, Interval
    from proxy.services.reports.savings_figures import SavingsFigures
    from proxy.settings import Settings
    from proxy.store.sql.ledger.control_arms import Comparison, MissSum
    from proxy.store.sql.settings.layouts import UndecidedLayout
    from proxy.store.store import Store

#: Digits behind the point of what a sentence says.
_SENTENCE_DECIMALS: Final = 2
_COUNTS = ("planned", "control")
_FIGURES = (
    *_COUNTS, "estimated USD", "measured", "measured USD", "hit rate", "control hit rate"
)  # fmt: skip
_LEGEND: Final = (
    "Planned, control: conversations. Estimated: what the calls of planned ones saved, by what"
    " caches should hold. Measured: how much less a token costs in planned conversations than in"
    " control ones, with its 95 % interval; in USD, that part of what the planned ones cost."
)
_MISSES = ("calls", "tokens", "USD")
_UNMARKED: Final = "unmarked"
_NOT_ENOUGH: Final = "not enough"
#: Features of which it is told why the gateway set no marks.
_MAX_WAITING_FEATURES: Final = 10


def savings(
    terminal: Terminal, catalog: Callable[[], Catalog], settings: Callable[[], Settings]
) -> Callable[..., None]:
    """The command that shows savings."""

    def savings_command(*, days: Days = 30, as_json: AsJson = False) -> None:
        """Show what was saved against sending directly, and what planning saved by feature.

        The first line is the figure of all pages and reports: planning, compaction, replies of
        cheaper models and discounts, less surcharges. A provider's own caching is not in it.
        The estimate is there from the first call: what calls should have cost unmodified, by what
        caches should hold, less what they should have cost as they were sent. Planned and control
        are conversations; those of control are sent unmodified. The measured figure needs both; the
        interval beside it holds the truth in 95 of 100 such reports. Below it stand moves of text
        that wait for approval, what cache marks paid ahead and earned back, and what compaction
        saved, its resets and notes paid for.
        """
        period = latest_days(terminal.now(), days)
        with terminal.store() as store:
            from dashboards.cost_formats import savings_document
            from dashboards.savings_headline import headline_sentences
            from proxy.cli import compaction_tables, json_documents
            from proxy.cli.reports import mark_tables
            from proxy.services.reports.savings_figures import SavingsFigures
            from proxy.store.sql.settings.layouts import undecided_layouts

            names = terminal.names(store)
            figures = SavingsFigures(store, catalog, terminal.now)
            headline = figures.headline(period)
            comparisons, age = _compared_arms(store, figures, terminal, days)
            waiting = undecided_layouts(store.layouts)
            places, marks = _compactions(store, period), mark_tables.read_marks(store, settings())
        if as_json:
            more = {
                "headline": savings_document(headline),
                "proposed": json_documents.proposals_document(waiting, names),
                "cache_marks": mark_tables.marks_document(marks, names),
            }
            terminal.print_json(json_documents.savings(days, comparisons, places, names) | more)
            return
        recent = f"in the last {quantity(days, 'day')}"
        terminal.say(*(headline_sentences(headline) or [f"Nothing was saved {recent}, nor lost."]))
        if not comparisons:
            terminal.say(f"No planned calls {recent}.")
        _show(terminal, comparisons, names, age)
        terminal.say(*(_layout_sentence(layout, names) for layout in waiting if layout.nanos))
        mark_tables.show(terminal, marks, names)
        compaction_tables.show(terminal, places, names)

    return savings_command


def _compared_arms(
    store: Store, figures: SavingsFigures, terminal: Terminal, days: int
) -> tuple[Sequence[Comparison], str]:
    """The arms of so many days, and the age of a comparison that was stored; blocks, maybe long."""
    from proxy.store.sql.ledger.control_arms import COMPARED_DAYS, compared_since

    if days != COMPARED_DAYS:
        return store.savings.compare(compared_since(terminal.now(), days)), ""
    measured = figures.measure()
    age = format_rough_duration(terminal.now() - measured.at)
    return measured.comparisons, f"Compared {age} ago."


def _compactions(store: Store, period: ReportPeriod) -> list[FeatureCompaction]:
    from proxy.cli import compaction_tables

    totals = store.compaction_receipts.totals(float(period.bounds[0]))
    return compaction_tables.feature_compactions(store.compactions.all_settings(), totals)


def conversations_summary(comparisons: Iterable[Comparison], names: Mapping[str, str]) -> str:
    """The number of conversations a measured figure still needs, in one sentence; "" for none.

    Args:
        comparisons: The features; the one that needs fewest is named.
    """
    lacking = [
        (needed, comparison)
        for comparison in comparisons
        if comparison.verdict.finding == _NOT_ENOUGH
        and (needed := comparison.missing_conversations)
    ]
    if not lacking:
        return ""
    needed, nearest = min(lacking, key=lambda entry: entry[0])
    feature = _feature(nearest.team, nearest.feature, names)
    conversations = f"some {quantity(needed, 'more conversation')}"
    if len(lacking) == 1:
        return f"A measured figure needs {conversations} of {feature}."
    return (
        f"Of {len(lacking):,} features without a measured figure {feature} needs the fewest:"
        f" {conversations}."
    )


def waiting_layout_summary(store: Store) -> str:
    """The best layout that waits for a person's approval, and its command; "" for none.

    It blocks.
    """
    from proxy.cli.planning.layouts import layout_command
    from proxy.records.feature_mode import PlanningMode
    from proxy.store.sql.settings.layouts import undecided_layouts

    waiting = [
        layout
        for layout in undecided_layouts(store.layouts)
        if layout.mode is not PlanningMode.AUTO and layout.nanos > 0
    ]
    if not waiting:
        return ""
    best = max(waiting, key=lambda layout: layout.nanos)
    place, names = best.place, {team.id: team.name for team in store.teams.all()}
    team = names.get(place.team, place.team)
    rest = quantity(len(waiting) - 1, "other layout")
    more = f", and {rest} less: `thriftgate savings`" if len(waiting) > 1 else ""
    return (
        f"A layout of {_feature(place.team, place.feature, names)} waits for approval: it should"
        f" save {_promise(best)}{more}."
        f" To apply it: {layout_command('approve', team, place, str(best.version))}."
    )


def misses(terminal: Terminal) -> Callable[..., None]:
    """The command that shows cache misses."""

    def misses_command(
        *,
        days: Days = 30,
        team: Annotated[str | None, typer.Option(help="One team's only: its name or id.")] = None,
        as_json: AsJson = False,
    ) -> None:
        """Show reasons for cache misses: the dearest feature and reason first."""
        with terminal.store() as store:
            names = terminal.names(store)
            team_id = None if team is None else terminal.team(store, team)
            sums = _dearest_first(store.savings.misses(terminal.days_ago(days), team=team_id))
        from proxy.cli import json_documents

        if as_json:
            terminal.print_json(json_documents.misses(days, sums, names))
            return
        if not sums:
            span = f"in the last {quantity(days, 'day')}, as far as is known"
            terminal.say(f"No cache was missed {span}.")
            return
        table = empty_table("team", "feature", "reason", *_MISSES, "example", right=_MISSES)
        for miss, cost in zip(sums, column(miss.nanos for miss in sums), strict=True):
            table.add_row(*map(Text, (names.get(miss.team, miss.team), *_miss_cells(miss, cost))))
        terminal.show(table)
        for reason in dict.fromkeys(miss.reason for miss in sums):
            if fix := json_documents.suggested_fix(reason):
                terminal.say(f"{reason}: {fix}")
        terminal.say(*_waiting_features(sums, names))

    return misses_command


def _waiting_features(sums: Sequence[MissSum], names: Mapping[str, str]) -> list[str]:
    """The reasons that the gateway sent no marks in the latest calls, of the dearest features."""
    waiting = [miss for miss in sums if miss.reason == _UNMARKED and miss.detail]
    return [
        f"{_feature(miss.team, miss.feature, names)}, {miss.example}: {miss.detail}."
        for miss in waiting[:_MAX_WAITING_FEATURES]
    ]


def _show(
    terminal: Terminal, comparisons: Sequence[Comparison], names: Mapping[str, str], age: str
) -> None:
    if not comparisons:
        return
    table = empty_table("team", "feature", *_FIGURES, "finding", right=_FIGURES)
    estimated = column(
        None if (e := comparison.estimate) is None else e.nanos for comparison in comparisons
    )
    saved = [cell(_saved_nanos(comparison), _SENTENCE_DECIMALS) for comparison in comparisons]
    for comparison, *costs in zip(comparisons, estimated, saved, strict=True):
        row = (
            names.get(comparison.team, comparison.team),
            feature_name(comparison.feature),
            *_figures(comparison, *costs),
        )
        table.add_row(*map(Text, row))
    terminal.show(table)
    terminal.say(f"{_LEGEND} {age}".rstrip())


def _dearest_first(sums: Iterable[MissSum]) -> list[MissSum]:
    """Features by what all their misses cost, the dearest first; in each the order stays."""
    listed = list(sums)
    costs: Counter[tuple[str, str]] = Counter()
    for miss in listed:
        costs[miss.team, miss.feature] += miss.nanos or 0
    return sorted(
        listed, key=lambda miss: (-costs[miss.team, miss.feature], miss.team, miss.feature)
    )


def _figures(comparison: Comparison, estimated: str, saved: str) -> tuple[str, ...]:
    """The cells of a row behind its names, with its two amounts of money as they are shown."""
    from proxy.prefix.guard import ComparisonFinding

    verdict = comparison.verdict
    counts = verdict.finding in {ComparisonFinding.MEASURED, ComparisonFinding.WORSE}
    estimate, needed = comparison.estimate, comparison.missing_conversations
    step = "shown" if verdict.finding == _NOT_ENOUGH else "counts"
    more = f" ({step} after some {needed:,} more)" if needed else ""
    return (
        f"{comparison.treated.conversations:,}",
        f"{comparison.control.conversations:,}",
        estimated if estimate is None else f"{estimated} ({estimate.part:.0%})",
        "unknown" if verdict.saving is None else _interval(verdict.saving),
        saved,
        _rate(comparison.treated),
        _rate(comparison.control),
        f"{verdict.finding}" if counts else f"{verdict.finding}: {verdict.why}{more}",
    )


def _layout_sentence(waiting: UndecidedLayout, names: Mapping[str, str]) -> str:
    from proxy.cli.planning.layouts import layout_command

    place = waiting.place
    team = names.get(place.team, place.team)
    return (
        f"Moving text in feature {feature_name(place.feature)} of team {team} on"
        f" {place.family or 'all families'} should save {_promise(waiting)}."
        f" To see it: {layout_command('show', team, place)}."
        f" To apply it: {layout_command('approve', team, place, str(waiting.version))}."
    )


def _promise(waiting: UndecidedLayout) -> str:
    least = "at least " if waiting.is_early else ""
    calls = quantity(waiting.calls, "call")
    saved = cell(waiting.nanos, _SENTENCE_DECIMALS)
    return f"{least}{saved} per 1,000 calls more (by estimate from {calls})"


def _feature(team: str, feature: str, names: Mapping[str, str]) -> str:
    return f"feature {feature_name(feature)} of team {names.get(team, team)}"


def _interval(interval: Interval) -> str:
    return f"{interval.value:.1%} ({interval.low:.1%} … {interval.high:.1%})"


def _rate(sample: ArmTotals) -> str:
    return f"{sample.reads / sample.tokens:.1%}" if sample.tokens else "none"


def _saved_nanos(comparison: Comparison) -> int | None:
    from proxy.cli import json_documents

    saving = comparison.verdict.saving
    return (
        None
        if saving is None
        else json_documents.saved_nanos(comparison.treated.cost, saving.value)
    )


def _miss_cells(miss: MissSum, cost: str) -> tuple[str, ...]:

    return (
        feature_name(miss.feature),
        miss.reason,
        f"{miss.calls:,}",
        f"{miss.tokens:,}",
        cost,
        miss.example,
    )
