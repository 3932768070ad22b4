"""Reads a price table of the catalog as a tariff."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from fractions import Fraction
from itertools import pairwise

from proxy.catalog import numbers
from slo.price import OffPeakDiscount, PricePeriod, PriceSheet, PriceStep, Tariff, TokenRates
from slo.toml.fields import Field, keys
from slo.toml.nodes import Node
from slo.toml.problems import Problem
from slo.toml.table_reader import TableReader, checked_value

RATES = TokenRates.__struct_fields__
"""Names of the rates of a price."""
_TIERS = ("batch", "flex", "priority", "ultrafast")
_EVER = float("-inf")


def tariff(node: Node, discount: Fraction, problems: list[Problem]) -> Tariff:
    """Read the prices of a table, through time; its faults are added to ``problems``."""
    table = TableReader(node, keys(FIELDS), problems)
    changes = table.elements("changes")
    prices = replace(node, value={k: v for k, v in table.nodes.items() if k != "changes"})
    periods = [_period(prices, problems)]
    for change in changes:
        prices = _apply_change(prices, change, problems)
        periods.append(_period(prices, problems))
    for (before, after), change in zip(pairwise(periods), changes, strict=True):
        if before.since >= after.since > _EVER:
            problems.append(change.problem("is not after the prices before", "order by since"))
    return Tariff(periods=tuple(periods), discount=discount)


def _apply_change(before: Node, change: Node, problems: list[Problem]) -> Node:
    """The prices after a change: what it does not restate stays, where that is certain.

    Service tiers with rates of their own cannot when the standard rates move: the provider has
    said nothing about them, so they are unknown from then on.
    """
    later = TableReader(change, _CHANGE, problems)
    if "since" not in later.nodes:
        problems.append(change.problem("has no since", "write the day it is valid from"))
    fields: dict[str, Node] = before.value
    moves = any(bucket in later.nodes for bucket in RATES)
    if moves and "long" in fields and "long" not in later.nodes:
        problems.append(change.problem("moves rates but not those of long calls", "restate long"))
    service = {**_surviving_tiers(fields, moves=moves), **_entries(later, "service", _TIERS)}
    merged = {**fields, **later.nodes, "service": replace(change, value=service)}
    return replace(change, value=merged)


def _surviving_tiers(fields: Mapping[str, Node], *, moves: bool) -> dict[str, Node]:
    """The service tiers that outlive a change, which moves the standard rates or not."""
    tiers = fields["service"].value if "service" in fields else {}
    if not isinstance(tiers, dict):
        return {}
    return {tier: node for tier, node in tiers.items() if not (moves and _is_listed(node))}


def _is_listed(tier: Node) -> bool:
    """True if a service tier says rates of its own, rather than a factor."""
    return isinstance(tier.value, dict)


def _period(prices: Node, problems: list[Problem]) -> PricePeriod:
    table = TableReader(prices, _CHANGE, problems)
    standard = PriceSheet(rates=_rates(table), steps=_steps(table))
    sheets = {"": standard}
    for tier, node in _entries(table, "service", _TIERS).items():
        if _is_listed(node):
            sheets[tier] = _listed_sheet(node, standard, problems)
        elif (factor := numbers.factor(node, problems)) is not None:
            sheets[tier] = _scale_sheet(node, standard, factor, problems)
    since, fast, off_peak = (table.nodes.get(key) for key in ("since", "fast", "off_peak"))
    moment = numbers.timestamp(since, problems) if since else None
    return PricePeriod(
        since=_EVER if moment is None else moment,
        sheets=sheets,
        regions=_regions(table),
        fast=numbers.factor(fast, problems) if fast else None,
        off_peak=_off_peak(off_peak, problems) if off_peak else None,
    )


def _entries(table: TableReader, key: str, allowed: tuple[str, ...]) -> dict[str, Node]:
    """The entries of a table inside, checked for names not known; {} if there is none."""
    return (
        TableReader(table.nodes[key], allowed, table.problems).nodes if key in table.nodes else {}
    )


def _rates(table: TableReader) -> TokenRates:
    """The rates a table says; suspicious ones are warned about."""
    nodes = table.nodes
    rates = TokenRates(
        **{key: numbers.nanos(nodes[key], table.problems) for key in RATES if key in nodes}
    )
    if rates.input is not None and (rates.cache_read or 0) > rates.input:
        what = "is dearer than input"
        fix = "check it: reading from a cache is cheaper everywhere"
        table.problems.append(nodes["cache_read"].problem(what, fix, warning=True))
    if "input" in nodes and "output" not in nodes:
        what = "has no output, so what generates any is of unknown cost"
        fix = 'write output, "0" where nothing is generated'
        table.problems.append(table.node.problem(what, fix, warning=True))
    return rates


def _steps(table: TableReader) -> tuple[PriceStep, ...]:
    steps: list[PriceStep] = []
    for node in table.elements("long"):
        step = TableReader(node, (*RATES, "above"), table.problems)
        above = step.get("above", int)
        if above is None:
            table.problems.append(node.problem("has no above", "write above = 200_000"))
        elif steps and above <= steps[-1].above:
            table.problems.append(node.problem("is not above the one before", "order by above"))
        steps.append(PriceStep(above=above or 0, rates=_rates(step)))
    return tuple(steps)


def _listed_sheet(node: Node, standard: PriceSheet, problems: list[Problem]) -> PriceSheet:
    """A service tier with rates of its own.

    Where long calls have rates of their own at standard service and are not listed here, what
    they cost at this service is unknown.
    """
    table = TableReader(node, (*RATES, "long"), problems)
    unknown = tuple(PriceStep(above=step.above, rates=TokenRates()) for step in standard.steps)
    return PriceSheet(rates=_rates(table), steps=_steps(table) or unknown)


def _scale_sheet(
    node: Node, standard: PriceSheet, factor: Fraction, problems: list[Problem]
) -> PriceSheet:
    """The standard sheet times a factor."""

    def scale(rates: TokenRates) -> TokenRates:
        exact = {key: (getattr(rates, key) or 0) * factor for key in RATES}
        if any(rate.denominator != 1 for rate in exact.values()):
            problems.append(node.problem("makes prices of over 9 decimals", "list the rates"))
        priced = [key for key in RATES if getattr(rates, key) is not None]
        return TokenRates(**{key: int(exact[key]) for key in priced})

    steps = tuple(PriceStep(above=step.above, rates=scale(step.rates)) for step in standard.steps)
    return PriceSheet(rates=scale(standard.rates), steps=steps)


def _regions(table: TableReader) -> dict[str, Fraction]:
    factors = {
        region: numbers.factor(node, table.problems)
        for region, node in table.entries("region").items()
    }
    return {region: factor for region, factor in factors.items() if factor is not None}


def _off_peak(node: Node, problems: list[Problem]) -> OffPeakDiscount | None:
    table = TableReader(node, keys(OFF_PEAK_FIELDS), problems)
    factor = table.nodes.get("factor")
    if factor is None:
        problems.append(node.problem("has no factor", 'write factor = "0.5"'))
    windows = [numbers.peak_window(element, problems) for element in table.elements("peak")]
    holidays = [checked_value(element, date, problems) for element in table.elements("holidays")]
    times = numbers.factor(factor, problems) if factor else None
    if times is None:
        return None
    return OffPeakDiscount(
        factor=times,
        peak=tuple(window for window in windows if window is not None),
        holidays=frozenset(
            numbers.days_since_epoch(holiday) for holiday in holidays if holiday is not None
        ),
    )


FIELDS = (
    Field("input", str, None, "prompt tokens that no cache served", "unknown"),
    Field("cache_read", str, None, "prompt tokens read from a cache", "unknown"),
    *(
        Field(f"write_{time}", str, None, f"prompt tokens written for {time}", "unknown")
        for time in ("5m", "30m", "1h", "12h")
    ),
    Field("output", str, None, 'generated tokens; `"0"` where nothing is generated', "unknown"),
    Field("long", list, (), "list of tables: `above` (prompt tokens), and the whole call's rates"),
    Field("service", dict, None, "a table by service tier, see below"),
    Field("region", dict, None, "a factor for each region to which processing is bound"),
    Field("fast", str, None, "a factor for fast mode"),
    Field("off_peak", dict, None, "a table: what is cheaper at some hours, see below"),
    Field("since", date, None, "date or time when the price became valid, UTC"),
    Field("changes", list, (), "list of later prices, each with its own `since`"),
)
_CHANGE = keys(field for field in FIELDS if field.key != "changes")
OFF_PEAK_FIELDS = (
    Field("factor", str, None, "a factor outside `peak` and on `holidays`", "required"),
    Field("peak", list, (), 'list of hours such as `"Mon-Fri 01:00-04:00"`, UTC'),
    Field("holidays", list, (), "list of dates"),
)
