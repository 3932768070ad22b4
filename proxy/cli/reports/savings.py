"""``thriftgate savings`` and ``thriftgate misses``: what was saved, and what is still lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dashboards.cost_formats import savings_document
from dashboards.report_summary.savings_sentences import headline_sentences
from dashboards.reports import latest_days
from proxy.cli.columns import (
    COUNT,
    FEATURE,
    MONEY,
    SHARE,
    Form,
    TableColumn,
    documents,
    each_by,
    rate,
    text_table,
    usd,
    with_team,
)
from proxy.cli.terminal import AsJson, Days, Terminal, feature_name
from proxy.records.amounts import cell, column, quantity
from slo.alert import format_rough_duration

if TYPE_CHECKING:
    from dashboards.reports import ReportPeriod
    from proxy.catalog.catalog import Catalog
    from proxy.cli.compaction_tables import FeatureCompaction
    from proxy.prefix.guard import Interval
    from proxy.services.reports.savings_figures import SavingsFigures
    from proxy.settings import Settings
    from proxy.store.sql.ledger.control_arms import Comparison, MissSum
    from proxy.store.sql.settings.layouts import UndecidedLayout
    from proxy.store.store import Store

#: Digits behind the point of what a sentence says.
_SENTENCE_DECIMALS: Final = 2
_LEGEND: Final = (
    "Planned, control: conversations. Estimated: what the calls of planned ones saved, by what"
    " caches should hold. Measured: how much less a token costs in planned conversations than in"
    " control ones, with its 95 % interval; in USD, that part of what the planned ones cost."
)
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

        The first line is the figure of all pages and reports: planning, compaction, fast path and
        ceilings, less surcharges; no provider's own caching, discounts or fallbacks.
        The estimate is there from the first call: what calls should have cost unmodified, by what
        caches should hold, less what they should have cost as they were sent. Planned and control
        are conversations; those of control are sent unmodified. The measured figure needs both; the
        interval holds the truth in 95 of 100 reports. Below it stand moves of text that wait for
        approval, what cache marks paid ahead and earned, and what compaction saved, all paid for.
        """
        period = latest_days(terminal.now(), days)
        with terminal.store() as store:
            from proxy.cli import compaction_tables
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
            terminal.print_json(
                {
                    "days": days,
                    "savings": documents(_comparison_columns(names), comparisons),
                    **compaction_tables.savings_documents(places, names),
                    "headline": savings_document(headline),
                    "proposed": documents(_layout_columns(names), waiting),
                    "cache_marks": mark_tables.marks_document(marks, names),
                }
            )
            return
        recent = f"in the last {quantity(days, 'day')}"
        terminal.say(*(headline_sentences(headline) or [f"Nothing was saved {recent}, nor lost."]))
        _show_comparisons(terminal, comparisons, names, f"No planned calls {recent}.", age)
        terminal.say(*(_layout_sentence(layout, names) for layout in waiting if layout.nanos))
        mark_tables.show(terminal, marks, names)
        compaction_tables.show(terminal, places, names)

    return savings_command


def _show_comparisons(
    terminal: Terminal,
    comparisons: Sequence[Comparison],
    names: Mapping[str, str],
    without: str,
    age: str,
) -> None:
    """Print the table with its legend; ``without`` where there are none."""
    if not comparisons:
        terminal.say(without)
        return
    terminal.show(text_table(_comparison_columns(names), comparisons))
    terminal.say(f"{_LEGEND} {age}".rstrip())


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
        columns = _miss_columns(names)
        if as_json:
            terminal.print_json({"days": days, "misses": documents(columns, sums)})
            return
        if not sums:
            span = f"in the last {quantity(days, 'day')}, as far as is known"
            terminal.say(f"No cache was missed {span}.")
            return
        terminal.show(text_table(columns, sums))
        for reason in dict.fromkeys(miss.reason for miss in sums):
            if fix := _suggested_fix(reason):
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


def _miss_columns(names: Mapping[str, str]) -> tuple[TableColumn[MissSum], ...]:
    return with_team(
        names,
        TableColumn("feature", "feature", FEATURE),
        TableColumn("reason", "reason"),
        TableColumn("calls", "calls", COUNT),
        TableColumn("tokens", "tokens", COUNT),
        TableColumn("cost_usd", "USD", MONEY, lambda miss: miss.nanos),
        TableColumn("example", "example"),
        TableColumn("detail"),
        TableColumn("fix", of=lambda miss: _suggested_fix(miss.reason)),
    )


