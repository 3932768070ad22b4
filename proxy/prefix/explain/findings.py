"""Checks the reasons for a cache miss in order and takes the first that accounts for it.

::

    shortened to little ─ too short ─ too little repeated ─ first seen ─ expired for long
      ─ rerouted, place, parameter, divergence ─ unmarked ─ expired ─ elsewhere ─ provider's side

A few words of the prompt stand in the finding where its team keeps prompts.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from proxy.caches import openai_interval
from proxy.prefix.explain.reasons import MissReason, ReasonConfidence
from proxy.prefix.prediction.changes import (
    CACHE_KEY_FIELDS,
    CallTrace,
    ChangeKind,
    PromptChange,
    first_change,
)
from proxy.prefix.prediction.leading_texts import leading_text, split_lines
from proxy.prefix.prediction.lookups import stores_at_breakpoints
from proxy.prefix.prediction.prefix_chains import ExpectedRead
from proxy.prefix.prediction.sent_call import SentCall
from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.prompt import Prompt
from proxy.records.amounts import quantity

_EXCERPT_CHARS: Final = 40
#: After how many lifetimes nothing is left.
_GONE_AFTER_LIFETIMES: Final = 2
#: Seconds beyond which entries of OpenAI that are unused are there by its ``24h`` alone.
_ONE_HOUR_S: Final = 3_600.0
#: Messages that are gone at once where a conversation was shortened rather than edited.
_MIN_DROPPED_MESSAGES: Final = 2
#: Factor above the minimum at which an estimate may still mean less.
_ESTIMATE_ERROR_FACTOR: Final = 1.3
#: Caches that promise nothing.
_BEST_EFFORT: Final = frozenset({"implicit", "openai-interval", "prefix-unit"})


def change_excerpt(call: SentCall, change: PromptChange, shown: Prompt | None) -> str:
    """The beginning of the line that changed, or a tool's name; "" where none may be shown."""
    if shown is None or change.block is None or change.kind is ChangeKind.REMOVED:
        return ""
    block = call.blocks[change.block]
    try:
        if block.message < 0:
            return _printable_text(_tool(shown.tools[block.part]).display_name)
        return (
            _printable_text(split_lines(leading_text(shown, block))[change.line])
            if change.line is not None
            else ""
        )
    except (IndexError, Unplannable, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""


def _printable_text(words: str) -> str:
    """Words that fit a line and do nothing to a terminal."""
    excerpt = "".join(
        character if character.isprintable() else " " for character in words[: _EXCERPT_CHARS + 1]
    ).strip()
    return excerpt if len(words) <= _EXCERPT_CHARS + 1 else f"{excerpt}…"


class _Function(msgspec.Struct):
    name: str = ""


class _Tool(msgspec.Struct):
    name: str = ""
    function: _Function | None = None

    @property
    def display_name(self) -> str:
        return self.function.name if self.function is not None else self.name


_tool = msgspec.json.Decoder(_Tool).decode


class CallEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence known when a call was sent.

    Attributes:
        before: The call it is compared with; None where there was none.
    """

    sent: SentCall
    expected: ExpectedRead
    before: CallTrace | None = None
    now: float


class MissCase(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence and answer; ``enough`` is how much of a prefix accounts for what could be read."""

    evidence: CallEvidence
    expected: ExpectedRead
    could: int
    enough: int
    total: int
    read: int
    shown: Prompt | None


class MissFinding(msgspec.Struct, frozen=True):
    """A reason, what speaks for it, and how well it is known."""

    reason: MissReason
    detail: str
    confidence: ReasonConfidence


def find_reason(case: MissCase) -> MissFinding:
    """The first reason that accounts for the shortfall."""
    checks: tuple[Callable[[MissCase], MissFinding | None], ...] = (
        _check_compaction,
        _check_minimum,
        _check_first_seen,
        _check_long_idle,
        _check_prefix_changes,
        _check_marks,
        _check_expiry,
        _check_call_rate,
    )
    finding = next(filter(None, (check(case) for check in checks)), None)
    if finding is not None:
        return finding
    regime = case.evidence.sent.regime
    tokens = case.expected.tokens or case.enough
    if not case.read and tokens < regime.least * _ESTIMATE_ERROR_FACTOR:
        detail = f"about {tokens:,} tokens; nothing below {regime.least:,} is cached"
        return MissFinding(MissReason.BELOW_MINIMUM, detail, ReasonConfidence.POSSIBLE)
    best_effort = regime.name in _BEST_EFFORT or not regime.lifetimes
    return MissFinding(
        MissReason.PROVIDER_SIDE,
        f"{tokens:,} tokens should have been there",
        ReasonConfidence.POSSIBLE if best_effort else ReasonConfidence.LIKELY,
    )


def _check_compaction(case: MissCase) -> MissFinding | None:
    """Find that too little is repeated because the gateway shortened the conversation."""
    before, call = case.evidence.before, case.evidence.sent
    if not call.compacted or before is None or case.could >= max(call.regime.least, 1):
        return None
    return _compaction_finding(_continuation_confidence(call, before))


def _check_minimum(case: MissCase) -> MissFinding | None:
    """Find that the prompt, or what it repeats, is too short to be cached."""
    least = case.evidence.sent.regime.least
    if case.total < least:
        short, sure = f"{case.total:,} tokens", ReasonConfidence.CERTAIN
    elif 0 < case.could < least:
        short, sure = f"{case.could:,} tokens are repeated", ReasonConfidence.LIKELY
    else:
        return None
    detail = f"{short}; nothing below {least:,} is cached"
    return MissFinding(MissReason.BELOW_MINIMUM, detail, sure)


def _check_first_seen(case: MissCase) -> MissFinding | None:
    if case.could:
        return None
    detail, sure = "nothing of it was in the call before", ReasonConfidence.LIKELY
    if case.evidence.before is None:
        detail, sure = "nothing that begins like it was sent before", ReasonConfidence.CERTAIN
    return MissFinding(MissReason.FIRST_SEEN, detail, sure)


def _check_long_idle(case: MissCase) -> MissFinding | None:
    """Find that the prefix was idle for so long that nothing else matters."""
    lives = max(case.evidence.sent.regime.lifetimes.values(), default=None)
    before = case.evidence.before
    since = [case.expected.idle] if case.expected.idle is not None else []
    since += [case.evidence.now - before.at] if before is not None else []
    if lives is None or not since or min(since) <= _surely_gone_after_s(case, lives):
        return None
    return MissFinding(
        MissReason.EXPIRED, _idle_detail(min(since), lives), ReasonConfidence.CERTAIN
    )


def _check_prefix_changes(case: MissCase) -> MissFinding | None:
    """Find that the repeated text does not stand in a prefix that was sent before."""
    before, call = case.evidence.before, case.evidence.sent
    if case.expected.known >= case.enough or before is None:
        return None
    sure = _continuation_confidence(call, before)
    if (moved := _check_place(call, before, sure)) is not None:
        return moved
    change = first_change(call, before)
    names = _changed_parameters(
        call, before, late=change is None or change.place.startswith("messages")
    )
    if names:
        keyed = CACHE_KEY_FIELDS.issuperset(names)
        detail = f"{' and '.join(names)} changed"
        return MissFinding(
            MissReason.ELSEWHERE if keyed else MissReason.PARAMETER_CHANGED, detail, sure
        )
    if change is None:
        detail = "no difference was found to the call before"
        return MissFinding(MissReason.PROVIDER_SIDE, detail, ReasonConfidence.POSSIBLE)
    return _check_divergence(call, change, sure, case.shown)


def _check_place(call: SentCall, before: CallTrace, sure: ReasonConfidence) -> MissFinding | None:
    """Find that it meets another cache: by the gateway's choice where its caller asked the same."""
    is_same_place = call.place == before.place
    is_same_model = call.early.get("model") == before.early.get("model")
    if call.asked_model and call.asked_model == before.asked_model:
        if is_same_place and is_same_model:
            return None
        what = "upstream" if is_same_model else "model"
        detail = f"the gateway asked another {what} for the call before it"
        return MissFinding(MissReason.REROUTED, detail, sure)
    if is_same_place:
        return None
    detail = "the call before it went to another account, upstream or replica"
    return MissFinding(MissReason.ELSEWHERE, detail, sure)


def _changed_parameters(call: SentCall, before: CallTrace, *, late: bool) -> list[str]:
    """Names of the parameters that changed; of those that shape messages only if ``late``."""
    pairs = [(call.early, before.early), (call.late, before.late)][: 1 + late]
    return sorted(
        name
        for ours, theirs in pairs
        for name in {*ours, *theirs}
        if ours.get(name) != theirs.get(name)
    )


def _check_divergence(
    call: SentCall, change: PromptChange, sure: ReasonConfidence, shown: Prompt | None
) -> MissFinding:
    if call.compacted and change.place.startswith("messages"):
        return _compaction_finding(sure)
    if change.dropped >= _MIN_DROPPED_MESSAGES:
        detail = f"{change.place} {change.kind}: {quantity(change.dropped, 'message')} gone"
        return MissFinding(MissReason.COMPACTED, detail, ReasonConfidence.LIKELY)
    words = change_excerpt(call, change, shown)
    place = f"{change.place}: `{words}`" if words else change.place
    return MissFinding(MissReason.DIVERGED, f"{place} {change.kind}", sure)


def _compaction_finding(sure: ReasonConfidence) -> MissFinding:
    return MissFinding(MissReason.COMPACTED, "the gateway shortened the conversation", sure)


def _continuation_confidence(call: SentCall, before: CallTrace) -> ReasonConfidence:
    """The confidence that the one call goes on from the other."""
    return (
        ReasonConfidence.CERTAIN if before.is_same_conversation(call) else ReasonConfidence.LIKELY
    )


def _check_marks(case: MissCase) -> MissFinding | None:
    call, expected = case.evidence.sent, case.expected
    if expected.found >= case.enough or not stores_at_breakpoints(call.regime):
        return None
    if not call.regime.takes_marks:
        detail = "what calls share is kept from its second use on"
        return MissFinding(MissReason.PROVIDER_SIDE, detail, ReasonConfidence.LIKELY)
    max_marks = call.regime.marks
    if len(call.marks) > max_marks:
        detail = f"{quantity(len(call.marks), 'mark')}, and at most {max_marks} taken"
    elif expected.stored >= case.enough:
        detail = f"{expected.stored:,} tokens are stored; no mark of this call looks there"
    elif not call.marks:
        detail = f"no mark; {case.could:,} tokens are repeated"
    else:
        detail = f"nothing was stored beyond {max(expected.found, expected.stored):,} tokens"
        if call.entry_points[expected.same] != call.points[expected.same]:
            detail += ", and what is repeated ends within a message"
    return MissFinding(MissReason.UNMARKED, detail, ReasonConfidence.CERTAIN)


def _check_expiry(case: MissCase) -> MissFinding | None:
    expected = case.expected
    if expected.idle is None or expected.lives is None or expected.idle <= expected.lives:
        return None
    sure = expected.idle > _surely_gone_after_s(case, expected.lives)
    detail = _idle_detail(expected.idle, expected.lives)
    unsure = ReasonConfidence.LIKELY
    if case.evidence.sent.regime.gone_after_s > _ONE_HOUR_S:
        detail, unsure = f"{detail}, or up to a day", ReasonConfidence.POSSIBLE
    return MissFinding(MissReason.EXPIRED, detail, ReasonConfidence.CERTAIN if sure else unsure)


def _surely_gone_after_s(case: MissCase, lives: float) -> float:
    """Seconds of idleness after which nothing is left."""
    return case.evidence.sent.regime.gone_after_s or _GONE_AFTER_LIFETIMES * lives


def _idle_detail(seconds: float, lives: float) -> str:
    return f"idle for {seconds:,.0f} s; entries live {lives:,.0f} s"


def _check_call_rate(case: MissCase) -> MissFinding | None:
    calls, regime = case.expected.calls, case.evidence.sent.regime
    max_calls = openai_interval.provider_rules(regime.provider).per_minute
    if regime.name != "openai-interval" or calls < max_calls:
        return None
    detail = f"{calls + 1} calls in a minute began alike; {max_calls} fit one machine"
    return MissFinding(MissReason.ELSEWHERE, detail, ReasonConfidence.LIKELY)
