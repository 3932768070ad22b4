"""Tokens that a cache saves the calls of a template, by which of its varying texts move.

A cache reads a prompt up to the first text that differs from what was sent before::

    tools, front │ text │ stable │ text │ stable │ … │ semi-stable texts │ conversation
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from proxy.caches.regime import Regime
from proxy.prefix.layouts.samples import ConversationSample
from proxy.prefix.prompts.prompt import BYTES_PER_TOKEN, PromptSlot

#: The cache that keeps whole prompts: it finds none that ends in text of its own, and reads what
#: two calls had in common, so the conversation up to the call before the last.
_WHOLE_PROMPTS: Final = "prefix-unit"
#: The cache in which nothing is stored, and paid for, but what a mark ends.
_ANTHROPIC: Final = "anthropic-breakpoint"
#: Tokens of a label where a text arrives, of a reference to it, and of a message of its own.
_LABEL_TOKENS: Final = 6
_REFERENCE_TOKENS: Final = 14
_MESSAGE_TOKENS: Final = 12
#: Further calls of a conversation up to which it is taken to go on, where others did.
FEW_LATER_CALLS: Final = 4
Slots = Sequence[PromptSlot]


class VaryingText(msgspec.Struct, frozen=True, kw_only=True):
    """A text that varies, and the stable text up to the next one.

    Attributes:
        size: Bytes of it.
        behind: Bytes of stable text behind it.
        own: Share of conversations that have one of their own.
        rate: Changes per further call of a conversation.
        novelty: Share of its changes to a text that no other call had.
    """

    size: int
    behind: int
    own: float
    rate: float
    novelty: float = 1.0


class LaterCalls(NamedTuple):
    """Calls of about one length that are not the first of their conversation.

    Attributes:
        share: Their share of all calls.
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
        later: The others.
        per_token: Bytes of a token.
    """

    tools: int
    front: int
    first: float
    later: tuple[LaterCalls, ...]
    per_token: float = BYTES_PER_TOKEN


def template_calls(
    group: Sequence[ConversationSample], tools: int, front: int, per_token: float
) -> TemplateCalls:
    """The calls of a template, as its conversations were seen.

    Args:
        group: The conversations.
        tools: Bytes of tools.
        front: Bytes of stable text before all that varies.
        per_token: Bytes of a token.
    """
    lengths = [sums for sample in group for sums in sample.lengths.values()]
    lengths += (to_come := [*_calls_to_come(group)])
    calls = sum(sample.calls for sample in group) + len(to_come)
    return TemplateCalls(
        tools=tools,
        front=front,
        first=sum(sample.opened for sample in group) / calls,
        later=tuple(
            LaterCalls(count / calls, held / count, before / count, earlier / count)
            for count, held, before, earlier in lengths
        ),
        per_token=per_token,
    )


def _calls_to_come(group: Sequence[ConversationSample]) -> Iterator[tuple[int, int, int, int]]:
    """The next calls of conversations of which few were seen, once some went on; as lengths are."""
    steps = [sample.past[0] - sample.past[1] for sample in group if sample.past[1]]
    growth = max(0, sum(steps) // len(steps)) if steps else 0
    for sample in group if any(sample.later_calls for sample in group) else ():
        for number in range(sample.later_calls, FEW_LATER_CALLS):
            before = sample.past[0] + (number - sample.later_calls) * growth
            yield 1, before + growth, before, max(0, before - growth)


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
    """Reckons what moves of a template's varying texts gain at one cache.

    Args:
        calls: Its calls.
        texts: Its varying texts, in their order.
        regime: The cache.
    """

    def __init__(self, calls: TemplateCalls, texts: Sequence[VaryingText], regime: Regime) -> None:
        self._calls = calls
        self._texts = texts
        self._regime = regime
        self._surcharge = float(min(regime.writes.values(), default=1)) - 1.0

    def saved_tokens(self, slots: Slots) -> float:
        """Fresh tokens that an average call saves with each text in its slot, less added words.

        Args:
            slots: Slot of each text; stable where it stays.
        """
        calls, regime = self._calls, self._regime
        first = self._read_instructions(slots, lambda text: text.own * text.novelty)
        later = self._read_instructions(slots, lambda text: text.rate * text.novelty)
        same = 1.0 - max((t.rate for t, slot in self._texts_in_place(slots)), default=0.0)
        whole = regime.name == _WHOLE_PROMPTS and PromptSlot.VARIABLE in slots
        saved = self._weighed_savings(calls.first, first, first.left, (0.0, 0.0))
        for each in calls.later:
            reads = each.earlier if whole else each.before
            saved += self._weighed_savings(
                each.share, later, min(same, later.left), (reads, each.length)
            )
        if regime.name == _ANTHROPIC:  # none are set where they do not pay
            saved = max(0.0, saved)
        return saved - self._words(slots)

    @property
    def average_tokens(self) -> float:
        """Tokens of an average call."""
        calls = self._calls
        size = calls.tools + calls.front + sum(text.size + text.behind for text in self._texts)
        return (size + sum(each.share * each.length for each in calls.later)) / calls.per_token

    def best_slots(self, targets: Slots) -> Slots:
        """The targets, but stable where a text does better to stay."""
        slots = list(targets)
        best = self.saved_tokens(slots)
        for at in reversed(range(len(slots))):
            slot, slots[at] = slots[at], PromptSlot.STABLE
            without = self.saved_tokens(slots)
            if without < best:
                slots[at] = slot
            else:
                best = without
        return slots

    def _texts_in_place(self, slots: Slots) -> Iterator[tuple[VaryingText, PromptSlot]]:
        """The texts that stay in the instructions."""
        every = zip(self._texts, slots, strict=True)
        return (each for each in every if each[1] is not PromptSlot.VARIABLE)

    def _read_instructions(self, slots: Slots, share: Callable[[VaryingText], float]) -> _Reads:
        """The read of the instructions, where a share of calls has another of each text."""
        calls = self._calls
        reads = _Reads(ends=[], size=calls.tools + calls.front)
        for text, slot in zip(self._texts, slots, strict=True):
            if slot is PromptSlot.STABLE:
                # A mark within a text would have to stand before what varies.
                readable = calls.tools if self._regime.takes_marks else reads.size
                reads.pass_text(1.0 - share(text), readable)
                reads.size += text.size
            reads.size += text.behind
        for text, slot in self._texts_in_place(slots):
            if slot is PromptSlot.SEMI_STABLE:
                reads.pass_text(1.0 - share(text), reads.size)
                reads.size += text.size
        return reads

    def _weighed_savings(
        self, weight: float, head: _Reads, same: float, spoken: tuple[float, float]
    ) -> float:
        """Fresh tokens saved by calls of a weight, of whose conversation so much may be read."""
        readable, length = spoken
        read = sum(part * self._readable(size) for part, size in head.ends)
        read += (head.left - same) * self._readable(head.size)
        read += same * self._readable(head.size + readable)
        written = max(0.0, (head.size + length) / self._calls.per_token - read) * self._surcharge
        return weight * (read * (1.0 - float(self._regime.read)) - written)

    def _readable(self, size: float) -> int:
        held = int(size / self._calls.per_token)
        return self._regime.readable_tokens(held, held + self._regime.fresh)

    def _words(self, slots: Slots) -> float:
        """Tokens of the words that moves add to a call."""
        tokens, stable = 0, self._calls.front
        for text, slot in zip(self._texts, slots, strict=True):
            if slot is not PromptSlot.STABLE:
                is_between = stable > 0 and text.behind > 0
                tokens += _LABEL_TOKENS + (_REFERENCE_TOKENS if is_between else 0)
            stable += text.behind
        return tokens + (_MESSAGE_TOKENS if PromptSlot.VARIABLE in slots else 0)
