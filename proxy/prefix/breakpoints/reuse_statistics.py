"""Statistics of one feature's reuse: how often and how soon calls follow each other."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import inf
from typing import Final

import msgspec

from proxy.prefix.breakpoints.continuation import (
    MIN_AGES_S,
    ContinuationModel,
    Prior,
    SingleCallRun,
)
from proxy.prefix.prediction.sent_call import MORE_LEFT_OUT

#: Upper ends of the gaps told apart, in seconds; the lifetimes that are sold are among them.
GAP_EDGES_S: Final = (1, 5, 20, 60, 180, 300, 600, 1_800, 3_600, 14_400, 43_200, 86_400)
#: Factor on an observation's weight at the next one: some 100 count.
_DECAY: Final = 0.99
#: No chain of uses is believed to be longer.
_MAX_EXPECTED_USES: Final = 100.0
#: Conversations are told apart by how far they came: one call, two, up to four, eight, and more.
_STAGE_COUNT: Final = 5

#: Prior for prompts that begin with tools or an assistant's turn: they are likely to go on.
_OPEN_PRIOR: Final = Prior(0.8, 1.0)
#: A lone question says nothing; then a mark has to wait until conversations are seen to go on.
_LONE_PRIOR: Final = Prior(0.05, 4.0)
#: Weight of the expected saving: a fee is certain, a cache read is not.
_LONE_DISCOUNT: Final = 0.75
#: One that is asked again may be asked once more, or not.
_REPEAT_PRIOR: Final = Prior(0.5, 2.0)
_LATER_CALL_PRIOR: Final = Prior(0.8, 4.0)
_EXTENSION_PRIOR: Final = Prior(0.95, 1.0)
#: Prompts that come again as a whole, and may be retries; more of them are a habit.
_MAX_RETRIES: Final = 1
#: Reads that did not come true, where none did, after which nothing is marked for a while.
_MAX_FAILED_READS: Final = 1.9
_RETRY_AFTER_S: Final = 3_600.0
#: A share of later calls that is as good as none.
_NEGLIGIBLE_SHARE: Final = 0.1
#: The share of calls that begin a conversation.
_NEW_OPEN_PRIOR: Final = Prior(0.3)
_NEW_LONE_PRIOR: Final = Prior(0.9)
#: Gaps within a conversation: nearly all within five minutes, so none but the shortest lifetime
#: pays before gaps are seen.
_CONVERSATION_GAPS: Final = (
    *(0.05, 0.25, 0.3, 0.2, 0.1, 0.05),
    *(0.002, 0.002, 0.002, 0.002, 0.002, 0.002),
    0.038,
)
#: Gaps between calls of a feature: as likely as not, another comes within five minutes.
_FEATURE_GAPS: Final = (
    *(0.02, 0.06, 0.12, 0.15, 0.1, 0.05),
    *(0.02, 0.03, 0.02, 0.03, 0.04, 0.02),
    0.34,
)


class ExpectedUses(msgspec.Struct, frozen=True, kw_only=True):
    """Later calls expected while an entry lives that each of them refreshes, by lifetime.

    Attributes:
        stable: First calls of other conversations; they share the stable slot. Their later calls
            keep it alive, but read what their own conversation wrote.
        semi: Calls of this conversation that do not extend what was sent; they share the
            semi-stable slot too.
        history: Calls of this conversation that share all of this prompt that is marked.
        tools: Calls of the feature that share the tools, and no more.
        is_lone: True if conversations surely end with their first call.
    """

    stable: Mapping[str, float]
    semi: Mapping[str, float]
    history: Mapping[str, float]
    tools: Mapping[str, float] = {}
    is_lone: bool = False


class ReadOutcome(msgspec.Struct, frozen=True):
    """The outcome of a prefix read that was expected.

    Attributes:
        in_conversation: True if it ends in the conversation, rather than before it.
        came_true: True if its provider read it.
    """

    in_conversation: bool
    came_true: bool


class SeenCall(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one call that reuse statistics learn from.

    Attributes:
        before: Earlier calls of its conversation.
        gap: Seconds since the latest of them, from start to start.
        extends: True if it begins with all that one of the latest of them sent; None where none of
            them is known.
        left: Number of blocks at the end of that one that it does not repeat; ``MORE`` at most.
        counts: True if it is long enough to be cached; that shorter ones are followed says nothing
            of those that can be.
        counted: True if the latest of them was long enough to be cached.
        repeats: True if another conversation sent all of it before.
        shares: True if its stable slot was sent before; what is not so is no such slot.
        equips: True if its tools were sent before, in the same order.
        layout: The version of the layout it was sent in.
        reads: Result of the read that was expected; None where that is not known.
    """

    before: int = 0
    gap: float = 0.0
    extends: bool | None = True
    left: int = MORE_LEFT_OUT
    counts: bool = True
    counted: bool = True
    repeats: bool = False
    shares: bool = True
    equips: bool = True
    layout: int = 0
    reads: ReadOutcome | None = None


