"""Each reason for a miss, and what speaks for it; the first that accounts for it is it.

::

    shortened to little ─ too short ─ too little repeated ─ first seen ─ expired for long
      ─ place, parameter, divergence ─ unmarked ─ expired ─ elsewhere ─ provider's side
"""

from collections.abc import Callable
from typing import Final

import msgspec

from proxy.prefix.explain.excerpts import excerpt
from proxy.prefix.explain.reasons import Confidence, Reason
from proxy.prefix.prediction.changes import Change, Trace, change
from proxy.prefix.prediction.lookups import by_breakpoints
from proxy.prefix.prediction.parameters import KEYS
from proxy.prefix.prediction.prefix_chains import Expected
from proxy.prefix.prediction.sent import Sent
from proxy.prefix.prompts.prompt import Prompt
from proxy.records.amounts import quantity

#: Source: OpenAI, prompt caching guide, routing (2025): calls of one prefix and key a minute.
_PER_MINUTE: Final = 15
#: After how many lifetimes nothing is left.
_GONE: Final = 2
#: Messages that are gone at once where a conversation was shortened rather than edited.
_SHORTENED: Final = 2
#: How far above the minimum an estimate may be and still mean less than it.
_ROUGH: Final = 1.3
#: Caches that promise nothing.
_BEST_EFFORT: Final = frozenset({"implicit", "openai-interval", "prefix-unit"})


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What was known when a call was sent.

    Attributes:
        before: The call it is compared with; None where there was none.
        now: When it was sent.
    """

    sent: Sent
    expected: Expected
    before: Trace | None = None
    now: float


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence and answer; ``enough`` is how much of a prefix accounts for what could be read."""

    evidence: Evidence
    expected: Expected
    could: int
    enough: int
    total: int
    read: int
    shown: Prompt | None


class Finding(msgspec.Struct, frozen=True):
    """A reason, what speaks for it, and how well it is known."""

    reason: Reason
    detail: str
    confidence: Confidence


def finding(case: Case) -> Finding:
    """The first reason that accounts for the shortfall."""
    asked: tuple[Callable[[Case], Finding | None], ...] = (
        _shortened,
        _too_short,
        _too_little,
        _first_seen,
        _long_idle,
        _other_prefix,
        _unmarked,
        _expired,
        _busy,
    )
    found = next((each for ask in asked if (each := ask(case)) is not None), None)
    if found is not None:
        return found
    regime, tokens = case.evidence.sent.regime, case.expected.tokens
    if not case.read and tokens < regime.least * _ROUGH:
        detail = f"about {tokens:,} tokens; nothing below {regime.least:,} is cached"
        return Finding(Reason.BELOW_MINIMUM, detail, Confidence.POSSIBLE)
    best_effort = regime.name in _BEST_EFFORT or not regime.lifetimes
    return Finding(
        Reason.PROVIDER_SIDE,
        f"{tokens:,} tokens should have been there",
        Confidence.POSSIBLE if best_effort else Confidence.LIKELY,
    )


def _shortened(case: Case) -> Finding | None:
    """What is repeated is too little to be read because the gateway moved the prefix."""
    before, sent = case.evidence.before, case.evidence.sent
    if not sent.compacted or before is None or case.could >= max(sent.regime.least, 1):
        return None
    return _by_us(_sure(sent, before))


def _too_short(case: Case) -> Finding | None:
    least = case.evidence.sent.regime.least
    if case.total >= least:
        return None
    detail = f"{case.total:,} tokens; nothing below {least:,} is cached"
    return Finding(Reason.BELOW_MINIMUM, detail, Confidence.CERTAIN)


def _too_little(case: Case) -> Finding | None:
    least = case.evidence.sent.regime.least
    if not 0 < case.could < least:
        return None
    detail = f"{case.could:,} tokens are repeated; nothing below {least:,} is cached"
    return Finding(Reason.BELOW_MINIMUM, detail, Confidence.LIKELY)


def _first_seen(case: Case) -> Finding | None:
    if case.could:
        return None
    if case.evidence.before is None:
        return Finding(Reason.FIRST_SEEN, "nothing like it was sent before", Confidence.CERTAIN)
    detail = "nothing of it was in the call before"
    return Finding(Reason.FIRST_SEEN, detail, Confidence.LIKELY)


