"""The report of a replay, as a table for people and as JSON for programs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from rich.table import Table
from rich.text import Text

from proxy.prefix.explain.reasons import MissReason
from proxy.records.amounts import quantity
from proxy.tools.replay.compaction import CompactedVariant, ReplayedCompaction
from proxy.tools.replay.prompts import PromptReader
from proxy.tools.replay.run import ReplayOutcome
from proxy.tools.replay.source import RecordedSource
from proxy.tools.replay.unmoved_text import UnmovedFeature
from proxy.tools.replay.variant_totals import MissesByReason, VariantRow

#: Meaning of the rows and columns of a table.
LEGEND: Final = (
    (
        "as sent: as recorded; marked: with the marks and keys that caches want; arranged: marked,"
        " and what varies comes last; compacted: arranged, and old turns as facts where that pays;"
        " ceiling: a cache that forgets nothing, and a perfect order."
    ),
    (
        "Tokens of all prompts: read from a cache (hit rate: that part of them), written into one,"
        " fresh (neither). USD/1,000: what a thousand calls cost. Of the way: from as sent to the"
        " ceiling, in tokens read."
    ),
)
#: Reasons for unread tokens and for calls that were not compacted, where the code alone says
#: little.
_READING: Final[Mapping[MissReason, str]] = {
    MissReason.FIRST_SEEN: "seen for the first time",
    MissReason.BELOW_MINIMUM: "in prompts below the cache's minimum",
    MissReason.DIVERGED: "behind what parted from earlier calls",
    MissReason.UNMARKED: "without a mark",
}
_REASON_TEXTS: Final[Mapping[str, str]] = {
    "below_least": "too short to be worth it",
    "floor": "too long by what cannot be compacted",
    "signed": "thinking is signed together with what stood before it",
    "thinks": "the model always thinks",
}
_COLUMNS = ("hit rate", "read", "written", "fresh", "USD/1,000", "of the way")
_SHOWN = 3
#: Mark of a column that tells nothing of a row.
_NONE: Final = "–"  # noqa: RUF001
#: Characters of a name or of a reason.
_WORDS = 120


class ReportDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Details of variants beside their rows.

    Attributes:
        unmoved: Features of which nothing was arranged.
        compaction: Result of compaction; None where it was not tried.
    """

    unmoved: tuple[UnmovedFeature, ...] = ()
    compaction: ReplayedCompaction | None = None


_NOTHING: Final = ReportDetails()


def report_json(
    outcome: ReplayOutcome,
    source: RecordedSource,
    reading: PromptReader,
    beside: ReportDetails = _NOTHING,
) -> bytes:
    """One line of JSON."""
    said = {
        "model": reading.public,
        "route": reading.route.name,
        "regime": reading.route.regime,
        "calls": outcome.calls,
        "unanswered": outcome.unanswered,
        "left_out": outcome.left_out,
        "left_out_first": outcome.left_out_first,
        "bad_lines": source.bad_count,
        "bad": source.bad,
        "variants": outcome.variants,
        "sent_before_tokens": outcome.sent_before,
        "arranged_why": beside.unmoved,
        "compacted": _lengths(outcome, beside.compaction),
    }
    return msgspec.json.encode(said)


