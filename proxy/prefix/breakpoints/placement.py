"""Places the marks of one call, as its conversation's policy and its own blocks say."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Final

import msgspec

from proxy.caches import openai_breakpoint
from proxy.caches.bills import WRITE_PREFIX
from proxy.caches.regime import Regime, write_surcharge
from proxy.prefix.breakpoints.account import MAX_PLACES, PlaceValues, PromptPlace
from proxy.prefix.breakpoints.caller_marks import free_marks
from proxy.prefix.breakpoints.plan import BreakpointPolicy
from proxy.prefix.prediction.prefix_chains import ExpectedRead
from proxy.prefix.prediction.sent_call import SentCall, TokenScale
from proxy.prefix.prompts.prompt import ASSISTANT, PromptBlock, PromptSlot
from slo.usage import Usage

_OPENAI: Final = "openai-breakpoint"
#: Places of a prompt, the most useful to mark first.
_BY_USE: Final = (
    PromptPlace.FIRST_CALL, PromptPlace.STABLE, PromptPlace.SEMI_STABLE, PromptPlace.TOOLS,
)  # fmt: skip
#: Bytes of a part that holds no word: `""`.
_EMPTY_PART_BYTES: Final = 2
#: Factor below the minimum at which an estimate may still mean more. A mark that proves too early
#: does nothing and costs nothing.
#: Source: Anthropic, prompt caching; OpenAI, prompt caching guide (both 2026-09).
_ESTIMATE_ERROR_FACTOR: Final = 1.4


class MarkPlacement(msgspec.Struct, frozen=True):
    """The marks of a call.

    Attributes:
        marks: Lifetimes of those to add by the index of their block, in wire order.
        notes: Reasons that a mark which the policy asks for does not stand, a sentence each, where
            all marks are in use.
    """

    marks: Mapping[int, str] = {}
    notes: tuple[str, ...] = ()


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
    for what, block in _requested_blocks(policy, blocks, regime, tail):
        ttl = _mark_lifetime(policy.ttl, block, regime, caller_marks)
        if not (ttl and _is_markable(block, ends, regime, caller_marks)):
            continue
        if len(marks) < room:
            marks[block] = ttl
        elif what:
            notes.append(f"no mark after {what}: all {regime.marks} marks are in use")
    if room > len(marks):
        marks = {**_free_mark(blocks, ends, regime, caller_marks), **marks}
    return MarkPlacement(dict(sorted(marks.items())), tuple(notes))


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
    heads = count_leading_blocks(blocks)
    place = _last_markable_block(blocks, heads, PromptSlot.STABLE, regime)
    if regime.name == _OPENAI or not _is_markable(place, ends, regime, caller_marks):
        return {}
    ttl = _mark_lifetime(regime.usual_ttl, place, regime, caller_marks)
    behind = [life for block, life in caller_marks.items() if block > place]
    return {place: ttl} if ttl in behind else {}


def _requested_blocks(
    policy: BreakpointPolicy, blocks: Sequence[PromptBlock], regime: Regime, tail: int
) -> list[tuple[str, int]]:
    """The blocks that the policy marks, -1 for none, and what each ends: the most useful first.

    What ends at a block is "" where no note says that its mark does not stand.
    """
    upto = max(0, _blocks_before_tail(blocks, tail) - policy.back)
    heads = count_leading_blocks(blocks)
    tools = sum([block.message < 0 for block in blocks[:heads]])
    places = (
        ("the tools", tools, PromptSlot.STABLE),
        ("the stable slot", heads, PromptSlot.STABLE),
        ("the semi-stable slot", heads, PromptSlot.SEMI_STABLE),
        ("the conversation", upto, PromptSlot.VARIABLE),
    )
    requests = [
        (what, _last_markable_block(blocks, end, slot, regime))
        for what, end, slot in (places[at] for at in _BY_USE if at < policy.places)
    ]
    if policy.places == MAX_PLACES and regime.name != _OPENAI:
        # Free, as another stands behind, and read where a later call repeats less than is known.
        answers = [index for index, block in enumerate(blocks[:upto]) if block.role == ASSISTANT]
        before = _last_markable_block(blocks, max(answers, default=0), PromptSlot.VARIABLE, regime)
        requests.append(("", before))
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


def _mark_lifetime(ttl: str, mark: int, regime: Regime, caller_marks: Mapping[int, str]) -> str:
    """The lifetime asked for, or the next that keeps longer ones first.

    It is "" where the caller's own marks, in an order that providers refuse, leave none.

    Behind a shorter mark of the caller's it is as short. Before a longer one it is as long, which
    costs nothing: what stands before that mark is charged at its price anyway.
    """
    if regime.name == _OPENAI:
        return ttl
    span = regime.lifetimes
    known = [(block, span[life]) for block, life in caller_marks.items() if life in span]
    longest = min([life for block, life in known if block < mark], default=inf)
    shortest = max([life for block, life in known if block > mark], default=0.0)
    fitting = [life for life in regime.writes if shortest <= span.get(life, -1.0) <= longest]
    return min(fitting, key=lambda life: abs(span[life] - span.get(ttl, 0.0)), default="")


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


def extra_place_values(
    call: SentCall, scale: TokenScale, marked: Usage, unmodified: Usage, price: float
) -> PlaceValues:
    """The values of a call's marks beyond those that the unmodified call has."""
    spans, regime = place_spans(call, scale), call.regime
    values = place_values(spans, regime, marked)
    direct = place_values(spans, regime, unmodified)
    return PlaceValues(
        tuple((a - b) * price for a, b in zip(values.gains, direct.gains, strict=True)),
        tuple((a - b) * price for a, b in zip(values.fees, direct.fees, strict=True)),
    )


def dearest_fee(call: SentCall) -> float:
    """The dearest surcharge of a token that a call's marks write, in fresh tokens."""
    prices = call.regime.write_prices
    usual = prices[WRITE_PREFIX + call.regime.usual_ttl]
    marked = [prices.get(WRITE_PREFIX + ttl, usual) for ttl in call.marks.values()]
    return max(marked, default=usual) - 1.0
