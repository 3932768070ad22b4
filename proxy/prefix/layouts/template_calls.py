"""The calls of a template that learning counts: those seen, and those still to come.

Conversations that still run look shorter than they will be, so their next calls are counted, too.
"""

from collections.abc import Iterator, Sequence
from math import inf, sqrt
from statistics import stdev
from typing import Final, NamedTuple

import msgspec

from proxy.prefix.layouts.samples import ConversationSample
from proxy.prefix.prompts.prompt import BYTES_PER_TOKEN

#: A conversation has ended once it was silent for so many usual pauses; and the usual pause where
#: no conversation went on yet, in seconds.
_ENDED_PAUSES: Final = 3
_USUAL_PAUSE_S: Final = 60.0
#: Conversations that must have ended before it is believed how long they are. Before, each is taken
#: to have so many further calls, where some went on.
_MIN_ENDED: Final = 5
_FEW_LATER_CALLS: Final = 4
#: Share by which their average length may be off and still is believed, by two standard errors.
_MAX_LENGTH_ERROR: Final = 0.15
#: Steps in which the calls to come of a conversation are told apart by their lengths.
_MAX_STEPS: Final = 8


class LaterCalls(NamedTuple):
    """Calls of about one length that are not the first of their conversation.

    Attributes:
        length: Bytes behind the instructions.
        before: The same of the calls before them.
        earlier: The same of the calls before those.
    """

    share: float
    length: float
    before: float
    earlier: float


class TemplateCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of a template.

    Attributes:
        tools: Bytes of tools.
        front: Bytes of stable text before all that varies.
        first: Share of calls that are the first of their conversation.
        changes: Calls that changed their instructions, and calls that could, by conversation.
        per_token: Bytes of a token.
        length_error: Share by which the average number of further calls may be off; infinite where
            too few conversations have ended.
    """

    tools: int
    front: int
    first: float
    later: tuple[LaterCalls, ...]
    changes: tuple[tuple[int, int], ...]
    per_token: float = BYTES_PER_TOKEN
    length_error: float = 0.0

    @property
    def is_early(self) -> bool:
        """True if too few conversations have ended to know how long they are."""
        return self.length_error > _MAX_LENGTH_ERROR

    def with_more_firsts(self, factor: float) -> "TemplateCalls":
        """The calls if there were so many times more firsts of conversations among them."""
        firsts = self.first * factor
        total = firsts + sum(group.share for group in self.later)
        later = tuple(group._replace(share=group.share / total) for group in self.later)
        return msgspec.structs.replace(self, first=firsts / (total or 1.0), later=later)


def template_calls(
    group: Sequence[ConversationSample], tools: int, front: int, per_token: float
) -> TemplateCalls:
    """The calls of a template, as its conversations were seen."""
    ended, running = _part_by_end(group)
    seen_lengths = [sums for sample in group for sums in sample.lengths.values()]
    lengths = [
        *seen_lengths,
        *_calls_to_come(ended, running, _growth(group), has_later=bool(seen_lengths)),
    ]
    firsts = sum(sample.firsts for sample in group)
    calls = firsts + sum(count for count, _, _, _ in lengths)
    return TemplateCalls(
        tools=tools,
        front=front,
        first=firsts / calls,
        later=tuple(
            LaterCalls(count / calls, length / count, before / count, earlier / count)
            for count, length, before, earlier in lengths
        ),
        changes=tuple((sample.changes, sample.followed) for sample in group),
        per_token=per_token,
        length_error=_length_error(ended, running),
    )


def _part_by_end(group: Sequence[ConversationSample]) -> tuple[list[int], list[ConversationSample]]:
    """The further calls of conversations that ended, and the conversations that may go on."""
    later = sum(sample.later_calls for sample in group)
    pause = sum(sample.pauses for sample in group) / later if later else _USUAL_PAUSE_S
    ends = max(sample.latest_at for sample in group) - _ENDED_PAUSES * pause
    ended = [sample.later_calls for sample in group if sample.latest_at < ends]
    return ended, [sample for sample in group if sample.latest_at >= ends]


def _length_error(ended: Sequence[int], running: Sequence[ConversationSample]) -> float:
    """The share by which the average may be off.

    Infinite where few conversations ended, or most further calls are of those that did not. A few
    lengths tell their spread badly, so it is as wide as Student's distribution.
    """
    open_calls, count = sum(sample.later_calls for sample in running), len(ended)
    if count < _MIN_ENDED or 2 * sum(ended) < open_calls:
        return inf
    errors = 2 * sqrt((count - 1) / (count - 3))
    return errors * stdev(ended) * sqrt(count) / sum(ended) if sum(ended) else 0.0


def _calls_to_come(
    ended: Sequence[int], running: Sequence[ConversationSample], growth: int, *, has_later: bool
) -> Iterator[tuple[float, float, float, float]]:
    """The next calls of conversations that may go on; as lengths are.

    Each is taken to get as long as those that got that far, the longest first. Source: Efron, "The
    two sample problem with censored data" (1967): what is cut off is spread over what is longer.
    """
    few = _FEW_LATER_CALLS if has_later and len(ended) < _MIN_ENDED else 0
    ends = [float(calls) for calls in ended]
    for sample in sorted(running, key=lambda sample: -sample.later_calls):
        calls, before = sample.later_calls, float(sample.past[0])
        longer = [end for end in ends if end >= calls]
        ends.append(sum(longer) / len(longer) if longer else max(calls, few))
        left = ends[-1] - calls
        step = max(1.0, left / _MAX_STEPS)
        while left > 0:
            count = min(step, left)
            middle = before + growth * (step - 1) / 2
            earlier = max(0.0, middle - growth)
            yield count, count * (middle + growth), count * middle, count * earlier
            left, before = left - step, before + growth * step


def _growth(group: Sequence[ConversationSample]) -> int:
    """Bytes by which conversations grow from call to call."""
    steps = [sample.past[0] - sample.past[1] for sample in group if sample.past[1]]
    return max(0, sum(steps) // len(steps)) if steps else 0
