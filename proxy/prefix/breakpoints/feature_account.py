"""Bounds what a feature's cache marks may lose, on all models together.

Where nothing is stored without a mark (Anthropic), a mark is a stake: its prompt is written at a
surcharge, which pays only if it is read. The balance is what marks that were sent really brought.
The loss is bounded for good, and again by the day:

=======================================  ========================================================
the marked places have earned            all calls together may lose
=======================================  ========================================================
less than three stakes                   0.3 of an average call
the same, all marks stand before the     0.52 of an average call, while the latest write of tools
conversation                             can be read: it may be another agent's
three stakes                             0.52 of an average call, or 0.04 % of what all calls cost
ten stakes, by text that a layout moved  twice as much: what was lost before tells nothing of it
=======================================  ========================================================

So 1,000 calls without a layout cost at most 1.0005 times as much as sent directly. Of late, the
feature may lose the learning stake, or one prompt's surcharge if that is more; two of them once its
places earned ten. That loss counts half after a day, so a feature whose traffic changed is tried
again.
"""

from typing import Final, NamedTuple

import msgspec

from proxy.prefix.breakpoints.account import (
    MAX_FAILED_READS,
    MAX_RETRY_PAUSE_S,
    MarkAccount,
    PromptPlace,
)
from proxy.records.mark_account import STAKE_UNITS_PER_DOLLAR

#: Amount that a feature may lose by default: one cent.
DEFAULT_STAKE: Final = STAKE_UNITS_PER_DOLLAR / 100
#: Average calls that may be lost before marks earned anything, and after.
_MAX_UNSEEN_LOSS_CALLS: Final = 0.3
_MAX_LOSS_CALLS: Final = 0.52
#: The part of what all calls would have cost unmodified that may be lost.
_MAX_LOSS_SHARE: Final = 0.0004
#: Least ratio of what marks have earned to the next stake, where more is lost than unseen.
MIN_EARNINGS_PER_STAKE: Final = 3.0
#: The same from which on a second prompt's surcharge may be lost, and a layout's own.
_MIN_EARNINGS_PER_SECOND_STAKE: Final = 10.0
_HALF_LIFE_S: Final = 86_400.0
#: Most of a pause in which losses are forgotten: longer ones may be a clock that was set.
_MAX_FORGOTTEN_S: Final = 86_400.0
#: Calls whose marks may be at stake at once.
_MAX_STAKES: Final = 1_000
#: Seconds that no call takes.
_MAX_STAKE_S: Final = 3_600.0
#: Bytes of a feature's books, and of a stake; measured.
_FEATURE_BYTES: Final = 700
_STAKE_BYTES: Final = 260


class StakedCall(NamedTuple):
    """A call with marks, which lose their surcharge if they are never read.

    Attributes:
        stake: Surcharge of sending the call with them.
        earned: Amount that the marked places have earned lately.
        direct: Cost of the call without them.
        places: Number of places, in wire order, up to the last one that they mark.
        is_moved: True if a layout moved its text.
    """

    stake: float
    earned: float
    direct: float
    places: int
    is_moved: bool = False

    @property
    def earned_ten_stakes(self) -> bool:
        """True if its places earned enough for another prompt's surcharge."""
        return self.earned >= _MIN_EARNINGS_PER_SECOND_STAKE * self.stake

    @property
    def layout_factor(self) -> float:
        """Factor on what may be lost: a layout may lose as much again."""
        return 2.0 if self.is_moved and self.earned_ten_stakes else 1.0