def table(rows: Sequence[VariantRow]) -> Table:
    """One row for each variant."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    made.add_column("variant", no_wrap=True)
    for column in _COLUMNS:
        made.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        made.add_row(Text(row.name), *_figures(row))
    return made


def remarks(
    outcome: ReplayOutcome, source: RecordedSource, beside: ReportDetails = _NOTHING
) -> Iterator[str]:
    """Remarks below the table: readable tokens, reasons for misses, and calls not replayed."""
    yield from _unread(outcome.variants)
    for row in outcome.variants:
        if row.refused:
            calls = quantity(row.refused, "call")
            yield f"{calls} of {row.name} would have been refused for their marks."
    yield from _unit_remarks(outcome)
    for each in beside.unmoved:
        named = f"feature {_short(each.feature)}" if each.feature else "calls without a feature"
        yield f"Nothing arranged, {named} ({quantity(each.calls, 'call')}): {_short(each.why)}."
    if beside.compaction is not None:
        yield from _compaction_lines(outcome, beside.compaction)
    if outcome.unanswered:
        calls = quantity(outcome.unanswered, "call")
        yield f"Without a recorded answer: {calls}; the output of such calls costs nothing here."
    for why, count in outcome.left_out.items():
        first = outcome.left_out_first.get(why, "")
        yield f"{quantity(count, 'call')} left out{f', first {first}' if first else ''}: {why}."
    yield from _no_calls(source)


def _unread(rows: Sequence[VariantRow]) -> Iterator[str]:
    """Reasons for unread tokens, once for all rows with the same text."""
    alike: dict[str, list[str]] = {}
    for row in rows:
        if row.misses:
            reasons = "; ".join(_reason(each) for each in row.misses[:_SHOWN])
            alike.setdefault(reasons, []).append(row.name)
    for reasons, names in alike.items():
        yield f"Not read, {', '.join(names)}: {reasons}."


def _unit_remarks(outcome: ReplayOutcome) -> Iterator[str]:
    """Remarks on tokens that were sent before and that the cache's rules leave unread."""
    most = outcome.variants[-1].cache_read_tokens
    if outcome.sent_before > most:
        yield (
            f"This cache keeps whole units alone: of {outcome.sent_before:,} tokens that earlier"
            f" calls had sent, it lets {most:,} be read, whatever the order."
        )


def _lengths(
    outcome: ReplayOutcome, compaction: ReplayedCompaction | None
) -> dict[str, Any] | None:
    """Remarks on compaction, with the tokens of all prompts before and after it."""
    after = [row.input_tokens for row in outcome.variants if row.name == CompactedVariant.name]
    if compaction is None or not after:
        return None
    tokens = {"tokens_before": outcome.variants[0].input_tokens, "tokens_after": after[0]}
    return {**msgspec.structs.asdict(compaction), **tokens}


def _compaction_lines(outcome: ReplayOutcome, compaction: ReplayedCompaction) -> Iterator[str]:
    """Remarks on compaction, and on the reasons for unmodified calls."""
    found = _lengths(outcome, compaction)
    if found is not None and (compaction.calls or compaction.trimmed):
        before, after = found["tokens_before"], found["tokens_after"]
        yield (
            f"Compacted: {compaction.calls:,} of {quantity(outcome.calls, 'call')}, with"
            f" {quantity(compaction.resets, 'reset')}; in {compaction.trimmed:,} others only tool"
            f" results were shortened. All prompts: {before:,} → {after:,} tokens"
            f" ({after / before - 1:+.1%})."
        )
    if compaction.uncompacted:
        top = sorted(compaction.uncompacted.items(), key=lambda one: -one[1])
        reasons = "; ".join(
            f"{_short(_reason_text(why))} ({count:,})" for why, count in top[:_SHOWN]
        )
        yield f"Not compacted, {quantity(sum(compaction.uncompacted.values()), 'call')}: {reasons}."


def _reason_text(code: str) -> str:
    return _REASON_TEXTS.get(code, code.replace("_", " "))


def _no_calls(source: RecordedSource) -> Iterator[str]:
    """The lines that are no calls; of many, the first."""
    if source.bad_count:
        verb = "is no call" if source.bad_count == 1 else "are no calls"
        yield f"{quantity(source.bad_count, 'line')} {verb}:"
    for bad in source.bad:
        yield f"  {bad.file}:{bad.line}: {bad.why}"
    if source.bad_count > len(source.bad):
        yield f"  and {source.bad_count - len(source.bad):,} more"


def _figures(row: VariantRow) -> tuple[str, ...]:
    return (
        f"{row.hit_rate:.1%}",
        f"{row.cache_read_tokens:,}",
        f"{row.cache_write_tokens:,}",
        f"{row.fresh_tokens:,}",
        "unknown" if row.cost_usd_per_1k is None else f"{row.cost_usd_per_1k:,.4f}",
        _NONE if row.closed is None else f"{row.closed:.0%}",
    )


def _reason(each: MissesByReason) -> str:
    said = _READING.get(each.reason, each.reason.replace("_", " "))
    words = " ".join(filter(None, (said, each.detail)))
    return f"{each.tokens:,} tokens {words} ({quantity(each.calls, 'call')})"


def _short(said: str) -> str:
    """The words on one line, cut where they are many."""
    line = " ".join(said.split())
    return line if len(line) <= _WORDS else line[:_WORDS] + "…"