class ReuseStatistics:
    """Reuse statistics of one feature: about 3 KB; a call costs some 10 µs."""

    def __init__(self) -> None:
        self._goes_on = [ContinuationModel() for _ in range(_STAGE_COUNT)]
        self._gaps = _Gaps(_CONVERSATION_GAPS)
        self._calls = _Gaps(_FEATURE_GAPS)
        self._layout = 0
        self._common = _SharedStarts()
        self._new = 0.0
        self._all = 0.0
        self._latest: float | None = None
        self._trust = {True: _ReadReliability(), False: _ReadReliability()}
        self._lone = SingleCallRun()
        self._repeated = 0

    def observe(self, now: float, seen: SeenCall) -> None:
        """Learn from a call."""
        if self._latest is not None:
            self._calls.add(max(0.0, now - self._latest))
        self._latest = now if self._latest is None else max(now, self._latest)
        self._new = self._new * _DECAY + (seen.before <= 0)
        self._all = self._all * _DECAY + 1.0
        if seen.reads is not None:
            self._trust[seen.reads.in_conversation].add(now, came_true=seen.reads.came_true)
        if seen.layout > self._layout:
            self._layout = seen.layout
            self._common = _SharedStarts()
        if seen.layout == self._layout:
            self._common.add(seen)
        if seen.before <= 0:
            self._record_first_call(now, seen)
        else:
            self._record_continuation(now, seen)

    def _record_continuation(self, now: float, seen: SeenCall) -> None:
        """Learn from a conversation's later call."""
        if seen.before == 1:
            self._lone.record_second_call(now, seen.gap)
        if seen.counted:
            self._goes_on[_conversation_stage(seen.before - 1)].record_continuation(now, seen.gap)
        if seen.counts:
            self._goes_on[_conversation_stage(seen.before)].record_event(now)
        self._gaps.add(seen.gap)

    def _record_first_call(self, now: float, seen: SeenCall) -> None:
        """Learn from a conversation's first call; one that repeats another's follows it."""
        if seen.repeats:
            self._lone.record_second_call(now, inf)
        if seen.counts:
            self._lone.record_first_call(now)
        self._repeated += seen.repeats
        if seen.repeats and self._repeated > _MAX_RETRIES:
            self._goes_on[0].record_continuation(now, inf)
            self._common.was_extended = True
        if seen.counts:
            self._goes_on[0].record_event(now)

    def repeat_shares(self, own: Sequence[int] = ()) -> tuple[float, ...]:
        """The share of later calls that repeat all but so many blocks at the end; by how many.

        Args:
            own: Number of blocks that each of the conversation's own latest calls left out.
        """
        weight = 1.0 + len(own)
        return tuple(
            (share + sum(left <= back for left in own)) / weight
            for back, share in enumerate(self._common.extends.cumulative_shares)
        )

    def expected_uses(
        self,
        lifetimes: Mapping[str, float],
        *,
        is_open: bool,
        before: int = 0,
        repeats: float | None = None,
    ) -> ExpectedUses:
        """The later calls to expect of a conversation; cautious before anything was seen.

        Of what was never seen, nothing is expected: who pays for a mark on belief alone pays more
        than who sends directly.

        Args:
            lifetimes: Seconds, by lifetime.
            is_open: True if the prompt holds tools or a turn of the assistant.
            before: Earlier calls of the conversation.
            repeats: The share of its later calls that repeat what is marked; None for the share of
                the feature's that repeat all.
        """
        next_one, later = self._continuation_shares(before, is_open=is_open)
        common = self._common
        extends = common.extends.cumulative_shares[0] if repeats is None else repeats
        shared, alike = common.shares.value, common.alike.value
        new = self._first_call_share(_NEW_OPEN_PRIOR if is_open else _NEW_LONE_PRIOR)
        stable, semi, history, tools = {}, {}, {}, {}
        apart = new + (1.0 - new) * (1.0 - extends)
        new *= alike / shared if shared > alike else 1.0
        now = self._latest or 0.0
        trusted = self._trust[True].share(now)
        next_one *= before > 0 or common.was_extended
        new *= common.was_shared * self._trust[False].share(now)
        for ttl, seconds in lifetimes.items():
            soon = self._gaps.share_within(seconds)
            own = next_one * soon * (1.0 + _expected_followers(later * soon))
            kept = soon * extends
            history[ttl] = trusted * next_one * kept * (1.0 + _expected_followers(later * kept))
            semi[ttl] = own * (1.0 - extends)
            calls = self._calls.share_within(seconds)
            stable[ttl] = new * _expected_followers(shared * calls)
            tools[ttl] = apart * (1.0 - alike) * _expected_followers(common.equips.value * calls)
        return ExpectedUses(
            stable=stable,
            semi=semi,
            history=history,
            tools=tools,
            is_lone=self._lone.is_certain(now),
        )

    def _continuation_shares(self, before: int, *, is_open: bool) -> tuple[float, float]:
        """The probability that a conversation has another call, and then one more."""
        heard = [self._gaps.share_within(age) for age in MIN_AGES_S]
        now, then = (
            self._goes_on[_conversation_stage(before)],
            self._goes_on[_conversation_stage(before + 1)],
        )
        if before or is_open:
            first = now.share(_LATER_CALL_PRIOR if before else _OPEN_PRIOR, heard)
            return first, then.share(_LATER_CALL_PRIOR, heard)
        return now.share(_LONE_PRIOR, heard) * _LONE_DISCOUNT, then.share(_REPEAT_PRIOR, heard)

    @property
    def has_changing_start(self) -> bool:
        """True if later calls hardly ever begin with what those before them sent, whatever its end.

        It takes nine calls to know.
        """
        return self._common.extends.cumulative_shares[-1] < _NEGLIGIBLE_SHARE

    def _first_call_share(self, prior: Prior) -> float:
        """The share of calls that begin a conversation."""
        return (self._new + prior.share * prior.weight) / (self._all + prior.weight)