class FeatureAccount(msgspec.Struct):
    """The books of one feature's marks on all models, which have one stake together.

    Attributes:
        families: Those on each family of models.
        stakes: Possible losses of calls that have not ended, and since when, by number.
        reads_failed: True if the latest call that should have read something lost by its marks.
    """

    stake: float = DEFAULT_STAKE
    families: dict[str, MarkAccount] = {}
    stakes: dict[int, tuple[float, float]] = {}
    reads_failed: bool = False
    size_bytes: int = 0
    _at_stake: float = 0.0
    _latest: float = 0.0

    def of(self, family: str) -> MarkAccount:
        """The books on one family of models."""
        return self.families.get(family) or self.families.setdefault(family, MarkAccount())

    @property
    def net(self) -> float:
        """Amount that the marks which were sent brought; below 0 for a loss."""
        return sum([account.net for account in self.families.values()])

    @property
    def balance(self) -> float:
        """The same, of which a loss counts half after a day."""
        return sum([account.balance for account in self.families.values()])

    def measure(self) -> int:
        """Measure the bytes it takes; returns how many more these are than before."""
        before, self.size_bytes = self.size_bytes, _FEATURE_BYTES + _STAKE_BYTES * len(self.stakes)
        self.size_bytes += sum([account.size_bytes for account in self.families.values()])
        return self.size_bytes - before

    def exposure(self, more: float = 0.0) -> float:
        """Amount that is lost, or may be by the calls under way and so much more."""
        return max(0.0, self._at_stake + more - self.balance)

    def allows_stake(self, call: StakedCall) -> bool:
        """True if marks are sent that lose so much if they are never read."""
        if len(self.stakes) >= _MAX_STAKES:
            return False
        risk, net = call.stake + self._at_stake, self.net
        if risk <= net:
            return True
        is_bearable = risk - net <= self._max_lasting_loss(call)
        return is_bearable and risk - self.balance <= self._max_day_loss(call)

    def max_loss(self, call: StakedCall) -> float:
        """Amount that it may lose with such a call."""
        return min(self._max_lasting_loss(call), self._max_day_loss(call))

    def _max_lasting_loss(self, call: StakedCall) -> float:
        """Amount that all calls together may lose."""
        total = sum([account.total for account in self.families.values()])
        calls = sum([account.calls for account in self.families.values()])
        average = (total + call.direct) / (calls + 1)
        if call.earned < MIN_EARNINGS_PER_STAKE * call.stake:
            is_head = call.places <= PromptPlace.FIRST_CALL
            may_read = is_head and any(family.may_read_tools for family in self.families.values())
            return (_MAX_LOSS_CALLS if may_read else _MAX_UNSEEN_LOSS_CALLS) * average
        return call.layout_factor * max(_MAX_LOSS_CALLS * average, _MAX_LOSS_SHARE * total)

    def _max_day_loss(self, call: StakedCall) -> float:
        """Amount that may be lost of late, as a loss of days ago counts less."""
        if not self.stake:
            return 0.0
        surcharges = 2.0 * call.layout_factor if call.earned_ten_stakes else 1.0
        return max(self.stake, surcharges * call.stake)

    def expects_reads(self, surcharge: float) -> bool:
        """True if marks are sent that should be read: until so much is lost, or may be by others.

        Args:
            surcharge: Cost of writing all of the call instead.
        """
        is_untried = not (self.stakes or self.reads_failed)
        return is_untried or self.exposure() < max(self.stake, surcharge)

    def is_paused(self, family: str, now: float) -> bool:
        """True if too many reads failed a short while ago; after that, one is tried at a time."""
        account = self.of(family)
        if account.failed_reads < MAX_FAILED_READS:
            return False
        is_early = account.retry_at - MAX_RETRY_PAUSE_S <= now < account.retry_at
        return is_early or bool(self.stakes)

    def reserve_stake(self, number: int, stake: float, now: float) -> None:
        """Put by what a call's marks may lose, until it is released or must have ended."""
        self.forget_losses(now)
        self.stakes[number] = stake, now
        self._at_stake += stake
        for old in [old for old, (_, since) in self.stakes.items() if now - since > _MAX_STAKE_S]:
            self.release_stake(old)

    def release_stake(self, number: int) -> None:
        """The call has ended; nothing of it is at stake any more."""
        stake, _ = self.stakes.pop(number, (0.0, 0.0))
        self._at_stake -= stake
        if not self.stakes:
            self._at_stake = 0.0  # sums of fractions drift

    def lose_stake(self, number: int, family: str) -> None:
        """The call was sent and what it read is unknown: what it may lose is lost."""
        stake, _ = self.stakes.get(number, (0.0, 0.0))
        self.release_stake(number)
        self.of(family).count_saved(-stake)

    def forget_losses(self, now: float) -> None:
        """Let a loss count half after a day, whatever the clock is set to meanwhile."""
        passed = now - self._latest
        if passed > 0.0 and self._latest and self.balance < 0.0:
            part = 0.5 ** (min(passed, _MAX_FORGOTTEN_S) / _HALF_LIFE_S)
            for account in self.families.values():
                account.balance *= part if account.balance < 0.0 else 1.0
        if passed > 0.0 or passed < -_MAX_STAKE_S:  # calls that took less may end out of order
            self._latest = now