def _long_idle(case: Case) -> Finding | None:
    """Idle for so long that nothing else matters."""
    lives = max(case.evidence.sent.regime.lifetimes.values(), default=None)
    before = case.evidence.before
    since = [case.expected.idle] if case.expected.idle is not None else []
    since += [case.evidence.now - before.at] if before is not None else []
    if lives is None or not since or min(since) <= _GONE * lives:
        return None
    return Finding(Reason.EXPIRED, _idle(min(since), lives), Confidence.CERTAIN)


def _other_prefix(case: Case) -> Finding | None:
    """What is repeated does not stand in a prefix that was sent before."""
    before, sent = case.evidence.before, case.evidence.sent
    if case.expected.known >= case.enough or before is None:
        return None
    sure = _sure(sent, before)
    if sent.place != before.place:
        return Finding(
            Reason.ELSEWHERE,
            "the call before it went to another account, upstream or replica",
            sure,
        )
    at = change(sent, before)
    names = _differing(sent, before, late=at is None or at.place.startswith("messages"))
    if names:
        keyed = KEYS.issuperset(names)
        detail = f"{' and '.join(names)} changed"
        return Finding(Reason.ELSEWHERE if keyed else Reason.PARAMETER_CHANGED, detail, sure)
    if at is None:
        detail = "no difference was found to the call before"
        return Finding(Reason.PROVIDER_SIDE, detail, Confidence.POSSIBLE)
    return _diverged(sent, at, sure, case.shown)


def _differing(sent: Sent, before: Trace, *, late: bool) -> list[str]:
    """Names of the parameters that changed; of those that shape messages only if ``late``."""
    pairs = [(sent.early, before.early), (sent.late, before.late)][: 1 + late]
    return sorted(
        name
        for ours, theirs in pairs
        for name in {*ours, *theirs}
        if ours.get(name) != theirs.get(name)
    )


def _diverged(sent: Sent, at: Change, sure: Confidence, shown: Prompt | None) -> Finding:
    if sent.compacted and at.place.startswith("messages"):
        return _by_us(sure)
    if at.dropped >= _SHORTENED:
        detail = f"{at.place} {at.how}: {quantity(at.dropped, 'message')} gone"
        return Finding(Reason.COMPACTED, detail, Confidence.LIKELY)
    words = excerpt(sent, at, shown)
    place = f"{at.place}: `{words}`" if words else at.place
    return Finding(Reason.DIVERGED, f"{place} {at.how}", sure)


def _by_us(sure: Confidence) -> Finding:
    return Finding(Reason.COMPACTED, "the gateway shortened the conversation", sure)


def _sure(sent: Sent, before: Trace) -> Confidence:
    """How well is known that the one goes on from the other."""
    return Confidence.CERTAIN if before.same(sent) else Confidence.LIKELY


def _unmarked(case: Case) -> Finding | None:
    sent, expected = case.evidence.sent, case.expected
    if expected.found >= case.enough or not by_breakpoints(sent.regime):
        return None
    if not sent.regime.takes_marks:
        detail = "what calls share is kept from its second use on"
        return Finding(Reason.PROVIDER_SIDE, detail, Confidence.LIKELY)
    most = sent.regime.marks
    if len(sent.marks) > most:
        detail = f"{quantity(len(sent.marks), 'mark')}, and at most {most} taken"
    elif expected.stored >= case.enough:
        detail = f"{expected.stored:,} tokens are stored; no mark of this call looks there"
    elif not sent.marks:
        detail = f"no mark; {case.could:,} tokens are repeated"
    else:
        detail = f"nothing was stored beyond {max(expected.found, expected.stored):,} tokens"
    return Finding(Reason.UNMARKED, detail, Confidence.CERTAIN)


def _expired(case: Case) -> Finding | None:
    expected = case.expected
    if expected.idle is None or expected.lives is None or expected.idle <= expected.lives:
        return None
    sure = expected.idle > _GONE * expected.lives
    detail = _idle(expected.idle, expected.lives)
    return Finding(Reason.EXPIRED, detail, Confidence.CERTAIN if sure else Confidence.LIKELY)


def _idle(seconds: float, lives: float) -> str:
    return f"idle for {seconds:,.0f} s; entries live {lives:,.0f} s"


def _busy(case: Case) -> Finding | None:
    calls = case.expected.calls
    if case.evidence.sent.regime.name != "openai-interval" or calls < _PER_MINUTE:
        return None
    detail = f"{calls + 1} calls in a minute began alike; {_PER_MINUTE} fit one machine"
    return Finding(Reason.ELSEWHERE, detail, Confidence.LIKELY)
