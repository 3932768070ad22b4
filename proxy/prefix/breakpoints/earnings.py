"""Decides if marks are sent, by what they earn where nothing is stored without one.

There a mark is a bet: its prompt is written at a surcharge, and pays only once it is read. So marks
are reckoned on paper first. They are sent

- out of what those that were sent have brought back already, or
- where they may lose less than 0.04 % of what the feature has cost so far, or
- one call at a time, where marks would have saved three tenths of what the calls cost, if the
  operator gives credit, as is the default.

So a feature is never behind by more than one call's marks: a quarter of its prompt, or all of it
where the mark lives for an hour. Without credit it is never behind by more than 0.04 %, and saves
nothing before its calls have cost 2,500 times what its first marks do.
"""

from typing import Final

import msgspec

#: Least ratio of what marks have earned to what the next ones cost: the first that comes again may
#: be the only one.
_MIN_EARNINGS_PER_STAKE: Final = 3.0
#: The part of what all calls would have cost unmodified that bets may lose at any time.
_MAX_LOSS_SHARE: Final = 0.0004
#: The part of it that marks would have to save for one bet that may lose more.
_MIN_CREDIT_SAVING_SHARE: Final = 0.3
#: Calls whose marks may be at stake at once.
_MAX_STAKES: Final = 1_000
#: Seconds that no call takes.
_MAX_STAKE_S: Final = 3_600.0
#: Factor on the earnings' weight at the next call: some 500 count.
_DECAY: Final = 0.998


class MarkEarnings(msgspec.Struct):
    """Earnings of marks in one feature, in any unit of money.

    Attributes:
        credit: Amount given in advance.
        earned: Recent savings, had all calls had theirs.
        spent: Recent cost of calls, had they been sent unmodified.
        total: The same of all calls.
        balance: Savings of those that were sent.
        stakes: Possible losses of others whose calls have not ended, and since when, by number.
    """

    credit: float = 0.0
    earned: float = 0.0
    spent: float = 0.0
    total: float = 0.0
    balance: float = 0.0
    stakes: dict[int, tuple[float, float]] = {}
    _at_stake: float = 0.0

    def allows_stake(self, stake: float, *, on_credit: bool) -> bool:
        """True if marks are sent that lose so much if they are never read.

        Args:
            stake: Extra cost over sending the call without them.
            on_credit: True if that may be more than others have brought back.
        """
        earned = self.earned + self.credit
        if len(self.stakes) >= _MAX_STAKES or earned < _MIN_EARNINGS_PER_STAKE * stake:
            return False
        if stake <= self.allowed_loss:
            return True
        return (
            on_credit
            and self._unstaked_balance >= 0.0
            and earned >= _MIN_CREDIT_SAVING_SHARE * self.spent
        )

    @property
    def allowed_loss(self) -> float:
        """Money that may be lost now: what marks brought back and nothing else may lose already."""
        return self._unstaked_balance + _MAX_LOSS_SHARE * self.total

    @property
    def _unstaked_balance(self) -> float:
        return self.balance + self.credit - self._at_stake

    def reserve_stake(self, number: int, stake: float, now: float) -> None:
        """Put by what a call's marks may lose, until it is released or must have ended."""
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

    def record_call(self, direct: float, saved: float, floor: float) -> None:
        """Count an answered call.

        Args:
            direct: Cost had it been sent unmodified.
            saved: Savings by its marks, had or expected; below 0 for a loss.
            floor: Least value that it may bring the earnings to.
        """
        self.earned = max(self.earned * _DECAY + saved, floor)
        self.spent = self.spent * _DECAY + direct
        self.total += direct