class _DecayingShare:
    """The share of events in which something is true; forgets."""

    def __init__(self, prior: Prior) -> None:
        self._so = prior.share * prior.weight
        self._all = prior.weight

    def add(self, so: bool) -> None:  # noqa: FBT001
        self._so = self._so * _DECAY + so
        self._all = self._all * _DECAY + 1.0

    @property
    def value(self) -> float:
        return self._so / self._all


class _ReadReliability:
    """The share of expected reads that the provider makes; forgets.

    Where none of the first few was read, nothing is expected for an hour: marks are written in
    vain there, whatever the reason.
    """

    def __init__(self) -> None:
        self._read = 0.0
        self._unread = 0.0
        self._latest = 0.0

    def add(self, now: float, *, came_true: bool) -> None:
        self._read = self._read * _DECAY + came_true
        self._unread = self._unread * _DECAY + (not came_true)
        self._latest = now

    def share(self, now: float) -> float:
        if (
            not self._read
            and self._unread >= _MAX_FAILED_READS
            and now - self._latest < _RETRY_AFTER_S
        ):
            return 0.0
        return (self._read + 1.0) / (self._read + self._unread + 1.0)


class _LeftOutEnds:
    """A histogram of blocks that calls leave out at the end of the one before; forgets."""

    def __init__(self) -> None:
        self._counts = [0.0] * (MORE_LEFT_OUT + 1)
        self._counts[0] = _EXTENSION_PRIOR.share * _EXTENSION_PRIOR.weight
        self._counts[MORE_LEFT_OUT] = _EXTENSION_PRIOR.weight - self._counts[0]

    def add(self, left: int) -> None:
        self._counts = [count * _DECAY for count in self._counts]
        self._counts[left] += 1.0

    @property
    def cumulative_shares(self) -> list[float]:
        """The share that leaves out so many blocks at most, by how many."""
        every = sum(self._counts)
        return [so_far / every for so_far in accumulate(self._counts[:MORE_LEFT_OUT])]


class _SharedStarts:
    """The parts that calls in one layout share with those before them.

    Attributes:
        extends: Parts of the call before that later calls of a conversation leave out.
        shares: Calls whose stable slot was sent before.
        alike: The same of those that do not extend their conversation.
        equips: Calls whose tools were sent before.
        was_extended: True if a call was ever sent again, alone or as a beginning, but for its end.
        was_shared: True if a stable slot ever was, by a call that does not extend another.
    """

    def __init__(self) -> None:
        self.extends = _LeftOutEnds()
        self.shares = _DecayingShare(_EXTENSION_PRIOR)
        self.alike = _DecayingShare(_EXTENSION_PRIOR)
        self.equips = _DecayingShare(_EXTENSION_PRIOR)
        self.was_extended = False
        self.was_shared = False

    def add(self, seen: SeenCall) -> None:
        begins = seen.before <= 0
        if seen.counts:
            self.shares.add(seen.shares)
            self.equips.add(seen.equips)
            if begins or seen.extends is False:
                self.alike.add(seen.shares)
                self.was_shared |= seen.shares
        if begins:
            return
        if seen.counted and seen.extends is not None:
            left = 0 if seen.extends else seen.left
            self.extends.add(left)
            self.was_extended |= left < MORE_LEFT_OUT


class _Gaps:
    """A histogram that forgets."""

    def __init__(self, prior: Sequence[float]) -> None:
        self._counts = [2.0 * share for share in prior]

    def add(self, gap: float) -> None:
        self._counts = [count * _DECAY for count in self._counts]
        self._counts[bisect_right(GAP_EDGES_S, gap)] += 1.0

    def share_within(self, seconds: float) -> float:
        """The share of gaps that surely are not longer."""
        return sum(self._counts[: bisect_right(GAP_EDGES_S, seconds)]) / sum(self._counts)


def _conversation_stage(before: int) -> int:
    """The group of conversations that a call counts for: those that have come about as far."""
    return min(before.bit_length(), _STAGE_COUNT - 1)


def _expected_followers(share: float) -> float:
    """Number of calls that follow one another, if each is followed with this probability."""
    return min(_MAX_EXPECTED_USES, share / (1.0 - share)) if share < 1.0 else _MAX_EXPECTED_USES