def _suggested_fix(reason: str) -> str:
    """The fix for misses of that reason; "" for a reason of another version."""
    from proxy.prefix.explain.reasons import FIXES

    return FIXES.get(reason, "")


def _layout_columns(names: Mapping[str, str]) -> tuple[TableColumn[UndecidedLayout], ...]:
    """The columns of layouts that wait for approval."""
    return with_team(
        names,
        TableColumn("feature", of=lambda layout: layout.place.feature),
        TableColumn("family", of=lambda layout: layout.place.family),
        TableColumn("version"),
        TableColumn("saves_usd_per_1k", form=MONEY, of=lambda layout: layout.nanos),
        TableColumn("at_least", of=lambda layout: layout.is_early),
        TableColumn("calls"),
        team=lambda layout: layout.place.team,
    )


def _comparison_columns(names: Mapping[str, str]) -> tuple[TableColumn[Comparison], ...]:
    return with_team(
        names,
        TableColumn("feature", "feature", FEATURE),
        TableColumn("planned_conversations", "planned", COUNT, lambda c: c.treated.conversations),
        TableColumn("control_conversations", "control", COUNT, lambda c: c.control.conversations),
        TableColumn("", "estimated USD", _ESTIMATE, lambda c: c.estimate),
        TableColumn("saved_per_token", "measured", _INTERVAL, lambda c: c.verdict.saving),
        TableColumn("saved_usd", "measured USD", _WHOLE_CENTS, _saved_nanos),
        TableColumn(
            "hit_rate", "hit rate", SHARE, lambda c: rate(c.treated.reads, c.treated.tokens)
        ),
        TableColumn(
            "control_hit_rate",
            "control hit rate",
            SHARE,
            lambda c: rate(c.control.reads, c.control.tokens),
        ),
        TableColumn("estimated_saved_usd", of=lambda c: c.estimate and usd(c.estimate.nanos)),
        TableColumn("estimated_saved_share", of=lambda c: c.estimate and c.estimate.part),
        TableColumn("conversations_needed", of=lambda c: c.missing_conversations),
        TableColumn("finding", of=lambda c: c.verdict.finding),
        TableColumn("", "finding", of=_finding_text),
        TableColumn("why", of=lambda c: c.verdict.why),
    )


def _estimate_cells(estimates: Sequence[Any]) -> Iterator[str]:
    """Money with the part of the cost that it is."""
    amounts = column(estimate and estimate.nanos for estimate in estimates)
    for amount, estimate in zip(amounts, estimates, strict=True):
        yield f"{amount} ({estimate.part:.0%})" if estimate else amount


def _interval_text(interval: Interval | None) -> str:
    if interval is None:
        return "unknown"
    return f"{interval.value:.1%} ({interval.low:.1%} … {interval.high:.1%})"


_ESTIMATE: Final = Form(_estimate_cells)
_INTERVAL: Final = each_by(_interval_text)
_WHOLE_CENTS: Final = each_by(lambda nanos: cell(nanos, _SENTENCE_DECIMALS), usd)


def _dearest_first(sums: Iterable[MissSum]) -> list[MissSum]:
    """Features by what all their misses cost, the dearest first; in each the order stays."""
    listed = list(sums)
    costs: Counter[tuple[str, str]] = Counter()
    for miss in listed:
        costs[miss.team, miss.feature] += miss.nanos or 0
    return sorted(
        listed, key=lambda miss: (-costs[miss.team, miss.feature], miss.team, miss.feature)
    )


def _finding_text(comparison: Comparison) -> str:
    from proxy.prefix.guard import ComparisonFinding

    verdict, needed = comparison.verdict, comparison.missing_conversations
    if verdict.finding in {ComparisonFinding.MEASURED, ComparisonFinding.WORSE}:
        return str(verdict.finding)
    step = "shown" if verdict.finding is ComparisonFinding.NOT_ENOUGH else "counts"
    more = f" ({step} after some {needed:,} more)" if needed else ""
    return f"{verdict.finding}: {verdict.why}{more}"


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


def _saved_nanos(comparison: Comparison) -> int | None:
    """The estimated savings on the treated calls, in nano-dollars, as whole cents."""
    saving = comparison.verdict.saving
    if saving is None:
        return None
    part = saving.value  # of the cost without planning, from below 0 to below 1
    return round(comparison.treated.cost * part / (1 - part) / 1e7) * 10_000_000
