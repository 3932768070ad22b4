"""The report of a replay: what was paid, what would have been paid, and how to get there."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from msgspec.structs import replace

from dashboards.formatting import dollars, signed_percent
from dashboards.views.replay import (
    CostCurve,
    CostCurves,
    FeatureRow,
    ReplayReport,
    ReusedRow,
    SavingStep,
    WayRow,
)
from proxy.records.agents import AGENTS
from proxy.records.amounts import quantity
from proxy.tools.replay.compaction import ReplayedCompaction
from proxy.tools.replay.fast_path.reuse_report import (
    LEGEND as REUSE_LEGEND,
)
from proxy.tools.replay.fast_path.reuse_report import (
    NO_EQUAL_CALLS,
    NO_GRADES,
    graded_sentence,
    reuse_steps,
    reuse_summary,
    reused_rows,
)
from proxy.tools.replay.log_replay import DEFAULT_MODEL, LogOutcome
from proxy.tools.replay.planning import DEFAULT, WITHOUT_LAYOUTS
from proxy.tools.replay.source import ReasonCount, RecordedSource
from proxy.tools.replay.variant_totals import FeatureTotals, VariantTotals, sum_of

#: The names of the ways, in the order of the totals.
WAY_NAMES: Final = ("as sent", WITHOUT_LAYOUTS, DEFAULT, "compacted")
_AS_SENT, _WITHOUT_LAYOUTS, _DEFAULT, _COMPACTED = range(4)
_NONE: Final = (
    "A log holds requests, as JSON, such as"
    ' {"model": "gpt-5.4", "messages": [{"role": "user", "content": "Good morning."}]}, with'
    " their answers where it can; which tools' logs are read: proxy/cli/README.md, Replay."
)
_LEAST: Final = "at least"
_LEGEND: Final = (
    "Without layouts: through the gateway in mode observe, which sets cache marks and keys. By"
    " default: text that varies moved behind text that stays, too. Compacted: old turns sent as"
    " facts, too. At least: every prompt that a cache may hold is read from it whole; only fewer"
    " tokens cost less."
)
#: Features that are listed; the others are in the totals.
_MAX_FEATURES: Final = 12
_MAX_ACTIONS: Final = 3
_MAX_WAITING: Final = 5
#: A change is worth an action from this share of the cost on.
_WORTH: Final = Decimal("0.01")
_SERVE: Final = "thriftgate serve"
_BASE_URLS: Final = (
    "export OPENAI_BASE_URL=http://127.0.0.1:8080/v1 ANTHROPIC_BASE_URL=http://127.0.0.1:8080"
)
_KEYS: Final = (
    "It takes your OPENAI_API_KEY or ANTHROPIC_API_KEY, and prints a key for your application, of"
    " the team default"
)
_AGENT_NAMES: Final = frozenset(agent.name for agent in AGENTS)
#: Reasons that calls were not compacted, where the code alone says little.
_REASON_TEXTS: Final[Mapping[str, str]] = {
    "below_least": "too short to be worth it",
    "floor": "too long by what cannot be compacted",
    "signed": "thinking is signed together with what stood before it",
    "thinks": "too few answers to see that no thinking is sent back",
}
_SHOWN_REASONS: Final = 3
#: Multiple of the tokens that are counted; vocabularies differ by less.
_FAR_MORE: Final = 2
_WORDS: Final = 120


def replay_report(outcome: LogOutcome, source: RecordedSource) -> ReplayReport:
    """The report of a replay of these recorded calls."""
    ways = sum_of(outcome.features)
    rows = tuple(_way_row(name, ways[n], ways[0]) for n, name in enumerate(WAY_NAMES) if ways)
    legend = (_LEGEND,) if rows else ()
    hint = () if rows or outcome.left_out else (_NONE,)
    return ReplayReport(
        headline=_headline(outcome, rows) if rows else "No call could be replayed.",
        calls=outcome.calls,
        features=tuple(map(_feature_row, outcome.features[:_MAX_FEATURES])),
        actions=tuple(_actions(outcome, rows)) if rows else (),
        ways=(*rows, *_least_row(outcome.features, ways)),
        reuse_summary=reuse_summary(outcome.reused, outcome.reuse_ttl),
        reused=_reuse_rows(outcome),
        remarks=tuple(map(_one_line, (*legend, *_remarks(outcome, source, rows), *hint))),
        curves=_curves(outcome),
    )


def _curves(outcome: LogOutcome) -> CostCurves | None:
    if not outcome.curves:
        return None
    named = zip(WAY_NAMES, outcome.curves, strict=True)
    ways = tuple(CostCurve(name=name, nanos=nanos) for name, nanos in named)
    return CostCurves(calls=outcome.curve_calls, ways=ways)


def _least_row(
    features: Sequence[FeatureTotals], ways: Sequence[VariantTotals]
) -> Iterator[WayRow]:
    """The row below which no order of these prompts goes, and no marks in them."""
    if ways:
        least = VariantTotals()
        for feature in features:
            least.include(feature.least)
        yield _way_row(_LEAST, least, ways[_AS_SENT])


def _way_row(name: str, way: VariantTotals, as_sent: VariantTotals) -> WayRow:
    return WayRow(
        name=name,
        nanos=way.nanos,
        change=_change(way.nanos, as_sent.nanos),
        hit_rate=way.hit_rate,
        input_tokens=way.input_tokens,
        cache_read_tokens=way.cache_read_tokens,
        cache_write_tokens=way.cache_write_tokens,
        output_tokens=way.output_tokens,
        refused=way.refused,
    )


def _feature_row(feature: FeatureTotals) -> FeatureRow:
    as_sent, *rest = feature.ways
    return FeatureRow(
        feature=_short(feature.feature),
        calls=feature.calls,
        nanos=as_sent.nanos,
        changes=tuple(_change(way.nanos, as_sent.nanos) for way in rest),
    )


def _reuse_rows(outcome: LogOutcome) -> tuple[ReusedRow, ...]:
    rows = reused_rows(outcome.reused)[:_MAX_FEATURES]
    return tuple(replace(row, feature=_short(row.feature)) for row in rows)


def _change(nanos: int | None, before: int | None) -> float | None:
    if nanos is None or before is None:
        return None
    return float(Decimal(nanos - before) / before) if before else 0.0


def _headline(outcome: LogOutcome, rows: Sequence[WayRow]) -> str:
    as_sent, without_layouts, default, compacted = rows
    calls = quantity(outcome.calls, "call")
    if as_sent.nanos is None or compacted.change is None or default.change is None:
        rates = ", ".join(f"{row.name} {row.hit_rate:.0%}" for row in rows)
        return f"{calls} at no known price; read from a cache: {rates}."
    unanswered = sum(feature.unanswered for feature in outcome.features)
    answers = " without their answers" if unanswered == outcome.calls else ""
    more = compacted.change - default.change
    compaction = f"compaction {signed_percent(more)} more" if more else "compaction nothing more"
    return (
        f"{calls} cost {dollars(as_sent.nanos)}{answers}; through the gateway"
        f" {dollars(default.nanos)} ({signed_percent(default.change)}), without layouts"
        f" {dollars(without_layouts.nanos)} ({signed_percent(without_layouts.change)}),"
        f" {compaction}."
    )


def _actions(outcome: LogOutcome, rows: Sequence[WayRow]) -> Iterator[SavingStep]:
    """Steps to take, the gateway first, then what saves most."""
    as_sent, default = rows[_AS_SENT], rows[_DEFAULT]
    if as_sent.nanos is None or default.nanos is None:
        return
    steps = _further_steps(outcome, as_sent.nanos * _WORTH)
    saved = as_sent.nanos - default.nanos
    is_worth_it = saved > as_sent.nanos * _WORTH
    if is_worth_it or steps:
        benefit = f"saves {dollars(saved)}" if is_worth_it else "needed for what follows"
        moved = (rows[_WITHOUT_LAYOUTS].nanos or 0) - default.nanos
        if is_worth_it and moved > as_sent.nanos * _WORTH:
            benefit += (
                f", {dollars(moved)} of it by layouts, which it learns for each feature that your"
                " calls name in the header x-thriftgate-feature"
            )
        is_agents = all(feature.feature in _AGENT_NAMES for feature in outcome.features)
        yield SavingStep(
            what=f"Send your calls through the gateway, unchanged: {benefit}. {_KEYS}.",
            commands=(_SERVE, "thriftgate agents" if is_agents else _BASE_URLS),
        )
    yield from steps


def _further_steps(outcome: LogOutcome, least: Decimal) -> Sequence[SavingStep]:
    """Compaction and kept answers by feature, what saves most first, and more than that."""
    steps = [
        (gain, _compaction_step(gain, _short(feature.feature)))
        for feature in outcome.features
        if (gain := _compaction_gain(feature)) > least
    ]
    steps += reuse_steps(outcome.reused, outcome.reuse_ttl, int(least))
    return [step for _, step in sorted(steps, key=lambda step: -step[0])[:_MAX_ACTIONS]]


def _compaction_step(gain: int, name: str) -> SavingStep:
    calls = f"feature {name}" if name else "calls without a feature"
    is_named = name and name not in _AGENT_NAMES
    header = f" Its calls send the header x-thriftgate-feature: {name}." if is_named else ""
    return SavingStep(
        what=f"Let it send old turns as facts, {calls}: saves {dollars(gain)} more.{header}",
        commands=(f"thriftgate compaction mode default {shlex.quote(name)} facts",),
    )


def _compaction_gain(feature: FeatureTotals) -> int:
    dear, cheap = feature.ways[_DEFAULT].nanos, feature.ways[_COMPACTED].nanos
    return 0 if dear is None or cheap is None else dear - cheap


def _remarks(outcome: LogOutcome, source: RecordedSource, rows: Sequence[WayRow]) -> Iterator[str]:
    yield from _model_remarks(outcome)
    yield from _missing_text_remark(outcome, rows)
    for row in rows:
        if row.refused:
            calls = quantity(row.refused, "call")
            yield f"The provider would refuse {calls} {row.name} for their marks."
    for waiting in outcome.waiting[:_MAX_WAITING]:
        calls = _calls_of(waiting.feature, waiting.calls)
        yield f"Sent without all of its cache marks, {calls}: {waiting.why}."
    for feature in outcome.unmoved:
        calls = _calls_of(feature.feature, feature.calls)
        yield f"No layout for {calls}: {_short(feature.why)}."
    if rows:
        yield from _compaction_remarks(outcome.compaction, outcome.calls)
        yield from _answer_remarks(outcome)
        yield from _fast_path_remarks(outcome)
    yield from _reasons("left out", "call", outcome.left_out)
    if rows and source.untimed:
        calls = quantity(source.untimed, "call")
        yield (
            f"{calls} had no time that can be read: taken {source.gap:g} s apart, in the log's"
            " order; --gap SECONDS sets another."
        )
    if source.late:
        yield f"{quantity(source.late, 'call')} stood too far from their place in time to be moved."
    yield from _reasons("skipped", "record", source.bad.most_frequent())


def _fast_path_remarks(outcome: LogOutcome) -> Iterator[str]:
    has_equal_calls = any(feature.equal.calls for feature in outcome.reused)
    yield REUSE_LEGEND if has_equal_calls else NO_EQUAL_CALLS
    yield from map(graded_sentence, outcome.graded)
    if not outcome.graded:
        yield NO_GRADES


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


def _missing_text_remark(outcome: LogOutcome, rows: Sequence[WayRow]) -> Iterator[str]:
    """A remark where the log's own usage counts far more tokens than its prompts hold."""
    counted = rows[_AS_SENT].input_tokens if rows else 0
    is_whole = all(model.has_price for model in outcome.models)
    if is_whole and outcome.prompt_tokens > _FAR_MORE * counted:
        yield (
            f"By its own usage the log's prompts have {outcome.prompt_tokens:,} tokens, but only"
            f" {counted:,} stand in it: parts of them are missing, so every cost here is too low."
        )


