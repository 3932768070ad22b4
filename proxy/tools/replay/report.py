"""The report of a replay: what was paid, what would have been, and what to do for it.

It is one value, which the command prints, ``--json`` writes, and the dashboard shows.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

import msgspec

from proxy.records.amounts import money, quantity
from proxy.tools.replay.compaction import ReplayedCompaction
from proxy.tools.replay.log_replay import DEFAULT_MODEL, LogOutcome
from proxy.tools.replay.planning import DEFAULT, LAYOUTS
from proxy.tools.replay.source import ReasonCount, RecordedSource
from proxy.tools.replay.variant_totals import FeatureTotals, VariantTotals, sum_of

#: The names of the ways, in the order of the totals.
WAY_NAMES: Final = ("as sent", DEFAULT, LAYOUTS, "compacted")
_AS_SENT, _DEFAULT, _LAYOUTS, _COMPACTED = range(4)
#: Features that are listed; the others are in the totals.
_MAX_FEATURES: Final = 12
_MAX_ACTIONS: Final = 3
_MAX_WAITING: Final = 5
#: A change is worth an action from this share of the cost on.
_WORTH: Final = Decimal("0.01")
_NANOS: Final = 1_000_000_000
_PERCENT: Final = 100
_WHOLE_PERCENT: Final = 10
_CENTS_FROM: Final = _NANOS // 10
_GATEWAY: Final = (
    "thriftgate serve",
    "export OPENAI_BASE_URL=http://127.0.0.1:8080/v1 ANTHROPIC_BASE_URL=http://127.0.0.1:8080",
)
#: Steps of a feature: from one way to the next, what that is, and the command and mode for it.
_STEPS: Final = (
    (_DEFAULT, _LAYOUTS, "Let it move text that varies behind text that stays", "layout", "auto"),
    (_LAYOUTS, _COMPACTED, "Let it send old turns as facts", "compaction", "facts"),
)
#: Reasons that calls were not compacted, where the code alone says little.
_REASON_TEXTS: Final[Mapping[str, str]] = {
    "below_least": "too short to be worth it",
    "floor": "too long by what cannot be compacted",
    "signed": "thinking is signed together with what stood before it",
    "thinks": "the model always thinks",
    "other_wire": "calls of Anthropic's API are not compacted",
}
_SHOWN_REASONS: Final = 3
_WORDS: Final = 120
#: Stands for an amount that is not known.
_UNKNOWN: Final = "unknown"


class WayRow(msgspec.Struct, frozen=True, kw_only=True):
    """All calls, sent in one way.

    Attributes:
        name: Name of the way.
        nanos: Their cost in nano-dollars; None where a price is unknown.
        change: Share by which that is more (or, below 0, less) than sent unmodified; None likewise.
        hit_rate: Cache-read tokens ÷ input tokens.
        input_tokens: Prompt tokens.
        cache_read_tokens: Of these, read from the cache.
        cache_write_tokens: Of these, stored at a price.
        output_tokens: Generated tokens that are known.
        refused: Calls the provider would have refused for their marks.
    """

    name: str
    nanos: int | None
    change: float | None
    hit_rate: float
    input_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    output_tokens: int
    refused: int


class FeatureRow(msgspec.Struct, frozen=True, kw_only=True):
    """One feature: its cost as sent, and the share by which each way changes that.

    Attributes:
        feature: Its name; "" for calls that name none.
        calls: Calls of it.
        nanos: Their cost as sent; None where a price is unknown.
        changes: For each other way; None where unknown.
    """

    feature: str
    calls: int
    nanos: int | None
    changes: tuple[float | None, ...]


class SavingStep(msgspec.Struct, frozen=True, kw_only=True):
    """Something to do for savings.

    Attributes:
        what: The step, and the money it saves.
        commands: The commands that do it.
    """

    what: str
    commands: tuple[str, ...]


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report.

    Attributes:
        headline: The result in a sentence.
        calls: Calls replayed.
        features: By feature, the dearest first; "" as the only one is left out.
        actions: Steps to take, the most profitable first.
        ways: One row for each way.
        remarks: Facts besides the figures.
    """

    headline: str
    calls: int
    features: tuple[FeatureRow, ...]
    actions: tuple[SavingStep, ...]
    ways: tuple[WayRow, ...]
    remarks: tuple[str, ...]


