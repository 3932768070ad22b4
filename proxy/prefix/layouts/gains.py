"""The tokens that a cache would save a template's calls, by which of its varying texts move.

A cache reads a prompt up to the first text that differs from what was sent before::

    tools, front │ text │ stable │ text │ stable │ … │ semi-stable texts │ conversation
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations, cycle
from math import inf
from typing import Final

import msgspec

from proxy.caches.regime import Regime
from proxy.prefix.layouts.template_calls import TemplateCalls
from proxy.prefix.prediction.leading_texts import MIN_SHARED_BYTES, MIN_SHARED_PART
from proxy.prefix.prompts.prompt import PromptSlot

#: The cache that keeps whole prompts: it finds none that ends in text of its own, and reads what
#: two calls had in common, so the conversation up to the call before the last.
_WHOLE_PROMPTS: Final = "prefix-unit"
#: The cache in which nothing is stored, and paid for, but what a mark ends.
_ANTHROPIC: Final = "anthropic-breakpoint"
#: Tokens of a label where a text arrives, of a reference to it, and of a message of its own.
_LABEL_TOKENS: Final = 6
_REFERENCE_TOKENS: Final = 14
_MESSAGE_TOKENS: Final = 12
Slots = Sequence[PromptSlot]


class VaryingText(msgspec.Struct, frozen=True, kw_only=True):
    """A text that varies, and the stable text up to the next one.

    Attributes:
        size: Bytes of it.
        behind: Bytes of stable text behind it.
        values: Stand for its texts, by conversation and variant of its instructions.
        is_clock: True if its form tells that it changes with each call.
    """

    size: int
    behind: int
    values: tuple[tuple[int, ...], ...]
    is_clock: bool = False


class _SharedTexts:
    """Shares of calls whose texts, up to a place of the instructions, no other call had."""

    def __init__(self, calls: TemplateCalls) -> None:
        self._changes = calls.changes
        self._is_clock = False
        self._values: Sequence[Sequence[int]] = [(0,)] * len(calls.changes)

    def add_text(self, text: VaryingText) -> None:
        """Go on to behind a text."""
        every = zip(self._values, text.values, strict=True)
        self._values = [[*map(hash, zip(cycle(had), more))] for had, more in every]
        self._is_clock = self._is_clock or text.is_clock

    @property
    def change_rate(self) -> float:
        """Changes of them per further call; a clock's is 1 before there were any."""
        followed = sum(further for _, further in self._changes)
        if not followed:
            return float(self._is_clock)
        every = zip(self._changes, self._values, strict=True)
        changed = sum(changes * differing_share(values) for (changes, _), values in every)
        return min(1.0, changed / followed)

    @property
    def new_to_first_calls(self) -> float:
        """Share of conversations that begin with texts which no call had before."""
        holders = self._holders()
        firsts = sum(1.0 / holders[values[0]] for values in self._values)
        return _share_beyond_one(firsts, len(self._values))

    @property
    def new_to_later_calls(self) -> float:
        """Share of further calls with texts which no call had before."""
        distinct = len(self._holders())
        total = sum(len(set(values)) for values in self._values)
        return self.change_rate * _share_beyond_one(distinct, total)

    def _holders(self) -> Mapping[int, int]:
        """Number of conversations by texts that they had."""
        return Counter(value for values in self._values for value in set(values))


def differing_share(values: Sequence[Hashable]) -> float:
    """The share of pairs of a conversation's variants that differ."""
    pairs = list(combinations(values, 2))
    return sum(one != other for one, other in pairs) / (len(pairs) or 1)


def _share_beyond_one(count: float, total: int) -> float:
    """The share of further ones that a count of all is made of; 1 for a single one."""
    return max(0.0, (count - 1.0) / (total - 1.0)) if total > 1 else 1.0


class _Reads(msgspec.Struct):
    """Read of a prompt's instructions: probabilities, and the bytes read with each."""

    ends: list[tuple[float, float]] = []
    size: int = 0
    left: float = 1.0

    def pass_text(self, same: float, readable: float) -> None:
        """Pass a text that is the same with a probability; else reading ends before it."""
        if same < self.left:
            self.ends.append((self.left - same, readable))
            self.left = same