def _answer_remarks(outcome: LogOutcome) -> Iterator[str]:
    unanswered = sum(feature.unanswered for feature in outcome.features)
    if unanswered == outcome.calls:
        yield "The log has no answers: the cost is of prompts alone, and all answers cost more."
    elif unanswered:
        calls = quantity(unanswered, "call")
        yield f"{calls} had no readable answer: taken to be as long as the feature's others."
    yield from _reasons("could not be read", "answer", outcome.unreadable_answers)


def _compaction_remarks(compaction: ReplayedCompaction, calls: int) -> Iterator[str]:
    if compaction.calls or compaction.trimmed:
        yield (
            f"Compacted: {compaction.calls:,} of {quantity(calls, 'call')}, with"
            f" {quantity(compaction.resets, 'reset')}; in {compaction.trimmed:,} others only tool"
            " results were shortened."
        )
    if compaction.resets:
        yield (
            "Live, compaction may lose a feature one cent a day, or one conversation's first"
            " compaction (THRIFTGATE_LEARNING_STAKE sets the cent); once that is lost, its"
            " conversations are compacted later. Replay counts no such balance."
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


def _one_line(text: str) -> str:
    """The words on one line, without what a terminal would obey."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _short(text: str) -> str:
    """The words on one line, cut where they are many."""
    line = _one_line(text)
    return line if len(line) <= _WORDS else line[:_WORDS] + "…"