def replay_report(outcome: LogOutcome, source: RecordedSource) -> ReplayReport:
    """The report of a replay of these recorded calls."""
    ways = sum_of(outcome.features)
    rows = tuple(_way_row(name, ways, n) for n, name in enumerate(WAY_NAMES) if ways)
    return ReplayReport(
        headline=_headline(outcome, rows) if rows else "No call could be replayed.",
        calls=outcome.calls,
        features=tuple(map(_feature_row, outcome.features[:_MAX_FEATURES])),
        actions=tuple(_actions(outcome, rows)) if rows else (),
        ways=rows,
        remarks=tuple(_remarks(outcome, source, rows)),
    )


def dollars(nanos: int | None) -> str:
    """An amount to read at a glance: cents from ten cents on, else three digits that tell."""
    if nanos is None:
        return _UNKNOWN
    if abs(nanos) < _CENTS_FROM:
        return money(nanos)
    return f"{'-' if nanos < 0 else ''}${Decimal(abs(nanos)).scaleb(-9):,.2f}"


def percent(change: float | None) -> str:
    """A change in percent with its sign: whole from ten percent on, else with a decimal."""
    if change is None:
        return _UNKNOWN
    places = 0 if abs(change) * _PERCENT >= _WHOLE_PERCENT else 1
    text = f"{change * _PERCENT:+.{places}f} %"
    return "±0 %" if not text.strip("+-0. %") else text.replace("-", "−")  # noqa: RUF001


def _way_row(name: str, ways: Sequence[VariantTotals], number: int) -> WayRow:
    way = ways[number]
    return WayRow(
        name=name,
        nanos=way.nanos,
        change=_change(way.nanos, ways[_AS_SENT].nanos),
        hit_rate=way.hit_rate,
        input_tokens=way.input_tokens,
        cache_read_tokens=way.cache_read_tokens,
        cache_write_tokens=way.cache_write_tokens,
        output_tokens=way.output_tokens,
        refused=way.refused,
    )


def _feature_row(feature: FeatureTotals) -> FeatureRow:
    as_sent, *others = feature.ways
    return FeatureRow(
        feature=feature.feature,
        calls=feature.calls,
        nanos=as_sent.nanos,
        changes=tuple(_change(way.nanos, as_sent.nanos) for way in others),
    )


def _change(nanos: int | None, before: int | None) -> float | None:
    if nanos is None or before is None:
        return None
    return float(Decimal(nanos - before) / before) if before else 0.0


def _headline(outcome: LogOutcome, rows: Sequence[WayRow]) -> str:
    as_sent, default, layouts, compacted = rows
    calls = quantity(outcome.calls, "call")
    if as_sent.nanos is None or compacted.change is None or layouts.change is None:
        rates = ", ".join(f"{row.name} {row.hit_rate:.0%}" for row in rows)
        return f"{calls} at no known price; read from a cache: {rates}."
    unanswered = sum(feature.unanswered for feature in outcome.features)
    answers = " without their answers" if unanswered == outcome.calls else ""
    more = compacted.change - layouts.change
    compaction = f"compaction {percent(more)} more" if more else "compaction nothing more"
    return (
        f"{calls} cost {dollars(as_sent.nanos)}{answers}; as sent by default"
        f" {dollars(default.nanos)} ({percent(default.change)}), with layouts applied"
        f" {dollars(layouts.nanos)} ({percent(layouts.change)}), {compaction}."
    )


def _actions(outcome: LogOutcome, rows: Sequence[WayRow]) -> Iterator[SavingStep]:
    """Steps to take, the gateway first, then what saves most."""
    as_sent, default = rows[_AS_SENT], rows[_DEFAULT]
    if as_sent.nanos is None or default.nanos is None:
        return
    found = [
        (gain, what, f'thriftgate {group} mode default "{feature.feature}" {mode}', feature.feature)
        for feature in outcome.features
        for before, after, what, group, mode in _STEPS
        if (gain := _gain(feature, before, after)) > as_sent.nanos * _WORTH
    ]
    saved = as_sent.nanos - default.nanos
    is_worth_it = saved > as_sent.nanos * _WORTH
    if is_worth_it or found:
        benefit = f"saves {dollars(saved)}" if is_worth_it else "needed for what follows"
        yield SavingStep(
            what=f"Send your calls through the gateway, unchanged: {benefit}.", commands=_GATEWAY
        )
    for gain, what, command, name in sorted(found, key=lambda item: -item[0])[:_MAX_ACTIONS]:
        calls = f"feature {_short(name)}" if name else "calls without a feature"
        yield SavingStep(what=f"{what}, {calls}: saves {dollars(gain)} more.", commands=(command,))


