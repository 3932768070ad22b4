"""The part of a replay's report on kept answers: hits by feature, and policies for them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from dashboards.formatting import dollars, percentage
from dashboards.views.replay import ReusedRow, SavingStep
from proxy.records.amounts import quantity
from proxy.tools.replay.fast_path.graded_answers import GradedTotals
from proxy.tools.replay.fast_path.reused_answers import DEFAULT_TTL_S, EqualCalls, ReusedAnswers
from proxy.tools.replay.variant_totals import OTHER_FEATURES
from slo.duration import format_duration

NO_EQUAL_CALLS: Final = "Answer cache: no two calls are equal, so it would have served none."
LEGEND: Final = (
    "Hits: calls with temperature 0 or a seed, or of a feature that --reusable names, whose answer"
    " was kept; the log's endings of answers are heeded where it has them. Equal in all: every call"
    " like an earlier one, the most that any exact cache can serve. Similar questions are not"
    " replayed, as their answers are proved right by live checks alone."
)
NO_GRADES: Final = (
    "Small model first: not replayed, as no call has grades of its own model's answer and of"
    ' another model\'s, such as "grades": {"gpt-5.4": 1, "gpt-5.4-mini": 0}.'
)
_NAME: Final = "reuse"
_MIN_LONG_ESCAPE: Final = 0x10000


def reused_rows(features: Iterable[ReusedAnswers]) -> tuple[ReusedRow, ...]:
    """A row for each feature with an equal call."""
    return tuple(_row(feature) for feature in features if feature.equal.calls)


def _row(feature: ReusedAnswers) -> ReusedRow:
    return ReusedRow(
        feature=feature.feature,
        calls=feature.calls,
        repeating=feature.repeating,
        hits=feature.hits.calls,
        nanos=feature.hits.nanos,
        equal=feature.equal.calls,
        equal_nanos=feature.equal.nanos,
    )


def reuse_summary(features: Sequence[ReusedAnswers], ttl: float) -> str:
    """The calls that kept answers would have served, in a sentence; "" without equal calls."""
    calls = sum(feature.calls for feature in features)
    hits = _sum(feature.hits for feature in features)
    equal = _sum(feature.equal for feature in features)
    if not equal.calls:
        return ""
    saved = f" and save {dollars(hits.nanos)} more" if hits.nanos else ""
    cost = "" if equal.nanos is None else f", {dollars(equal.nanos)}"
    return (
        f"Answer cache, ttl {format_duration(ttl)}: {hits.calls:,} of {quantity(calls, 'call')}"
        f" ({percentage(hits.calls / calls)}) would be hits{saved}; equal in all: {equal.calls:,}"
        f" ({percentage(equal.calls / calls)}){cost}."
    )


def reuse_steps(
    features: Iterable[ReusedAnswers], ttl: float, least_nanos: int
) -> Iterator[tuple[int, SavingStep]]:
    """A policy for each feature whose hits save more than that, and the amount saved.

    Args:
        ttl: Seconds for which an answer is given again.
    """
    for number, feature in enumerate(features, 1):
        nanos = feature.hits.nanos or 0
        if nanos <= least_nanos or feature.feature == OTHER_FEATURES:
            continue
        shown = _toml_string(feature.feature)[1:-1]
        name = f"feature {shown}" if shown else "calls without a feature"
        yield (
            nanos,
            SavingStep(
                what=f"Give equal calls one answer, {name}: saves {dollars(nanos)} more. In the"
                " policies file:",
                commands=tuple(_policy_lines(feature, f"{_NAME}-{number}", ttl)),
            ),
        )


def graded_sentence(totals: GradedTotals) -> str:
    """The calls that would have gone to a small model by their grades, beside sending it all."""
    calls = totals.calls
    saved, every = (_saved_text(nanos) for nanos in (totals.nanos, totals.always_nanos))
    return (
        f"Small model first, {totals.small} before {totals.large}: {totals.small_calls:,} of"
        f" {quantity(calls, 'graded call')} ({percentage(totals.small_calls / calls)}) would go"
        f" there{saved}, comparisons of {percentage(totals.compared_calls / calls)} paid for;"
        f" answers lost: {percentage(totals.lost / calls)} of the calls, at most"
        f" {percentage(totals.proved_loss)} proved. Always {totals.small}: loses"
        f" {percentage(totals.always_lost / calls)}{every}."
    )


def _saved_text(nanos: int | None) -> str:
    """An amount saved, or lost, after a comma; "" where it is unknown."""
    if nanos is None:
        return ""
    return f", saves {dollars(nanos)}" if nanos >= 0 else f", costs {dollars(-nanos)} more"


def _policy_lines(feature: ReusedAnswers, name: str, ttl: float) -> Iterator[str]:
    yield "[[answer_cache]]"
    yield f'name = "{name}"'
    yield f"feature = {_toml_string(feature.feature)}"
    if ttl != DEFAULT_TTL_S:
        yield f'ttl = "{format_duration(ttl)}"'
    if feature.is_declared:
        yield "reusable = true"


def _toml_string(text: str) -> str:
    """A text as TOML has it in quotes; JSON escapes some letters by two halves, which TOML bars."""
    return '"' + "".join(map(_escape_char, text)) + '"'


def _escape_char(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < _MIN_LONG_ESCAPE else f"\\U{ord(char):08x}"


def _sum(parts: Iterable[EqualCalls]) -> EqualCalls:
    whole = EqualCalls()
    for part in parts:
        whole.include(part)
    return whole
