"""Where the marks of one call stand, as its conversation's policy and its own blocks say."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from proxy.caches.regime import Regime
from proxy.prefix.breakpoints.optimum import Mark
from proxy.prefix.breakpoints.plan import BreakpointPolicy
from proxy.prefix.prompts.prompt import ASSISTANT, PromptBlock, PromptSlot

_OPENAI: Final = "openai-breakpoint"
#: Bytes of a part that holds no word: `""`.
_EMPTY: Final = 2
#: Places on the wire that a message of the assistant may become: thinking, text and its calls.
_WIDE: Final = 3
#: How far below the least an estimate may be and still mean more. A mark that proves too early
#: does nothing and costs nothing.
#: Source: Anthropic, prompt caching; OpenAI, prompt caching guide (both 2026-09).
_ROUGH: Final = 1.4


class MarkPlacement(msgspec.Struct, frozen=True):
    """The marks of a call.

    Attributes:
        marks: Those to add, in wire order.
        notes: Why a mark that the policy asks for does not stand, a sentence each.
    """

    marks: tuple[Mark, ...] = ()
    notes: tuple[str, ...] = ()


class PromptEnd(msgspec.Struct, frozen=True):
    """The end of a prompt.

    Attributes:
        tail: How many messages vary per call; nothing there is marked.
        spoken: How many of the messages before them, and before those that the policy leaves out,
            of the last two, are the assistant's and take a mark.
    """

    tail: int = 0
    spoken: int = 0


_PLAIN: Final = PromptEnd()


class _Wish(msgspec.Struct, frozen=True):
    """A mark that the policy asks for; it ends ``what`` at a block, -1 where it has no place."""

    what: str
    block: int
    ttl: str


def place_marks(
    policy: BreakpointPolicy,
    blocks: Sequence[PromptBlock],
    ends: Sequence[int],
    regime: Regime,
    given: Mapping[int, str],
    end: PromptEnd = _PLAIN,
) -> MarkPlacement:
    """The marks this call adds to the caller's own, and why others do not stand.

    Args:
        policy: What its conversation marks.
        blocks: The call's, in wire order.
        ends: Tokens up to the end of each block, or as near as is known.
        regime: The cache of its route.
        given: The caller's own marks, by block.
        end: What is known of the prompt's end.
    """
    room = regime.marks - len(given)
    if given and not policy.explicit and regime.name == _OPENAI:
        room -= 1  # the provider writes its own end and the latest three; theirs stay among them
    marks: list[Mark] = []
    notes = []
    for wish in _wishes(policy, blocks, regime, end):
        ttl = _ttl(wish, regime, given)
        note = "" if room > len(marks) else f"all {regime.marks} marks are in use"
        note = _objection(wish, ends, regime, given) or note
        if not note and not ttl:
            note = "no lifetime that is sold here fits between the caller's own marks"
        if note:
            notes.append(f"no mark after {wish.what}: {note}")
        else:
            marks.append(Mark(wish.block, ttl))
    return MarkPlacement(_in_wire_order(marks, regime), tuple(notes))


def partial_marks(
    start: int, stop: int, blocks: Sequence[PromptBlock], full: Mapping[int, str], regime: Regime
) -> tuple[Mark, ...]:
    """The last mark that can stand within some blocks, in place of those that a call would have.

    It lives as long as the next of those, as what stands before that is written for as long.

    Args:
        start: The first block on which it may stand.
        stop: The block before which it has to.
        blocks: The call's, in wire order.
        full: The lifetimes of all marks that the call would have, by block.
        regime: The cache of its route.
    """
    for at in range(stop - 1, start - 1, -1):
        after = min((mark for mark in full if mark >= at), default=-1)
        if after >= 0 and _takes(blocks[at], regime):
            return (Mark(at, full[after]),)
    return ()


def _wishes(
    policy: BreakpointPolicy, blocks: Sequence[PromptBlock], regime: Regime, ends: PromptEnd
) -> list[_Wish]:
    """What the policy asks for, the most useful first."""
    end = _end(blocks, ends.tail)
    upto = max(0, end - policy.back)
    last = upto - 1 if ends.spoken else _last(blocks, upto, PromptSlot.VARIABLE, regime)
    wishes = []
    if policy.history:
        wishes.append(_Wish("the conversation", last, policy.history))
        if ends.spoken > 1 and not policy.back:
            # Messages of one speaker are sent as one: its end is another's middle.
            wishes.append(_Wish("the message before", last - 1, policy.history))
        else:
            before = _previous_marks(policy, blocks, regime, end, spoken=bool(ends.spoken))
            wishes += [
                _Wish("the previous call", block, policy.history)
                for block in _out_of_sight(before, last, blocks, regime)
            ]
    for slot, ttl in ((PromptSlot.STABLE, policy.stable), (PromptSlot.SEMI_STABLE, policy.semi)):
        if ttl:
            place = _last(blocks, len(blocks), slot, regime)
            wishes.append(_Wish(f"the {slot} slot", place, ttl))
    if policy.tools:
        tools = sum(1 for block in blocks if block.message < 0)
        wishes.append(_Wish("the tools", tools - 1, policy.tools))
    return wishes


def _end(blocks: Sequence[PromptBlock], tail: int) -> int:
    """Number of blocks stand before the messages that vary per call."""
    if tail <= 0 or not blocks:
        return len(blocks)
    first = blocks[-1].message - tail + 1
    return next((at for at, block in enumerate(blocks) if block.message >= first), len(blocks))


def _previous(blocks: Sequence[PromptBlock], end: int) -> int:
    """Number of blocks the previous call had: those before the latest answer; 0 for no answer."""
    at = end
    while at and blocks[at - 1].role != ASSISTANT:
        at -= 1
    while at and blocks[at - 1].role == ASSISTANT:
        at -= 1
    return at


def _previous_marks(
    policy: BreakpointPolicy,
    blocks: Sequence[PromptBlock],
    regime: Regime,
    end: int,
    *,
    spoken: bool,
) -> list[int]:
    """The blocks on which the previous call may have marked its conversation, the latest first.

    What varied at its end is gone in this call, so that its mark stands right before the latest
    answer; or it stands there still, in other words, and the mark stands before that.
    """
    previous = _previous(blocks, end)
    kept = max(0, previous - policy.back)
    found = [_last(blocks, at, PromptSlot.VARIABLE, regime) for at in (previous, kept)]
    if policy.back and spoken and kept and blocks[kept - 1].role == ASSISTANT:
        found[1] = kept - 1
    return [at for at in dict.fromkeys(found) if at >= 0]


def _out_of_sight(
    before: Sequence[int], last: int, blocks: Sequence[PromptBlock], regime: Regime
) -> list[int]:
    """Those of the blocks, latest first, that no lookup comes past from the one behind them."""
    found = []
    for at in before:
        if at < last and _positions(blocks[at:last]) >= max(1, regime.lookback):
            found.append(at)
            last = at
    return found


def _last(blocks: Sequence[PromptBlock], end: int, slot: PromptSlot, regime: Regime) -> int:
    """The last block of a slot before ``end`` on which a mark can stand; -1 for none."""
    for at in range(end - 1, -1, -1):
        block = blocks[at]
        if block.slot == slot and _takes(block, regime):
            return at
    return -1


def _takes(block: PromptBlock, regime: Regime) -> bool:
    """True if a mark can stand here; what the assistant said is marked at the very end only.

    Its message may end in thinking or hold nothing but calls, which not every cache can mark.
    """
    if block.role == ASSISTANT or (regime.name == _OPENAI and block.message < 0):
        return False
    return block.size > _EMPTY


def _positions(blocks: Sequence[PromptBlock]) -> int:
    """Number of places these may be on the wire, at most in the common cases."""
    return sum(_WIDE if block.role == ASSISTANT else 1 for block in blocks)


def _objection(wish: _Wish, ends: Sequence[int], regime: Regime, given: Mapping[int, str]) -> str:
    """Why a mark cannot stand or would do nothing; "" where it can."""
    if wish.block < 0:
        return "nothing there can carry one"
    if wish.block in given:
        return "the caller's own stands there"
    if not is_cacheable_length(ends[wish.block], regime):
        return f"{ends[wish.block]:,} tokens are fewer than the {regime.least:,} that are cached"
    return ""


def is_cacheable_length(tokens: int, regime: Regime) -> bool:
    """True if so many tokens, by estimate, may be as many as are cached."""
    return tokens * _ROUGH >= regime.least


def _ttl(wish: _Wish, regime: Regime, given: Mapping[int, str]) -> str:
    """The lifetime asked for, or the next that keeps longer ones first; "" where none does.

    Behind a shorter mark of the caller's it is as short. Before a longer one it is as long, which
    costs nothing: what stands before that mark is charged at its price anyway.
    """
    if regime.name == _OPENAI:
        return wish.ttl if wish.ttl in regime.writes else ""
    span = regime.lifetimes
    before = [span[ttl] for at, ttl in given.items() if at < wish.block and ttl in span]
    after = [span[ttl] for at, ttl in given.items() if at > wish.block and ttl in span]
    least, most = max(after, default=0.0), min(before, default=float("inf"))
    fitting = [ttl for ttl in regime.writes if least <= span.get(ttl, -1.0) <= most]
    asked = span.get(wish.ttl, 0.0)
    return min(fitting, key=lambda ttl: abs(span[ttl] - asked), default="")


def _in_wire_order(marks: Sequence[Mark], regime: Regime) -> tuple[Mark, ...]:
    """The marks in wire order, each at least as long-lived as those behind it."""
    found: list[Mark] = []
    longest = ""
    for mark in sorted(marks, key=lambda mark: -mark.block):
        if regime.lifetimes.get(mark.ttl, 0.0) >= regime.lifetimes.get(longest, 0.0):
            longest = mark.ttl
        found.append(Mark(mark.block, longest))
    return tuple(reversed(found))
