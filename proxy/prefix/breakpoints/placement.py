"""Places the marks of one call, as its conversation's policy and its own blocks say."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Final

import msgspec

from proxy.caches import openai_breakpoint
from proxy.caches.regime import Regime, write_surcharge
from proxy.prefix.breakpoints.account import PlaceValues
from proxy.prefix.breakpoints.caller_marks import free_marks
from proxy.prefix.breakpoints.plan import BreakpointPolicy
from proxy.prefix.prediction.prefix_chains import ExpectedRead
from proxy.prefix.prediction.sent_call import SentCall, TokenScale
from proxy.prefix.prompts.prompt import ASSISTANT, PromptBlock, PromptSlot
from slo.usage import Usage

_OPENAI: Final = "openai-breakpoint"
#: Bytes of a part that holds no word: `""`.
_EMPTY_PART_BYTES: Final = 2
#: Factor below the minimum at which an estimate may still mean more. A mark that proves too early
#: does nothing and costs nothing.
#: Source: Anthropic, prompt caching; OpenAI, prompt caching guide (both 2026-09).
_ESTIMATE_ERROR_FACTOR: Final = 1.4
#: Factor above the minimum at which an estimate hardly means less.
_SURE_LENGTH_FACTOR: Final = 1.2


class MarkPlacement(msgspec.Struct, frozen=True):
    """The marks of a call.

    Attributes:
        marks: Lifetimes of those to add by the index of their block, in wire order.
        notes: Reasons that a mark which the policy asks for does not stand, a sentence each. A
            place that the prompt has not, that is too short or marked already needs none.
    """

    marks: Mapping[int, str] = {}
    notes: tuple[str, ...] = ()


class _RequestedMark(msgspec.Struct, frozen=True):
    """A mark that the policy asks for; it ends ``what`` at a block, -1 where it has no place.

    ``what`` is "" where no note says that it does not stand.
    """

    what: str
    block: int
    ttl: str


def place_marks(
    policy: BreakpointPolicy,
    blocks: Sequence[PromptBlock],
    ends: Sequence[int],
    regime: Regime,
    caller_marks: Mapping[int, str],
    tail: int = 0,
) -> MarkPlacement:
    """The marks this call adds to the caller's own, and why others do not stand.

    ``ends`` are the tokens up to the end of each block, or as near as is known. ``tail`` is the
    number of messages at the end that vary per call; nothing there is marked.
    """
    room = free_marks(regime, caller_marks, explicit=policy.explicit)
    marks: dict[int, str] = {}
    notes = []
    requests = _requested_marks(policy, blocks, ends, regime, tail)
    for requested in requests:
        if not _is_markable(requested.block, ends, regime, caller_marks):
            continue
        ttl = _mark_lifetime(requested, regime, caller_marks)
        if room <= len(marks):
            note = f"all {regime.marks} marks are in use"
        elif not ttl:
            note = "no lifetime that is sold here fits between the caller's own marks"
        else:
            marks[requested.block] = ttl
            continue
        notes += [f"no mark after {requested.what}: {note}"] if requested.what else []
    if room > len(marks):
        marks = {**_free_mark(blocks, ends, regime, caller_marks), **marks}
    return MarkPlacement(_in_wire_order(marks, regime), tuple(notes))


def _free_mark(
    blocks: Sequence[PromptBlock],
    ends: Sequence[int],
    regime: Regime,
    caller_marks: Mapping[int, str],
) -> dict[int, str]:
    """The mark after the stable slot, where it costs nothing: a caller's mark stands behind it.

    What stands before that mark is charged at its price anyway. OpenAI's caches write so many of
    the latest marks, so that there one more may displace another.
    """
    if regime.name == _OPENAI or not caller_marks:
        return {}
    heads = count_leading_blocks(blocks)
    place = _last_markable_block(blocks, heads, PromptSlot.STABLE, regime)
    if place >= max(caller_marks):
        return {}
    requested = _RequestedMark("the stable slot", place, regime.usual_ttl)
    ttl = _mark_lifetime(requested, regime, caller_marks)
    is_free = ttl in caller_marks.values() and _is_markable(place, ends, regime, caller_marks)
    return {place: ttl} if is_free else {}


def _requested_marks(
    policy: BreakpointPolicy,
    blocks: Sequence[PromptBlock],
    ends: Sequence[int],
    regime: Regime,
    tail: int,
) -> list[_RequestedMark]:
    """The marks that the policy asks for, the most useful first."""
    requests = []
    upto = max(0, _blocks_before_tail(blocks, tail) - policy.back)
    if policy.history:
        last = _last_markable_block(blocks, upto, PromptSlot.VARIABLE, regime)
        requests.append(_RequestedMark("the conversation", last, policy.history))
    heads = count_leading_blocks(blocks)
    for slot, ttl in ((PromptSlot.STABLE, policy.stable), (PromptSlot.SEMI_STABLE, policy.semi)):
        if ttl:
            place = _last_markable_block(blocks, heads, slot, regime)
            requests.append(_RequestedMark(f"the {slot} slot", place, ttl))
    if policy.tools:
        tools = sum([block.message < 0 for block in blocks[:heads]])
        requests.append(_RequestedMark("the tools", tools - 1, policy.tools))
    if policy.history and regime.name != _OPENAI:
        # Free, as another stands behind, and read where a later call repeats less than is known.
        answers = [index for index, block in enumerate(blocks[:upto]) if block.role == ASSISTANT]
        before = _last_markable_block(blocks, max(answers, default=0), PromptSlot.VARIABLE, regime)
        requests.append(_RequestedMark("", before, policy.history))
    if policy.first:
        start = _first_cacheable_block(blocks[:upto], ends, regime)
        requests.append(_RequestedMark("the start", start, policy.first))
    return requests


def _blocks_before_tail(blocks: Sequence[PromptBlock], tail: int) -> int:
    """Number of blocks before the messages that vary per call."""
    if tail <= 0 or not blocks:
        return len(blocks)
    first = blocks[-1].message - tail + 1
    return next(
        (index for index, block in enumerate(blocks) if block.message >= first), len(blocks)
    )


def count_leading_blocks(blocks: Sequence[PromptBlock]) -> int:
    """Number of blocks before the conversation."""
    count, variable = 0, PromptSlot.VARIABLE
    for block in blocks:
        if block.slot is variable:
            break
        count += 1
    return count


def _last_markable_block(
    blocks: Sequence[PromptBlock], end: int, slot: PromptSlot, regime: Regime
) -> int:
    """The last block of a slot before ``end`` on which a mark can stand; -1 for none."""
    for index in range(end - 1, -1, -1):
        block = blocks[index]
        if block.slot == slot and _can_take_mark(block, regime):
            return index
    return -1


def _first_cacheable_block(
    blocks: Sequence[PromptBlock], ends: Sequence[int], regime: Regime
) -> int:
    """The first block that can be marked and surely ends enough to be cached; -1 for none."""
    return next(
        (
            index
            for index, block in enumerate(blocks)
            if ends[index] >= _SURE_LENGTH_FACTOR * regime.least and _can_take_mark(block, regime)
        ),
        -1,
    )


def _can_take_mark(block: PromptBlock, regime: Regime) -> bool:
    """True if a mark can stand here; an answer may hold nothing that every cache can mark."""
    if regime.name == _OPENAI and not openai_breakpoint.takes_mark(block.role):
        return False
    if block.role == ASSISTANT:
        return False
    return block.size > _EMPTY_PART_BYTES


def _is_markable(
    block: int, ends: Sequence[int], regime: Regime, caller_marks: Mapping[int, str]
) -> bool:
    """True if a block is there, is not marked by the caller and may end enough to be cached."""
    return block >= 0 and block not in caller_marks and is_cacheable_length(ends[block], regime)


def is_cacheable_length(tokens: int, regime: Regime) -> bool:
    """True if so many tokens, by estimate, may be as many as are cached."""
    return tokens * _ESTIMATE_ERROR_FACTOR >= regime.least


def _mark_lifetime(
    requested: _RequestedMark, regime: Regime, caller_marks: Mapping[int, str]
) -> str:
    """The lifetime asked for, or the next that keeps longer ones first; "" where none does.

    Behind a shorter mark of the caller's it is as short. Before a longer one it is as long, which
    costs nothing: what stands before that mark is charged at its price anyway.
    """
    if regime.name == _OPENAI:
        return requested.ttl if requested.ttl in regime.writes else ""
    span = regime.lifetimes
    if not caller_marks and requested.ttl in regime.writes and requested.ttl in span:
        return requested.ttl
    before = [
        span[ttl] for block, ttl in caller_marks.items() if block < requested.block and ttl in span
    ]
    after = [
        span[ttl] for block, ttl in caller_marks.items() if block > requested.block and ttl in span
    ]
    shortest, longest = max(after, default=0.0), min(before, default=float("inf"))
    fitting = [ttl for ttl in regime.writes if shortest <= span.get(ttl, -1.0) <= longest]
    requested_span = span.get(requested.ttl, 0.0)
    return min(fitting, key=lambda ttl: abs(span[ttl] - requested_span), default="")


def _in_wire_order(marks: Mapping[int, str], regime: Regime) -> dict[int, str]:
    """The marks in wire order, each at least as long-lived as those behind it."""
    ordered, longest = {}, ""
    for block in sorted(marks, reverse=True):
        if regime.lifetimes.get(marks[block], 0.0) >= regime.lifetimes.get(longest, 0.0):
            longest = marks[block]
        ordered[block] = longest
    return dict(reversed(ordered.items()))


def place_values(spans: Sequence[tuple[int, int]], regime: Regime, usage: Usage) -> PlaceValues:
    """Savings of each place's tokens that were read, and cost of those written, in fresh tokens.

    A prompt is read from its beginning, and written right behind what was read.

    ``spans`` are the tokens of each place, as ``place_spans`` has them.
    """
    read, written = usage.cache_read, usage.cache_write_tokens
    fee = write_surcharge(usage, regime) / written if written else 0.0
    gain = 1.0 - regime.read_price
    return PlaceValues(
        tuple(gain * _overlap(span, (0, read)) for span in spans),
        tuple(fee * _overlap(span, (read, read + written)) for span in spans),
    )


def _overlap(span: tuple[int, int], other: tuple[int, int]) -> int:
    return max(0, min(span[1], other[1]) - max(span[0], other[0]))


def marked_place_count(call: SentCall, marks: Iterable[int]) -> int:
    """Number of places, in wire order, up to the one in which the last of these marks stands."""
    last = max(marks, default=-1)
    starts = (0, call.start.tools, call.start.stable, call.block_ranges.messages.start)
    return sum([start <= last for start in starts])


def place_spans(call: SentCall, scale: TokenScale) -> Sequence[tuple[int, int]]:
    """The tokens of each place, in wire order, from the first to the one behind the last."""
    ends, start = call.ends, call.start
    places = (start.tools, start.stable, call.block_ranges.messages.start)
    return [*pairwise((0, *(scale.tokens_of(ends[place]) for place in places), scale.total))]


def long_life_value(expected: ExpectedRead, regime: Regime) -> tuple[float, float]:
    """Gain of the longest lifetime over the shortest in a call, and its fee for all of the call.

    It keeps what was used longer ago than the shortest lifetime; what is new costs more to write.

    Both are in fresh tokens. ``expected`` is its read had all calls had all marks.
    """
    short, long = regime.usual_ttl, regime.longest_ttl
    total, idle = expected.scale.total, inf if expected.idle is None else expected.idle
    long_read = expected.found if idle <= regime.lifetimes[long] else 0
    extra_read = long_read if idle > regime.lifetimes[short] else 0
    gain = extra_read * regime.usual_gain - regime.longest_fee * (total - long_read)
    return gain, regime.longest_fee * total