def _gain(feature: FeatureTotals, before: int, after: int) -> int:
    """Money that a feature saves by one way over another; 0 where a price is unknown."""
    dear, cheap = feature.ways[before].nanos, feature.ways[after].nanos
    return 0 if dear is None or cheap is None else dear - cheap


def _remarks(outcome: LogOutcome, source: RecordedSource, rows: Sequence[WayRow]) -> Iterator[str]:
    yield from _model_remarks(outcome)
    for row in rows:
        if row.refused:
            calls = quantity(row.refused, "call")
            yield f"The provider would refuse {calls} {row.name} for their marks."
    for waiting in outcome.unmarked[:_MAX_WAITING]:
        yield (
            f"No cache mark yet for {_calls_of(waiting.feature, waiting.calls)}: marks begin once"
            " text that comes again is expected to earn the price of storing it."
        )
    for feature in outcome.unmoved:
        calls = _calls_of(feature.feature, feature.calls)
        yield f"No layout for {calls}: {_short(feature.why)}."
    if rows:
        yield from _compaction_remarks(outcome.compaction, outcome.calls)
        yield from _answer_remarks(outcome)
    yield from _reasons("left out", "call", outcome.left_out)
    if source.late:
        yield f"{quantity(source.late, 'call')} stood too far from their place in time to be moved."
    yield from _reasons("not a call", "part", source.bad.most_frequent())


def _calls_of(feature: str, calls: int) -> str:
    name = f"feature {_short(feature)}" if feature else "calls without a feature"
    return f"{name} ({quantity(calls, 'call')})"


def _model_remarks(outcome: LogOutcome) -> Iterator[str]:
    for model in outcome.models:
        price = "" if model.has_price else "; no price is known of it, so it is in no cost"
        yield (
            f"Replayed as {model.model} ({model.route}, {model.regime or 'no known cache'}):"
            f" {quantity(model.calls, 'call')}{price}."
        )
    if outcome.unnamed:
        calls = quantity(outcome.unnamed, "call")
        yield f"{calls} named no model: replayed as {DEFAULT_MODEL} unless --model names another."


def _answer_remarks(outcome: LogOutcome) -> Iterator[str]:
    """Remarks on answers whose length nothing says."""
    unanswered = sum(feature.unanswered for feature in outcome.features)
    if unanswered == outcome.calls:
        yield "The log has no answers: the cost is of prompts alone, and all answers cost more."
    elif unanswered:
        calls = quantity(unanswered, "call")
        yield f"{calls} had no readable answer: taken to be as long as the feature's others."
    yield from _reasons("could not be read", "answer", outcome.unreadable_answers)


def _compaction_remarks(compaction: ReplayedCompaction, calls: int) -> Iterator[str]:
    """Remarks on compaction, and on the reasons for unmodified calls."""
    if compaction.calls or compaction.trimmed:
        yield (
            f"Compacted: {compaction.calls:,} of {quantity(calls, 'call')}, with"
            f" {quantity(compaction.resets, 'reset')}; in {compaction.trimmed:,} others only tool"
            " results were shortened."
        )
    if compaction.uncompacted:
        top = sorted(compaction.uncompacted.items(), key=lambda item: -item[1])
        reasons = "; ".join(
            f"{_short(_REASON_TEXTS.get(why, why.replace('_', ' ')))} ({count:,})"
            for why, count in top[:_SHOWN_REASONS]
        )
        yield f"Not compacted, {quantity(sum(compaction.uncompacted.values()), 'call')}: {reasons}."


def _reasons(verdict: str, noun: str, reasons: Sequence[ReasonCount]) -> Iterator[str]:
    for reason in reasons:
        first = f", first {reason.first}" if reason.first else ""
        yield f"{quantity(reason.count, noun)} {verdict}{first}: {reason.why}."


def _short(text: str) -> str:
    """The words on one line, cut where they are many."""
    line = " ".join(text.split())
    return line if len(line) <= _WORDS else line[:_WORDS] + "…"