class LayoutGains:
    """Reckons what moves of a template's varying texts gain at one cache."""

    def __init__(self, calls: TemplateCalls, texts: Sequence[VaryingText], regime: Regime) -> None:
        self._calls = calls
        self._texts = texts
        self._regime = regime
        self._surcharge = float(min(regime.writes.values(), default=1)) - 1.0
        size = calls.front + sum(text.size + text.behind for text in texts)
        self._min_parted = max(MIN_SHARED_BYTES, size // MIN_SHARED_PART)

    def saved_tokens(self, slots: Slots) -> float:
        """Fresh tokens that an average call saves with each text in its slot, less added words."""
        calls, regime = self._calls, self._regime
        first, later, change_rate = self._read_instructions(slots)
        whole = regime.name == _WHOLE_PROMPTS and PromptSlot.VARIABLE in slots
        firsts = [
            calls.first * saving for saving in self._call_savings(first, first.left, 0.0, 0.0)
        ]
        sums = [0.0] * len(firsts)
        for some in calls.later:
            same = min(1.0 - change_rate, later.left)
            spoken = some.earlier if whole else some.before
            more = self._call_savings(later, same, spoken, some.length)
            sums = [sum_ + some.share * saving for sum_, saving in zip(sums, more, strict=True)]
        if regime.name == _ANTHROPIC:  # marks are set as far as they pay
            best = max(0.0, *[once + more for once, more in zip(firsts, sums, strict=True)])
        else:  # OpenAI's own are switched off in conversations that begin anew with each call
            best = firsts[0] + (max(0.0, *sums) if regime.takes_marks else sums[0])
        return best - self._words(slots)

    @property
    def average_tokens(self) -> float:
        """Tokens of an average call."""
        calls = self._calls
        size = calls.tools + calls.front + sum(text.size + text.behind for text in self._texts)
        return (size + sum(group.share * group.length for group in calls.later)) / calls.per_token

    def sure_share(self, slots: Slots) -> float:
        """The share of what moves save that they save however long conversations may be."""
        error = self._calls.length_error
        if not self._calls.is_early:
            return 1.0
        stay = [PromptSlot.STABLE] * len(slots)
        saved = self.saved_tokens(slots) - self.saved_tokens(stay)
        least = saved
        for factor in (1.0 / (1.0 + error), 1.0 if error == inf else 1.0 + error):
            calls = self._calls.with_more_firsts(factor)
            other = LayoutGains(calls, self._texts, self._regime)
            least = min(least, other.saved_tokens(slots) - other.saved_tokens(stay))
        return max(0.0, least / saved) if saved > 0 else 0.0

    def best_slots(self, targets: Slots) -> Slots:
        """The targets, but stable where a text does better to stay."""
        slots = list(targets)
        best = self.saved_tokens(slots)
        for index in reversed(range(len(slots))):
            slot, slots[index] = slots[index], PromptSlot.STABLE
            without = self.saved_tokens(slots)
            if without < best:
                slots[index] = slot
            else:
                best = without
        return slots

    def _read_instructions(self, slots: Slots) -> tuple[_Reads, _Reads, float]:
        """The reads of instructions by first and later calls, and changes per later call."""
        shared, size = _SharedTexts(self._calls), self._calls.tools + self._calls.front
        first, later = _Reads(ends=[]), _Reads(ends=[])

        def pass_text(text: VaryingText, readable: float) -> None:
            shared.add_text(text)
            first.pass_text(1.0 - shared.new_to_first_calls, readable)
            later.pass_text(1.0 - shared.new_to_later_calls, readable)

        every = list(zip(self._texts, slots, strict=True))
        for text, slot in every:
            if slot is PromptSlot.STABLE:
                pass_text(text, self._readable_before(size))
                size += text.size
            size += text.behind
        for text, slot in every:
            if slot is PromptSlot.SEMI_STABLE:
                pass_text(text, size)
                size += text.size
        first.size = later.size = size
        return first, later, shared.change_rate

    def _readable_before(self, size: float) -> float:
        """Bytes that are read where instructions differ from there on; a mark needs an end."""
        tools = self._calls.tools
        if not self._regime.takes_marks or size - tools >= self._min_parted:
            return size
        return tools if self._regime.name == _ANTHROPIC else 0.0

    def _call_savings(
        self, head: _Reads, same: float, spoken: float, length: float
    ) -> tuple[float, float, float]:
        """Fresh tokens that a call saves: all of it marked, its instructions, or their beginning.

        ``same`` is the chance that its conversation is read, too: ``spoken`` of its ``length``
        bytes.
        """
        size, rate = head.size, 1.0 - float(self._regime.read)
        ended = sum(part * self._readable(end) for part, end in head.ends)
        some = ended + head.left * self._readable(size)
        more = self._readable(size + spoken) - self._readable(size)
        least = self._readable(min((end for _, end in head.ends), default=size))
        return (
            (some + same * more) * rate - self._surcharge_of(size + length, some + same * more),
            some * rate - self._surcharge_of(size, some),
            least * rate,
        )

    def _surcharge_of(self, size: float, read: float) -> float:
        """Surcharge of writing what is not read of so many bytes."""
        return max(0.0, size / self._calls.per_token - read) * self._surcharge

    def _readable(self, size: float) -> int:
        tokens = int(size / self._calls.per_token)
        return self._regime.readable_tokens(tokens, tokens + self._regime.fresh)

    def _words(self, slots: Slots) -> float:
        """Tokens of the words that moves add to a call."""
        tokens, stable = 0, self._calls.front
        for text, slot in zip(self._texts, slots, strict=True):
            if slot is not PromptSlot.STABLE:
                is_between = stable > 0 and text.behind > 0
                tokens += _LABEL_TOKENS + (_REFERENCE_TOKENS if is_between else 0)
            stable += text.behind
        return tokens + (_MESSAGE_TOKENS if PromptSlot.VARIABLE in slots else 0)
